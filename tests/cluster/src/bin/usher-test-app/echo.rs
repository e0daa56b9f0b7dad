//! A client that sends one datagram and expects it back, and its server.

use std::{
    net::UdpSocket,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::unix_ns;

/// The timeout of the datagram. It is sent once: a lost one is a failure.
const LIMIT: Duration = Duration::from_secs(5);
const MESSAGE: &[u8] = b"usher";

/// Sends one datagram to `HOST:PORT` and prints the result: `app-echo unix_ns=N us=N`, the time at which it
/// was sent and its round-trip time, with `error=...` at the end if it did not come back.
pub(crate) fn ask(address: &str) -> Result<bool> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).context("make a UDP socket")?;
    socket
        .set_read_timeout(Some(LIMIT))
        .context("bound the wait for an echo")?;
    let (sent, before) = (unix_ns(), Instant::now());
    let mut echo = [0; 64];
    let came = socket
        .connect(address)
        .and_then(|()| socket.send(MESSAGE))
        .and_then(|_| socket.recv(&mut echo));
    let us = before.elapsed().as_micros();
    let error = match came {
        Ok(length) if echo.get(..length) == Some(MESSAGE) => {
            println!("app-echo unix_ns={sent} us={us}");
            return Ok(true);
        }
        Ok(length) => format!("another message, of {length} bytes"),
        Err(error) => error.to_string(),
    };
    println!("app-echo unix_ns={sent} us={us} error={error}");
    Ok(false)
}

/// Returns every datagram.
pub(crate) fn serve(socket: &UdpSocket) {
    let mut message = [0; 2048];
    loop {
        let echoed = socket
            .recv_from(&mut message)
            .and_then(|(length, from)| socket.send_to(&message[..length], from));
        if let Err(error) = echoed {
            println!("app-serve-echo error={error}");
        }
    }
}
