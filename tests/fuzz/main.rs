//! One program for all targets: libFuzzer calls the decoder that a variable names.
//!
//! `cargo xtask fuzz` builds and runs it. Separate programs for each target would be linked some thirty times, and each
//! of them would contain all decoders.
#![no_main]

mod decoders;

use std::{env, sync::LazyLock};

/// Names the target.
const VARIABLE: &str = "USHER_FUZZ_TARGET";

static TARGET: LazyLock<String> = LazyLock::new(|| {
    let name = env::var(VARIABLE).unwrap_or_default();
    let is_it = |(known, _): &decoders::Target| *known == name;
    assert!(
        decoders::TARGETS.iter().any(is_it),
        "{VARIABLE} is {name:?}, which is no target"
    );
    name
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _is_accepted = decoders::decode(&TARGET, bytes);
});
