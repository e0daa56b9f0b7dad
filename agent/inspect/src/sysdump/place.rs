//! Where things are in a dump.

use super::manifest;

/// The list.
pub const MANIFEST: &str = "manifest.json";
/// What a folder's name has of a namespace or a name at most: both are labels or nearly so.
const NAME: usize = 63;

/// A file of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// The document of a command about the node.
    Node(&'a str),
    /// The document of a command about a pod, which has this folder.
    Pod {
        /// As [`folder`] has it.
        folder: &'a str,
        /// The command.
        command: &'a str,
    },
}

impl Place<'_> {
    /// Its path from the top.
    pub fn path(self) -> String {
        match self {
            Self::Node(command) => format!("{command}.json"),
            Self::Pod { folder, command } => format!("{folder}/{command}.json"),
        }
    }
}

/// The folder of a pod: what people look for first, and the UID, which makes it one pod's. The names come from the
/// kubelet and end up in the file system of whoever unpacks the dump, so nothing but plain letters is taken over.
pub fn folder(namespace: &str, name: &str, uid: &str) -> String {
    let words = [namespace, name, uid].map(plain);
    let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
    format!("pods/{}", words.join("_"))
}

/// A name that is harmless in every file system.
pub fn plain(text: &str) -> String {
    let letter = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => letter,
        '.' => '.',
        _ => '-',
    };
    let plain: String = text.chars().take(NAME).map(letter).collect();
    // Neither hidden, nor this folder, nor the one above.
    plain.trim_matches('.').replace("..", ".-")
}

/// Where a path of an archive that somebody sent may lead: nowhere but below the dump.
pub fn is_below(path: &str) -> bool {
    let bad = |word: &str| word.is_empty() || word == "." || word == "..";
    !path.contains(['\\', '\0']) && !path.split('/').any(bad)
}

impl manifest::Pod {
    /// The document of a command about this pod.
    pub fn place<'a>(&'a self, command: &'a str) -> Place<'a> {
        Place::Pod {
            folder: &self.folder,
            command,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths() {
        assert_eq!(Place::Node("status").path(), "status.json");
        let folder = folder("shop", "report-x7k2p", "0a1b");
        assert_eq!(folder, "pods/shop_report-x7k2p_0a1b");
        let place = Place::Pod {
            folder: &folder,
            command: "conns",
        };
        assert_eq!(place.path(), "pods/shop_report-x7k2p_0a1b/conns.json");
    }

    #[test]
    fn names_are_made_harmless() {
        for (name, expected) in [
            ("../../etc/passwd", "-.--etc-passwd"),
            ("..", ""),
            ("a\u{202e}b\x1b[2J", "a-b--2J"),
        ] {
            assert_eq!(plain(name), expected, "{name:?}");
        }
        assert_eq!(folder("", "", "0a1b"), "pods/0a1b");
    }

    proptest! {
        #[test]
        fn folders_are_below(namespace: String, name: String, uid in "[a-f0-9-]{1,36}") {
            let folder = folder(&namespace, &name, &uid);
            prop_assert!(is_below(&folder), "{folder:?}");
            prop_assert!(!folder.contains(".."), "{folder:?}");
            prop_assert_eq!(folder.matches('/').count(), 1);
        }
    }

    #[test]
    fn what_leads_elsewhere() {
        for path in ["/etc", "../a", "a/../b", "a//b", "", "a/", "a\\b", "./a"] {
            assert!(!is_below(path), "{path:?}");
        }
        assert!(is_below("pods/a_b/conns.json"));
    }
}
