//! The load of many nodes on the API server, computed from the measurements of one node.

use usher_tests::record::Document;

use super::{budget::of_key, number::grouped};
use crate::docs::markdown::table;

const NODES: f64 = 5000.0;
const MINUTE: f64 = 60.0;
/// The API server keeps Events for so many minutes by default.
const EVENT_LIFE: f64 = 60.0;

/// The section of the page; empty without the figures.
pub(super) fn section(documents: &[Document]) -> String {
    let keys = [
        "fleet.rest",
        "api.watches",
        "fleet.start",
        "fleet.requests",
        "fleet.events",
        "fleet.bytes",
    ];
    let figures = keys
        .iter()
        .filter_map(|key| of_key(documents, key).first().copied());
    let values: Vec<f64> = figures.map(|figure| figure.value).collect();
    let [rest, watches, start, requests, events, bytes] = values[..] else {
        return String::new();
    };
    let per_second = NODES / MINUTE;
    let rows = [
        ("watches that are open, each on one Node", NODES * watches),
        ("requests a second while nothing happens", NODES * rest),
        (
            "requests when all agents start at once, watches included",
            NODES * (start + watches),
        ),
        (
            "requests a second while each node finishes one such pod a minute",
            per_second * requests,
        ),
        ("Events among them, a second", per_second * events),
        ("bytes sent a second", per_second * bytes),
        (
            "Events that are kept at the same time, at a life of one hour",
            NODES * EVENT_LIFE * events,
        ),
    ]
    .map(|(what, value)| [what.to_owned(), grouped(value)]);
    let nodes = grouped(NODES);
    format!(
        "## {nodes} nodes, computed\n\nNot measured: {nodes} times the figures of one node in `scale`, where usher terminates the \
         sidecar of each pod with a request.\nThe agent lists and watches no pods. Events are bounded for each pod and node, so a \
         storm of pods means fewer Events for each.\n\n{}\n",
        table(["at the API server", "how many"], &rows)
    )
}
