//! `usher check`: judges facts about a node.
//!
//! A check is a question with its answer: the observation, the reason why it matters, and the command that fixes it.
//! The CLI collects the facts with probes. A failed check means that a capability of usher does not work, a warning
//! means that it is limited. A check that could not be made is skipped, with the reason.
//!
//! The id of a check never changes. It is in `-o json` and a heading of `docs/check.md`.

/// Defines the questions of a module by category: constant, id, title, and the consequence of a bad answer.
macro_rules! questions {
    ($($category:ident { $($name:ident = $id:literal, $title:literal, $why:literal;)+ })+) => {
        $($(const $name: Question = Question {
            id: $id,
            category: $crate::check::Category::$category,
            title: $title,
            why: $why,
        };)+)+
        pub const ALL: &[&Question] = &[$($(&$name),+),+];
    };
}

pub mod agent;
pub mod capability;
pub mod cluster;
pub mod cni;
pub mod command;
pub mod kernel;
pub mod kubelet;
pub mod node;
mod text;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use self::text::text;

/// The subjects of checks, in the order of the output.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Category {
    Kernel,
    Privileges,
    /// The directories and files of the node.
    Node,
    /// The runtime's network configuration.
    Cni,
    Kubelet,
    /// The cluster's version and pods.
    Cluster,
    Agent,
    /// Tables in pods without an agent.
    Leftovers,
}

impl Category {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    /// The check could not be made, or does not apply.
    Skipped,
    /// A capability of usher is limited.
    Warning,
    /// A capability of usher does not work.
    Failed,
}

/// A question, the same for every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    pub id: &'static str,
    pub category: Category,
    /// The good answer, as a sentence without a full stop.
    pub title: &'static str,
    /// The consequence of a bad answer.
    pub why: &'static str,
}

/// A question with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    pub id: Cow<'static, str>,
    pub category: Category,
    pub title: Cow<'static, str>,
    pub outcome: Outcome,
    pub message: String,
    /// The consequence of a bad answer.
    pub why: Cow<'static, str>,
    /// The command, or the value of the chart, that fixes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The command that prints the documentation of the check.
    pub docs: String,
}

impl Question {
    pub fn ok(&self, message: impl Into<String>) -> Check {
        self.answer(Outcome::Ok, message, None)
    }

    /// The question does not apply, or has no answer.
    pub fn skipped(&self, message: impl Into<String>) -> Check {
        self.answer(Outcome::Skipped, message, None)
    }

    pub fn warning(&self, message: impl Into<String>, fix: impl Into<String>) -> Check {
        self.answer(Outcome::Warning, message, Some(fix.into()))
    }

    pub fn failed(&self, message: impl Into<String>, fix: impl Into<String>) -> Check {
        self.answer(Outcome::Failed, message, Some(fix.into()))
    }

    fn answer(&self, outcome: Outcome, message: impl Into<String>, fix: Option<String>) -> Check {
        Check {
            id: self.id.into(),
            category: self.category,
            title: self.title.into(),
            outcome,
            message: message.into(),
            why: self.why.into(),
            fix,
            docs: format!("usher help {}", self.id),
        }
    }
}

/// All questions, in the order of the output.
pub fn questions() -> impl Iterator<Item = &'static Question> {
    let rooms = [
        kernel::ALL,
        capability::ALL,
        node::ALL,
        cni::ALL,
        kubelet::ALL,
        cluster::ALL,
        agent::ALL,
    ];
    rooms.into_iter().flatten().copied()
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checks {
    /// One check for each question, in the order of the questions.
    pub checks: Vec<Check>,
    pub count: Count,
}

impl From<Vec<Check>> for Checks {
    fn from(checks: Vec<Check>) -> Self {
        let count = Count::of(&checks);
        Self { checks, count }
    }
}

impl Checks {
    /// Only the warnings and the failures. The count stays that of all checks.
    #[must_use]
    pub fn problems(mut self) -> Self {
        let is_problem = |outcome| matches!(outcome, Outcome::Warning | Outcome::Failed);
        self.checks.retain(|check| is_problem(check.outcome));
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    pub ok: usize,
    pub warnings: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl Count {
    pub fn of(checks: &[Check]) -> Self {
        let mut count = Self::default();
        for check in checks {
            match check.outcome {
                Outcome::Ok => count.ok += 1,
                Outcome::Warning => count.warnings += 1,
                Outcome::Failed => count.failed += 1,
                Outcome::Skipped => count.skipped += 1,
            }
        }
        count
    }

    /// The exit code is 1 if a check failed. A warning does not change it.
    pub const fn exit_code(&self) -> u8 {
        (self.failed > 0) as u8
    }
}

#[cfg(test)]
mod tests;
