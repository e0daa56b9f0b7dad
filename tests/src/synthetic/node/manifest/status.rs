//! A pod's status, computed from these containers.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::CREATED;
use crate::synthetic::ledger::{Attempt, ContainerRecord, PodRecord};
use crate::synthetic::spec::ContainerSpec;

/// An arbitrary image digest.
const DIGEST: &str = "sha256:8c1b0f0de1a5a6b7f2c34d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192";

/// None: the kubelet has no status yet.
pub(super) fn status(
    record: &PodRecord,
    containers: Option<&BTreeMap<String, ContainerRecord>>,
) -> Value {
    let qos = record.spec.qos.name();
    let Some(containers) = containers else {
        return json!({"phase": "Pending", "qosClass": qos});
    };
    let none = ContainerRecord::default();
    let statuses = |specs: &[ContainerSpec]| -> Vec<Value> {
        let status = |spec: &ContainerSpec| {
            let lives = containers.get(&spec.name).unwrap_or(&none);
            container_status(spec, lives, record.scheme)
        };
        specs.iter().map(status).collect()
    };
    let (inits, statuses) = (
        statuses(&record.spec.init_containers),
        statuses(&record.spec.containers),
    );
    let since = record.spec.since;
    let since = since.map_or_else(|| CREATED.to_owned(), rfc3339);
    let started = containers
        .values()
        .any(|record| !record.attempts.is_empty());
    json!({
        "phase": if started { "Running" } else { "Pending" },
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": CREATED},
            {"type": "Initialized", "status": "True", "lastProbeTime": null, "lastTransitionTime": CREATED},
        ],
        "hostIP": "192.0.2.10",
        "podIP": "198.51.100.7",
        "podIPs": [{"ip": "198.51.100.7"}],
        "startTime": since,
        "initContainerStatuses": inits,
        "containerStatuses": statuses,
        "qosClass": qos,
    })
}

fn container_status(spec: &ContainerSpec, record: &ContainerRecord, scheme: &str) -> Value {
    let state = |attempt| state(attempt, scheme);
    let last = record.attempts.last();
    let previous = record.attempts.iter().rev().nth(1);
    let mut status = json!({
        "name": spec.name,
        "state": last.map_or_else(waiting, state),
        "lastState": previous.map_or_else(|| json!({}), state),
        "ready": !spec.unready && last.is_some_and(|attempt| attempt.started && attempt.ended.is_none()),
        "started": last.is_some_and(|attempt| attempt.started && attempt.ended.is_none()),
        "restartCount": record.attempts.len().saturating_sub(1),
        "image": spec.image,
        "imageID": format!("{}@{DIGEST}", repository(&spec.image)),
    });
    // Omitted, and never null, until there is one.
    if let Some(attempt) = last {
        status["containerID"] = json!(format!("{scheme}://{}", attempt.id));
    }
    status
}

/// The image without its tag or digest.
fn repository(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    let name = image.rfind('/').map_or(0, |slash| slash + 1);
    let tag = image.get(name..).and_then(|name| name.find(':'));
    tag.and_then(|tag| image.get(..name + tag)).unwrap_or(image)
}

fn waiting() -> Value {
    json!({"waiting": {"reason": "ContainerCreating"}})
}

fn state(attempt: &Attempt, scheme: &str) -> Value {
    let started = rfc3339(attempt.ordered);
    match &attempt.ended {
        // A container that was only created will be started again.
        Some(_) if !attempt.started => waiting(),
        Some(ended) => json!({"terminated": {
            "exitCode": ended.code(),
            "reason": if ended.code() == 0 { "Completed" } else { "Error" },
            "startedAt": started, "finishedAt": rfc3339(ended.at),
            "containerID": format!("{scheme}://{}", attempt.id),
        }}),
        None if attempt.started => json!({"running": {"startedAt": started}}),
        None => waiting(),
    }
}

/// Kubernetes writes whole seconds. The civil date is Howard Hinnant's
/// `civil_from_days`.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_243_321, "2026-11-21T06:42:01Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(rfc3339(time), text);
        }
    }

    #[test]
    fn repositories() {
        for (image, expected) in [
            ("a/b:1", "a/b"),
            ("host:5000/a/b", "host:5000/a/b"),
            ("host:5000/a/b:1@sha256:00", "host:5000/a/b"),
        ] {
            assert_eq!(repository(image), expected);
        }
    }
}
