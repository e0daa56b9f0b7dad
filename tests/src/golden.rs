//! Expected output of a program, kept in files.
//!
//! Placeholders replace varying values: ids, times, durations and the version always, and the values that the test names,
//! such as its pod's pid. `USHER_BLESS=1` rewrites the files, so that a person can read the difference.

use std::fs;
use std::path::Path;

use regex::Regex;

/// Writes the files instead of comparing.
const BLESS: &str = "USHER_BLESS";
/// Values that always vary.
const VARIES: [(&str, &str); 8] = [
    (
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        "UID",
    ),
    (r"\b[0-9a-f]{64}\b", "CONTAINER-ID"),
    (r"\b[0-9a-f]{12}\b", "SHORT-ID"),
    (
        r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?",
        "TIME",
    ),
    (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "TIME"),
    (r"net:\[\d+\]", "NETNS"),
    (
        r"\b\d+(\.\d+)? ?(ns|us|µs|ms|s|m|h)\b( ?\d+(\.\d+)? ?(ns|us|µs|ms|s|m)\b)*",
        "DURATION",
    ),
    (r"[ \t]{2,}", "  "),
];

/// Compares a text with a file. `names` are the varying values of this test, longest first, and their placeholders.
///
/// # Panics
///
/// If they differ, with both texts.
pub fn check(file: &Path, text: &str, names: &[(&str, &str)]) {
    let text = named(text, names);
    if std::env::var_os(BLESS).is_some() {
        let directory = file.parent().expect("a file has a directory");
        fs::create_dir_all(directory).expect("the repository can be written");
        fs::write(file, &text).expect("the repository can be written");
        return;
    }
    let wanted = fs::read_to_string(file).unwrap_or_default();
    assert!(
        wanted == text,
        "{} is not what was printed (USHER_BLESS=1 writes it anew); it is:\n{wanted}\nprinted was:\n{text}",
        file.display()
    );
}

/// Replaces the version of all programs, but no part of an address.
fn without_version(text: &str) -> String {
    let version = regex::escape(env!("CARGO_PKG_VERSION"));
    let pattern = format!(r"(^|[^0-9.]){version}($|[^0-9.])");
    let pattern = Regex::new(&pattern).expect("the pattern is right");
    pattern.replace_all(text, "${1}VERSION${2}").into_owned()
}

fn named(text: &str, names: &[(&str, &str)]) -> String {
    let given = names.iter().fold(text.to_owned(), |text, (value, name)| {
        text.replace(value, name)
    });
    VARIES
        .iter()
        .fold(without_version(&given), |text, (pattern, name)| {
            let pattern = Regex::new(pattern).expect("the patterns are right");
            pattern.replace_all(&text, *name).into_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_values_get_placeholders() {
        let text = "pod 0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11   took 1.5 ms at 2026-01-02T03:04:05.678Z by 4711";
        let shown = named(text, &[("4711", "PID")]);
        assert_eq!(shown, "pod UID  took DURATION at TIME by PID");
        let version = env!("CARGO_PKG_VERSION");
        let shown = named(
            &format!("{version}, 1{version}, {version}.1; {version}"),
            &[],
        );
        assert_eq!(shown, format!("VERSION, 1{version}, {version}.1; VERSION"));
    }
}
