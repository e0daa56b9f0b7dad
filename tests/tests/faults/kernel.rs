//! Features of the kernel that the tests run on.

use nix::sys::utsname::uname;

/// Whether it reports the exit code of a process to processes other than its parent (`PIDFD_INFO_EXIT`, Linux 6.15).
pub(crate) fn reports_exit_codes() -> bool {
    let release = uname().unwrap().release().to_str().unwrap().to_owned();
    let numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut numbers = numbers.map(|number| number.parse().unwrap());
    let version: [u32; 2] = [numbers.next().unwrap(), numbers.next().unwrap()];
    version >= [6, 15]
}

/// The report on a sidecar that exited with code 0 after the request.
pub(crate) fn ended_as_requested() -> &'static str {
    match reports_exit_codes() {
        true => "the sidecar ended as requested, with exit code 0",
        false => "the sidecar ended as requested",
    }
}
