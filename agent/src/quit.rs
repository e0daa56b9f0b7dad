//! Termination of sidecars: the jobs of the worker, and signals to init processes.
//!
//! Each attempt first checks the sidecar's identity: its init process must be alive by pidfd, and its network
//! namespace must be the one that the container was started in, and not the host's.

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use usher_client::{crash_point, error_chain::chain};
use usher_core::{
    Event,
    base::id::{ContainerKey, NetnsId},
    plan::version_query::VersionRequest,
    quit::outcome::Outcome,
    recipe::step::{Request, Signal, Step},
    worker::message::Job,
};
use usher_sys::{
    net::netns::{self, Netns},
    pods::{
        container::Init,
        pidfd::{self, Pidfd},
        proc::ProcRoot,
    },
};

use crate::worker::{self, Descriptor, Purpose, Worker};

/// Properties of the host that attempts depend on.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) proc: ProcRoot,
    /// The host's own network namespace, which no pod may have.
    pub(crate) netns: NetnsId,
    /// Whether `netns` is certainly the host's. Otherwise the agent only observes.
    pub(crate) is_certain: bool,
}

/// A TCP socket in a sidecar's network namespace for its first request. It is opened while the app runs, because
/// opening one takes a separate thread. It is closed when the sidecar ends, so it does not keep the namespace alive
/// for longer. The event loop opens no netlink socket, because closing one waits for the pod's own changes of rules
/// ([`nft_rcv_nl_event`](https://github.com/torvalds/linux/blob/v6.12/net/netfilter/nf_tables_api.c)).
#[derive(Debug)]
pub(crate) struct Prepared(OwnedFd);

/// A running sidecar, for an attempt.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) init: Arc<Init>,
    /// Socket for its first request.
    pub(crate) prepared: Option<Prepared>,
    /// Whether the pod's other containers are in the same network namespace.
    pub(crate) in_pod_netns: bool,
}

/// Opens the socket for the first request to a sidecar, and orders a check of the rules in its namespace.
///
/// # Errors
///
/// The outcome that a request would report.
pub(crate) fn prepare(
    host: &Host,
    worker: &mut Worker,
    key: &ContainerKey,
    init: &Init,
) -> Result<Prepared, Outcome> {
    let netns = open(host, init)?;
    let socket = netns
        .tcp_socket(worker::PREPARED)
        .map_err(|error| Outcome::Failed(chain(&error)))?;
    let id = netns.id();
    let descriptors = vec![Descriptor::Netns(Arc::new(netns))];
    worker.send(id, Purpose::Prepare(key.clone()), Job::Check, descriptors);
    Ok(Prepared(socket))
}

/// Tries one step. `sidecar` is None if it has ended.
pub(crate) fn attempt(
    host: &Host,
    worker: &mut Worker,
    key: ContainerKey,
    sidecar: Option<Sidecar>,
    step: Step,
    timeout: Duration,
) {
    let outcome = match (sidecar, step) {
        (None, _step) => Outcome::Gone,
        (
            Some(sidecar),
            Step::Signal {
                signal,
                process: None,
            },
        ) => self::signal(&sidecar.init.pidfd, signal),
        (
            Some(Sidecar { init, .. }),
            Step::Signal {
                signal,
                process: Some(process),
            },
        ) => {
            let job = Job::Signal {
                key: key.clone(),
                cgroup: init.cgroup.to_path_buf(),
                process,
                signal,
            };
            worker.send(
                init.netns,
                Purpose::Attempt(key),
                job,
                vec![Descriptor::Init(init)],
            );
            return;
        }
        (Some(sidecar), Step::Request(request)) => {
            let purpose = Purpose::Attempt(key.clone());
            match send(host, worker, purpose, sidecar, request, timeout) {
                Ok(()) => return,
                Err(outcome) => outcome,
            }
        }
    };
    worker.report(Event::Attempted { key, outcome });
}

/// Sends the request that drains a sidecar. The rest is as in [`attempt`].
pub(crate) fn drain(
    host: &Host,
    worker: &mut Worker,
    key: ContainerKey,
    sidecar: Option<Sidecar>,
    request: Request,
    timeout: Duration,
) {
    let purpose = Purpose::Drain(key.clone());
    let sent = sidecar
        .ok_or(Outcome::Gone)
        .and_then(|sidecar| send(host, worker, purpose, sidecar, request, timeout));
    if let Err(outcome) = sent {
        worker.report(Event::Drained { key, outcome });
    }
}

fn send(
    host: &Host,
    worker: &mut Worker,
    purpose: Purpose,
    sidecar: Sidecar,
    request: Request,
    timeout: Duration,
) -> Result<(), Outcome> {
    if !sidecar.in_pod_netns {
        let why = "its pod's other containers are in another network namespace";
        return Err(Outcome::Failed(why.to_owned()));
    }
    let init = sidecar.init;
    let job = Job::Request {
        pid: init.pidfd.pid(),
        request,
        timeout,
        prepared: sidecar.prepared.is_some(),
    };
    let id = init.netns;
    let place = match sidecar.prepared {
        Some(Prepared(socket)) => Descriptor::Socket(socket),
        None => Descriptor::Netns(Arc::new(open(host, &init)?)),
    };
    let descriptors = vec![Descriptor::Init(init), place];
    worker.send(id, purpose, job, descriptors);
    Ok(())
}

/// Queries the version of a container.
pub(crate) fn query_version(
    host: &Host,
    worker: &mut Worker,
    key: ContainerKey,
    sidecar: Option<Sidecar>,
    request: VersionRequest,
) {
    let init = sidecar.filter(|sidecar| sidecar.in_pod_netns);
    let init = init.map(|sidecar| sidecar.init);
    let opened = init.and_then(|init| Some((open(host, &init).ok()?, init)));
    let Some((netns, init)) = opened else {
        worker.report(Event::VersionAnswered { key, version: None });
        return;
    };
    worker.send(
        netns.id(),
        Purpose::QueryVersion(key),
        Job::Query(request),
        vec![Descriptor::Init(init), Descriptor::Netns(Arc::new(netns))],
    );
}

/// Opens the namespace that a container was started in.
///
/// # Errors
///
/// The outcome that a request would report.
pub(crate) fn open(host: &Host, init: &Init) -> Result<Netns, Outcome> {
    let netns = Netns::of_process(&host.proc, init.pidfd.pid());
    // Checked after the open: a process that is alive now had this pid during the open.
    if !init.pidfd.is_alive() {
        return Err(Outcome::Gone);
    }
    let failed = |error: netns::Error| Outcome::Failed(chain(&error));
    let netns = netns.map_err(failed)?;
    let why = if netns.id() == host.netns {
        "it is in the host's network namespace".to_owned()
    } else if netns.id() != init.netns {
        format!("it is in {}, started in {}", netns.id(), init.netns)
    } else {
        return Ok(netns);
    };
    Err(Outcome::Failed(why))
}

/// Details that the outcome's name lacks.
pub(crate) fn detail(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Rejected(status) => Some(format!("status {status}")),
        Outcome::Failed(why) => Some(why.clone()),
        _ => None,
    }
}

pub(crate) fn signal(process: &Pidfd, signal: Signal) -> Outcome {
    let number = match signal {
        Signal::Term => pidfd::Signal::TERM,
        Signal::Int => pidfd::Signal::INT,
        Signal::Quit => pidfd::Signal::QUIT,
        Signal::Hup => pidfd::Signal::HUP,
        Signal::Usr1 => pidfd::Signal::USR1,
        Signal::Usr2 => pidfd::Signal::USR2,
        Signal::Kill => pidfd::Signal::KILL,
    };
    match process.signal(number) {
        Ok(()) => {
            crash_point::reach("signalled", "");
            Outcome::Signalled
        }
        Err(gone) if gone.is_gone() => Outcome::Gone,
        Err(error) => Outcome::Failed(chain(&error)),
    }
}
