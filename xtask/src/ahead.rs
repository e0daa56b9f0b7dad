//! What takes minutes of processor time, built beside tests that wait most of the time.
//!
//! With the scheduling policy `SCHED_IDLE` ([sched(7)](https://man7.org/linux/man-pages/man7/sched.7.html)) it has what the tests
//! leave of the processors.

use std::{
    path::PathBuf,
    process::Command,
    thread::{self, JoinHandle},
};

use anyhow::{Context, Result, bail};
use nix::unistd::gettid;
use usher_cluster::progress::say;

use crate::{fuzz, image, workspace::run};

/// A build that goes on.
#[derive(Debug)]
pub(crate) struct Ahead(JoinHandle<Result<Option<PathBuf>>>);

/// Begins to build the fuzz targets, where there is a compiler for them, and the agent's image where it is wanted.
pub(crate) fn begin(with_image: bool) -> Ahead {
    Ahead(thread::spawn(move || {
        if let Err(error) = yield_to_all() {
            say(&format!(
                "building beside the tests as one of them: {error:#}"
            ));
        }
        if fuzz::has_compiler().is_ok() {
            fuzz::build()?;
        }
        with_image.then(image::agent).transpose()
    }))
}

impl Ahead {
    /// Waits for its end, and gives the image's archive.
    pub(crate) fn finish(self) -> Result<Option<PathBuf>> {
        match self.0.join() {
            Ok(built) => built,
            Err(_) => bail!("the thread that builds panicked"),
        }
    }
}

/// For this thread and what it starts.
fn yield_to_all() -> Result<()> {
    let mut chrt = Command::new("chrt");
    chrt.args(["--idle", "--pid", "0", &gettid().to_string()]);
    run(&mut chrt).context("take the scheduling policy of what may wait")
}
