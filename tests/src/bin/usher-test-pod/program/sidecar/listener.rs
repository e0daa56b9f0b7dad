//! The ports of a sidecar.
//!
//! For each request it prints `request <ns> <port> <method> <path>`, with the
//! time at which the head is complete.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use usher_tests::synthetic::clock::monotonic_ns;
use usher_tests::synthetic::wire::{Answer, Effect, Listener, Place, Speech};

use super::request::Request;
use super::{Verdict, end_after, original};
use crate::say;

/// The delay between two bytes of a trickle.
const DROP: Duration = Duration::from_millis(50);

/// Accepts on all ports.
pub(super) fn open(listeners: &[Listener], verdict: &Sender<Verdict>) {
    for listener in listeners {
        let port = listener.port;
        // Before the line: a waiting test may see it before a stamp that is taken afterwards.
        let begun_ns = monotonic_ns();
        let opened = match listener.speech {
            Speech::Http => bind(listener.place, port).map(Some),
            Speech::Original => bind(listener.place, port).and_then(original::serve),
            Speech::Datagram => original::come_back(port),
        };
        let socket = match opened {
            Ok(socket) => socket,
            Err(error) => {
                say(&format!("failed listen on port {port}: {error}"));
                return;
            }
        };
        say(&format!("listening {port} {begun_ns}"));
        let Some(socket) = socket else { continue };
        let verdict = verdict.clone();
        let shared = Arc::new((listener.clone(), AtomicU32::new(listener.lost)));
        std::thread::spawn(move || {
            for stream in socket.incoming().map_while(Result::ok) {
                let (verdict, shared) = (verdict.clone(), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &shared.0, &shared.1, verdict));
            }
        });
    }
}

fn bind(place: Place, port: u16) -> std::io::Result<TcpListener> {
    match place {
        Place::Loopback => TcpListener::bind((Ipv4Addr::LOCALHOST, port)),
        Place::Loopback6 => TcpListener::bind((Ipv6Addr::LOCALHOST, port)),
        // Accepts both families, unless the machine has only one.
        Place::Everywhere => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_no_ipv6| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))),
    }
}

fn serve(mut stream: TcpStream, listener: &Listener, lost: &AtomicU32, verdict: Sender<Verdict>) {
    let Some(request) = Request::read(&mut stream) else {
        return;
    };
    let now = monotonic_ns();
    let one_less = |left: u32| left.checked_sub(1);
    let is_lost = lost
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
        .is_ok();
    let mut routes = listener.routes.iter();
    let (answer, effect) = if is_lost {
        (Answer::Nothing, Effect::Stay)
    } else if let Some(route) = routes.find(|route| request.fits(route)) {
        (route.answer.clone(), route.effect)
    } else {
        (Answer::Status(404), Effect::Stay)
    };
    let say_it = || say(&format!("request {now} {} {}", listener.port, request.line));
    let quits = matches!(effect, Effect::Quit { .. });
    // After the reply, so that this line does not slow the measured path. A process that should not
    // end by this request may end immediately after it.
    if !quits {
        say_it();
    }
    let sent = send(&mut stream, &answer);
    if quits {
        say_it();
    }
    if sent.is_err() {
        return;
    }
    match answer {
        Answer::Endless => {
            let block = [b'x'; 16 * 1024];
            while stream.write_all(&block).is_ok() {}
        }
        Answer::Trickle => {
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(DROP);
            }
        }
        Answer::Status(_) | Answer::Json(_) | Answer::Nothing | Answer::Redirect(_) => {}
    }
    match effect {
        Effect::Stay => {}
        Effect::Quit { after, code } => end_after(after, code, verdict),
        Effect::Hang => wait_for_close(&mut stream),
        Effect::Reset => reset(stream),
    }
}

fn send(stream: &mut TcpStream, answer: &Answer) -> std::io::Result<()> {
    let (code, kind, body) = match answer {
        Answer::Nothing => return Ok(()),
        Answer::Endless => {
            return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
        }
        Answer::Trickle => return stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: "),
        Answer::Redirect(to) => {
            let text =
                format!("HTTP/1.1 307 Synthetic\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
            return stream.write_all(text.as_bytes());
        }
        // A response with status 204 has no body.
        Answer::Status(204) => return stream.write_all(b"HTTP/1.1 204 Synthetic\r\n\r\n"),
        Answer::Status(code) => (*code, "text/plain", "ok"),
        Answer::Json(body) => (200, "application/json", body.as_str()),
    };
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {code} Synthetic\r\nContent-Length: {length}\r\nContent-Type: {kind}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes())
}

/// Closes with RST instead of FIN: SO_LINGER of zero
/// ([socket(7)](https://man7.org/linux/man-pages/man7/socket.7.html)).
fn reset(stream: TcpStream) {
    let at_once = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // Without the option the connection is closed normally, which is nearly the same.
    setsockopt(&stream, sockopt::Linger, &at_once).ok();
    drop(stream);
}

fn wait_for_close(stream: &mut TcpStream) {
    let mut block = [0; 256];
    while stream.read(&mut block).is_ok_and(|read| read > 0) {}
}
