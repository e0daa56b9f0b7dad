//! Channels between the event loop and the service thread.

use tokio::sync::{mpsc, watch};

use super::services;
use crate::{
    event_loop::{self, Requests},
    telemetry::decision_log::Record,
};

/// Namespaces that may wait until they are read.
const NAMESPACES: usize = 64;
/// Inputs that may wait for the event loop.
const INPUTS: usize = 64;

/// The ends of every channel: those of the event loop, of the services and of the recorder.
///
/// The recorder's channel has no limit. It stays short: while the service thread is stuck, no pod list arrives, so each
/// known pod has only a few decisions.
pub(super) fn open() -> (
    event_loop::Channels,
    services::Channels,
    mpsc::UnboundedReceiver<Record>,
) {
    let (inputs, received_inputs) = mpsc::channel(INPUTS);
    let (records, received_records) = mpsc::unbounded_channel();
    let (pods, pod_requests) = mpsc::channel(1);
    let (namespaces, namespace_requests) = mpsc::channel(NAMESPACES);
    let (plugin, plugin_wanted) = watch::channel(false);
    let event_loop = event_loop::Channels {
        inputs: received_inputs,
        requests: Requests {
            pods,
            namespaces,
            plugin,
        },
        records,
    };
    let services = services::Channels {
        inputs,
        pod_requests,
        namespace_requests,
        plugin_wanted,
    };
    (event_loop, services, received_records)
}
