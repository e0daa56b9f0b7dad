//! Reads the processes of containers in turns, in which the thread does nothing else.
//!
//! A container may have tens of thousands of processes, and the kernel lists up to 65,536 groups for each. Those of all
//! such containers together take about half of the thread's time, besides the first and the last turn of each read.

use std::time::{Duration, Instant};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::sleep,
};

/// The length of a turn, and of the pause after it.
const TURN: Duration = Duration::from_millis(2);

static LONG: Semaphore = Semaphore::const_new(1);

/// The turns of one container.
#[derive(Debug)]
pub(super) struct Turns {
    begun: Instant,
    /// A turn of this read or of the one before was too short for all processes: each turn needs the permit.
    are_long: bool,
    has_paused: bool,
    permit: Option<SemaphorePermit<'static>>,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            are_long: false,
            has_paused: false,
            permit: None,
        }
    }

    /// Begins the read of all processes.
    pub(super) async fn begin(&mut self) {
        self.has_paused = false;
        self.take_turn().await;
    }

    async fn take_turn(&mut self) {
        if self.are_long {
            self.permit = LONG.acquire().await.ok();
        }
        self.begun = Instant::now();
    }

    /// Pauses if the turn is over, and begins the next one.
    pub(super) async fn pause_if_over(&mut self) {
        if self.begun.elapsed() >= TURN {
            (self.are_long, self.has_paused) = (true, true);
            sleep(TURN).await;
            self.permit = None;
            self.take_turn().await;
        }
    }

    pub(super) fn end(&mut self) {
        self.permit = None;
        self.are_long = self.has_paused;
    }
}
