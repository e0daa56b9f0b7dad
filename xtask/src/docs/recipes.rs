//! The built-in recipes: one table of all, and a section for each.

use anyhow::Result;
use usher_core::recipe::{Described, ExitCode, Recipe, Stretch, builtin};

use super::{
    markdown::{code, listed, table, wide_table, with_note},
    recipe::{after_term, ends_in, exists, hold, overrides, recognition},
};

pub(super) fn overview() -> Result<String> {
    let row = |recipe: &Recipe| {
        let link = format!("[{}](#{})", recipe.name, recipe.name);
        let stage = match recipe.ends_by_itself {
            true => "none: it ends by itself",
            false => recipe.stage.into_str(),
        };
        [link, recipe.title.clone(), stage.to_owned()]
    };
    let rows: Vec<_> = sorted().iter().map(row).collect();
    Ok(table(["sidecar", "what it is", "stage"], &rows))
}

fn sorted() -> Vec<Recipe> {
    let mut recipes = builtin().to_vec();
    recipes.sort_by(|one, other| one.name.cmp(&other.name));
    recipes
}

fn act(step: &Described<'_>) -> String {
    code(&step.step.act.by_default().to_string())
}

fn act_where(step: &Described<'_>) -> String {
    with_note(act(step), &exists(step))
}

/// The source of the effects of a step, with the measured times.
fn known_from(step: &Described<'_>) -> String {
    match (&step.step.measured, step.step.code) {
        (Some(measured), _) => format!(
            "measured ({}, {}): {}",
            measured.version, measured.date, measured.ends
        ),
        (None, ExitCode::Unknown) => "not known".to_owned(),
        (None, ExitCode::Known(_)) => "source".to_owned(),
    }
}

pub(super) fn each() -> Result<String> {
    Ok(sorted().iter().map(section).collect())
}

fn section(recipe: &Recipe) -> String {
    let ways = recognition(recipe);
    let kind = if recipe.ends_by_itself {
        "Ends by itself once the other containers have ended".to_owned()
    } else {
        format!("Stage: {}", recipe.stage.into_str())
    };
    let mut blocks = vec![
        format!("### {}", recipe.name),
        format!("{}. {kind}. Recognized by {ways}.", recipe.title),
    ];
    if !recipe.quit.is_empty() {
        blocks.push(steps(recipe).trim_end().to_owned());
    }
    let mut facts = Vec::new();
    facts.extend(recipe.version.as_ref().map(|endpoint| {
        let (port, path) = (endpoint.port.default(), &endpoint.path);
        format!(
            "Version, if the tag does not have it: `GET :{port}{path}`, at `{}` of the response.",
            endpoint.pointer
        )
    }));
    facts.extend(drain(recipe));
    facts.extend(after_term(recipe));
    facts.extend(hold(recipe));
    let overrides = overrides(recipe);
    if !overrides.is_empty() {
        facts.push(format!(
            "The pod can override:\n  - {}",
            overrides.join("\n  - ")
        ));
    }
    facts.extend(advice(recipe));
    if !facts.is_empty() {
        blocks.push(format!("- {}", facts.join("\n- ")));
    }
    if !recipe.notes.is_empty() {
        blocks.push(recipe.notes.clone());
    }
    if !recipe.sources.is_empty() {
        let link = |(number, url): (usize, &String)| format!("[{number}]({url})");
        let links: Vec<String> = (1..).zip(&recipe.sources).map(link).collect();
        blocks.push(format!("Sources: {}", links.join(", ")));
    }
    blocks.join("\n\n") + "\n\n"
}

fn steps(recipe: &Recipe) -> String {
    let head = [
        "version",
        "step",
        "only",
        "exit code",
        "ends in",
        "known from",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for Stretch { versions, steps } in recipe.quit_by_version() {
        let mut range = versions.to_string();
        for (number, step) in (1..).zip(&steps) {
            rows.push(vec![
                std::mem::take(&mut range),
                format!("{number}. {}", act(step)),
                exists(step),
                step.step.code.to_string(),
                ends_in(step.step.takes.by_default()),
                known_from(step),
            ]);
        }
    }
    const ONLY: usize = 2;
    if rows.iter().skip(1).all(|row| row[ONLY].is_empty()) {
        rows.iter_mut().for_each(|row| drop(row.remove(ONLY)));
    }
    wide_table(&rows[0], &rows[1..])
}

/// The advice if a step does not end with code 0.
fn advice(recipe: &Recipe) -> Vec<String> {
    let steps = recipe.quit.iter().filter(|step| !step.advice.is_empty());
    let mut texts: Vec<String> = steps
        .map(|step| format!("Instead of exit code {}: {}.", step.code, step.advice))
        .collect();
    texts.dedup();
    texts
}

fn drain(recipe: &Recipe) -> Option<String> {
    let stretches = recipe.drain_by_version();
    let range = |stretch: &Stretch<'_>| {
        let steps = match &stretch.steps[..] {
            [] => "none".to_owned(),
            steps => listed(steps.iter().map(act_where), "or"),
        };
        if stretch.versions.is_limited() {
            format!("{}: {steps}", stretch.versions)
        } else {
            steps
        }
    };
    let ranges: Vec<String> = stretches.iter().map(range).collect();
    (!recipe.drain.is_empty()).then(|| {
        format!(
            "Drained, with {} or while it lingers: {}.",
            code(usher_core::settings::annotation::DRAIN),
            ranges.join("; ")
        )
    })
}
