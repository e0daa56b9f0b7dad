//! Paths in a sysdump.

pub const MANIFEST: &str = "manifest.json";
/// Limit of a namespace or a name in a folder name; both are DNS labels or nearly so.
const MAX_NAME: usize = 63;

/// The report of a command, about the node or about the pod with this [`folder`].
pub fn document(folder: Option<&str>, command: &str) -> String {
    let folder = folder.map(|folder| format!("{folder}/"));
    format!("{}{command}.json", folder.unwrap_or_default())
}

/// The folder of a pod: namespace, name, and the UID, which makes it unique. The names come from the kubelet and become
/// paths where the sysdump is unpacked, so only plain characters are kept.
pub fn folder(namespace: &str, name: &str, uid: &str) -> String {
    let words: Vec<String> = [namespace, name, uid]
        .map(safe_name)
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect();
    format!("pods/{}", words.join("_"))
}

/// A name that is safe in every file system.
pub fn safe_name(text: &str) -> String {
    let letter = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => letter,
        '.' => '.',
        _ => '-',
    };
    let plain: String = text.chars().take(MAX_NAME).map(letter).collect();
    // Not a hidden file, "." or "..".
    plain.trim_matches('.').replace("..", ".-")
}

/// Whether a path of an untrusted archive stays in the sysdump.
pub fn is_inside(path: &str) -> bool {
    let bad = |word: &str| word.is_empty() || word == "." || word == "..";
    !path.contains(['\\', '\0']) && !path.split('/').any(bad)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths() {
        assert_eq!(document(None, "status"), "status.json");
        let folder = folder("shop", "report-x7k2p", "0a1b");
        assert_eq!(folder, "pods/shop_report-x7k2p_0a1b");
        assert_eq!(
            document(Some(&folder), "conns"),
            "pods/shop_report-x7k2p_0a1b/conns.json"
        );
    }

    #[test]
    fn names_are_made_safe() {
        for (name, expected) in [
            ("../../etc/passwd", "-.--etc-passwd"),
            ("..", ""),
            ("a\u{202e}b\x1b[2J", "a-b--2J"),
        ] {
            assert_eq!(safe_name(name), expected, "{name:?}");
        }
        assert_eq!(folder("", "", "0a1b"), "pods/0a1b");
    }

    proptest! {
        #[test]
        fn folders_stay_inside(namespace: String, name: String, uid in "[a-f0-9-]{1,36}") {
            let folder = folder(&namespace, &name, &uid);
            prop_assert!(is_inside(&folder), "{folder:?}");
            prop_assert!(!folder.contains(".."), "{folder:?}");
            prop_assert_eq!(folder.matches('/').count(), 1);
        }
    }

    #[test]
    fn paths_out_of_the_sysdump_are_rejected() {
        for path in ["/etc", "../a", "a/../b", "a//b", "", "a/", "a\\b", "./a"] {
            assert!(!is_inside(path), "{path:?}");
        }
        assert!(is_inside("pods/a_b/conns.json"));
    }
}
