//! One HTTP request of an application that gives up at the first refusal, and its server.

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::unix_ns;

/// The interval between attempts, if there may be more than one.
const STEP: Duration = Duration::from_millis(2);
/// The timeout of a response after the connect.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";

/// The result of a request.
pub(crate) enum Answer {
    Status(u16),
    /// No connection, with the reason.
    Refused(String),
    /// A connection and no response, with the reason.
    Broken(String),
}

/// Requests `HOST:PORT/PATH` once, or repeatedly until the status is 200, and prints the result: `app-get
/// unix_ns=N since_start_us=N us=N tries=N refused=N unready_ns=N status=N`, or `error=...` at its end. The times are
/// those of the last response; `us` counts from the first attempt, and `unready_ns` is the start of the attempt before
/// the last one (0: there was none).
pub(crate) fn get(url: &str, retry_for: Option<Duration>, started: Instant) -> Result<Answer> {
    let (authority, path) = url.split_once('/').unwrap_or((url, ""));
    let before = Instant::now();
    let (mut tries, mut refused, mut unready) = (0, 0, 0);
    let answer = loop {
        let tried = unix_ns();
        let left = retry_for.map(|limit| limit.saturating_sub(before.elapsed()));
        let answer = once("GET", authority, path, left, ANSWER_LIMIT)?;
        tries += 1;
        refused += u32::from(matches!(answer, Answer::Refused(_)));
        let over = retry_for.is_none_or(|limit| before.elapsed() >= limit);
        if over || matches!(answer, Answer::Status(200)) {
            break answer;
        }
        unready = tried;
        thread::sleep(STEP);
    };
    let (us, since_start) = (before.elapsed().as_micros(), started.elapsed().as_micros());
    let outcome = match &answer {
        Answer::Status(status) => format!("status={status}"),
        Answer::Refused(error) | Answer::Broken(error) => format!("error={error}"),
    };
    println!(
        "app-get unix_ns={} since_start_us={since_start} us={us} tries={tries} refused={refused} unready_ns={unready} {outcome}",
        unix_ns()
    );
    Ok(answer)
}

/// Requests `HOST:PORT/PATH` once.
pub(crate) fn request(url: &str) -> Result<Answer> {
    let (authority, path) = url.split_once('/').unwrap_or((url, ""));
    once("GET", authority, path, None, ANSWER_LIMIT)
}

/// The same, with a limit for the connect and another for the response.
pub(crate) fn request_within(url: &str, limit: Duration) -> Result<Answer> {
    let (authority, path) = url.split_once('/').unwrap_or((url, ""));
    once("GET", authority, path, Some(limit), limit)
}

/// Whether `HOST:PORT/PATH` responds with 200 now.
pub(crate) fn is_ready(url: &str) -> Result<bool> {
    Ok(matches!(request(url)?, Answer::Status(200)))
}

/// Whether a POST to `HOST:PORT/PATH` was accepted.
pub(crate) fn post(url: &str) -> Result<bool> {
    let (authority, path) = url.split_once('/').unwrap_or((url, ""));
    Ok(matches!(
        once("POST", authority, path, None, ANSWER_LIMIT)?,
        Answer::Status(200)
    ))
}

/// Without a limit the connect has the kernel's timeout.
fn once(
    method: &str,
    authority: &str,
    path: &str,
    limit: Option<Duration>,
    answer_limit: Duration,
) -> Result<Answer> {
    let connected = match limit {
        None => TcpStream::connect(authority),
        // If loopback is down there is no refusal.
        Some(limit) => authority
            .parse()
            .map_err(std::io::Error::other)
            .and_then(|address| TcpStream::connect_timeout(&address, limit.max(STEP))),
    };
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(error) => return Ok(Answer::Refused(error.to_string())),
    };
    stream
        .set_read_timeout(Some(answer_limit))
        .context("bound the wait for an answer")?;
    let request = format!(
        "{method} /{path} HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    // "HTTP/1.1 200": the rest does not matter.
    let mut head = [0; 12];
    let asked = stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.read_exact(&mut head));
    Ok(match asked {
        Ok(()) => status(&head).map_or_else(|| Answer::Broken("not HTTP".into()), Answer::Status),
        Err(error) => Answer::Broken(error.to_string()),
    })
}

fn status(head: &[u8]) -> Option<u16> {
    std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()
}

/// Responds to every request with 200, one thread for each connection.
pub(crate) fn serve(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        thread::spawn(move || {
            if let Err(error) = answer(stream)
                && error.kind() != ErrorKind::UnexpectedEof
            {
                println!("app-serve error={error}");
            }
        });
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            length => request.extend(&part[..length]),
        }
    }
    stream.write_all(REPLY)
}
