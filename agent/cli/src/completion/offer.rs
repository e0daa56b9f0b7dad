//! What can stand at the cursor.

use clap::{Arg, Command, ValueHint};

use super::word::{Place, What};

/// The name of a value that is a pod, in help and here.
const POD: &str = "POD";

/// Something that can stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) value: String,
    /// In a few words, which not every shell shows.
    pub(super) meaning: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offers {
    These(Vec<Offer>),
    /// The shell knows them better.
    Files,
}

impl Offer {
    pub(super) fn new(value: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            meaning: meaning.into(),
        }
    }

    /// As the scripts read it. What comes from a pod's name could not end the line, nor be taken for something else.
    pub(super) fn line(&self) -> String {
        let plain = |text: &str| -> String {
            let is_plain = |letter: char| !letter.is_control();
            text.chars().filter(|letter| is_plain(*letter)).collect()
        };
        let (value, meaning) = (plain(&self.value), plain(&self.meaning));
        if meaning.is_empty() {
            value
        } else {
            format!("{value}\t{meaning}")
        }
    }
}

/// What can stand at this place.
pub(super) fn at(place: &Place<'_>, pods: Vec<Offer>) -> Offers {
    let mut offers = match place.what {
        What::Nothing => Vec::new(),
        What::Flag => flags(place.command),
        What::Subcommand => subcommands(place.command),
        What::Value(argument) if is_pod(argument) => pods,
        What::Value(argument) if is_file(argument) => return Offers::Files,
        What::Value(argument) => values(argument),
    };
    offers.retain(|offer| offer.value.starts_with(place.unfinished));
    for offer in &mut offers {
        offer.value.insert_str(0, place.prefix);
    }
    Offers::These(offers)
}

/// Whether the node has to be asked.
pub(super) fn wants_pod(place: &Place<'_>) -> bool {
    matches!(place.what, What::Value(argument) if is_pod(argument))
}

fn is_pod(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().any(|name| name.as_str() == POD)
}

fn is_file(argument: &Arg) -> bool {
    let paths = [
        ValueHint::AnyPath,
        ValueHint::FilePath,
        ValueHint::DirPath,
        ValueHint::ExecutablePath,
    ];
    paths.contains(&argument.get_value_hint())
}

fn values(argument: &Arg) -> Vec<Offer> {
    let values = argument.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    values
        .map(|value| {
            let help = value.get_help().map(ToString::to_string);
            Offer::new(value.get_name(), help.unwrap_or_default())
        })
        .collect()
}

fn flags(command: &Command) -> Vec<Offer> {
    let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
    flags
        .filter_map(|flag| {
            let help = flag.get_help().map(|help| first_line(&help.to_string()));
            Some(Offer::new(
                format!("--{}", flag.get_long()?),
                help.unwrap_or_default(),
            ))
        })
        .collect()
}

fn subcommands(command: &Command) -> Vec<Offer> {
    let commands = command.get_subcommands();
    let commands = commands.filter(|command| !command.is_hide_set());
    commands
        .map(|command| {
            let about = command
                .get_about()
                .map(|about| first_line(&about.to_string()));
            Offer::new(command.get_name(), about.unwrap_or_default())
        })
        .collect()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
