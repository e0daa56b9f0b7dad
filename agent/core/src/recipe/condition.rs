//! Conditions of recipes.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Subject, Versions};

/// A condition; all given fields must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Condition {
    pub version: Versions,
    /// A flag without a value among its arguments.
    pub flag: Option<String>,
    /// Its command is a script of a shell.
    pub shell: bool,
    /// Variables of its environment that have these literal values.
    pub env: BTreeMap<String, String>,
    /// Variables of its environment with any literal value.
    pub variables: Vec<String>,
    /// Annotations of the pod that have these values.
    pub annotations: BTreeMap<String, String>,
    /// Annotations that the pod has, with any value.
    pub annotated: Vec<String>,
    /// Annotations that the pod does not have.
    pub unannotated: Vec<String>,
}

impl Condition {
    /// Whether something with the conditions `when` and `unless` exists: where one of `when` holds, or there is none,
    /// and none of `unless`.
    pub(super) fn permit(when: &[Self], unless: &[Self], subject: Subject<'_>) -> bool {
        let holds = |condition: &Self| condition.holds(subject);
        (when.is_empty() || when.iter().any(holds)) && !unless.iter().any(holds)
    }

    /// Whether it holds for a container.
    pub(super) fn holds(&self, subject: Subject<'_>) -> bool {
        let Self {
            version,
            flag,
            shell,
            env,
            variables,
            annotations,
            annotated,
            unannotated,
        } = self;
        let is_annotated = |key: &String| subject.annotation(key).is_some();
        let same = |(want, found): (&String, Option<&str>)| found == Some(want.as_str());
        version.contain(subject.version)
            && flag.as_deref().is_none_or(|name| subject.is_set(name))
            && (!shell || subject.is_script())
            && env
                .iter()
                .map(|(name, want)| (want, subject.env(name)))
                .all(same)
            && variables.iter().all(|name| subject.env(name).is_some())
            && annotations
                .iter()
                .map(|(key, want)| (want, subject.annotation(key)))
                .all(same)
            && annotated.iter().all(is_annotated)
            && !unannotated.iter().any(is_annotated)
    }
}
