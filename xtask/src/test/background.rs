//! Work with the scheduling policy `SCHED_IDLE`, for processor time that the tests do not use
//! ([sched(7)](https://man7.org/linux/man-pages/man7/sched.7.html)).

use std::{
    path::PathBuf,
    process::Command,
    sync::mpsc::{self, Receiver},
    thread::{self, JoinHandle},
};

use anyhow::{Context, Result};
use nix::unistd::gettid;
use usher_cluster::{programs::Profile, progress::say};

use super::{Scope, fuzz, test_command};
use crate::{lint, release::image, step::Steps, workspace::run};

/// Builds the image first, because the cluster waits for it. Runs the rest while the tests wait for pods.
#[derive(Debug)]
pub(super) struct Background {
    image: Receiver<PathBuf>,
    thread: JoinHandle<Steps>,
}

impl Background {
    pub(super) fn start(scope: Scope) -> Self {
        let (sender, image) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut steps = Steps::keep_going("test");
            use_idle_time();
            if scope.has_clusters {
                steps.run("image of the agent", || {
                    // The receiver is gone if another step has failed.
                    image::agent(Profile::Quick).map(|archive| drop(sender.send(archive)))
                });
            }
            if scope.has_lint {
                steps.run("rustdoc", lint::documentation);
            }
            if scope.all {
                steps.run("examples in the documentation", || {
                    run(test_command(scope).arg("--doc"))
                });
                if fuzz::has_compiler().is_ok() {
                    steps.run("fuzz targets", fuzz::build);
                }
            }
            steps
        });
        Self { image, thread }
    }

    /// Waits for the image. Returns its archive.
    pub(super) fn image(&self) -> Result<PathBuf> {
        self.image.recv().context("the image was not built")
    }

    pub(super) fn into_thread(self) -> JoinHandle<Steps> {
        self.thread
    }
}

/// Sets the policy for this thread and the processes that it starts.
pub(super) fn use_idle_time() {
    let mut chrt = Command::new("chrt");
    chrt.args(["--idle", "--pid", "0", &gettid().to_string()]);
    if let Err(error) = run(&mut chrt) {
        say(&format!("background work at normal priority: {error:#}"));
    }
}
