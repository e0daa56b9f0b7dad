//! What `usher check` says: facts about a node in, checks out.
//!
//! A check is one question that has an answer: what was seen, why it matters and the command that mends it. Whoever
//! collects the facts does so by trying (`agent::command::check`); here they are judged. Failed is what takes a capability of usher
//! away, a warning is what makes it less, and what could not be looked at is skipped and says why.
//!
//! Each has an id that never changes, in `-o json` and as a heading of `docs/check.md`.

pub mod agent;
pub mod capability;
pub mod cluster;
pub mod cni;
pub mod kernel;
pub mod kubelet;
pub mod node;
mod text;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use self::text::text;

/// Where each check is explained.
const DOCS: &str = "docs/check.md";

/// What checks are about, in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// What the kernel can do.
    Kernel,
    /// What this process may do.
    Privileges,
    /// Where the node has its things.
    Node,
    /// The runtime's network configuration.
    Network,
    /// The kubelet.
    Kubelet,
    /// What the cluster's version and pods tell.
    Cluster,
    /// The agent of the node.
    Agent,
    /// What is left of pods that have gone.
    Remains,
}

impl Category {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Privileges => "privileges",
            Self::Node => "node",
            Self::Network => "network",
            Self::Kubelet => "kubelet",
            Self::Cluster => "cluster",
            Self::Agent => "agent",
            Self::Remains => "remains",
        }
    }
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// It could not be looked at, or does not apply.
    Skipped,
    /// It works, and less well than it could.
    Warning,
    /// Something of usher does not work.
    Failed,
}

/// A question, the same for every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Its name, for ever.
    pub id: &'static str,
    /// What it is about.
    pub category: Category,
    /// What is so where it is answered well, as a sentence without a full stop.
    pub title: &'static str,
    /// What does not work where it is not.
    pub why: &'static str,
}

/// A question with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// The question's name.
    pub id: Cow<'static, str>,
    /// What it is about.
    pub category: Category,
    /// What is so where it is answered well.
    pub title: Cow<'static, str>,
    /// The answer.
    pub outcome: Outcome,
    /// What was seen.
    pub saw: String,
    /// What does not work where it is not well.
    pub why: Cow<'static, str>,
    /// The command, or value of the chart, that mends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
    /// Where it is explained.
    pub docs: String,
}

impl Question {
    /// It is as it should be.
    pub fn ok(&self, saw: impl Into<String>) -> Check {
        self.answer(Outcome::Ok, saw, None)
    }

    /// It does not apply, or cannot be told.
    pub fn skipped(&self, saw: impl Into<String>) -> Check {
        self.answer(Outcome::Skipped, saw, None)
    }

    /// It could be better.
    pub fn warning(&self, saw: impl Into<String>, mend: impl Into<String>) -> Check {
        self.answer(Outcome::Warning, saw, Some(mend.into()))
    }

    /// It is wrong.
    pub fn failed(&self, saw: impl Into<String>, mend: impl Into<String>) -> Check {
        self.answer(Outcome::Failed, saw, Some(mend.into()))
    }

    fn answer(&self, outcome: Outcome, saw: impl Into<String>, mend: Option<String>) -> Check {
        Check {
            id: self.id.into(),
            category: self.category,
            title: self.title.into(),
            outcome,
            saw: saw.into(),
            why: self.why.into(),
            mend,
            docs: format!("{DOCS}#{}", self.id),
        }
    }
}

/// All questions, in the order in which they are told.
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

/// All answers about a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checks {
    /// One for each question, in their order.
    pub checks: Vec<Check>,
    /// How many came out how.
    pub count: Count,
}

impl From<Vec<Check>> for Checks {
    fn from(checks: Vec<Check>) -> Self {
        let count = Count::of(&checks);
        Self { checks, count }
    }
}

/// How many came out how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// As they should be.
    pub ok: usize,
    /// That could be better.
    pub warnings: usize,
    /// That are wrong.
    pub failed: usize,
    /// That could not be looked at.
    pub skipped: usize,
}

impl Count {
    /// Of these.
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

    /// The exit code: 1 where something failed. A warning is no failure.
    pub const fn exit_code(&self) -> u8 {
        (self.failed > 0) as u8
    }
}

#[cfg(test)]
mod tests;
