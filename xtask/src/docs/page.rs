//! A page with generated parts between markers.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

const END: &str = "<!-- end generated -->";

/// A part of a page that is generated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Its name in the marker.
    pub(super) name: &'static str,
    /// What stands there.
    pub(super) write: fn() -> Result<String>,
}

/// The page with every part as the code has it. What stands between the markers now does not matter.
pub(super) fn filled(path: &str, text: &str, parts: &[Part]) -> Result<String> {
    let mut page = String::with_capacity(text.len());
    let mut seen = BTreeSet::new();
    // The part that a marker began, and where.
    let mut open: Option<(&str, usize)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let begun = name(line);
        match (open, begun) {
            (None, Some(name)) => {
                let Some(part) = parts.iter().find(|part| part.name == name) else {
                    let known: Vec<&str> = parts.iter().map(|part| part.name).collect();
                    bail!(
                        "{path}:{number}: nothing is generated as {name:?}; this page has: {}",
                        known.join(", ")
                    );
                };
                if !seen.insert(name) {
                    bail!("{path}:{number}: a second part {name:?}");
                }
                page.push_str(&format!("{line}\n\n{}\n\n", (part.write)()?.trim_end()));
                open = Some((name, number));
            }
            (Some((name, from)), Some(_)) => {
                bail!("{path}:{from}: {name:?} has no {END} before line {number}")
            }
            (None, None) if line == END => {
                bail!("{path}:{number}: the end of a generated part that did not begin")
            }
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

/// The name in a marker that begins a part.
fn name(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- generated: ")?.strip_suffix(" -->")
}

/// Where a page first differs from what it should be.
pub(super) fn difference(path: &str, now: &str, wanted: &str) -> Option<String> {
    if now == wanted {
        return None;
    }
    let same = now
        .lines()
        .zip(wanted.lines())
        .take_while(|(one, other)| one == other)
        .count();
    let line = |text: &str| text.lines().nth(same).map_or("nothing".to_owned(), quoted);
    Some(format!(
        "{path}:{}: the page has   {}\n{:width$}  the code says  {}",
        same + 1,
        line(now),
        "",
        line(wanted),
        width = path.len() + (same + 1).to_string().len()
    ))
}

fn quoted(line: &str) -> String {
    format!("\"{line}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [Part; 2] = [
        Part {
            name: "one",
            write: || Ok("1\n".to_owned()),
        },
        Part {
            name: "two words",
            write: || Ok("2".to_owned()),
        },
    ];

    fn of(text: &str) -> String {
        filled("docs/a.md", text, &PARTS).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn what_stands_between_markers_is_replaced_and_nothing_else() {
        let page = "a\n<!-- generated: one -->\nold\nolder\n<!-- end generated -->\nb\n\
                    <!-- generated: two words -->\n<!-- end generated -->\n";
        let wanted = "a\n<!-- generated: one -->\n\n1\n\n<!-- end generated -->\nb\n\
                      <!-- generated: two words -->\n\n2\n\n<!-- end generated -->\n";
        assert_eq!(of(page), wanted);
        assert_eq!(of(wanted), wanted, "twice is the same as once");
    }

    #[test]
    fn markers_that_are_wrong_are_named() {
        let one = "<!-- generated: one -->\n<!-- end generated -->\n";
        for (text, error) in [
            (
                one.to_owned(),
                "docs/a.md: no <!-- generated: two words -->",
            ),
            (
                "\n<!-- generated: three -->\n".to_owned(),
                "docs/a.md:2: nothing is generated as \"three\"; this page has: one, two words",
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
                "docs/a.md:3: the end of a generated part that did not begin",
            ),
            (format!("{one}{one}"), "docs/a.md:3: a second part \"one\""),
        ] {
            assert_eq!(of(&text), error);
        }
    }

    #[test]
    fn first_difference_is_shown() {
        assert_eq!(difference("a.md", "a\nb\n", "a\nb\n"), None);
        let found = difference("a.md", "a\nb\nc\n", "a\nB\nC\n").unwrap();
        let expected = "a.md:2: the page has   \"b\"\n       the code says  \"B\"";
        assert_eq!(found, expected);
        let longer = difference("a.md", "a\n", "a\nb\n").unwrap();
        assert!(
            longer.contains("a.md:2: the page has   nothing"),
            "{longer}"
        );
    }
}
