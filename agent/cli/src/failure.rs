//! Why a subcommand could not answer, for the person who asked.

use usher_inspect::{pod_selector::NotOne, text::printable::clean};

use crate::{complain, global::Exit};

/// What failed, and how the program ends for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What failed, and what to do.
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { exit, text }
    }

    /// What is to be asked does not answer.
    pub(crate) fn absent(text: impl Into<String>) -> Self {
        Self::new(Exit::Absent, text)
    }

    /// Somebody said no.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::new(Exit::Refused, text)
    }

    /// Says it, and how the program ends.
    pub(crate) fn told(&self) -> Exit {
        complain(&clean(&self.text));
        self.exit
    }
}

impl From<NotOne> for Failure {
    fn from(error: NotOne) -> Self {
        Self::new(Exit::NotOne, error.to_string())
    }
}
