//! `usher help`: a command, or a topic.
//!
//! Topics are the findings of `usher explain` and the checks of `usher check`: the sections of the pages that describe
//! them, which the program contains. So the help command in a report works on every node and matches the program's
//! version.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use crate::{failure::Failure, global::Exit, output::stdout};

/// The pages whose sections are topics.
const PAGES: [&str; 2] = [
    include_str!("../../../docs/explain.md"),
    include_str!("../../../docs/check.md"),
];
/// Starts the heading of a topic.
const TOPIC: &str = "### ";
/// Starts any heading that ends a topic.
const HEADING: &str = "##";
const FENCE: &str = "```";
const WIDTH: usize = 80;

/// Print the help of a command, or what a finding of explain or a check of check means
///
/// Without an argument it prints the commands. The name of a finding or a check is the last word of the line "docs" in
/// a report: usher help sidecar-stays.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A command, or a topic
    #[arg(value_name = "COMMAND|TOPIC")]
    name: Option<String>,
}

/// Prints help about the commands of `program`.
pub(super) fn run(args: &Args, program: clap::Command) -> Result<Exit, Failure> {
    let text = text(args.name.as_deref(), program).map_err(Failure::usage)?;
    stdout::put(&text)?;
    Ok(Exit::Success)
}

fn text(name: Option<&str>, mut program: clap::Command) -> Result<String, String> {
    program.build();
    let Some(name) = name else {
        return Ok(program.render_long_help().to_string());
    };
    if let Some(command) = program.find_subcommand_mut(name) {
        return Ok(command.render_long_help().to_string());
    }
    let topic = topics().find(|(topic, _lines)| *topic == name);
    topic
        .map(|(name, lines)| plain(name, lines))
        .ok_or_else(|| {
            let topics: Vec<&str> = topics().map(|(name, _lines)| name).collect();
            format!(
                "no command or topic is named {name:?}; topics: {}",
                topics.join(", ")
            )
        })
}

/// The topics with the lines of their sections.
fn topics() -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static str>)> {
    PAGES.into_iter().flat_map(|page| {
        let headings = page.lines().enumerate().filter_map(|(line, text)| {
            let name = text.strip_prefix(TOPIC)?;
            Some((line, name))
        });
        headings.map(move |(line, name)| {
            let section = page.lines().skip(line + 1);
            (name, section.take_while(|text| !text.starts_with(HEADING)))
        })
    })
}

/// A section as plain text: without the targets of links, and paragraphs in lines of at most [`WIDTH`] columns.
fn plain(name: &str, lines: impl Iterator<Item = &'static str>) -> String {
    let mut text = format!("{name}\n");
    let mut is_code = false;
    for line in lines {
        if line.starts_with(FENCE) {
            is_code = !is_code;
        } else if is_code {
            let _infallible = writeln!(text, "    {line}");
        } else {
            text.push_str(&wrapped(&without_targets(line)));
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Replaces `[text](target)` by the text.
fn without_targets(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((link, (_target, after))) = rest
        .split_once("](")
        .and_then(|(link, target)| Some((link, target.split_once(')')?)))
    {
        let (before, label) = link.rsplit_once('[').unwrap_or(("", link));
        text.push_str(before);
        text.push_str(label);
        rest = after;
    }
    text + rest
}

fn wrapped(paragraph: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let width = word.width();
        if column > 0 && column + 1 + width > WIDTH {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_is_a_section_as_plain_text() {
        let text = text(Some("sidecar-stays"), crate::command()).unwrap();
        assert!(
            text.starts_with("sidecar-stays\n\nEvery app ended for good"),
            "{text}"
        );
        assert!(text.contains("Fix: "), "{text}");
        assert!(!text.contains("unknown-helper"), "{text}");
        assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
    }

    #[test]
    fn links_have_no_target() {
        assert_eq!(
            without_targets("`a[0]`, see [hold](hold.md) and [start](start.md)."),
            "`a[0]`, see hold and start."
        );
        assert_eq!(without_targets("an open [bracket"), "an open [bracket");
    }

    #[test]
    fn command_has_its_own_help() {
        let text = text(Some("explain"), crate::command()).unwrap();
        assert!(text.contains("Usage: usher explain"), "{text}");
    }

    #[test]
    fn unknown_name_lists_the_topics() {
        let error = text(Some("nothing"), crate::command()).unwrap_err();
        assert!(
            error.contains("\"nothing\"") && error.contains("node-cgroups"),
            "{error}"
        );
    }
}
