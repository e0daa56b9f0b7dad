//! The programs that are not servers: pause, app and wrapper.
//!
//! The last act of an app writes the time to its standard output, a
//! pipe that no process waits on, so that the stamp itself wakes no process. A pid 1
//! has no default action for SIGTERM
//! ([pid_namespaces(7)](https://man7.org/linux/man-pages/man7/pid_namespaces.7.html)),
//! which is why pause waits for it explicitly.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use usher_tests::synthetic::clock::monotonic_ns;
use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::End;

use crate::{BROKEN, say};

/// Runs until SIGTERM, and reaps orphans if the pod
/// shares its pid namespace.
pub(crate) fn pause() -> ExitCode {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD] {
        signals.add(signal);
    }
    if signals.thread_block().is_err() {
        return ExitCode::from(BROKEN);
    }
    loop {
        match signals.wait() {
            Ok(Signal::SIGCHLD) => {
                let reap = || waitpid(None, Some(WaitPidFlag::WNOHANG));
                while reap().is_ok_and(|status| status != WaitStatus::StillAlive) {}
            }
            Ok(_) => return ExitCode::SUCCESS,
            Err(_) => return ExitCode::from(BROKEN),
        }
    }
}

/// Runs until it is terminated, or for its time; then stamps and exits.
pub(crate) fn app(end: End) -> ExitCode {
    let code = match end {
        End::OnCommand => code_on_command(),
        End::After { life, code } => {
            std::thread::sleep(life);
            code
        }
    };
    let mut stamp = *b"exit 00000000000000000000\n";
    let digits = stamp.len() - 1;
    let mut now = monotonic_ns();
    for digit in stamp[5..digits].iter_mut().rev() {
        *digit = b'0' + u8::try_from(now % 10).expect("a decimal digit");
        now /= 10;
    }
    // When this fails, no process reads the pipe any more.
    drop(std::io::stdout().lock().write_all(&stamp));
    ExitCode::from(code)
}

/// Reads `exit <code> [<ns>]` from the standard input, and waits for that
/// nanosecond; at the end of input it returns a code that no test requests.
fn code_on_command() -> u8 {
    let mut line = Vec::with_capacity(16);
    let mut byte = [0];
    let mut input = std::io::stdin().lock();
    while let Ok(1) = input.read(&mut byte) {
        if byte != *b"\n" {
            line.extend(byte);
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        let mut words = text.split(' ').skip(1);
        if let Some(code) = words.next().and_then(|code| code.parse().ok()) {
            let at_ns: u64 = words.next().and_then(|at| at.parse().ok()).unwrap_or(0);
            let left = at_ns.saturating_sub(monotonic_ns());
            std::thread::sleep(Duration::from_nanos(left));
            return code;
        }
        line.clear();
    }
    BROKEN
}

/// The baseline of scuttle and similar wrappers: runs the app as a child, waits for its exit,
/// requests the sidecar to quit, and exits with the app's code.
pub(crate) fn wrapper(port: u16, end: End) -> ExitCode {
    let json = serde_json::to_string(&end).expect("plain data");
    let mut command = Command::new(program::IN_CONTAINER);
    command.arg("child").arg(json).stdin(Stdio::inherit());
    let status = match command.spawn().and_then(|mut child| child.wait()) {
        Ok(status) => status,
        Err(error) => {
            say(&format!("failed wrapper's child: {error}"));
            return ExitCode::from(BROKEN);
        }
    };
    if let Err(error) = ask_to_quit(port) {
        say(&format!("wrapper {error}"));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(BROKEN))
}

fn ask_to_quit(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let request = format!(
        "POST /quitquitquit HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut reply = [0; 512];
    stream.read(&mut reply).map(|_| ())
}
