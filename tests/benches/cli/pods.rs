//! `usher pods` on a full node, with its agent and without.

use usher_tests::record::{Limit, Record};
use usher_tests::synthetic::{Agent, Node, PodSpec, usher};

use crate::run::{Runs, most_mib, repeat};

/// More than a kubelet runs by default.
const PODS: usize = 250;
/// The limit of the agent's container, in which the program runs; the agent needs a quarter of it.
const MEMORY_MIB: f64 = 64.0;

pub(crate) fn measure(record: &mut Record, runs: usize) {
    let node = Node::new();
    let specs: Vec<PodSpec> = (0..PODS)
        .map(|number| PodSpec::job(&format!("pod-{number}")))
        .collect();
    let pods = node.run_all(&specs);
    let usher = |arguments: &[&str]| {
        repeat(runs, || {
            let mut command = usher::command_on(&node);
            command.args(arguments);
            command
        })
    };
    record.section(&format!("{PODS} pods with two containers each"));
    let nothing = usher(&["--version"]);
    show(record, "usher --version", &nothing);
    let without = usher(&["pods"]);
    show(record, "usher pods without an agent", &without);
    let agent = Agent::start(&node);
    // For each pod, once the kubelet has listed it.
    agent.wait_metric("usher_decisions_total", "decision=\"waiting\"", |count| {
        count >= PODS as f64
    });
    let with = usher(&["pods"]);
    show(record, "usher pods with an agent", &with);
    show(
        record,
        "usher pods -o json",
        &usher(&["pods", "-o", "json"]),
    );
    let dump = usher(&["sysdump", "--timeout", "60s"]);
    show(record, "usher sysdump", &dump);
    for (what, runs) in [("without", &without), ("with", &with)] {
        assert!(runs.lines > PODS, "{} lines {what} an agent", runs.lines);
        let p50 = runs.first.quantile_ms(0.5);
        let what = format!("first output of pods {what} an agent, p50, ms");
        record.limit("cli.first", &what, p50, Limit::AtMost(100.0));
    }
    record.limit(
        "cli.memory",
        "most memory, MiB",
        most_mib(),
        Limit::AtMost(MEMORY_MIB),
    );
    drop(agent);
    drop(pods);
}

fn show(record: &mut Record, what: &str, runs: &Runs) {
    record.times(&format!("{what}, first byte"), &runs.first);
    record.times(&format!("{what}, {} lines", runs.lines), &runs.whole);
}
