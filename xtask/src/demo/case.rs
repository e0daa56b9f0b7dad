//! What is run, and what is to come of it.

use std::time::Duration;

use serde_json::{Value, json};
use usher_cluster::workload::{app_container, istio_proxy_container, job, native_sidecar};

pub(super) const APP: &str = "app";
pub(super) const NAMESPACE: &str = "default";
/// Long enough for the proxy to be up when the app ends, as in most Jobs.
const RUN_FOR_MS: u32 = 2000;
/// The kubelet looks at its containers once per second: apps are to end at different moments of that second.
const SHIFT_MS: u32 = 333;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    /// Istio's proxy as a regular container, and usher does nothing.
    Observe,
    /// The same, and usher does its work.
    Enforce,
    /// No sidecar.
    Plain,
    /// Istio's proxy as an init container that the kubelet ends.
    Native,
}

impl Case {
    /// Those that complete.
    pub(super) const TIMED: [Self; 3] = [Self::Enforce, Self::Plain, Self::Native];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Observe => "Job with Istio's proxy, usher observes",
            Self::Enforce => "Job with Istio's proxy, usher enforces",
            Self::Plain => "Job without a sidecar",
            Self::Native => "Job with the proxy as a native sidecar",
        }
    }

    /// For names of objects.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Enforce => "enforce",
            Self::Plain => "plain",
            Self::Native => "native",
        }
    }

    pub(super) fn has_sidecar(self) -> bool {
        self != Self::Plain
    }

    /// The Job, whose app runs a little longer or shorter in each turn.
    pub(super) fn object(self, name: &str, turn: u32) -> Value {
        let run_for = format!("{}ms", RUN_FOR_MS + turn % 3 * SHIFT_MS);
        let app = app_container(APP, &["--run-for", &run_for]);
        match self {
            Self::Observe | Self::Enforce => {
                job(name, NAMESPACE, "Never", &[app, istio_proxy_container()])
            }
            Self::Plain => job(name, NAMESPACE, "Never", &[app]),
            Self::Native => {
                let mut job = job(name, NAMESPACE, "Never", &[app]);
                job["spec"]["template"]["spec"]["initContainers"] =
                    json!([native_sidecar(istio_proxy_container())]);
                job
            }
        }
    }
}

/// What became of one Job, from its app's own last act on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sample {
    /// usher's request was accepted.
    pub(super) accepted: Option<Duration>,
    pub(super) sidecar_ended: Option<Duration>,
    pub(super) complete: Option<Duration>,
}

impl Sample {
    /// What was to happen and did not.
    pub(super) fn failure(&self, case: Case) -> Option<String> {
        let missing = if self.complete.is_none() {
            "it did not complete"
        } else if case == Case::Enforce && self.accepted.is_none() {
            "usher did not ask its sidecar to quit"
        } else if case.has_sidecar() && self.sidecar_ended.is_none() {
            "its sidecar was not seen to end"
        } else {
            return None;
        };
        Some(format!("{}: {missing}", case.title()))
    }
}

/// What became of the Job that usher only observed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Observed {
    /// How long after its app's end the Job was looked at.
    pub(super) watched: Duration,
    pub(super) completed: bool,
    pub(super) decided: Option<Duration>,
    /// What usher's log says it would have done.
    pub(super) reason: Option<String>,
}

impl Observed {
    pub(super) fn failure(&self) -> Option<String> {
        let missing = if self.completed {
            "it completed"
        } else if self.reason.is_none() {
            "usher's log does not say what it would do"
        } else {
            return None;
        };
        Some(format!("{}: {missing}", Case::Observe.title()))
    }

    pub(super) fn sentence(&self) -> String {
        let state = if self.completed {
            "Complete"
        } else {
            "not Complete"
        };
        format!(
            "{:.0} ms after its app's end the Job is {state}",
            self.watched.as_secs_f64() * 1e3
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Option<Duration> = Some(Duration::from_millis(1));

    #[test]
    fn jobs_differ_in_where_the_proxy_is() {
        let spec = |case: Case| case.object("a", 0)["spec"]["template"]["spec"].clone();
        let names = |list: &Value| -> Vec<String> {
            let list = list.as_array().cloned().unwrap_or_default();
            list.iter().map(|one| one["name"].to_string()).collect()
        };
        let regular = spec(Case::Enforce);
        assert_eq!(
            names(&regular["containers"]),
            ["\"app\"", "\"istio-proxy\""]
        );
        assert_eq!(regular, spec(Case::Observe));
        assert_eq!(names(&spec(Case::Plain)["containers"]), ["\"app\""]);
        let native = spec(Case::Native);
        assert_eq!(names(&native["containers"]), ["\"app\""]);
        assert_eq!(native["initContainers"][0]["restartPolicy"], "Always");
    }

    #[test]
    fn what_did_not_happen_is_a_failure() {
        let nothing = Sample::default();
        assert!(nothing.failure(Case::Plain).is_some());
        let complete = Sample {
            complete: SOME,
            ..nothing
        };
        assert_eq!(complete.failure(Case::Plain), None);
        assert!(complete.failure(Case::Native).is_some());
        let ended = Sample {
            sidecar_ended: SOME,
            ..complete
        };
        assert_eq!(ended.failure(Case::Native), None);
        assert!(ended.failure(Case::Enforce).is_some());
    }

    #[test]
    fn observed_job_may_not_complete() {
        let observed = Observed {
            watched: Duration::from_secs(5),
            completed: false,
            decided: SOME,
            reason: Some("observe mode".to_owned()),
        };
        assert_eq!(observed.failure(), None);
        let completed = Observed {
            completed: true,
            ..observed.clone()
        };
        assert!(completed.failure().unwrap().ends_with("it completed"));
        let silent = Observed {
            reason: None,
            ..observed
        };
        assert!(silent.failure().is_some());
    }
}
