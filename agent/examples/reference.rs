//! Prints the command lines of all programs as JSON, from which `cargo xtask docs` makes the reference: `cargo run -p
//! usher-agent --example reference`.
//!
//! It is an example, so that the shipped programs do not contain the generator.

use std::io;

use clap::{Arg, ArgAction, Command};
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut programs = commands();
    programs.iter_mut().for_each(Command::build);
    let programs: Vec<Value> = programs
        .iter()
        .map(|program| command(program, &[]))
        .collect();
    serde_json::to_writer_pretty(io::stdout().lock(), &programs).map_err(io::Error::from)
}

/// `inherited` are the flags of the parent commands, which the reference lists there only.
fn command(command: &Command, inherited: &[&Arg]) -> Value {
    let is_own = |arg: &&Arg| !inherited.iter().any(|above| above.get_id() == arg.get_id());
    let arguments = command.get_arguments();
    let arguments: Vec<&Arg> = arguments
        .filter(|arg| !arg.is_hide_set() && !is_of_clap(arg))
        .filter(is_own)
        .collect();
    let global = arguments.iter().copied().filter(|arg| arg.is_global_set());
    let inherited: Vec<&Arg> = inherited.iter().copied().chain(global).collect();
    let subcommands = command.get_subcommands();
    let subcommands: Vec<Value> = subcommands
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| self::command(sub, &inherited))
        .collect();
    let about = command.get_long_about().or(command.get_about());
    let after = command.get_after_long_help().or(command.get_after_help());
    let usage = command.clone().render_usage().to_string();
    json!({
        "name": command.get_bin_name().unwrap_or(command.get_name()),
        "about": about.map(ToString::to_string),
        "after": after.map(ToString::to_string),
        "usage": usage.trim_start_matches("Usage:").trim(),
        "arguments": arguments.into_iter().map(argument).collect::<Vec<_>>(),
        "subcommands": subcommands,
    })
}

/// Every command has these.
fn is_of_clap(arg: &Arg) -> bool {
    ["help", "version"].contains(&arg.get_id().as_str())
}

fn argument(arg: &Arg) -> Value {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(clap::builder::Str::as_str).collect();
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    let values: Vec<Value> = values
        .map(|value| {
            json!({
                "name": value.get_name(),
                "help": value.get_help().map(ToString::to_string),
            })
        })
        .collect();
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<String> = defaults.map(|value| value.display().to_string()).collect();
    let help = arg.get_long_help().or(arg.get_help());
    json!({
        "long": arg.get_long(),
        "short": arg.get_short(),
        "value": takes_value.then(|| names.join(" ")),
        "values": if takes_value { values } else { Vec::new() },
        "defaults": if takes_value { defaults } else { Vec::new() },
        "variable": arg.get_env().map(|name| name.display().to_string()),
        "help": help.map(ToString::to_string),
    })
}

/// All programs that have a command line.
fn commands() -> Vec<Command> {
    let mut commands = usher_agent::commands();
    commands.splice(0..0, [usher_cli::command(), usher_cli::kubectl::command()]);
    commands
}
