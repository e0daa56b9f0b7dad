//! The command lines, as the programs describe them.
//!
//! xtask does not depend on the agent, which would be compiled before every task; an example of the agent's package
//! tells them as JSON.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::markdown::{code, table};
use crate::workspace::cargo;

/// A program, or a subcommand of one.
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
    is_global: bool,
    help: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    name: String,
    help: Option<String>,
}

/// Every program with its subcommands.
pub(super) fn reference() -> Result<String> {
    let mut tell = cargo(["run", "--quiet", "--locked", "--package", "usher-agent"]);
    let told = tell
        .args(["--example", "reference"])
        .output()
        .context("run the example that tells the command lines")?;
    let complaint = String::from_utf8_lossy(&told.stderr);
    ensure!(
        told.status.success(),
        "the example that tells the command lines: {}",
        complaint.trim()
    );
    let programs = serde_json::from_slice(&told.stdout).context("read the command lines")?;
    Ok(written(programs))
}

fn written(programs: Vec<Command>) -> String {
    let mut sections = Vec::new();
    for program in programs {
        section(&program, 2, &mut sections);
    }
    sections.join("\n")
}

fn section(command: &Command, depth: usize, sections: &mut Vec<String>) {
    let mut text = format!("{} {}\n\n", "#".repeat(depth), command.name);
    if let Some(about) = &command.about {
        text.push_str(&paragraphs(about));
    }
    text.push_str(&format!("```text\n{}\n```\n", command.usage));
    let globals = command
        .arguments
        .iter()
        .filter(|argument| argument.is_global);
    let (global, own): (Vec<_>, Vec<_>) = if globals.count() == command.arguments.len() {
        // Of a program that has nothing but flags for all of its commands.
        (Vec::new(), command.arguments.iter().collect())
    } else {
        command
            .arguments
            .iter()
            .partition(|argument| argument.is_global)
    };
    // A program without subcommands shares them with the others: they say where the node has things.
    let shared = if command.subcommands.is_empty() {
        "Of the node:\n\n"
    } else {
        "With every subcommand:\n\n"
    };
    for (title, arguments) in [("", own), (shared, global)] {
        if !arguments.is_empty() {
            let rows: Vec<_> = arguments.into_iter().map(row).collect();
            let head = ["argument", "default", "variable", "meaning"];
            text.push_str(&format!("\n{title}{}", table(head, &rows)));
        }
    }
    if let Some(after) = &command.after {
        text.push_str(&format!("\n{}", paragraphs(after).trim_end()));
        text.push('\n');
    }
    sections.push(text);
    for sub in &command.subcommands {
        section(sub, (depth + 1).min(4), sections);
    }
}

fn row(argument: &Argument) -> [String; 4] {
    let value = argument.value.as_deref().unwrap_or_default();
    let name = match (argument.short, &argument.long) {
        (short, Some(long)) => {
            let short = short
                .map(|short| format!("`-{short}`, "))
                .unwrap_or_default();
            let value = if value.is_empty() {
                String::new()
            } else {
                format!(" {value}")
            };
            format!("{short}{}", code(&format!("--{long}{value}")))
        }
        (Some(short), None) => code(format!("-{short} {value}").trim_end()),
        (None, None) => code(value),
    };
    let default = match argument.defaults.join(" ") {
        none if none.is_empty() => none,
        values => code(&values),
    };
    let variable = argument.variable.as_deref().map(code);
    let mut meaning = one_line(argument.help.as_deref().unwrap_or_default());
    let values: Vec<String> = argument.values.iter().map(choice).collect();
    if !values.is_empty() {
        if !meaning.ends_with('.') {
            meaning.push('.');
        }
        meaning.push_str(&format!(" One of {}", values.join(", ")));
    }
    [name, default, variable.unwrap_or_default(), meaning]
}

fn choice(choice: &Choice) -> String {
    match &choice.help {
        Some(help) => format!("{} ({})", code(&choice.name), first_small(&one_line(help))),
        None => code(&choice.name),
    }
}

fn first_small(text: &str) -> String {
    let mut letters = text.chars();
    // A name or an abbreviation keeps its letters.
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

/// Help as a cell: what looks like HTML is none.
fn one_line(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    line.join(" ").replace('<', "&lt;")
}

/// Help as paragraphs. What is indented is an example and stays as it is.
fn paragraphs(text: &str) -> String {
    let mut written = String::new();
    for paragraph in text.split("\n\n") {
        if paragraph.starts_with("  ") {
            let lines = paragraph
                .lines()
                .map(|line| format!("{}\n", line.trim_start()));
            written.push_str(&format!("```sh\n{}```\n\n", lines.collect::<String>()));
        } else {
            let mut line = one_line(paragraph);
            if !line.ends_with(['.', ':', '!', '?']) && line.starts_with(char::is_uppercase) {
                line.push('.');
            }
            written.push_str(&format!("{line}\n\n"));
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections() {
        let programs = r#"[{"name": "usher", "about": "Looks", "after": null, "usage": "usher <COMMAND>",
            "arguments": [{"long": "output", "short": "o", "value": "FORM", "defaults": ["table"], "variable": "USHER_OUTPUT",
                "isGlobal": true, "help": "How\nit looks", "values": [{"name": "table", "help": "For people"}, {"name": "json", "help": null}]}],
            "subcommands": [{"name": "usher conns", "about": "Connections of a pod\n\nWith <who>.\n\n  usher conns a", "after": "Exits with 0",
                "usage": "usher conns <POD>", "subcommands": [], "arguments": [
                {"long": null, "short": null, "value": "POD", "defaults": [], "variable": null, "isGlobal": false, "help": "The pod", "values": []},
                {"long": "all", "short": null, "value": null, "defaults": [], "variable": null, "isGlobal": false, "help": "All | more", "values": []}]}]}]"#;
        let expected = "## usher\n\nLooks.\n\n```text\nusher <COMMAND>\n```\n\n\
            | argument | default | variable | meaning |\n| --- | --- | --- | --- |\n\
            | `-o`, `--output FORM` | `table` | `USHER_OUTPUT` | How it looks. One of `table` (for people), `json` |\n\n\
            ### usher conns\n\nConnections of a pod.\n\nWith &lt;who>.\n\n```sh\nusher conns a\n```\n\n```text\nusher conns <POD>\n```\n\n\
            | argument | default | variable | meaning |\n| --- | --- | --- | --- |\n\
            | `POD` | | | The pod |\n| `--all` | | | All \\| more |\n\nExits with 0.\n";
        assert_eq!(written(serde_json::from_str(programs).unwrap()), expected);
    }

    #[test]
    fn program_without_subcommands() {
        let programs = r#"[{"name": "usher-agent", "about": null, "after": null, "usage": "usher-agent [OPTIONS]", "subcommands": [],
            "arguments": [
                {"long": "leave", "short": null, "value": null, "defaults": [], "variable": null, "isGlobal": false, "help": "Go", "values": []},
                {"long": "proc", "short": null, "value": "DIR", "defaults": [], "variable": null, "isGlobal": true, "help": "Where", "values": []}]}]"#;
        let text = written(serde_json::from_str(programs).unwrap());
        let (own, shared) = text.split_once("\nOf the node:\n").unwrap();
        assert!(own.ends_with("| `--leave` | | | Go |\n"), "{text}");
        assert!(shared.ends_with("| `--proc DIR` | | | Where |\n"), "{text}");
    }
}
