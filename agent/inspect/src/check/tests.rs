mod of_agent;
mod of_kernel;
mod of_places;

use std::collections::BTreeSet;

use self::{of_kernel::kernel, of_places::node};
use crate::{check::*, text::table::Tone};

/// The check with this id.
fn of(checks: &[Check], id: &str) -> Check {
    let found = checks.iter().find(|check| check.id == id);
    found.cloned().unwrap_or_else(|| panic!("no {id}"))
}

/// What it came to, and the words that tell how to mend it.
fn says(checks: &[Check], id: &str) -> (Outcome, String) {
    let check = of(checks, id);
    (check.outcome, check.mend.unwrap_or_default())
}

#[test]
fn each_question_is_explained_once() {
    let docs = include_str!("../../../../docs/check.md");
    let mut ids = BTreeSet::new();
    for one in questions() {
        assert!(ids.insert(one.id), "{} is there twice", one.id);
        let id = |char: char| char.is_ascii_lowercase() || char == '-';
        assert!(one.id.chars().all(id), "{}", one.id);
        assert!(
            !one.title.ends_with('.') && !one.why.ends_with('.'),
            "{}",
            one.id
        );
        let heading = format!("\n### {}\n", one.id);
        assert!(
            docs.contains(&heading),
            "docs/check.md has no heading {}",
            one.id
        );
    }
    let headings = docs.lines().filter_map(|line| line.strip_prefix("### "));
    let unknown: Vec<&str> = headings.filter(|id| !ids.contains(id)).collect();
    assert!(unknown.is_empty(), "docs/check.md explains {unknown:?}");
}

#[test]
fn text_for_people() {
    let mut checks = kernel::judge(&kernel());
    checks.truncate(2);
    let mut found = node();
    found.cgroups = Err("nothing".to_owned());
    checks.extend(node::judge(&found));
    let checks = Checks::from(checks);
    let lines = |is_short| -> Vec<String> {
        let table = text(&checks, is_short);
        table.lead.into_iter().map(|cell| cell.text).collect()
    };
    let all = lines(false);
    assert_eq!(
        all[..4].join("\n"),
        "kernel\n  ✓ the kernel is new enough: Linux 6.18.5\n  \
        ✓ a network namespace can be made: made one, and it is gone again\n"
    );
    assert_eq!(
        all[4..6].join("\n"),
        "node\n  ✗ the cgroups of pods are found: nothing"
    );
    assert!(
        all[7].starts_with("      mend: mount the host's"),
        "{all:#?}"
    );
    assert_eq!(all[8], "      more: docs/check.md#node-cgroups");
    let sum = "something does not work: 5 ok, 0 warnings, 1 failed, 0 skipped";
    assert_eq!(all.last().unwrap(), sum);
    let short = lines(true);
    assert_eq!(short.len(), 7);
    assert_eq!((&short[0][..], &short[6][..]), ("node", sum));
}

/// The last line and the exit code, by how each check came out.
#[test]
fn what_it_comes_to() {
    let question = questions().next().unwrap();
    let ok = || question.ok("");
    let warning = || question.warning("", "");
    let failed = || question.failed("", "");
    let skipped = || question.skipped("");
    for (checks, code, tone, sum) in [
        (
            vec![ok(), skipped(), ok(), skipped(), skipped()],
            0,
            Tone::Good,
            "all is well: 2 ok, 0 warnings, 0 failed, 3 skipped",
        ),
        (
            vec![warning(), ok(), warning()],
            0,
            Tone::Warn,
            "it works, with warnings: 1 ok, 2 warnings, 0 failed, 0 skipped",
        ),
        (
            vec![failed(), warning(), failed()],
            1,
            Tone::Bad,
            "something does not work: 0 ok, 1 warnings, 2 failed, 0 skipped",
        ),
        (
            vec![failed()],
            1,
            Tone::Bad,
            "something does not work: 0 ok, 0 warnings, 1 failed, 0 skipped",
        ),
    ] {
        let checks = Checks::from(checks);
        assert_eq!(checks.count.exit_code(), code, "{sum}");
        let last = text(&checks, true).lead.pop().unwrap();
        assert_eq!((&last.text[..], last.tone), (sum, tone));
    }
}

#[test]
fn form_of_the_json() {
    let check = of(&node::judge(&node()), "node-run-directory");
    let expected = serde_json::json!({
        "id": "node-run-directory",
        "category": "node",
        "title": "the run directory can be written",
        "outcome": "ok",
        "saw": "/run/usher",
        "why": "the CNI plugin cannot ask the agent, and a restart forgets what was known",
        "docs": "docs/check.md#node-run-directory",
    });
    assert_eq!(serde_json::to_value(check).unwrap(), expected);
}
