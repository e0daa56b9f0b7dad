//! The variable that marks a test in a machine of its own.

/// Marks a test that runs in such a machine.
pub(super) const MARK: &str = "USHER_TEST_MACHINE";

/// Whether this process runs in a machine of its own.
pub fn is_own() -> bool {
    std::env::var_os(MARK).is_some()
}
