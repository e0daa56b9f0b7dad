//! The command lines of the programs.
//!
//! xtask does not depend on the agent: cargo would then build the agent before every task. An example of the agent's
//! package prints the command lines as JSON.

use anyhow::{Context, Result};
use serde::Deserialize;
use usher_cluster::progress::output;

use super::markdown::{code, table};
use crate::workspace::cargo;

/// A program, or a subcommand.
#[derive(Debug, Deserialize)]
struct Command {
    name: String,
    about: Option<String>,
    after: Option<String>,
    usage: String,
    arguments: Vec<Argument>,
    subcommands: Vec<Self>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    long: Option<String>,
    short: Option<char>,
    value: Option<String>,
    values: Vec<Choice>,
    defaults: Vec<String>,
    variable: Option<String>,
    help: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    name: String,
    help: Option<String>,
}

/// Every program with its subcommands.
pub(super) fn reference() -> Result<String> {
    let example = "run --quiet --locked --package usher-agent --example reference";
    let json = output(&mut cargo(example.split(' ')))?;
    let programs: Vec<Command> = serde_json::from_str(&json).context("read the command lines")?;
    Ok(sections(&programs, 2))
}

fn sections(commands: &[Command], depth: usize) -> String {
    let sections = commands.iter().map(|command| section(command, depth));
    sections.collect::<Vec<_>>().join("\n")
}

/// The section of a command, with those of its subcommands.
fn section(command: &Command, depth: usize) -> String {
    let mut text = format!("{} {}\n\n", "#".repeat(depth), command.name);
    text += &command.about.as_deref().map(paragraphs).unwrap_or_default();
    text += &format!("```text\n{}\n```\n", command.usage);
    if !command.arguments.is_empty() {
        let rows: Vec<_> = command.arguments.iter().map(row).collect();
        let head = ["argument", "default", "variable", "meaning"];
        text += &format!("\n{}", table(head, &rows));
    }
    if let Some(after) = &command.after {
        text += &format!("\n{}\n", paragraphs(after).trim_end());
    }
    if !command.subcommands.is_empty() {
        text += &format!("\n{}", sections(&command.subcommands, (depth + 1).min(4)));
    }
    text
}

fn row(argument: &Argument) -> [String; 4] {
    let value = argument.value.as_deref().unwrap_or_default();
    let name = match (argument.short, &argument.long) {
        (Some(short), Some(long)) => format!("-{short}`, `--{long} {value}"),
        (None, Some(long)) => format!("--{long} {value}"),
        (Some(short), None) => format!("-{short} {value}"),
        (None, None) => value.to_owned(),
    };
    let default = argument.defaults.join(" ");
    let default = (!default.is_empty()).then(|| code(&default));
    let variable = argument.variable.as_deref().map(code);
    let mut meaning = one_line(argument.help.as_deref().unwrap_or_default());
    if !argument.values.is_empty() {
        let values: Vec<String> = argument.values.iter().map(choice).collect();
        let stop = if meaning.ends_with('.') { "" } else { "." };
        meaning += &format!("{stop} One of {}", values.join("; "));
    }
    [
        code(name.trim_end()),
        default.unwrap_or_default(),
        variable.unwrap_or_default(),
        meaning,
    ]
}

fn choice(choice: &Choice) -> String {
    let name = code(&choice.name);
    match &choice.help {
        Some(help) => format!("{name}: {}", one_line(help)),
        None => name,
    }
}

/// Help as a cell, without HTML.
fn one_line(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    line.join(" ").replace('<', "&lt;")
}

/// Help as paragraphs. An indented paragraph is an example.
fn paragraphs(text: &str) -> String {
    let mut paragraphs = String::new();
    for paragraph in text.split("\n\n") {
        if paragraph.starts_with("  ") {
            let lines: Vec<&str> = paragraph.lines().map(str::trim_start).collect();
            paragraphs += &format!("```sh\n{}\n```\n\n", lines.join("\n"));
        } else {
            let line = one_line(paragraph);
            let is_sentence = line.ends_with(['.', ':', '!', '?']);
            let stop = if !is_sentence && line.starts_with(char::is_uppercase) {
                "."
            } else {
                ""
            };
            paragraphs += &format!("{line}{stop}\n\n");
        }
    }
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_programs() {
        let programs = r#"[{"name": "usher", "about": "Looks", "after": null, "usage": "usher <COMMAND>",
            "arguments": [{"long": "output", "short": "o", "value": "FORM", "defaults": ["table"], "variable": "USHER_OUTPUT", "help": "How\nit looks", "values": [{"name": "table", "help": "For people"}, {"name": "json", "help": null}]}],
            "subcommands": [{"name": "usher conns", "about": "Connections of a pod\n\nWith <who>.\n\n  usher conns a", "after": "Exits with 0",
                "usage": "usher conns <POD>", "subcommands": [], "arguments": [
                {"long": null, "short": null, "value": "POD", "defaults": [], "variable": null, "help": "The pod", "values": []},
                {"long": "all", "short": null, "value": null, "defaults": [], "variable": null, "help": "All | more", "values": []}]}]}]"#;
        let expected = "## usher\n\nLooks.\n\n```text\nusher <COMMAND>\n```\n\n\
            | argument | default | variable | meaning |\n| --- | --- | --- | --- |\n\
            | `-o`, `--output FORM` | `table` | `USHER_OUTPUT` | How it looks. One of `table`: For people; `json` |\n\n\
            ### usher conns\n\nConnections of a pod.\n\nWith &lt;who>.\n\n```sh\nusher conns a\n```\n\n```text\nusher conns <POD>\n```\n\n\
            | argument | default | variable | meaning |\n| --- | --- | --- | --- |\n\
            | `POD` | | | The pod |\n| `--all` | | | All \\| more |\n\nExits with 0.\n";
        let programs: Vec<Command> = serde_json::from_str(programs).unwrap();
        assert_eq!(sections(&programs, 2), expected);
    }
}
