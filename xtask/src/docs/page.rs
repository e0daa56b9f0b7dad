//! A page with generated parts between markers.

use anyhow::{Context, Result, ensure};

const START: &str = "<!-- generated: ";
const END: &str = "<!-- end generated -->\n";

/// A generated part of a page: the file in docs without its extension, the name in the marker, and the text.
pub(super) type Part = (&'static str, &'static str, fn() -> Result<String>);

/// Replaces the text between all markers by the parts that the code generates.
pub(super) fn fill(path: &str, text: &str, parts: &[Part]) -> Result<String> {
    let mut page = text.to_owned();
    for (_page, name, write) in parts {
        let start = format!("{START}{name} -->\n");
        let (before, rest) = page
            .split_once(&start)
            .with_context(|| format!("{path}: no {}", start.trim_end()))?;
        let (old, after) = rest
            .split_once(END)
            .with_context(|| format!("{path}: {name:?} has no {}", END.trim_end()))?;
        ensure!(
            !old.contains(START),
            "{path}: {name:?} has another part in it"
        );
        page = format!("{before}{start}\n{}\n\n{END}{after}", write()?.trim_end());
    }
    for marker in [START, END] {
        let count = page.matches(marker).count();
        ensure!(
            count == parts.len(),
            "{path}: {count} times {:?}, not {}",
            marker.trim_end(),
            parts.len()
        );
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [Part; 2] = [
        ("a", "one", || Ok("1\n".to_owned())),
        ("a", "two words", || Ok("2".to_owned())),
    ];

    fn of(text: &str) -> String {
        fill("docs/a.md", text, &PARTS).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn only_text_between_markers_is_replaced() {
        let page = "a\n<!-- generated: one -->\nold\nolder\n<!-- end generated -->\nb\n\
                    <!-- generated: two words -->\n<!-- end generated -->\n";
        let wanted = "a\n<!-- generated: one -->\n\n1\n\n<!-- end generated -->\nb\n\
                      <!-- generated: two words -->\n\n2\n\n<!-- end generated -->\n";
        assert_eq!(of(page), wanted);
        assert_eq!(of(wanted), wanted, "twice is the same as once");
    }

    #[test]
    fn invalid_markers_are_reported() {
        let one = "<!-- generated: one -->\n<!-- end generated -->\n";
        let two = "<!-- generated: two words -->\n<!-- end generated -->\n";
        for (text, error) in [
            (
                one.to_owned(),
                "docs/a.md: no <!-- generated: two words -->",
            ),
            (
                "<!-- generated: one -->\n\n".to_owned(),
                "docs/a.md: \"one\" has no <!-- end generated -->",
            ),
            (
                format!("<!-- generated: one -->\n{two}"),
                "docs/a.md: \"one\" has another part in it",
            ),
            (
                format!("{one}{two}<!-- end generated -->\n"),
                "docs/a.md: 3 times \"<!-- end generated -->\", not 2",
            ),
            (
                format!("{one}{two}{one}"),
                "docs/a.md: 3 times \"<!-- generated:\", not 2",
            ),
        ] {
            assert_eq!(of(&text), error);
        }
    }
}
