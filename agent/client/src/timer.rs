//! A timer that may be unset.

use std::{future::pending, time::Instant};

/// Waits until this time; without one, for ever.
pub async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => pending().await,
    }
}
