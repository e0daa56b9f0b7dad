//! An Event as an `events.k8s.io/v1` object.
//!
//! The name is a hash of the content and of a window of ten minutes. When the reply to a create request
//! was lost, or a restarted agent reports the same again, the second request finds the existing object.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Notice, Regarding};

/// The `reportingController` of all Events.
pub const CONTROLLER: &str = "usher.dev/agent";
/// Longest `reportingInstance` that the API server accepts.
const LONGEST_INSTANCE: usize = 128;
/// Characters of the regarded object's name in the Event's name, which has at most 253.
const LONGEST_STEM: usize = 200;
/// A repetition within this time updates the same object.
pub(super) const WINDOW_US: u64 = 600 * 1_000_000;
/// The last microsecond of the year 9999, which has no later time in RFC 3339.
const LATEST_US: u64 = 253_402_300_799_999_999;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) count: u32,
    pub(super) last_us: u64,
}

impl Series {
    fn document(self) -> Value {
        json!({"count": self.count, "lastObservedTime": micro_time(self.last_us)})
    }
}

pub(super) fn name(notice: &Notice) -> String {
    let stem: String = notice.regarding.name().chars().take(LONGEST_STEM).collect();
    let stem = stem.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
    let window = (notice.at_us / WINDOW_US).to_string();
    let hash = fingerprint(&[
        notice.regarding.uid(),
        notice.reason.into_str(),
        notice.container.as_deref().unwrap_or_default(),
        &notice.note,
        &window,
    ]);
    format!("{stem}.{hash:016x}")
}

/// The body of a create request.
pub(super) fn created(notice: &Notice, node: &str, series: Series) -> Value {
    let fields = notice.reason.fields();
    let instance: String = node.chars().take(LONGEST_INSTANCE).collect();
    let mut event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name(notice), "namespace": notice.regarding.namespace()},
        "eventTime": micro_time(notice.at_us),
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
        "type": fields.event_type.into_str(),
        "reason": notice.reason.into_str(),
        "action": fields.action,
        "note": notice.note,
        "regarding": regarding(notice),
    });
    if series.count > 1 {
        event["series"] = series.document();
    }
    event
}

/// The merge patch for a repetition.
pub(super) fn repeated(series: Series) -> Value {
    json!({"series": series.document()})
}

fn regarding(notice: &Notice) -> Value {
    match &notice.regarding {
        Regarding::Node { name } => {
            json!({"kind": "Node", "apiVersion": "v1", "name": name, "uid": name})
        }
        Regarding::Pod {
            uid,
            namespace,
            name,
        } => {
            let mut pod = json!({
                "kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": name, "uid": uid,
            });
            if let Some(container) = &notice.container {
                pod["fieldPath"] = format!("spec.containers{{{container}}}").into();
            }
            pod
        }
    }
}

/// FNV-1a over terminated texts. The algorithm must not change between agents or versions.
pub(super) fn fingerprint(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Formats Kubernetes' `MicroTime`: RFC 3339 with microseconds.
pub(super) fn micro_time(us: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_micros(us.min(LATEST_US));
    humantime::format_rfc3339_micros(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube_event::Reason;

    fn notice(note: &str, at_us: u64) -> Notice {
        Notice {
            regarding: Regarding::Pod {
                uid: "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11".to_owned(),
                namespace: "shop".to_owned(),
                name: "report-x7k2p".to_owned(),
            },
            reason: Reason::SidecarQuit,
            container: Some("istio-proxy".to_owned()),
            note: note.to_owned(),
            at_us,
        }
    }

    #[test]
    fn times() {
        for (us, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_735_689_599_999_999, "2024-12-31T23:59:59.999999Z"),
            (1_772_323_200_000_001, "2026-03-01T00:00:00.000001Z"),
            (1_772_323_262_000_000, "2026-03-01T00:01:02.000000Z"),
            (4_107_542_399_000_000, "2100-02-28T23:59:59.000000Z"),
            // No leap day.
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (7_258_032_000_000_000, "2199-12-31T00:00:00.000000Z"),
            (13_574_563_200_000_000, "2400-02-29T00:00:00.000000Z"),
            (13_574_649_600_000_000, "2400-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(micro_time(us), text);
        }
    }

    #[test]
    fn equal_events_in_one_window_have_one_name() {
        let first = name(&notice("a", 1));
        assert_eq!(first, name(&notice("a", WINDOW_US - 1)));
        assert!(first.starts_with("report-x7k2p."), "{first}");
        assert_ne!(first, name(&notice("b", 1)));
        assert_ne!(first, name(&notice("a", WINDOW_US)));
        let mut long = notice("a", 1);
        let odd = format!("{}-.-{}", "a".repeat(198), "b".repeat(52));
        long.regarding = Regarding::Node { name: odd };
        let name = name(&long);
        assert!(name.starts_with(&format!("{}.", "a".repeat(198))), "{name}");
    }

    #[test]
    fn create_and_patch_bodies() {
        let once = Series {
            count: 1,
            last_us: 0,
        };
        let event = created(&notice("ended", 1), "node-1", once);
        let expected = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name(&notice("ended", 1)), "namespace": "shop"},
            "eventTime": "1970-01-01T00:00:00.000001Z",
            "reportingController": "usher.dev/agent",
            "reportingInstance": "node-1",
            "type": "Normal",
            "reason": "SidecarQuit",
            "action": "Quit",
            "note": "ended",
            "regarding": {
                "kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": "report-x7k2p",
                "uid": "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11",
                "fieldPath": "spec.containers{istio-proxy}",
            },
        });
        assert_eq!(event, expected);
        let again = Series {
            count: 3,
            last_us: 2,
        };
        let series = json!({"count": 3, "lastObservedTime": "1970-01-01T00:00:00.000002Z"});
        let event = created(&notice("ended", 1), "node-1", again);
        assert_eq!(event["series"], series);
        assert_eq!(repeated(again), json!({"series": series}));
    }
}
