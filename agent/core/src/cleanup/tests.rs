use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use crate::cleanup::*;

const ENTRY: &str = "/etc/cni/net.d/10-net.conflist";
const RUN: &str = "/run/usher";

fn entry() -> Item {
    Item::Entry(ENTRY.into())
}

fn binary() -> Item {
    Item::Binary("/opt/cni/bin/usher-cni".into())
}

fn table() -> Item {
    Item::Table {
        netns: NetnsId { dev: 4, ino: 77 },
        pid: Pid(12),
        name: "app\n".to_owned(),
    }
}

fn in_run(name: &str) -> PathBuf {
    Path::new(RUN).join(name)
}

fn directory() -> Item {
    Item::Directory(RUN.into())
}

/// The steps if these removals fail, and the final report.
fn steps(found: Vec<Found>, failing: &[Item]) -> (Vec<Step>, Report) {
    let mut cleaning = Cleaning::new(found);
    let mut steps = Vec::new();
    while let Some(step) = cleaning.step() {
        if let Step::Remove(item) = &step {
            let fails = failing.contains(item);
            cleaning.done(if fails { Err("no".to_owned()) } else { Ok(()) });
        }
        steps.push(step);
    }
    (steps, cleaning.report())
}

fn lines(report: &Report) -> Vec<String> {
    report.lines.iter().map(ToString::to_string).collect()
}

fn all() -> Vec<Found> {
    let items = [
        directory(),
        Item::File(in_run("timeline.jsonl")),
        Item::Socket(in_run("cni.sock")),
        table(),
        binary(),
        entry(),
    ];
    items.map(Found::removable).into()
}

#[test]
fn entry_then_time_then_binary_then_the_rest() {
    let (steps, report) = steps(all(), &[]);
    let expected = [
        Step::Remove(entry()),
        Step::WaitForRuntime,
        Step::Remove(binary()),
        Step::Remove(table()),
        Step::Remove(Item::Socket(in_run("cni.sock"))),
        Step::Remove(Item::File(in_run("timeline.jsonl"))),
        Step::Remove(directory()),
    ];
    assert_eq!(steps, expected);
    assert!(report.left().next().is_none());
    assert_eq!(report.lines.len(), 6);
}

#[test]
fn no_wait_without_an_entry() {
    let found = vec![Found::removable(binary()), Found::removable(directory())];
    let (steps, _report) = steps(found, &[]);
    assert!(!steps.contains(&Step::WaitForRuntime), "{steps:?}");
}

#[test]
fn remaining_objects_keep_their_dependencies() {
    // Things that fail or cannot be removed, and the items that stay because of them.
    let broken = Found::stuck(entry(), "no JSON", "repair it");
    let foreign = Found::stuck(Item::Foreign(in_run("x")), "not usher's", "look at it");
    let file = Item::File(in_run("timeline.jsonl"));
    for (more, failing, left) in [
        (None, vec![entry()], vec![entry(), binary()]),
        (Some(broken), vec![], vec![entry(), binary()]),
        (None, vec![file.clone()], vec![file, directory()]),
        (
            Some(foreign.clone()),
            vec![],
            vec![foreign.item, directory()],
        ),
        (None, vec![table()], vec![table()]),
    ] {
        let mut found = all();
        if let Some(more) = more {
            found.retain(|known| known.item != more.item);
            found.push(more);
        }
        let (steps, report) = steps(found, &failing);
        let stays: Vec<Item> = report.left().map(|line| line.item.clone()).collect();
        assert_eq!(stays, left);
        assert_eq!(
            steps.contains(&Step::WaitForRuntime),
            !stays.contains(&entry())
        );
    }
}

#[test]
fn dry_run_reports_each_removal() {
    let mut found = all();
    found.push(Found::stuck(
        Item::Foreign(in_run("x")),
        "not usher's",
        "look at it",
    ));
    let report = Cleaning::dry_run(found);
    let expected = [
        "entry     /etc/cni/net.d/10-net.conflist: would be removed",
        "binary    /opt/cni/bin/usher-cni: would be removed",
        "table     inet usher in net:[77] of process 12 (app\\n): would be removed",
        "socket    /run/usher/cni.sock: would be removed",
        "file      /run/usher/timeline.jsonl: would be removed",
        "foreign   /run/usher/x: LEFT: not usher's; look at it",
        "directory /run/usher: LEFT: /run/usher/x is in it; remove that first",
    ];
    assert_eq!(lines(&report), expected);
}

#[test]
fn failed_removals_have_manual_instructions() {
    let failing = [entry(), table(), Item::File(in_run("timeline.jsonl"))];
    let (_, report) = steps(all(), &failing);
    assert!(report.left().next().is_some());
    let expected = [
        "entry     /etc/cni/net.d/10-net.conflist: LEFT: no; take the object of type \"usher-cni\" out of it manually",
        "binary    /opt/cni/bin/usher-cni: LEFT: /etc/cni/net.d/10-net.conflist still names it; remove that entry first",
        "table     inet usher in net:[77] of process 12 (app\\n): LEFT: no; nsenter --target PID --net nft delete table inet usher, or delete the pod",
        "socket    /run/usher/cni.sock: removed",
        "file      /run/usher/timeline.jsonl: LEFT: no; run this as root on the node itself, or remove it manually",
        "directory /run/usher: LEFT: /run/usher/timeline.jsonl is in it; remove that first",
    ];
    assert_eq!(lines(&report), expected);
}

#[test]
fn restored_objects_are_reported() {
    let (_, mut report) = steps(all(), &[table()]);
    report.found_again(vec![Found::removable(table()), Found::removable(entry())]);
    let left: Vec<&Item> = report.left().map(|line| &line.item).collect();
    assert_eq!(left, [&table(), &entry()]);
    assert_eq!(
        lines(&report).last().unwrap(),
        "entry     /etc/cni/net.d/10-net.conflist: LEFT: it came back; \
         a process restores it: check whether an agent runs, then retry"
    );
}

fn item() -> impl Strategy<Value = Item> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    (0..9, name).prop_map(|(kind, name)| match kind {
        0 => Item::Unreadable(name.to_owned()),
        1 => Item::Entry(Path::new("/net.d").join(name)),
        2 => Item::Binary(Path::new("/bin").join(name)),
        3 => Item::Temporary(Path::new("/net.d").join(name)),
        4 => table(),
        5 => Item::Socket(in_run(name)),
        6 => Item::File(in_run(name)),
        7 => Item::Foreign(in_run(name)),
        _ => directory(),
    })
}

fn found() -> impl Strategy<Value = Found> {
    (item(), any::<bool>()).prop_map(|(item, stuck)| match (&item, stuck) {
        (Item::Unreadable(_) | Item::Foreign(_), _) | (_, true) => Found::stuck(item, "why", "do"),
        _ => Found::removable(item),
    })
}

proptest! {
    /// For all findings and failures: each item has one outcome, foreign items are not touched, no binary is
    /// removed while an entry exists or a runtime may use it, and no directory is removed that is not empty.
    #[test]
    fn removal_order_respects_dependencies(found in vec(found(), 0..12), fails in vec(any::<bool>(), 12)) {
        let mut cleaning = Cleaning::new(found.clone());
        let mut stays: BTreeSet<Item> = found.iter().map(|found| found.item.clone()).collect();
        let wanted = stays.clone();
        let (mut may_be_used, mut fails) = (false, fails.into_iter());
        while let Some(step) = cleaning.step() {
            let Step::Remove(item) = step else {
                may_be_used = false;
                continue;
            };
            prop_assert!(!matches!(item, Item::Unreadable(_) | Item::Foreign(_)));
            if let Item::Binary(_) = item {
                prop_assert!(!may_be_used);
                prop_assert!(!stays.iter().any(|other| matches!(other, Item::Entry(_))));
            }
            if let Item::Directory(_) = item {
                let below = |other: &Item| *other != item && other.path().is_some_and(|path| path.starts_with(RUN));
                prop_assert!(!stays.iter().any(below));
            }
            if fails.next().unwrap_or_default() {
                cleaning.done(Err("no".to_owned()));
            } else {
                may_be_used |= matches!(item, Item::Entry(_));
                stays.remove(&item);
                cleaning.done(Ok(()));
            }
        }
        let report = cleaning.report();
        let reported: BTreeSet<Item> = report.lines.iter().map(|line| line.item.clone()).collect();
        prop_assert_eq!(reported.len(), report.lines.len());
        prop_assert_eq!(reported, wanted);
        let left: BTreeSet<Item> = report.left().map(|line| line.item.clone()).collect();
        prop_assert_eq!(left, stays);
    }
}
