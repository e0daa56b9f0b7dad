//! Errors that end a subcommand.

use usher_inspect::{pod_selector::NotOne, text::printable::clean};

use crate::{global::Exit, stderr::print_stderr};

/// An error message, and the exit code that it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What failed, and the command or setting that fixes it.
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { exit, text }
    }

    /// The command line is invalid.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// The agent, the kubelet or a server does not answer.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(Exit::Unavailable, text)
    }

    /// The agent or the kernel refused.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::new(Exit::Refused, text)
    }

    pub(crate) fn report(&self) -> Exit {
        print_stderr(&clean(&self.text));
        self.exit
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<NotOne> for Failure {
    fn from(error: NotOne) -> Self {
        Self::new(Exit::PodSelection, error.to_string())
    }
}
