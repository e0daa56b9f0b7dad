//! Cgroup directories that pods create and remove as fast as possible.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, Pod, PodSpec};

use crate::{ATTACKERS, another_is_quit, enforcing, finish_and_quit, is_sound};

/// The minimum while other pods are processed: more than the kernel's event queue can hold.
const DIRECTORIES: usize = 20_000;
const PODS: usize = 10;

/// Creates directories that look like containers', in each pod in turn, until it is stopped. Each is removed when so
/// many newer ones exist.
fn storm(pods: &[Pod], remaining: usize, made: &AtomicUsize, enough: &AtomicBool) {
    let mut existing = VecDeque::new();
    for pod in pods.iter().cycle() {
        if enough.load(Ordering::Relaxed) {
            break;
        }
        let number = made.fetch_add(1, Ordering::Relaxed);
        let directory = pod.cgroup().join(format!("{number:064x}"));
        std::fs::create_dir(&directory).unwrap();
        existing.push_back(directory);
        if existing.len() > remaining {
            std::fs::remove_dir(existing.pop_front().unwrap()).unwrap();
        }
    }
    for directory in existing {
        std::fs::remove_dir(directory).unwrap();
    }
}

#[test]
fn of_several_pods() {
    others_are_served(0);
}

/// They exist longer than the agent needs to see them.
#[test]
fn of_directories_that_remain() {
    others_are_served(100);
}

fn others_are_served(remaining: usize) {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let specs: Vec<PodSpec> = (0..ATTACKERS)
        .map(|number| PodSpec::job(&format!("storm-{number}")))
        .collect();
    let pods = node.run_all(&specs);
    let (made, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| storm(&pods, remaining, &made, &enough));
        // If a check fails, the storm ends.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 0..PODS {
                another_is_quit(&node, &agent, &format!("other-{number}"));
            }
            eventually("enough directories", || {
                made.load(Ordering::Relaxed) > DIRECTORIES
            });
            is_sound(&agent);
        }));
        enough.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    for pod in &pods {
        finish_and_quit(&agent, pod);
    }
    another_is_quit(&node, &agent, "last");
    is_sound(&agent);
}
