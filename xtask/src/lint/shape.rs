//! Checks the size and the names of files and folders.

use std::collections::{BTreeMap, BTreeSet};

use super::{RULES, finding::Finding, source::Source};

const LONG: usize = 300;
const TOO_LONG: usize = 400;
const MAX_ENTRIES: usize = 14;

pub(super) fn length(source: &Source) -> Vec<Finding> {
    let length = source.length();
    if !source.is_rust() || source.is_test_file() || length <= LONG {
        return Vec::new();
    }
    let message = format!("{length} lines before its tests; at most {TOO_LONG} are accepted");
    let mut finding = Finding::error(&source.path, length, "length", message);
    finding.is_error = length > TOO_LONG;
    vec![finding]
}

/// Requires `foo.rs` with `foo/`, and rejects names without a meaning.
pub(super) fn names(source: &Source) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut found = Vec::new();
    if source.file_name() == "mod.rs" {
        let message = "the module foo belongs in foo.rs, not in foo/mod.rs";
        found.push(Finding::error(&source.path, 1, "mod-rs", message));
    }
    let parts = source.path.trim_end_matches(".rs").split('/');
    let paths = parts.map(|part| (1, part));
    let modules = source
        .lines()
        .filter_map(|line| Some((line.number, inline_module(line.code())?)));
    let is_empty = |name: &str| RULES.cells("name").any(|empty| empty == name);
    let empty = paths.chain(modules).filter(|(_, name)| is_empty(name));
    found.extend(empty.map(|(line, name)| {
        let message = format!("the name {name} has no meaning: name the thing");
        Finding::error(&source.path, line, "name", message)
    }));
    found
}

/// The name of an inline module that starts on this line.
fn inline_module(code: &str) -> Option<&str> {
    let (visibility, name) = code.strip_suffix(" {")?.split_once("mod ")?;
    (["", "pub ", "pub(crate) ", "pub(super) "].contains(&visibility) && !name.contains(' '))
        .then_some(name)
}

/// Folders with too many entries. `foo.rs` and `foo/` are one entry.
pub(super) fn folders(sources: &[Source]) -> Vec<Finding> {
    let mut folders = BTreeMap::<&str, BTreeSet<&str>>::new();
    for source in sources {
        let mut path = source.path.trim_end_matches(".rs");
        while !path.is_empty() {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            folders.entry(folder).or_default().insert(name);
            path = folder;
        }
    }
    folders.retain(|folder, entries| {
        entries.len() > MAX_ENTRIES && !RULES.rows("folder").any(|[wide, _]| wide == *folder)
    });
    folders
        .iter()
        .map(|(folder, entries)| {
            let message = format!(
                "{} entries; at most {MAX_ENTRIES} are accepted",
                entries.len()
            );
            Finding::error(folder, 1, "wide-folder", message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_length(lines: usize) -> Vec<Finding> {
        let text = format!("{}#[cfg(test)]\nmod tests {{\n}}\n", "a\n".repeat(lines));
        length(&Source::new("agent/src/a.rs", &text))
    }

    #[test]
    fn long_file_is_a_warning_and_too_long_a_file_an_error() {
        assert_eq!(of_length(300), []);
        assert!(!of_length(301)[0].is_error);
        assert!(!of_length(400)[0].is_error);
        assert!(of_length(401)[0].is_error);
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

    #[test]
    fn wide_folder_is_an_error() {
        let sources = |count: usize| -> Vec<Source> {
            let paths = (0..count).map(|number| format!("cni-plugin/{number}"));
            paths
                .flat_map(|path| [format!("{path}.rs"), format!("{path}/a.rs")])
                .map(|path| Source::new(&path, ""))
                .collect()
        };
        assert_eq!(folders(&sources(14)), []);
        let found = folders(&sources(15));
        assert_eq!((found.len(), found[0].path.as_str()), (1, "cni-plugin"));
        assert!(found[0].is_error);
    }
}
