//! The annotations and labels of Namespaces, as the agent last received them.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Deserializer, Serialize};
use usher_core::settings::{
    bound,
    overrides::{NamespaceValues, Values},
};

use crate::run_dir;

/// The values of one Namespace in the run directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    #[serde(default, deserialize_with = "bounded")]
    pub annotations: Values,
    #[serde(default, deserialize_with = "bounded")]
    pub labels: Values,
}

/// An earlier agent saved the values without limits.
fn bounded<'de, D: Deserializer<'de>>(json: D) -> Result<Values, D::Error> {
    Values::deserialize(json).map(bound::of_namespace)
}

/// The last values of each Namespace, for tools that do not use the API server. Empty if the file cannot be read.
pub fn kept(run_dir: &Path) -> BTreeMap<String, NamespaceValues> {
    let kept = run_dir::load::<BTreeMap<String, Kept>>(run_dir, run_dir::NAMESPACES);
    let kept = kept.ok().flatten().unwrap_or_default();
    let values = kept.into_iter().map(|(name, kept)| (name, kept.into()));
    values.collect()
}

impl From<Kept> for NamespaceValues {
    fn from(kept: Kept) -> Self {
        Self {
            annotations: kept.annotations,
            labels: kept.labels,
        }
    }
}
