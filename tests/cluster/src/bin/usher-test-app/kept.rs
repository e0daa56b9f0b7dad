//! A connection that stays open for many requests.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

use crate::unix_ns;

const LIMIT: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(50);

pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    request: String,
}

impl Connection {
    /// Connects to `HOST:PORT/PATH`, again and again until a request has succeeded.
    pub(crate) fn open(url: &str) -> Self {
        loop {
            if let Ok(connection) = Self::attempt(url) {
                println!("app-kept unix_ns={}", unix_ns());
                return connection;
            }
            thread::sleep(STEP);
        }
    }

    fn attempt(url: &str) -> Result<Self, String> {
        let (authority, path) = url.split_once('/').unwrap_or((url, ""));
        let stream = TcpStream::connect(authority).map_err(|error| error.to_string())?;
        stream
            .set_read_timeout(Some(LIMIT))
            .map_err(|error| error.to_string())?;
        let mut connection = Self {
            stream: BufReader::new(stream),
            request: format!("GET /{path} HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
        };
        connection.request()?;
        Ok(connection)
    }

    /// Sends one request. It fails when the connection has ended, or the response is not successful.
    pub(crate) fn request(&mut self) -> Result<(), String> {
        let status = self.exchange().map_err(|error| error.to_string())?;
        let is_good = (200..300).contains(&status);
        is_good.then_some(()).ok_or(format!("status {status}"))
    }

    fn exchange(&mut self) -> std::io::Result<u16> {
        self.stream.get_mut().write_all(self.request.as_bytes())?;
        let (mut status, mut length) = (0, 0_u64);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest
                    .get(..3)
                    .and_then(|code| code.parse().ok())
                    .unwrap_or(0);
            } else if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        std::io::copy(&mut (&mut self.stream).take(length), &mut std::io::sink())?;
        Ok(status)
    }
}
