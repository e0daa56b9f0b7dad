//! What every subcommand takes, and how every subcommand ends.

use std::{path::PathBuf, process::ExitCode};

use clap::ValueEnum;
use usher_client::node_args::NodeArgs;

/// How a subcommand ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Fine,
    /// Something is wrong, or left.
    Wrong,
    /// The command line cannot be used; clap says the same.
    Usage,
    /// Somebody said no: the agent, or the kernel.
    Refused,
    /// No pod, or more than one.
    NotOne,
    /// What is to be asked does not answer.
    Absent,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Wrong => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::NotOne => 4,
            Exit::Absent => 5,
        })
    }
}

/// Form of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For people with long lines.
    Wide,
    /// For programs.
    Json,
    /// For programs, and people who like it.
    Yaml,
}

impl Format {
    /// Whether a person reads it, who reads complaints as well.
    pub(crate) const fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// When there are colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What every subcommand takes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Global {
    /// Form of the output
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        value_name = "FORM",
        default_value_t
    )]
    pub(crate) output: Format,

    /// No line with the names of the columns
    #[arg(long, global = true)]
    pub(crate) no_headers: bool,

    /// When there are colours: on a terminal (unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) color: Colour,

    /// Answer from what `usher sysdump` wrote, instead of from this node
    #[arg(long, global = true, value_name = "SYSDUMP")]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) node: NodeArgs,
}
