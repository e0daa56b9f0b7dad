//! The command blocks of a page, with the outputs that it shows.

use std::{collections::BTreeSet, fs, path::Path};

use regex::Regex;

use super::{NOT_HERE, ROOT};

/// The page that lists the pages of tasks.
const INDEX: &str = "docs/README.md";
/// Programs that begin a command.
const PROGRAMS: [&str; 8] = [
    "cargo", "helm", "kind", "kubectl", "kubelet", "skopeo", "tar", "usher",
];

/// A block of a page.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) page: String,
    pub(super) line: usize,
    pub(super) commands: Vec<Shown>,
}

/// A command, and the output that the page shows.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) command: String,
    pub(super) output: Vec<String>,
}

/// The README and the pages that the section on tasks links.
pub(super) fn pages() -> BTreeSet<String> {
    let index = fs::read_to_string(Path::new(ROOT).join(INDEX)).unwrap();
    let (_, tasks) = index.split_once("## Tasks").unwrap();
    let (tasks, _) = tasks.split_once("\n## ").unwrap();
    let link = Regex::new(r"\(([a-z-]+\.md)\)").unwrap();
    link.captures_iter(tasks)
        .map(|found| format!("docs/{}", &found[1]))
        .chain(["README.md".to_owned()])
        .collect()
}

fn is_command(line: &str) -> bool {
    let word = line.split(' ').next().unwrap_or_default();
    let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase())
    });
    is_assignment || PROGRAMS.contains(&word)
}

pub(super) fn is_exception(command: &str) -> bool {
    NOT_HERE
        .iter()
        .any(|(beginning, _reason)| command.starts_with(beginning))
}

/// The blocks of a page that have commands.
pub(super) fn blocks(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, fence)) = lines.next() {
        let Some(kind) = fence.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```")
            .collect();
        let commands = match kind {
            "console" => with_prompts(&body),
            "" if body.first().is_some_and(|line| is_command(line)) => without_prompts(&body),
            _ => continue,
        };
        let page = page.to_owned();
        let line = number + 2;
        blocks.push(Block {
            page,
            line,
            commands,
        });
    }
    blocks
}

fn with_prompts(body: &[&str]) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    for line in body {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push(Shown {
                command: command.to_owned(),
                output: Vec::new(),
            }),
            None => commands.last_mut().unwrap().output.push((*line).to_owned()),
        }
    }
    commands
}

fn without_prompts(body: &[&str]) -> Vec<Shown> {
    let text = body.join("\n").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| Shown {
            command: line.to_owned(),
            output: Vec::new(),
        })
        .collect()
}
