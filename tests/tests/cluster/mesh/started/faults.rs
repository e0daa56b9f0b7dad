//! The holder of an app's start is killed: the app runs, and its connections are held.

use jiff::Timestamp;
use usher_cluster::mesh::Proxy;

use super::{
    rig::{self, Waiting},
    variant,
};
use crate::lab::{self, Lab, until};

/// Kills during a held start; the app runs although its proxy is not ready. The next start is held again.
fn app_runs_after(lab: &'static Lab, what: &str, pids: &dyn Fn() -> Vec<String>) {
    let mut waiting = Waiting::begin(lab, &[rig::pod(what, &variant(Proxy::Last))]);
    waiting.held(0);
    let before = pids();
    assert_ne!(before, [""; 0], "no process to kill");
    let killed = lab.agent_pids().iter().any(|pid| before.contains(pid));
    let since = Timestamp::now();
    for pid in &before {
        lab.cluster.in_node(&["kill", "-KILL", pid]).unwrap();
    }
    waiting.has_run();
    waiting.proceed();
    let run = waiting.ended();
    // The kernel holds its connection without either of them.
    assert_eq!((run.answer, run.refused, run.exit_code), (Ok(200), 0, 0));
    until("who takes their place", || {
        let now = pids();
        (!now.is_empty() && now.iter().all(|pid| !before.contains(pid))).then_some(())
    });
    until("an agent that works", || {
        (!killed || has_begun(lab, since)).then_some(())
    });
    let again = format!("{what}-again");
    let mut waiting = Waiting::begin(lab, &[rig::pod(&again, &variant(Proxy::Last))]);
    waiting.held(0);
    assert!(waiting.runs().is_empty());
    waiting.proceed();
    let run = waiting.ended();
    assert_eq!((run.answer, run.exit_code), (Ok(200), 0));
}

/// A fresh agent, because the kubelet's backoff for a killed agent grows.
fn deploy_anew(lab: &Lab) {
    lab.remove_agent();
    lab.deploy();
}

/// Whether an agent has started to work since then.
fn has_begun(lab: &Lab, since: Timestamp) -> bool {
    let lines = lab.log_since(since);
    lines
        .iter()
        .any(|line| line.text("message") == "watching pods")
}

#[test]
fn app_runs_when_the_holder_is_killed() {
    let Some(lab) = lab::alone() else {
        return;
    };
    app_runs_after(&lab, "no-holder", &|| lab.holder_pids());
}

#[test]
fn app_runs_when_the_agent_is_killed() {
    let Some(lab) = lab::alone() else {
        return;
    };
    deploy_anew(&lab);
    app_runs_after(&lab, "no-agent", &|| lab.agent_pids());
}

#[test]
fn app_runs_when_both_are_killed() {
    let Some(lab) = lab::alone() else {
        return;
    };
    deploy_anew(&lab);
    let both = || [lab.holder_pids(), lab.agent_pids()].concat();
    app_runs_after(&lab, "neither", &both);
}
