//! The ids of pods and containers, unique on this machine.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::synthetic::spec::Origin;

static IDS: AtomicU64 = AtomicU64::new(0);

/// Sixteen hex digits that are unique to this process and this call.
fn serial() -> String {
    let count = IDS.fetch_add(1, Ordering::Relaxed);
    format!("{:08x}{count:08x}", std::process::id())
}

/// A UID in the format of the API server, or of the kubelet for a file.
pub(super) fn new_uid(origin: Origin) -> String {
    let serial = serial();
    if origin == Origin::File {
        return serial.repeat(2);
    }
    let (process, count) = serial.split_at(8);
    let (high, low) = count.split_at(4);
    format!(
        "{process}-{high}-4{}-8{}-{}{low}",
        &low[1..],
        &high[1..],
        &process
    )
}

/// An id in containerd's format.
pub(super) fn new_container_id() -> String {
    serial().repeat(4)
}
