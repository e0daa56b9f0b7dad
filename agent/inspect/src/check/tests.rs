mod of_agent;
mod of_kernel;
mod of_places;

use std::collections::BTreeSet;

use strum::VariantArray;

use self::{
    of_agent::agent,
    of_kernel::kernel,
    of_places::{network, node},
};
use crate::{check::*, text::table::Tone};

/// The check with this id.
fn of(checks: &[Check], id: &str) -> Check {
    let found = checks.iter().find(|check| check.id == id);
    found.cloned().unwrap_or_else(|| panic!("no {id}"))
}

/// The outcome of a check, and its fix.
fn outcome_and_fix(checks: &[Check], id: &str) -> (Outcome, String) {
    let check = of(checks, id);
    (check.outcome, check.fix.unwrap_or_default())
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

/// The checks for each fact that can have an error, with `text` as the error.
fn failing(text: &str) -> Vec<Vec<Check>> {
    let error = || text.to_owned();
    let kernel = |change: &dyn Fn(&mut kernel::Found)| {
        let mut found = kernel();
        change(&mut found);
        kernel::judge(&found)
    };
    let in_netns = |change: fn(&mut kernel::Network, String)| {
        kernel(&|found| change(found.netns.as_mut().unwrap(), error()))
    };
    let lack = |cause| {
        kernel(&|found| {
            let error = error();
            found.fanotify = Err(kernel::Lack { cause, error });
        })
    };
    let node = |change: &dyn Fn(&mut node::Found)| {
        let mut found = node();
        change(&mut found);
        node::judge(&found)
    };
    let network = |change: &dyn Fn(&mut cni::Found)| {
        let mut found = network(&[]);
        change(&mut found);
        cni::judge(Some(&found))
    };
    let mut all = vec![
        kernel(&|found| found.netns = Err(error())),
        kernel(&|found| found.pidfd = Err(error())),
        kernel(&|found| found.exit = Err(error())),
        kernel(&|found| found.inotify = Err(error())),
        in_netns(|network, error| network.table = Err(error)),
        in_netns(|network, error| network.log = Err(error)),
        in_netns(|network, error| network.queue = Err(error)),
        in_netns(|network, error| network.sockets = Err(error)),
        lack(kernel::Cause::Permission),
        lack(kernel::Cause::Groups),
        lack(kernel::Cause::Other),
        node(&|found| found.cgroups = Err(error())),
        node(&|found| found.bundles = node::Bundles::Hidden(error())),
        node(&|found| found.run_dir_writable = Err(error())),
        node(&|found| found.config = Err(error())),
        network(&|found| found.files = Err(error())),
        network(&|found| found.conf_writable = Err(error())),
        network(&|found| found.bin_writable = Err(error())),
        capability::judge(&capability::Found {
            uid: 0,
            effective: Err(error()),
            processes: Err(error()),
        }),
        agent::judge(&agent::Found {
            agent: Err(error()),
            tables: Err(error()),
            ..agent("")
        }),
    ];
    all.extend(kubelet::Cause::VARIANTS.iter().map(|cause| {
        kubelet::judge(&kubelet::Found {
            url: "https://10.0.0.1:10250".to_owned(),
            token: "/token".to_owned(),
            ca: "/ca".to_owned(),
            pods: Err(kubelet::Refusal {
                cause: *cause,
                error: error(),
            }),
        })
    }));
    all
}

#[test]
fn text_of_an_error_decides_nothing() {
    let judged = |text: &str| -> Vec<(String, Outcome, Option<String>)> {
        let checks = failing(text).into_iter().flatten();
        checks
            .map(|check| (check.id.into_owned(), check.outcome, check.fix))
            .collect()
    };
    let exit_codes = |text: &str| -> Vec<u8> {
        let all = failing(text).into_iter();
        all.map(|checks| Count::of(&checks).exit_code()).collect()
    };
    let plain = ("no", judged("no"), exit_codes("no"));
    for text in [
        "",
        "invalid peer certificate: certificate expired",
        "certificate not valid for name",
        "UnknownIssuer",
        "EPERM: Operation not permitted",
        "connection refused",
        "ok",
    ] {
        assert_eq!(judged(text), plain.1, "{text:?} instead of {:?}", plain.0);
        assert_eq!(exit_codes(text), plain.2, "{text:?}");
    }
}

#[test]
fn text_output() {
    let mut checks = kernel::judge(&kernel());
    checks.truncate(2);
    let mut found = node();
    found.cgroups = Err("nothing".to_owned());
    checks.extend(node::judge(&found));
    let checks = Checks::from(checks);
    let lines = |checks: &Checks| -> Vec<String> {
        let table = text(checks);
        table.lead.into_iter().map(|cell| cell.text).collect()
    };
    let all = lines(&checks);
    assert_eq!(
        all[..4].join("\n"),
        "kernel\n  ✓ the kernel is recent enough: Linux 6.18.5\n  \
        ✓ a network namespace can be created: created and removed one\n"
    );
    assert_eq!(
        all[4..6].join("\n"),
        "node\n  ✗ the cgroups of pods are found: nothing"
    );
    assert!(
        all[7].starts_with("      fix:  mount the host's"),
        "{all:#?}"
    );
    assert_eq!(all[8], "      docs: usher help node-cgroups");
    let sum = "unhealthy: 5 ok, 0 warnings, 1 failed, 0 skipped";
    assert_eq!(all.last().unwrap(), sum);
    let short = lines(&checks.problems());
    assert_eq!(short.len(), 7);
    assert_eq!((&short[0][..], &short[6][..]), ("node", sum));
}

/// The summary line and the exit code for each combination of outcomes.
#[test]
fn summary_and_exit_code() {
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
            "healthy: 2 ok, 0 warnings, 0 failed, 3 skipped",
        ),
        (
            vec![warning(), ok(), warning()],
            0,
            Tone::Warn,
            "healthy, with warnings: 1 ok, 2 warnings, 0 failed, 0 skipped",
        ),
        (
            vec![failed(), warning(), failed()],
            1,
            Tone::Bad,
            "unhealthy: 0 ok, 1 warnings, 2 failed, 0 skipped",
        ),
        (
            vec![failed()],
            1,
            Tone::Bad,
            "unhealthy: 0 ok, 0 warnings, 1 failed, 0 skipped",
        ),
    ] {
        let checks = Checks::from(checks);
        assert_eq!(checks.count.exit_code(), code, "{sum}");
        let last = text(&checks.problems()).lead.pop().unwrap();
        assert_eq!((&last.text[..], last.tone), (sum, tone));
    }
}

#[test]
fn form_of_the_json() {
    let check = of(&node::judge(&node()), "node-run-directory");
    let expected = serde_json::json!({
        "id": "node-run-directory",
        "category": "node",
        "title": "the run directory is writable",
        "outcome": "ok",
        "message": "/run/usher",
        "why": "the CNI plugin cannot reach the agent, and a restarted agent loses its records",
        "docs": "usher help node-run-directory",
    });
    assert_eq!(serde_json::to_value(check).unwrap(), expected);
}
