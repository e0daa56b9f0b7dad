//! An answer as it comes.

use std::{fmt, io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use usher_inspect::http::{Body, Head, body, head};

use super::output::Output;

/// How much is read at once.
const PART: usize = 64 * 1024;

/// How an answer ended.
#[derive(Debug)]
pub(super) enum Ended {
    Whole,
    /// The connection ended before.
    Cut,
    /// It broke.
    Broken(io::Error),
    /// There was no end to it in time.
    Late(Duration),
    /// It is longer than it may be.
    TooLong(u64),
    /// It is none.
    Head(head::Error),
    Body(body::Error),
    /// It cannot be shown.
    Unwritable(io::Error),
    /// Nobody reads what is shown.
    Unread,
}

impl Ended {
    /// What could not be shown.
    pub(super) fn unshown(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Unwritable(error),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole | Self::Unread => f.write_str("it ended"),
            Self::Cut => f.write_str("the connection was closed"),
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
            Self::Unwritable(error) => write!(f, "it cannot be written: {error}"),
            Self::Late(limit) => write!(f, "the rest did not come within {limit:?} (--timeout)"),
            Self::TooLong(limit) => write!(f, "the body is longer than {limit} bytes (--max-size)"),
            Self::Head(error) => error.fmt(f),
            Self::Body(error) => error.fmt(f),
        }
    }
}

/// What has come of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    asked_for_head: bool,
    most: u64,
    /// What is not understood yet.
    unread: Vec<u8>,
    head: Option<(u16, Body)>,
    taken: u64,
}

impl Answer {
    pub(super) fn new(asked_for_head: bool, most: u64) -> Self {
        Self {
            asked_for_head,
            most,
            unread: Vec::new(),
            head: None,
            taken: 0,
        }
    }

    /// The status, as soon as it is known.
    pub(super) fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|(status, _)| *status)
    }

    /// Takes what came, shows it, and says whether that was the end.
    fn take(&mut self, bytes: &[u8], output: &mut Output) -> Result<bool, Ended> {
        if self.head.is_some() {
            return self.body(bytes, output);
        }
        self.unread.extend_from_slice(bytes);
        while let Some(head) = Head::read(&self.unread, self.asked_for_head).map_err(Ended::Head)? {
            let rest = self.unread.split_off(head.length);
            let bytes = std::mem::replace(&mut self.unread, rest);
            output.head(&bytes).map_err(Ended::unshown)?;
            if !head.is_interim() {
                self.head = Some((head.status, Body::new(head.framing)));
                let rest = std::mem::take(&mut self.unread);
                return self.body(&rest, output);
            }
        }
        Ok(false)
    }

    fn body(&mut self, bytes: &[u8], output: &mut Output) -> Result<bool, Ended> {
        let Some((_, body)) = &mut self.head else {
            return Ok(false);
        };
        let (most, taken) = (self.most, &mut self.taken);
        let mut shown = Ok(());
        let read = body.read(bytes, |part| {
            let room = usize::try_from(most - *taken).unwrap_or(usize::MAX);
            let part_shown = &part[..part.len().min(room)];
            *taken += part_shown.len() as u64;
            if shown.is_ok() {
                shown = output.body(part_shown).map_err(Ended::unshown);
            }
            if shown.is_ok() && part.len() > room {
                shown = Err(Ended::TooLong(most));
            }
        });
        shown?;
        output.flush().map_err(Ended::unshown)?;
        read.map_err(Ended::Body)?;
        Ok(body.is_complete())
    }

    fn may_end(&self) -> bool {
        self.head.as_ref().is_some_and(|(_, body)| body.may_end())
    }
}

/// Sends a request and shows what comes. Whoever answers before all of it was sent is heard as well.
pub(super) async fn exchange(
    mut stream: TcpStream,
    sent: &[u8],
    answer: &mut Answer,
    output: &mut Output,
) -> Ended {
    let (mut reader, mut writer) = stream.split();
    let send = async {
        // Who does not want all of it says why in the answer.
        drop(writer.write_all(sent).await);
        std::future::pending::<Ended>().await
    };
    let receive = async {
        let mut part = vec![0; PART];
        loop {
            let length = match reader.read(&mut part).await {
                Ok(0) if answer.may_end() => return Ended::Whole,
                Ok(0) => return Ended::Cut,
                Ok(length) => length,
                Err(error) => return Ended::Broken(error),
            };
            match answer.take(&part[..length], output) {
                Ok(false) => {}
                Ok(true) => return Ended::Whole,
                Err(ended) => return ended,
            }
        }
    };
    tokio::select! {
        ended = send => ended,
        ended = receive => ended,
    }
}
