//! The built-in recipes: one table of all, and for each a section with its steps and its YAML.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use usher_core::recipe::{Described, Recipe, Stretch, builtin};

use super::markdown::{code, table};
use crate::file;

const FOLDER: &str = "agent/core/recipes";
/// Starts a recipe in a file.
const START: &str = "\n- name: ";
/// Keys that the section has as text.
const TEXTS: [&str; 3] = ["title:", "notes:", "sources:"];
/// Marks a step that does not exist in every pod.
const CONDITIONAL: &str = "\\*";

pub(super) fn overview() -> Result<String> {
    let row = |recipe: &Recipe| {
        let link = format!("[{}](#{})", recipe.name, recipe.name);
        [link, recipe.title.clone(), stage(recipe).to_owned()]
    };
    let rows: Vec<_> = sorted().iter().map(row).collect();
    Ok(table(["sidecar", "what it is", "stage"], &rows))
}

pub(super) fn each() -> Result<String> {
    let sources = sources()?;
    let section = |recipe: &Recipe| {
        let yaml = sources.get(&recipe.name);
        let yaml = yaml.with_context(|| format!("{FOLDER} has no recipe {}", recipe.name))?;
        Ok(section(recipe, yaml))
    };
    sorted().iter().map(section).collect()
}

fn sorted() -> Vec<Recipe> {
    let mut recipes = builtin().to_vec();
    recipes.sort_by(|one, other| one.name.cmp(&other.name));
    recipes
}

fn stage(recipe: &Recipe) -> &'static str {
    match recipe.ends_by_itself {
        true => "none: it ends by itself",
        false => recipe.stage.into_str(),
    }
}

/// The YAML of each recipe, by its name.
fn sources() -> Result<BTreeMap<String, String>> {
    let mut sources = BTreeMap::new();
    for path in file::list(FOLDER)? {
        let text = format!("\n{}", file::read(path)?);
        let recipes = text.split(START).skip(1);
        let named = recipes.filter_map(|recipe| recipe.split_once('\n'));
        sources.extend(named.map(|(name, keys)| (name.to_owned(), facts(keys))));
    }
    Ok(sources)
}

/// The keys of a recipe without its texts and without the comment about the next recipe.
fn facts(keys: &str) -> String {
    let mut is_text = false;
    let lines = keys.lines().filter(|line| {
        if let Some(key) = line.strip_prefix("  ").filter(|key| !key.starts_with(' ')) {
            is_text = TEXTS.iter().any(|text| key.starts_with(text));
        }
        !is_text && line.starts_with(' ')
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn section(recipe: &Recipe, yaml: &str) -> String {
    let (name, title, stage) = (&recipe.name, &recipe.title, stage(recipe));
    let mut blocks = vec![format!("### {name}"), format!("{title}. Stage: {stage}.")];
    if !recipe.quit.is_empty() {
        blocks.push(steps(recipe).trim_end().to_owned());
    }
    if !recipe.notes.is_empty() {
        blocks.push(recipe.notes.clone());
    }
    blocks.push(format!(
        "```yaml title=recipe.yaml\n- name: {name}\n{yaml}```"
    ));
    if !recipe.sources.is_empty() {
        let link = |(number, url): (usize, &String)| format!("[{number}]({url})");
        let links: Vec<String> = (1..).zip(&recipe.sources).map(link).collect();
        blocks.push(format!("Sources: {}", links.join(", ")));
    }
    blocks.join("\n\n") + "\n\n"
}

/// The steps for each range of versions, in the order in which usher takes them.
fn steps(recipe: &Recipe) -> String {
    let rows = recipe.quit_by_version().into_iter().flat_map(|stretch| {
        let Stretch { versions, steps } = stretch;
        let ranges = std::iter::once(versions.to_string()).chain(std::iter::repeat(String::new()));
        let steps = (1..).zip(steps).zip(ranges);
        steps.map(|((number, step), range)| row(range, number, &step))
    });
    let head = ["version", "step", "exit code", "ends in"];
    table(head, &rows.collect::<Vec<_>>())
}

fn row(range: String, number: usize, step: &Described<'_>) -> [String; 4] {
    let act = code(&step.step.act.by_default().to_string());
    let mark = if step.is_everywhere() {
        ""
    } else {
        CONDITIONAL
    };
    [
        range,
        format!("{number}. {act}{mark}"),
        step.step.code.to_string(),
        ends_in(step.step.takes.by_default()),
    ]
}

fn ends_in(takes: Duration) -> String {
    match takes.as_millis() {
        0 => "at once".to_owned(),
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_has_all_keys_except_texts() {
        let keys = "  title: A\n  notes: >-\n    stage: in a note\n  # why\n  stage: logs\n  sources:\n    \
                    - https://a.example\n  quit:\n    - signal: SIGTERM\n# About the next.\n";
        assert_eq!(
            facts(keys),
            "  # why\n  stage: logs\n  quit:\n    - signal: SIGTERM\n"
        );
    }
}
