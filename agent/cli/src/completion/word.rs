//! What the word at the cursor is: a subcommand, a flag, the value of one, an argument.

use clap::{Arg, ArgAction, Command};

/// What the unfinished word is.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// The innermost subcommand that is known so far.
    pub(super) command: &'a Command,
    pub(super) what: What<'a>,
    /// What of the word counts.
    pub(super) unfinished: &'a str,
    /// What stands before that in the same word and has to be said again: `--output=`.
    pub(super) prefix: &'a str,
}

#[derive(Debug)]
pub(super) enum What<'a> {
    /// The value of this argument; of a flag, or else a subcommand where one may stand.
    Value(&'a Arg),
    /// A flag.
    Flag,
    /// A subcommand, or nothing.
    Subcommand,
    /// Nothing more is expected.
    Nothing,
}

/// Walks over the words before the unfinished one.
pub(super) fn place<'a>(
    command: &'a Command,
    before: &'a [String],
    unfinished: &'a str,
) -> Place<'a> {
    let mut walk = Walk {
        command,
        value: None,
        arguments: 0,
        only_arguments: false,
    };
    // bash has `--output=json` as three words.
    let mut words = before.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        walk.word(word, words.peek() == Some(&"="));
        if walk.value.is_some() && words.peek() == Some(&"=") {
            words.next();
        }
    }
    walk.last(unfinished)
}

struct Walk<'a> {
    command: &'a Command,
    /// A flag that waits for its value.
    value: Option<&'a Arg>,
    /// How many arguments that are no flags were seen.
    arguments: usize,
    /// After `--`.
    only_arguments: bool,
}

impl<'a> Walk<'a> {
    fn word(&mut self, word: &'a str, value_follows: bool) {
        if self.value.take().is_some() {
            return;
        }
        if self.only_arguments || !word.starts_with('-') || word == "-" {
            return self.argument(word);
        }
        if word == "--" {
            self.only_arguments = true;
        } else if let Some((_, value)) = self.flag(word) {
            // `--output=` of bash ends with the sign, and the value is a word of its own.
            self.value = value.filter(|_| value_follows || !word.contains('='));
        }
    }

    fn argument(&mut self, word: &str) {
        let is_first = self.arguments == 0 && !self.only_arguments;
        match self.command.find_subcommand(word).filter(|_| is_first) {
            Some(command) => self.command = command,
            None => self.arguments += 1,
        }
    }

    /// The last flag of the word, and the same where it wants a value.
    fn flag(&self, word: &str) -> Option<(&'a Arg, Option<&'a Arg>)> {
        let flag = match word.strip_prefix("--") {
            Some(long) => {
                let name = long.split('=').next().unwrap_or(long);
                self.command
                    .get_arguments()
                    .find(|arg| arg.get_long() == Some(name))
            }
            None => {
                let last = word.chars().next_back();
                let is = |arg: &&Arg| last.is_some() && arg.get_short() == last;
                self.command.get_arguments().find(is)
            }
        }?;
        Some((flag, takes_value(flag).then_some(flag)))
    }

    fn last(self, unfinished: &'a str) -> Place<'a> {
        let place = |what, unfinished, prefix| Place {
            command: self.command,
            what,
            unfinished,
            prefix,
        };
        if let Some(flag) = self.value {
            // The sign alone is bash's word while there is no value yet.
            let unfinished = unfinished.strip_prefix('=').unwrap_or(unfinished);
            return place(What::Value(flag), unfinished, "");
        }
        if unfinished.starts_with('-') && !self.only_arguments {
            let Some((name, value)) = unfinished.split_once('=') else {
                return place(What::Flag, unfinished, "");
            };
            return match self.flag(name) {
                Some((_, Some(flag))) => {
                    let prefix = &unfinished[..=name.len()];
                    place(What::Value(flag), value, prefix)
                }
                _ => place(What::Nothing, unfinished, ""),
            };
        }
        let mut arguments = self.command.get_positionals();
        let what = match arguments.nth(self.arguments) {
            Some(argument) => What::Value(argument),
            None => {
                let last = self.command.get_positionals().last();
                let many = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
                match last.filter(many) {
                    Some(argument) => What::Value(argument),
                    None if self.command.has_subcommands() && self.arguments == 0 => {
                        What::Subcommand
                    }
                    None => What::Nothing,
                }
            }
        };
        place(what, unfinished, "")
    }
}

pub(super) fn takes_value(flag: &Arg) -> bool {
    matches!(flag.get_action(), ArgAction::Set | ArgAction::Append)
}
