//! The hashes in a lock file. It is TOML, of which cargo writes one narrow form: a table for each package, a key on each
//! line.

use std::collections::BTreeMap;

use super::Id;

/// SHA-256 of the sources of each package that came from a registry.
pub(super) fn checksums(lock: &str) -> BTreeMap<Id, String> {
    lock.split("[[package]]")
        .skip(1)
        .filter_map(entry)
        .collect()
}

fn entry(text: &str) -> Option<(Id, String)> {
    let value = |key: &str| {
        let find = |line: &str| {
            line.strip_prefix(key)?
                .strip_prefix(" = \"")?
                .strip_suffix('"')
                .map(str::to_owned)
        };
        text.lines().find_map(find)
    };
    Some(((value("name")?, value("version")?), value("checksum")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_of_a_registry_have_one() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nchecksum = \"00ff\"\n\
                    dependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";
        let found = checksums(lock);
        assert_eq!(found.len(), 1);
        assert_eq!(found[&("a".to_owned(), "1.0".to_owned())], "00ff");
    }
}
