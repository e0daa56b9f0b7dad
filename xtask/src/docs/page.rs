//! A page with generated parts between markers.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

const END: &str = "<!-- end generated -->";

/// A generated part of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The name of the file in docs, without its extension.
    pub(super) page: &'static str,
    /// The name in the marker.
    name: &'static str,
    write: fn() -> Result<String>,
}

pub(super) const fn part(
    page: &'static str,
    name: &'static str,
    write: fn() -> Result<String>,
) -> Part {
    Part { page, name, write }
}

/// The page with every part as the code generates it, whatever is between the markers now.
pub(super) fn fill(path: &str, text: &str, parts: &[Part]) -> Result<String> {
    let mut page = String::with_capacity(text.len());
    let mut seen = BTreeSet::new();
    // The name in the last opening marker, and its line.
    let mut open: Option<(&str, usize)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (open, name(line)) {
            (None, Some(name)) => {
                let part = parts.iter().find(|part| part.name == name);
                let part = part.with_context(|| {
                    let known: Vec<&str> = parts.iter().map(|part| part.name).collect();
                    let known = known.join(", ");
                    format!("{path}:{number}: unknown part {name:?}; this page has: {known}")
                })?;
                if !seen.insert(name) {
                    bail!("{path}:{number}: second part {name:?}");
                }
                page.push_str(&format!("{line}\n\n{}\n\n", (part.write)()?.trim_end()));
                open = Some((name, number));
            }
            (Some((name, from)), Some(_)) => {
                bail!("{path}:{from}: {name:?} has no {END} before line {number}")
            }
            (None, None) if line == END => bail!("{path}:{number}: {END} without a start"),
            (Some(_), None) if line != END => {}
            (_, None) => {
                open = None;
                page.push_str(line);
                page.push('\n');
            }
        }
    }
    if let Some((name, from)) = open {
        bail!("{path}:{from}: {name:?} has no {END}");
    }
    if let Some(part) = parts.iter().find(|part| !seen.contains(part.name)) {
        bail!("{path}: no <!-- generated: {} -->", part.name);
    }
    Ok(page)
}

/// The name in an opening marker.
fn name(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- generated: ")?.strip_suffix(" -->")
}

/// The first difference between a page and the code.
pub(super) fn difference(path: &str, current: &str, wanted: &str) -> Option<String> {
    if current == wanted {
        return None;
    }
    let same = current
        .lines()
        .zip(wanted.lines())
        .take_while(|(one, other)| one == other)
        .count();
    let line = |text: &str| {
        let line = text.lines().nth(same);
        line.map_or("nothing".to_owned(), |line| format!("\"{line}\""))
    };
    Some(format!(
        "{path}:{}: page: {}\n  code: {}",
        same + 1,
        line(current),
        line(wanted)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [Part; 2] = [
        part("a", "one", || Ok("1\n".to_owned())),
        part("a", "two words", || Ok("2".to_owned())),
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
        for (text, error) in [
            (
                one.to_owned(),
                "docs/a.md: no <!-- generated: two words -->",
            ),
            (
                "\n<!-- generated: three -->\n".to_owned(),
                "docs/a.md:2: unknown part \"three\"; this page has: one, two words",
            ),
            (
                "<!-- generated: one -->\n\n".to_owned(),
                "docs/a.md:1: \"one\" has no <!-- end generated -->",
            ),
            (
                "<!-- generated: one -->\n<!-- generated: two words -->\n".to_owned(),
                "docs/a.md:1: \"one\" has no <!-- end generated --> before line 2",
            ),
            (
                format!("{one}<!-- end generated -->\n"),
                "docs/a.md:3: <!-- end generated --> without a start",
            ),
            (format!("{one}{one}"), "docs/a.md:3: second part \"one\""),
        ] {
            assert_eq!(of(&text), error);
        }
    }

    #[test]
    fn first_difference_is_shown() {
        assert_eq!(difference("a.md", "a\nb\n", "a\nb\n"), None);
        let found = difference("a.md", "a\nb\nc\n", "a\nB\nC\n").unwrap();
        let expected = "a.md:2: page: \"b\"\n  code: \"B\"";
        assert_eq!(found, expected);
        let longer = difference("a.md", "a\n", "a\nb\n").unwrap();
        assert!(longer.contains("a.md:2: page: nothing"), "{longer}");
    }
}
