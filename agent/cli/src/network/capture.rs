//! `usher capture`: captures the packets of a pod.
//!
//! The kernel copies the packets to a socket in the pod's network namespace; no process runs there. One thread reads
//! and writes them, and this one waits for signals and for the end of `--duration`. So a slow or blocked reader cannot
//! delay signals or the end.

mod args;
mod bound;
mod file;
mod lines;
mod outcome;
mod owner;
mod session;

use std::{io, os::fd::OwnedFd, thread, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};
use usher_client::error_chain::chain;
use usher_inspect::pod_selector::Names;
use usher_sys::net::packet::{self, SMALLEST_ROOM, Tap};

pub(crate) use self::args::Args;
use self::{
    bound::Bounds,
    file::File,
    lines::Lines,
    outcome::report,
    owner::Owners,
    session::{Session, Sink},
};
use super::pod_network::pod_network;
use crate::{
    data_source::node::Node,
    failure::Failure,
    global::{Exit, Global},
    output::private_file,
    stderr::print_stderr,
};

/// Time for the capture thread to write the remaining packets. A reader that is not stuck needs less.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    args.check(global)?;
    let node = Node::new(&global.node);
    let target = node.find(&args.pod, Names::Parts).await?;
    let effect = "the capture would contain all packets of the node";
    let netns = pod_network(&node, &target, args.host_network, effect)?;
    let interfaces = Tap::interfaces(&netns).map_err(|error| refused(&error))?;
    let program = args.filter(&interfaces)?.program(args.snaplen);
    let owners = Owners::read(&node.proc, &target);
    let room = usize::try_from(args.buffer).unwrap_or(SMALLEST_ROOM);
    let tap = Tap::open(&netns, &program, room).map_err(|error| refused(&error))?;
    // The tap keeps the namespace alive.
    drop(netns);
    let bounds = Bounds {
        count: args.count,
        size: args.write.is_some().then_some(args.size),
        duration: args.duration,
    };
    let sink = match &args.write {
        None => Sink::Lines(Lines::new(owners)),
        Some(path) => {
            let about = target.pod.display_name();
            let file = File::open(path, args.force, &about, args.snaplen, owners);
            Sink::File(file.map_err(|error| private_file::unwritable(path, &error))?)
        }
    };
    let session = Session::new(tap, sink, bounds, interfaces);
    watch(session, args.duration).await
}

/// Runs the session in its own thread. After a stop, waits at most [`GRACE`] for its end.
async fn watch(session: Session, duration: Duration) -> Result<Exit, Failure> {
    let cannot =
        |error: io::Error| Failure::unavailable(format!("cannot start the capture: {error}"));
    let (signal_end, end) = io::pipe().map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let (ended, mut ending) = oneshot::channel();
    thread::Builder::new()
        .name("capture".to_owned())
        .spawn(move || drop(ended.send(session.run(&OwnedFd::from(signal_end)))))
        .map_err(cannot)?;
    let mut late = duration.saturating_add(GRACE);
    let summary = loop {
        tokio::select! {
            biased;
            summary = &mut ending => break summary,
            _ = interrupt.recv() => late = GRACE,
            _ = terminate.recv() => late = GRACE,
            () = tokio::time::sleep(late) => {
                print_stderr("the reader is blocked: the rest of the capture was not written");
                return Ok(Exit::Problem);
            }
        }
        drop(io::Write::write(&mut &end, b"."));
    };
    let summary =
        summary.map_err(|_panicked| Failure::unavailable("the capture thread panicked"))?;
    Ok(report(&summary))
}

fn refused(error: &packet::Error) -> Failure {
    let missing = packet::missing_capabilities();
    if error.is_refusal() && !missing.is_empty() {
        let text = format!("{}; missing here: {}", chain(error), missing.join(", "));
        return Failure::refused(text);
    }
    if error.is_refusal() {
        return Failure::refused(chain(error));
    }
    Failure::unavailable(chain(error))
}
