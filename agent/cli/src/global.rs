//! Flags of every subcommand, and exit codes.

pub(crate) mod command_line;

use std::{path::PathBuf, process::ExitCode};

use clap::ValueEnum;
use usher_client::node_args::NodeArgs;

/// How a subcommand ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// The command found a problem, or could not remove everything.
    Problem,
    /// The command line is invalid; clap exits with the same code.
    Usage,
    /// The agent or the kernel refused.
    Refused,
    /// No pod, or more than one, matches.
    PodSelection,
    /// The agent, the kubelet or the requested server does not answer.
    Unavailable,
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Success => 0,
            Exit::Problem => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::PodSelection => 4,
            Exit::Unavailable => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(u8::from(exit))
    }
}

/// Output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table
    #[default]
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

impl Format {
    /// Whether a person reads the output and standard error.
    pub(crate) const fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// Use of colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Flags of every subcommand.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Global {
    /// Output format
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value_t
    )]
    pub(crate) output: Format,

    /// Namespace of POD; of `pods`, `report`, `stuck` and `watch`: only pods of this namespace
    #[arg(short, long, global = true, help_heading = "Pod")]
    pub(crate) namespace: Option<String>,

    /// Do not print the names of the columns
    #[arg(long, global = true)]
    pub(crate) no_headers: bool,

    /// Use colours on a terminal (unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) color: Colour,

    /// Answer from a file of `usher sysdump` instead of from this node
    #[arg(long, global = true, value_name = "SYSDUMP")]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) node: NodeArgs,
}
