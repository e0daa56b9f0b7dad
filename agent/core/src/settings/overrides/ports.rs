//! Ports that a pod's annotation declares: `NAME=5432, NAME=3306`.

use std::collections::BTreeMap;

use crate::pod::spec::is_container_name;

/// Limit of the ports that a pod declares.
const PORTS: usize = 16;

/// One invalid entry makes the whole list invalid.
pub(super) fn read(text: &str) -> Option<BTreeMap<String, Vec<u16>>> {
    let entries = text.split(',').map(str::trim);
    let entries: Vec<&str> = entries.filter(|entry| !entry.is_empty()).collect();
    if entries.len() > PORTS {
        return None;
    }
    let mut all: BTreeMap<String, Vec<u16>> = BTreeMap::new();
    for entry in entries {
        let (name, port) = entry.split_once('=')?;
        let (name, port) = (name.trim(), port.trim());
        let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
        if !is_container_name(name) {
            return None;
        }
        let ports = all.entry(name.to_owned()).or_default();
        if ports.contains(&port) {
            return None;
        }
        ports.push(port);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let found = read("sql=5432, sql=3306,cache = 6379,").unwrap();
        let expected = [
            ("cache".to_owned(), vec![6379]),
            ("sql".to_owned(), vec![5432, 3306]),
        ];
        assert_eq!(found, expected.into());
        let many = |number: usize| (1..=number).map(|port| format!("a={port},")).collect();
        let most: String = many(PORTS);
        assert_eq!(read(&most).unwrap()["a"].len(), PORTS);
        let many: String = many(PORTS + 1);
        for bad in [
            "5432", "a=", "a=0", "a=65536", "A=1", "a=1,a=1", "=1", &many,
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(read(""), Some(BTreeMap::new()));
    }
}
