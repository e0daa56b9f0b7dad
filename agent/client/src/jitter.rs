//! Random times. Without them the agents of all nodes send their requests in step, such as after a restart of the API
//! server.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// A random time up to this one.
pub fn up_to(longest: Duration) -> Duration {
    // The keys of a hasher are random.
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    let random = u32::from_be_bytes([a, b, c, d]);
    longest.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_differ_within_the_limit() {
        let longest = Duration::from_secs(240);
        let times: Vec<Duration> = (0..100).map(|_| up_to(longest)).collect();
        assert!(times.iter().all(|time| *time <= longest));
        assert!(times.iter().any(|time| *time < longest / 2));
        assert!(times.iter().any(|time| *time > longest / 2));
    }
}
