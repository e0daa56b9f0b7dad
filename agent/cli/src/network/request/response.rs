//! Receives a response.

use std::{fmt, io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use usher_inspect::http::{Body, Head, body, head};

use super::output::Output;

/// Size of one read.
const CHUNK: usize = 64 * 1024;

#[derive(Debug)]
pub(super) enum Ended {
    Whole,
    /// The server closed the connection too early.
    Cut,
    Broken(io::Error),
    Late(Duration),
    /// The body is longer than the limit.
    TooLong(u64),
    Head(head::Error),
    Body(body::Error),
    /// Standard output cannot be written.
    Unwritable(io::Error),
    /// The reader of standard output closed it.
    ReaderClosed,
}

impl Ended {
    pub(super) fn from_output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderClosed,
            _ => Self::Unwritable(error),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole | Self::ReaderClosed => f.write_str("the response is complete"),
            Self::Cut => f.write_str("the connection was closed"),
            Self::Broken(error) => write!(f, "the connection failed: {error}"),
            Self::Unwritable(error) => write!(f, "cannot write to standard output: {error}"),
            Self::Late(limit) => {
                write!(f, "the rest was not received within {limit:?} (--timeout)")
            }
            Self::TooLong(limit) => write!(f, "the body is longer than {limit} bytes (--max-size)"),
            Self::Head(error) => error.fmt(f),
            Self::Body(error) => error.fmt(f),
        }
    }
}

/// The part of a response that was received.
#[derive(Debug)]
pub(super) struct Response {
    is_head_request: bool,
    max_body: u64,
    /// Bytes that are not parsed yet.
    unread: Vec<u8>,
    head: Option<(u16, Body)>,
    received: u64,
}

impl Response {
    pub(super) fn new(is_head_request: bool, max_body: u64) -> Self {
        Self {
            is_head_request,
            max_body,
            unread: Vec::new(),
            head: None,
            received: 0,
        }
    }

    /// The status, as soon as it is known.
    pub(super) fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|(status, _)| *status)
    }

    /// Parses and prints received bytes, and returns whether the response is complete.
    fn take(&mut self, bytes: &[u8], output: &mut Output) -> Result<bool, Ended> {
        if self.head.is_some() {
            return self.body(bytes, output);
        }
        self.unread.extend_from_slice(bytes);
        while let Some(head) =
            Head::read(&self.unread, self.is_head_request).map_err(Ended::Head)?
        {
            let rest = self.unread.split_off(head.length);
            let bytes = std::mem::replace(&mut self.unread, rest);
            output.head(&bytes).map_err(Ended::from_output)?;
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
        let (max_body, received) = (self.max_body, &mut self.received);
        let mut shown = Ok(());
        let read = body.read(bytes, |part| {
            let room = usize::try_from(max_body - *received).unwrap_or(usize::MAX);
            let part_shown = &part[..part.len().min(room)];
            *received += part_shown.len() as u64;
            if shown.is_ok() {
                shown = output.body(part_shown).map_err(Ended::from_output);
            }
            if shown.is_ok() && part.len() > room {
                shown = Err(Ended::TooLong(max_body));
            }
        });
        shown?;
        output.flush().map_err(Ended::from_output)?;
        read.map_err(Ended::Body)?;
        Ok(body.is_complete())
    }

    fn may_end(&self) -> bool {
        self.head.as_ref().is_some_and(|(_, body)| body.may_end())
    }
}

/// Sends a request and prints the response. A server may respond before the whole request was sent.
pub(super) async fn exchange(
    mut stream: TcpStream,
    sent: &[u8],
    response: &mut Response,
    output: &mut Output,
) -> Ended {
    let (mut reader, mut writer) = stream.split();
    let send = async {
        // A server that rejects the request while it is sent gives the reason in its response.
        drop(writer.write_all(sent).await);
        std::future::pending::<Ended>().await
    };
    let receive = async {
        let mut part = vec![0; CHUNK];
        loop {
            let length = match reader.read(&mut part).await {
                Ok(0) if response.may_end() => return Ended::Whole,
                Ok(0) => return Ended::Cut,
                Ok(length) => length,
                Err(error) => return Ended::Broken(error),
            };
            match response.take(&part[..length], output) {
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
