//! The acts of some cases on their pods.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    case::{Act, Case, Kind},
    check::{Checked, Observed, ensure},
};
use crate::workload::{container, exit_code};

/// The time in which usher would terminate a sidecar by mistake.
const MISTAKEN_WITHIN: Duration = Duration::from_secs(3);
/// The kubelet's time for a deletion besides the grace period, on a busy node. The holds of these pods have a deadline of ten
/// minutes.
const DELETED_WITHIN: Duration = Duration::from_secs(180);

/// The progress of the acts of a case.
pub(super) struct Acts<'case> {
    case: &'case Case,
    done: usize,
    /// UID of the pod of the acts so far.
    pod: Option<String>,
    deleted: Option<Instant>,
}

impl<'case> Acts<'case> {
    pub(super) fn new(case: &'case Case) -> Self {
        Self {
            case,
            done: 0,
            pod: None,
            deleted: None,
        }
    }

    /// Performs the acts that the state of the pods permits.
    pub(super) fn go_on(&mut self, observed: &Observed<'_>) -> Checked {
        while let Some(act) = self.case.acts.get(self.done) {
            self.act(act, observed)
                .map_err(|why| format!("{act:?}: {why}"))?;
            self.done += 1;
        }
        Ok(())
    }

    fn act(&mut self, act: &Act, observed: &Observed<'_>) -> Checked {
        if let Act::Gone = act {
            return self.gone(observed);
        }
        if let Act::Resume = act {
            return self.suspend(observed, false);
        }
        let pod = observed.pod(self.case)?;
        self.pod = pod["metadata"]["uid"].as_str().map(str::to_owned);
        match act {
            Act::Held => {
                let running = &container(pod, "main")["state"]["running"];
                ensure(running.is_object(), || "main does not run".to_owned())?;
                ensure(observed.holds(pod, "hold-armed"), || "not armed".to_owned())?;
                let released = observed.holds(pod, "hold-released");
                ensure(!released, || "released".to_owned())
            }
            Act::Connected(port) => observed.connects(pod, *port),
            Act::Ended(name) => ended(pod, name),
            Act::Kill { container, signal } => {
                let command = format!("kill -{signal} 1");
                let pod = Observed::name(pod);
                let exec = ["exec", pod, "-c", container, "--", "sh", "-c", &command];
                observed.kubectl(&exec)
            }
            Act::Suspend => self.suspend(observed, true),
            Act::Delete => {
                let kind = match self.case.kind {
                    Kind::Pod => "pod",
                    Kind::Job | Kind::CronJob => "job",
                };
                self.deleted = Some(Instant::now());
                observed.kubectl(&["delete", kind, &self.case.case, "--wait=false"])
            }
            Act::Resume | Act::Gone => Ok(()),
        }
    }

    fn suspend(&mut self, observed: &Observed<'_>, suspend: bool) -> Checked {
        self.deleted = suspend.then(Instant::now);
        let patch = format!(r#"{{"spec":{{"suspend":{suspend}}}}}"#);
        observed.kubectl(&["patch", "job", &self.case.case, "-p", &patch])
    }

    /// Whether the pod is gone, in time.
    fn gone(&self, observed: &Observed<'_>) -> Checked {
        let took = self.deleted.map_or(Duration::ZERO, |at| at.elapsed());
        let grace = Duration::from_secs(2);
        if took > grace + DELETED_WITHIN {
            return Err(format!("deleted {took:?} ago"));
        }
        let pod = self.pod.as_deref().ok_or("no pod yet")?;
        ensure(!observed.exists(pod), || "it exists".to_owned())
    }
}

/// Whether this container, and no other one, has ended some time ago.
fn ended(pod: &Value, name: &str) -> Checked {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let statuses = statuses.map(Vec::as_slice).unwrap_or_default();
    let names = statuses.iter().filter_map(|one| one["name"].as_str());
    let ended: Vec<&str> = names
        .filter(|name| exit_code(pod, name).is_number())
        .collect();
    ensure(ended == [name], || format!("ended: {ended:?}"))?;
    let finished = container(pod, name)["state"]["terminated"]["finishedAt"].as_str();
    let finished: Option<Timestamp> = finished.and_then(|at| at.parse().ok());
    let ago = finished.map(|at| Timestamp::now().duration_since(at));
    let is_long = ago
        .and_then(|ago| Duration::try_from(ago).ok())
        .is_some_and(|ago| ago >= MISTAKEN_WITHIN);
    ensure(is_long, || format!("ended {ago:?} ago"))
}
