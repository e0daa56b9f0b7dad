//! `usher completion`: what a shell needs to complete this command line, names of pods that live now among it.
//!
//! The scripts are a few lines each and know nothing: whenever somebody presses the key, they hand the words to
//! `usher __complete`, which looks at the same description of the command line that parses it. So all shells complete the
//! same, and a script that was installed long ago completes what the program has today.

mod offer;
mod word;

use std::{borrow::Cow, ffi::OsString, process::ExitCode, time::Duration};

use clap::ValueEnum;
use usher_client::node_args::NodeArgs;

use self::offer::Offer;
use crate::{global::Exit, output::stdout, source::node::Node};

/// The hidden subcommand that the scripts call.
pub(super) const COMPLETE: &str = "__complete";
/// Says to a script that its shell is to complete a file.
const FILES: &str = ":files";
/// How long somebody who pressed a key waits.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many are told at most: nobody reads more, and a shell would ask whether to show them.
const OFFERS: usize = 1000;

/// Print what a shell needs to complete the command line, with live pod names
///
/// bash: usher completion bash > /etc/bash_completion.d/usher
///
/// zsh: usher completion zsh > /usr/local/share/zsh/site-functions/_usher
///
/// fish: usher completion fish > ~/.config/fish/completions/usher.fish
///
/// nushell: usher completion nushell, and source the file in config.nu
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

/// A shell that there is a script for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash, 4 or newer
    Bash,
    /// The Z shell
    Zsh,
    /// fish
    Fish,
    /// Nushell
    #[value(alias = "nu")]
    Nushell,
}

impl Shell {
    /// The script that completes the program `usher`.
    pub const fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("completion/script/usher.bash"),
            Self::Zsh => include_str!("completion/script/_usher"),
            Self::Fish => include_str!("completion/script/usher.fish"),
            Self::Nushell => include_str!("completion/script/usher.nu"),
        }
    }

    /// What the script's file is called where the shell looks for it.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Bash => "usher.bash",
            Self::Zsh => "_usher",
            Self::Fish => "usher.fish",
            Self::Nushell => "usher.nu",
        }
    }
}

/// The words before the cursor, the last of them unfinished.
#[derive(Debug, clap::Args)]
pub(super) struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    match stdout::put(args.shell.script()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.told().into(),
    }
}

/// Answers a script. Nothing is ever complained about: it would stand in the middle of what is being typed.
pub(super) async fn complete(args: &Words, mut command: clap::Command, node: &NodeArgs) -> Exit {
    command.build();
    let words = args.words.iter().map(|word| word.to_string_lossy());
    let words: Vec<String> = words.map(Cow::into_owned).collect();
    let place = place(&command, &words);
    let pods = if offer::wants_pod(&place) {
        pods(node).await
    } else {
        Vec::new()
    };
    let lines = lines(&place, pods).into_iter();
    let text: String = lines.flat_map(|line| [line, "\n".to_owned()]).collect();
    match stdout::put(&text) {
        Ok(()) => Exit::Fine,
        Err(error) => error.exit,
    }
}

/// The pods of the node, as far as they can be had while somebody waits for the key to do something. The node is asked
/// and no agent: it is as quick, and says nothing where none answers.
async fn pods(node: &NodeArgs) -> Vec<Offer> {
    let node = Node::new(node);
    let survey = tokio::time::timeout(PATIENCE, node.survey()).await;
    let Ok(Ok(survey)) = survey else {
        return Vec::new();
    };
    let pods = survey.pods.iter();
    let named = pods.filter(|pod| pod.name.is_some());
    let mut offers: Vec<Offer> = named
        .map(|pod| Offer::new(pod.display_name(), pod.state.as_str()))
        .collect();
    offers.sort_by(|one, other| one.value.cmp(&other.value));
    offers
}

fn place<'a>(command: &'a clap::Command, words: &'a [String]) -> word::Place<'a> {
    let (before, unfinished) = match words {
        [before @ .., last] => (before, last.as_str()),
        [] => (words, ""),
    };
    word::place(command, before, unfinished)
}

fn lines(place: &word::Place<'_>, pods: Vec<Offer>) -> Vec<String> {
    match offer::at(place, pods) {
        offer::Offers::Files => vec![FILES.to_owned()],
        offer::Offers::These(offers) => offers.iter().take(OFFERS).map(Offer::line).collect(),
    }
}

#[cfg(test)]
mod tests;
