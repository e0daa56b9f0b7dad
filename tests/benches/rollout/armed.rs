//! Waits until the stop signals of containers are armed.

use usher_tests::wait::found_within;

use crate::{PATIENCE, place::Place};

pub(crate) fn wait(place: &Place, ids: &[&str]) {
    found_within(PATIENCE, "the armed containers", || {
        let logs = ["-n", "usher", "logs", "ds/usher"];
        let log = place.cluster.kubectl(&logs).ok()?;
        let is_armed = |id: &&str| {
            log.lines()
                .any(|line| line.contains("armed:") && line.contains(id))
        };
        ids.iter().all(is_armed).then_some(())
    });
}
