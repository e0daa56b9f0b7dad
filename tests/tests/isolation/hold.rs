//! The agent sends packets in a hostile pod that it holds: readiness requests, and the connections that it releases.

use crate::affects_nothing_else;
use crate::attack::hold::{READINESS_PROBE, RELEASE_OF_4096_CONNECTIONS};

#[test]
fn readiness_probe() {
    affects_nothing_else(&READINESS_PROBE);
}

#[test]
fn release_of_4096_connections() {
    affects_nothing_else(&RELEASE_OF_4096_CONNECTIONS);
}
