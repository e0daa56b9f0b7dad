//! The decisions that are reported about a stop signal.

use std::time::Duration;

use super::Released;
use crate::decision::Kind;

pub(super) fn unsupported(is_app: bool, reason: String) -> Kind {
    if is_app {
        Kind::PreStopUnsupported { reason }
    } else {
        Kind::LingerUnsupported { reason }
    }
}

pub(super) fn released(is_app: bool, why: Released, held: Duration) -> Kind {
    if is_app {
        Kind::PreStopReleased { why, held }
    } else {
        Kind::LingerReleased { why, held }
    }
}
