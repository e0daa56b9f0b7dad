//! Writes lines on a thread. write(2) blocks while the reader stalls, but a signal must still end the program.

use std::{future::pending, io, os::fd::AsFd, thread};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::{mpsc, oneshot};

use crate::{failure::Failure, output::stdout, stderr::print_stderr};

#[derive(Debug)]
enum Text {
    Answer(String),
    Complaint(String),
}

/// Sends texts to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    texts: mpsc::Sender<Text>,
    written: mpsc::Receiver<io::Result<()>>,
}

impl Writer {
    pub(super) fn start() -> Result<Self, Failure> {
        let (texts, to_write) = mpsc::channel(1);
        let (results, written) = mpsc::channel(1);
        thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || run(to_write, &results))
            .map_err(|error| Failure::unavailable(format!("cannot begin to write: {error}")))?;
        Ok(Self { texts, written })
    }

    /// Writes a part of the answer. A caller that drops this future must not write again.
    pub(super) async fn write(&mut self, text: String) -> io::Result<()> {
        self.give(Text::Answer(text)).await
    }

    /// Prints a message to stderr, which may have no reader.
    pub(super) async fn print_stderr(&mut self, line: String) {
        drop(self.give(Text::Complaint(line)).await);
    }

    async fn give(&mut self, text: Text) -> io::Result<()> {
        let ended = || io::Error::other("its thread has ended");
        self.texts.send(text).await.map_err(|_unsent| ended())?;
        self.written.recv().await.unwrap_or_else(|| Err(ended()))
    }
}

/// Waits until the other end of a stream is closed. A file has none.
pub(super) async fn closed(stream: impl AsFd + Send + 'static) {
    let (open, closed) = oneshot::channel::<()>();
    let wait = move || {
        // The events of a closed end are always reported.
        let mut stream = [PollFd::new(stream.as_fd(), PollFlags::empty())];
        // Interrupted only by a signal that ends the program.
        let _closed = poll(&mut stream, PollTimeout::NONE);
        drop(open);
    };
    match thread::Builder::new()
        .name("other-end".to_owned())
        .spawn(wait)
    {
        Ok(_thread) => drop(closed.await),
        Err(_no_thread) => pending().await,
    }
}

fn run(mut texts: mpsc::Receiver<Text>, results: &mpsc::Sender<io::Result<()>>) {
    while let Some(text) = texts.blocking_recv() {
        let written = match text {
            Text::Answer(text) => stdout::write(&text),
            Text::Complaint(line) => {
                print_stderr(&line);
                Ok(())
            }
        };
        if results.blocking_send(written).is_err() {
            return;
        }
    }
}
