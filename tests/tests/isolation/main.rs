//! The real agent, and pods whose packet filter takes seconds for each packet: all other pods are served as if such a pod
//! did not exist, and the agent can be killed and replaced.
//!
//! Each attack is compared with the same node without one, measured right before. The limits are generous: an agent that
//! waits for a pod exceeds them many times. `limit` has the budget of each time on a machine with a free processor,
//! and a failed test prints what was measured.
//!
//! Alone in its binary, one test at a time: a thread that runs such rules takes a processor.
//!
//! Needs root, built programs (`cargo build --workspace --bins`) and the programs `ip`, `nft` and `nsenter`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attack;
mod cli;
mod hold;
mod limit;
mod quit;

use std::sync::{Mutex, PoisonError};

use usher_tests::isolation::Attack;
use usher_tests::privilege;

use limit::Comparison;

/// A busy machine may exceed a limit in one try. An agent that waits for a pod exceeds it in each.
const TRIES: usize = 5;

static ALONE: Mutex<()> = Mutex::new(());

/// Runs the attack, and expects that it affects no other pod and not the agent: no limit is exceeded in each try.
fn affects_nothing_else(attack: &Attack) {
    if !privilege::granted_with(&["ip", "nft", "nsenter"]) {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut exceeded = Comparison::of(attack).exceeded();
    for _ in 1..TRIES {
        if exceeded.is_empty() {
            break;
        }
        let mut again = Comparison::of(attack).exceeded();
        exceeded.retain(|what, tries| match again.remove(what) {
            Some(more) => {
                tries.extend(more);
                true
            }
            None => false,
        });
    }
    assert!(
        exceeded.is_empty(),
        "exceeded in each of {TRIES} tries: {exceeded:#?}"
    );
}
