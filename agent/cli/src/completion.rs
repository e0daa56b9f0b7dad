//! `usher completion`: shell completion, including the names of live pods.
//!
//! The scripts are a few lines each and independent of the command line: on each key press they pass the words to
//! `usher __complete`, which runs clap's completion engine. All shells offer the same candidates, and an old script
//! completes the commands of the installed program.

use std::{
    ffi::{OsStr, OsString},
    time::Duration,
};

use clap::{ValueEnum, ValueHint};
use clap_complete::engine::{self, ArgValueCompleter, CompletionCandidate};
use usher_client::node_args::NodeArgs;

use crate::{
    data_source::node::Node,
    failure::Failure,
    global::{Exit, command_line::POD},
    output::stdout,
};

/// The hidden subcommand that the scripts call.
pub(super) const COMPLETE: &str = "__complete";
/// Requests the shell's own completion of files, which supports `~` and does not end a directory with a space.
const FILES: &str = ":files";
/// How long the node may take to list its pods after a key press.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A shell asks for confirmation before it lists more than some hundred candidates.
const MAX_CANDIDATES: usize = 1000;

/// Print a shell completion script, which also completes the names of live pods
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
    /// Shell to complete in
    shell: Shell,
}

/// A shell that has a completion script.
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
    pub const fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("completion/script/usher.bash"),
            Self::Zsh => include_str!("completion/script/_usher"),
            Self::Fish => include_str!("completion/script/usher.fish"),
            Self::Nushell => include_str!("completion/script/usher.nu"),
        }
    }

    /// The file name under which the shell looks for the script.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Bash => "usher.bash",
            Self::Zsh => "_usher",
            Self::Fish => "usher.fish",
            Self::Nushell => "usher.nu",
        }
    }
}

/// The words up to the cursor; the last one is incomplete.
#[derive(Debug, clap::Args)]
pub(super) struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    stdout::put(args.shell.script())?;
    Ok(Exit::Success)
}

/// Replies to a script with one candidate per line: the value, a tab, and its description.
///
/// Errors are dropped: they would appear in the middle of the command line that is being typed.
pub(super) fn complete(args: Words, command: clap::Command, node: &NodeArgs) -> Exit {
    let node = node.clone();
    let lines = candidates(command, args.words, move || live_pods(&node));
    let text: String = lines
        .iter()
        .take(MAX_CANDIDATES)
        .flat_map(|line| [line, "\n"])
        .collect();
    stdout::put(&text).map_or_else(|error| error.exit, |()| Exit::Success)
}

/// The pods of the node by name, with their states. Reads the node, not the agent: that is as fast, and works without
/// an agent.
fn live_pods(node: &NodeArgs) -> Vec<(String, &'static str)> {
    let node = Node::new(node);
    let survey = crate::runtime()
        .ok()
        .and_then(|runtime| {
            runtime
                .block_on(async { tokio::time::timeout(TIMEOUT, node.survey()).await })
                .ok()
        })
        .and_then(Result::ok);
    let mut pods: Vec<_> = survey
        .iter()
        .flat_map(|survey| &survey.pods)
        .filter(|pod| pod.name.is_some())
        .map(|pod| (pod.display_name(), pod.state.into_str()))
        .collect();
    pods.sort();
    pods
}

/// The candidates for the last word, as lines for a script.
fn candidates(
    command: clap::Command,
    words: Vec<OsString>,
    pods: impl Fn() -> Vec<(String, &'static str)> + Clone + Send + Sync + 'static,
) -> Vec<String> {
    let (words, hidden_prefix) = join_equals_signs(words);
    let last = words.last().cloned().unwrap_or_default();
    let is_flag = last.to_string_lossy().starts_with('-');
    let program = [OsString::from(command.get_name())];
    let words: Vec<OsString> = program.into_iter().chain(words).collect();
    let index = words.len().saturating_sub(1);
    let mut command = with_completers(command, &pods);
    let found = engine::complete(&mut command, words, index, None).unwrap_or_default();
    if found.iter().any(|found| {
        found.get_value() == FILES
            || found
                .get_value()
                .to_string_lossy()
                .ends_with(&format!("={FILES}"))
    }) {
        return vec![FILES.to_owned()];
    }
    found
        .iter()
        // The engine also offers flags where a value is expected.
        .filter(|found| is_flag || !found.get_value().to_string_lossy().starts_with('-'))
        .map(|found| line(found, &hidden_prefix))
        .collect()
}

/// bash passes `--output=json` as three words. Joins them, and returns the prefix that bash does not expect in a
/// candidate.
fn join_equals_signs(words: Vec<OsString>) -> (Vec<OsString>, String) {
    let mut joined: Vec<OsString> = Vec::new();
    let mut hidden_prefix = String::new();
    let mut joins_next = false;
    for word in words {
        let is_sign = word == "=" && joined.last().is_some_and(|flag| is_long_flag(flag));
        match joined.last_mut() {
            Some(flag) if is_sign || joins_next => {
                if is_sign {
                    hidden_prefix = format!("{}=", flag.to_string_lossy());
                }
                flag.push(&word);
            }
            _ => {
                hidden_prefix.clear();
                joined.push(word);
            }
        }
        joins_next = is_sign;
    }
    (joined, hidden_prefix)
}

fn is_long_flag(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    word.starts_with("--") && !word.contains('=')
}

/// Adds the completers of pods and of files to every argument that takes one.
fn with_completers<F>(command: clap::Command, pods: &F) -> clap::Command
where
    F: Fn() -> Vec<(String, &'static str)> + Clone + Send + Sync + 'static,
{
    command
        .mut_args(|argument| {
            let takes_pod = argument
                .get_value_names()
                .is_some_and(|names| names.iter().any(|name| name.as_str() == POD));
            if takes_pod {
                let pods = pods.clone();
                argument.add(ArgValueCompleter::new(move |start: &OsStr| {
                    let start = start.to_string_lossy();
                    // The engine also calls this completer for the start of a flag.
                    if start.starts_with('-') {
                        return Vec::new();
                    }
                    pods()
                        .into_iter()
                        .filter(|(name, _state)| name.starts_with(&*start))
                        .map(|(name, state)| {
                            CompletionCandidate::new(name).help(Some(state.into()))
                        })
                        .collect()
                }))
            } else if argument.get_value_hint() == ValueHint::AnyPath {
                argument.add(ArgValueCompleter::new(|_start: &OsStr| {
                    vec![CompletionCandidate::new(FILES)]
                }))
            } else {
                argument
            }
        })
        .mut_subcommands(|subcommand| with_completers(subcommand, pods))
}

/// One line. Control characters are removed: the name of a pod must not end the line or act on the terminal.
fn line(candidate: &CompletionCandidate, hidden_prefix: &str) -> String {
    let plain = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).collect() };
    let value = candidate.get_value().to_string_lossy();
    let value = plain(value.strip_prefix(hidden_prefix).unwrap_or(&value));
    let help = candidate.get_help().map(ToString::to_string);
    match help.as_deref().and_then(|help| help.lines().next()) {
        None | Some("") => value,
        Some(help) => format!("{value}\t{}", plain(help)),
    }
}

#[cfg(test)]
mod tests;
