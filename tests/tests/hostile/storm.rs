//! Cgroup directories that one pod creates and removes as fast as possible.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, PodSpec};

use crate::{another_is_quit, enforcing, finish_and_quit, is_sound};

/// The minimum while other pods are processed: more than the kernel's event queue can hold.
const DIRECTORIES: usize = 20_000;
const PODS: usize = 10;

/// Creates and removes directories that look like containers', until it is stopped.
fn storm(cgroup: &Path, made: &AtomicUsize, enough: &AtomicBool) {
    while !enough.load(Ordering::Relaxed) {
        let number = made.fetch_add(1, Ordering::Relaxed);
        let directory = cgroup.join(format!("{number:064x}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::remove_dir(&directory).unwrap();
    }
}

#[test]
fn of_one_pod() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("storm"));
    let (made, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| storm(pod.cgroup(), &made, &enough));
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
    finish_and_quit(&agent, &pod);
    another_is_quit(&node, &agent, "last");
    is_sound(&agent);
}
