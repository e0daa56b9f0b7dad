//! `usher conns` for a pod with an app that has thousands of connections through a mesh.

use std::process::Command;

use usher_tests::record::{Limit, Record};
use usher_tests::synthetic::spec::ISTIO_PROXY;
use usher_tests::synthetic::wire::{Capture, Holding};
use usher_tests::synthetic::{ContainerSpec, Node, Pod, PodSpec, usher};

use crate::run::{Runs, most_mib, repeat};

/// Connections of the app; the proxy has as many sockets for them.
const CONNECTIONS: usize = 5_000;
/// The kernel has more sockets than `usher` keeps.
const TOO_MANY: usize = 17_000;
/// The limit of the agent's container, in which the program runs; the agent needs a quarter of it.
const MEMORY_MIB: f64 = 64.0;

pub(crate) fn measure(record: &mut Record, runs: usize, quick: bool) {
    let node = Node::new();
    let sizes = if quick {
        &[CONNECTIONS][..]
    } else {
        &[CONNECTIONS, TOO_MANY]
    };
    for &connections in sizes {
        let pod = pod(&node, connections);
        let name = pod.name();
        let usher = |more: &[&str]| {
            repeat(runs, || {
                let mut command = usher::command_on(&node);
                command.args(["conns", &name]).args(more);
                command
            })
        };
        let people = usher(&[]);
        let programs = usher(&["-o", "json"]);
        let most = most_mib();
        let ss = |flags: &str| repeat(runs, || ss(&pod, flags));
        let (plain, with_processes) = (ss("-tan"), ss("-tanp"));
        record.section(&format!("usher conns, {connections} connections"));
        let sockets = u32::try_from(plain.lines).unwrap_or(u32::MAX);
        record.figure("sockets", sockets.into());
        // `ss` prints no header line here.
        let omitted = (plain.lines + 1).saturating_sub(people.lines);
        if omitted > 0 {
            let omitted = u32::try_from(omitted).unwrap_or(u32::MAX);
            record.figure("sockets not printed", omitted.into());
        }
        show(record, "usher conns", &people);
        show(record, "usher conns -o json", &programs);
        show(record, "ss -tan", &plain);
        show(record, "ss -tanp", &with_processes);
        let p50 = people.first.quantile_ms(0.5);
        let what = "first output of conns, p50, ms";
        record
            .limit("cli.first", what, p50, Limit::AtMost(100.0))
            .against("ss -tanp", with_processes.first.quantile_ms(0.5));
        record.limit(
            "cli.memory",
            "most memory, MiB",
            most,
            Limit::AtMost(MEMORY_MIB),
        );
    }
}

fn show(record: &mut Record, what: &str, runs: &Runs) {
    record.times(&format!("{what}, first byte"), &runs.first);
    record.times(&format!("{what}, {} lines", runs.lines), &runs.whole);
    record.times(&format!("{what}, CPU"), &runs.cpu);
}

fn pod(node: &Node, connections: usize) -> Pod {
    let proxy = Holding::default()
        .called("envoy")
        .listening("0.0.0.0:15001");
    let app = Holding::default().connected("10.7.7.7:8080", connections);
    let spec = PodSpec::new(&format!("many-{connections}"))
        .with(ContainerSpec::holding_proxy(proxy))
        .with(ContainerSpec::holding("app", app).later())
        .captured(Capture::default());
    let pod = node.run(&spec);
    pod.wait_line(ISTIO_PROXY, "holding");
    pod.start("app");
    pod.wait_line("app", "holding");
    pod
}

fn ss(pod: &Pod, flags: &str) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net={}", pod.network_path().display()))
        .args(["ss", "-H", flags]);
    command
}
