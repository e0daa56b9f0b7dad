//! A sidecar: small HTTP/1.1 servers that behave well or badly.
//!
//! One thread per port and one per connection, so a connection that hangs blocks no other one. The
//! main thread waits for the verdict, which decides how the process ends. `/proc/<pid>/ns` shows
//! the network namespace of the main thread, so that thread enters another pod's namespace.

mod listener;
mod original;
mod request;

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, Signal};
use usher_tests::synthetic::clock::monotonic_ns;
use usher_tests::synthetic::wire::{Listen, Listener, Reaction, Sidecar};

use crate::{BROKEN, name_process, program::proxy, say, say_running};

/// What the main thread should do.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    End(u8),
    EnterNetwork,
}

/// Serves until a verdict comes.
pub(crate) fn run(sidecar: Sidecar) -> ExitCode {
    if let Some(name) = &sidecar.process {
        name_process(name);
    }
    let mut signals = SigSet::empty();
    for (number, _) in &sidecar.signals {
        signals.extend(Signal::try_from(*number));
    }
    if signals.thread_block().is_err() {
        return ExitCode::from(BROKEN);
    }
    // The child's standard input is open for as long as this process lives.
    let child = sidecar.child.as_ref().map(proxy::start).transpose();
    if let Err(reason) = &child {
        say(&format!("failed {reason}"));
        return ExitCode::from(BROKEN);
    }
    say_running();
    let (verdict, verdicts) = channel();
    let (reactions, on_signal) = (sidecar.signals, verdict.clone());
    std::thread::spawn(move || react(&signals, &reactions, &on_signal));
    begin_to_listen(sidecar.listen, sidecar.listeners, verdict);
    wait(&verdicts)
}

fn wait(verdicts: &Receiver<Verdict>) -> ExitCode {
    while let Ok(verdict) = verdicts.recv() {
        match verdict {
            Verdict::End(code) => return ExitCode::from(code),
            Verdict::EnterNetwork => enter_network(),
        }
    }
    ExitCode::from(BROKEN)
}

/// Prints each signal and exits if the sidecar should; a second signal does not wait for
/// the first.
fn react(signals: &SigSet, reactions: &[(i32, Reaction)], verdict: &Sender<Verdict>) {
    while let Ok(signal) = signals.wait() {
        let name = match signal {
            Signal::SIGTERM => "term".to_owned(),
            other => other.as_str().to_lowercase(),
        };
        say(&format!("{name} {}", monotonic_ns()));
        let mut found = reactions.iter();
        let found = found.find(|(number, _)| *number == signal as i32);
        if let Some((_, Reaction::End { after, code })) = found {
            end_after(*after, *code, verdict.clone());
        }
    }
}

fn end_after(time: Duration, code: u8, verdict: Sender<Verdict>) {
    if time.is_zero() {
        verdict.send(Verdict::End(code)).ok();
        return;
    }
    std::thread::spawn(move || {
        std::thread::sleep(time);
        verdict.send(Verdict::End(code)).ok();
    });
}

fn begin_to_listen(when: Listen, listeners: Vec<Listener>, verdict: Sender<Verdict>) {
    if when == Listen::AtOnce {
        listener::open(&listeners, &verdict);
    }
    std::thread::spawn(move || {
        if let Listen::After(time) = when {
            std::thread::sleep(time);
            listener::open(&listeners, &verdict);
        }
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match line.as_str() {
                "listen" if when == Listen::OnCommand => listener::open(&listeners, &verdict),
                "enter-network" => verdict.send(Verdict::EnterNetwork).unwrap_or_default(),
                _ => {}
            }
        }
    });
}

/// Enters the network namespace whose descriptor is its standard output.
#[expect(
    clippy::disallowed_methods,
    reason = "only this thread is meant to be there, and it has nothing else to do"
)]
fn enter_network() {
    match setns(std::io::stdout(), CloneFlags::CLONE_NEWNET) {
        Ok(()) => say("entered-network"),
        Err(error) => say(&format!("failed to enter the network: {error}")),
    }
}
