//! What many nodes mean for the API server: computed from what was measured on one.

use usher_tests::record::Document;

use super::{budget::of_key, number::grouped};
use crate::docs::markdown::table;

const NODES: f64 = 5000.0;
const MINUTE: f64 = 60.0;
/// How long the API server keeps Events by default, in minutes.
const EVENT_LIFE: f64 = 60.0;

/// The part of the page; empty without what it is computed from.
pub(super) fn of(documents: &[Document]) -> String {
    let first = |key: &str| of_key(documents, key).first().map(|figure| figure.value);
    let (Some(rest), Some(watches), Some(start), Some(requests), Some(events), Some(bytes)) = (
        first("fleet.rest"),
        first("api.watches"),
        first("fleet.start"),
        first("fleet.requests"),
        first("fleet.events"),
        first("fleet.bytes"),
    ) else {
        return String::new();
    };
    let a_second = NODES / MINUTE;
    let rows = [
        [
            "watches that are open, each on one Node".to_owned(),
            grouped(NODES * watches),
        ],
        [
            "requests a second while nothing happens".to_owned(),
            grouped(NODES * rest),
        ],
        [
            "requests when all agents start at once, watches included".to_owned(),
            grouped(NODES * (start + watches)),
        ],
        [
            "requests a second while each node finishes one such pod a minute".to_owned(),
            grouped(a_second * requests),
        ],
        [
            "Events among them, a second".to_owned(),
            grouped(a_second * events),
        ],
        ["bytes sent a second".to_owned(), grouped(a_second * bytes)],
        [
            "Events that are kept at the same time, at a life of one hour".to_owned(),
            grouped(NODES * EVENT_LIFE * events),
        ],
    ];
    let mut text = format!(
        "## {} nodes, on paper\n\nNot measured: {} times what one node did in `scale`, with a pod whose sidecar is shown out \
         for each of its requests.\nIt lists and watches no pods. Events are bounded for each pod and node, so a storm of pods means fewer Events for each.\n\n",
        grouped(NODES),
        grouped(NODES),
    );
    text.push_str(&table(["at the API server", "how many"], &rows));
    text.push('\n');
    text
}
