//! Other processes write the files at the same time.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use usher_client::install::{error::Error, step};
use usher_core::cni::conflist::Kind;

use super::host::*;

const TEMPORARY: &str = ".usher-cni.1.tmp";
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn concurrent_write_is_kept() {
    let newer = LIST.replace("bridge", "ptp");
    for (name, text) in [(LIST_FILE, LIST), (CONF_FILE, CONF)] {
        let host = Host::with(name, text);
        let new = "{}".to_owned();
        let steps = if name == LIST_FILE {
            step::rewrite(name, text.as_bytes(), new)
        } else {
            step::become_another(name, text.as_bytes(), LIST_FILE.to_owned(), new)
        };
        // Another process changes the file after the first step, which stages the new text.
        for step in &steps[..1] {
            step.run(&host.conf_dir(), TEMPORARY).unwrap();
        }
        host.write(name, &newer);
        let lost = step::run(&host.conf_dir(), TEMPORARY, &steps[1..]).unwrap_err();
        assert!(matches!(lost, Error::Changed { .. }), "{lost}");
        assert_eq!(host.text(name), newer);
        assert!(!host.conf_dir().join(TEMPORARY).exists());
    }
}

#[test]
fn removed_file_is_not_created_again() {
    let host = Host::with(LIST_FILE, LIST);
    let steps = step::rewrite(LIST_FILE, LIST.as_bytes(), "{}".to_owned());
    steps[0].run(&host.conf_dir(), TEMPORARY).unwrap();
    fs::remove_file(host.conf_dir().join(LIST_FILE)).unwrap();
    let lost = step::run(&host.conf_dir(), TEMPORARY, &steps[1..]).unwrap_err();
    assert!(matches!(lost, Error::Changed { .. }), "{lost}");
    assert!(host.files().is_empty());
}

/// One thread writes increasing numbers and the other edits the file: an edit never replaces a newer number.
#[test]
fn newest_text_of_a_fast_writer_survives() {
    const ROUNDS: usize = 1000;
    let host = Host::with(LIST_FILE, "0");
    let edited = |text: &str| format!("{} edited", text.trim_end_matches(" edited"));
    let is_done = AtomicBool::new(false);
    let lost = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                let was = host.text(LIST_FILE);
                let steps = step::rewrite(LIST_FILE, was.as_bytes(), edited(&was));
                match step::run(&host.conf_dir(), TEMPORARY, &steps) {
                    Ok(()) | Err(Error::Changed { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let lost = (1..=ROUNDS).find(|round| {
            let deadline = Instant::now() + PATIENCE;
            host.write(LIST_FILE, &round.to_string());
            while host.text(LIST_FILE) != edited(&round.to_string()) {
                if Instant::now() > deadline {
                    return true;
                }
            }
            false
        });
        is_done.store(true, Ordering::Release);
        lost
    });
    assert_eq!(lost, None, "{:?}", host.files());
}

#[test]
fn two_agents_at_once_agree() {
    for (name, text) in [(LIST_FILE, LIST), (CONF_FILE, CONF)] {
        for _ in 0..20 {
            let host = Host::with(name, text);
            let mut agents = [host.installer(), host.installer()];
            thread::scope(|scope| {
                for agent in &mut agents {
                    scope.spawn(move || {
                        let mut now = Instant::now();
                        // This test has no backoff, so each writer may lose several times.
                        for _ in 0..10 {
                            let Some(next) = agent.reconcile(now) else {
                                break;
                            };
                            now = next;
                        }
                    });
                }
            });
            for agent in &mut agents {
                settle(agent, Instant::now());
                assert_eq!(agent.state, installed(LIST_FILE));
            }
            let kind = if name == LIST_FILE {
                Kind::ConfList
            } else {
                Kind::Conf
            };
            assert_eq!(host.text(LIST_FILE), host.inserted(text, kind));
            assert_eq!(host.files().len(), 1);
            assert_eq!(host.binary().unwrap(), "plugin 1");
        }
    }
}
