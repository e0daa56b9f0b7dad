//! How long files are, and how they are called.

use super::{Finding, source::Source};

const LONG: usize = 400;
const TOO_LONG: usize = 600;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 10] = [
    "common",
    "core_utils",
    "handler",
    "handlers",
    "helper",
    "helpers",
    "manager",
    "managers",
    "util",
    "utils",
];

/// A file is about one thing; what is longer is about several.
pub(super) fn length(source: &Source) -> Vec<Finding> {
    let length = source.length();
    if !source.is_rust() || length <= LONG {
        return Vec::new();
    }
    let message = format!(
        "{length} lines before its tests; {LONG} are long and {TOO_LONG} too many: divide it"
    );
    let mut finding = Finding::error(&source.path, length, "length", message);
    finding.is_error = length > TOO_LONG;
    vec![finding]
}

/// `foo.rs` beside `foo/`, and every name says what is inside.
pub(super) fn names(source: &Source) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let file = source.path.rsplit('/').next().unwrap_or_default();
    if file == "mod.rs" {
        let message = "a module foo is in foo.rs, beside foo/";
        found.push(Finding::error(&source.path, 1, "mod-rs", message));
    }
    let parts = source.path.trim_end_matches(".rs").split('/');
    for name in parts.filter(|part| EMPTY_NAMES.contains(part)) {
        found.push(empty_name(source, 1, name));
    }
    for line in source.lines() {
        let name = inline_module(line.code());
        if let Some(name) = name.filter(|name| EMPTY_NAMES.contains(name)) {
            found.push(empty_name(source, line.number, name));
        }
    }
    found
}

fn empty_name(source: &Source, line: usize, name: &str) -> Finding {
    let message = format!("the name {name} says nothing: name the thing");
    Finding::error(&source.path, line, "name", message)
}

/// The name of a module whose body begins on this line.
fn inline_module(code: &str) -> Option<&str> {
    let name = code.strip_suffix(" {")?;
    let (visibility, name) = name.split_once("mod ")?;
    (["", "pub ", "pub(crate) ", "pub(super) "].contains(&visibility) && !name.contains(' '))
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_length(lines: usize) -> Vec<Finding> {
        let text = format!("{}#[cfg(test)]\nmod tests {{\n}}\n", "a\n".repeat(lines));
        length(&Source::new("agent/src/a.rs", &text))
    }

    #[test]
    fn long_file_is_warned_about_and_too_long_a_file_fails() {
        assert_eq!(of_length(400), []);
        assert!(!of_length(401)[0].is_error);
        assert!(!of_length(600)[0].is_error);
        assert!(of_length(601)[0].is_error);
        let other = Source::new("Cargo.lock", &"a\n".repeat(1000));
        assert_eq!(length(&other), []);
    }

    #[test]
    fn module_files_have_the_modules_name() {
        let found = names(&Source::new("agent/src/kubelet/mod.rs", ""));
        assert_eq!(found[0].rule, "mod-rs");
        assert_eq!(names(&Source::new("agent/src/kubelet.rs", "")), []);
    }

    #[test]
    fn empty_names_are_found_in_paths_and_in_code() {
        for path in ["agent/src/utils.rs", "tests/tests/common/pod.rs"] {
            assert_eq!(names(&Source::new(path, ""))[0].rule, "name", "{path}");
        }
        let text = "mod a {\n}\npub(crate) mod helpers {\n}\n// mod utils {\n";
        let found = names(&Source::new("agent/src/a.rs", text));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].rule), (3, "name"));
    }
}
