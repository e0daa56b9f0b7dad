//! Checks the links between pages: every relative link of a `*.md` has an existing file and heading.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use super::{finding::Finding, source::Source};

/// The broken links. `exists` tests a path relative to the top of the repository.
pub(super) fn check(sources: &[Source], exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let pages = || sources.iter().filter(|source| is_page(source));
    let anchors: BTreeMap<&Path, BTreeSet<String>> = pages()
        .map(|page| (Path::new(&page.path), anchors(page)))
        .collect();
    let mut found = Vec::new();
    for page in pages() {
        for (line, target) in links(page) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let place = resolve(&page.path, path);
            let headings = anchors.get(&*place).filter(|_| !anchor.is_empty());
            let missing = match headings {
                _ if !exists(&place) => "file",
                Some(headings) if !headings.contains(anchor) => "heading",
                _ => continue,
            };
            let message = format!("{target}: no such {missing}");
            found.push(Finding::error(&page.path, line, "link", message));
        }
    }
    found
}

fn is_page(source: &Source) -> bool {
    source.path.ends_with(".md")
}

/// The targets of links within the repository.
fn links(page: &Source) -> impl Iterator<Item = (usize, &str)> {
    page.prose().flat_map(|(number, text)| {
        text.split("](")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once(')')?.0))
            .filter(|target| !target.contains(':'))
            .map(move |target| (number, target))
    })
}

/// The anchors of the headings, as code hosts make them.
fn anchors(page: &Source) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, text) in page.prose() {
        let title = text.trim_start_matches('#');
        if title.len() == text.len() || !title.starts_with(' ') {
            continue;
        }
        let slug = slug(title.trim());
        let same = (1..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.clone()).chain(same);
        found.extend(free.into_iter().find(|anchor| !found.contains(anchor)));
    }
    found
}

fn slug(title: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    let letters = title.to_lowercase();
    letters
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}

/// Resolves a link of a page to a path relative to the top of the repository.
fn resolve(page: &str, target: &str) -> PathBuf {
    if target.is_empty() {
        return PathBuf::from(page);
    }
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = pages
            .iter()
            .map(|(path, text)| Source::new(path, text))
            .collect();
        let exists = |path: &Path| pages.iter().any(|(page, _)| Path::new(page) == path);
        let found = check(&sources, exists);
        found
            .iter()
            .map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.message))
            .collect()
    }

    #[test]
    fn missing_files_and_headings_are_found() {
        let text =
            "# A\n[1](b.md) [2](c.md)\n[3](b.md#two-words) [4](b.md#three)\n[5](#a) [6](#b)\n";
        let pages = [("docs/a.md", text), ("docs/b.md", "## Two `words`?\n")];
        let expected = [
            "docs/a.md:2 c.md: no such file",
            "docs/a.md:3 b.md#three: no such heading",
            "docs/a.md:4 #b: no such heading",
        ];
        assert_eq!(found(&pages), expected);
    }

    #[test]
    fn folders_urls_and_code_are_known() {
        let text =
            "[1](../README.md) [2](https://a.example/b.md)\n```\n[3](none.md)\n# no heading\n```\n";
        let pages = [
            ("docs/a.md", text),
            ("README.md", "[a](docs/a.md#no-heading)\n"),
        ];
        let expected = ["README.md:1 docs/a.md#no-heading: no such heading"];
        assert_eq!(found(&pages), expected);
    }

    #[test]
    fn second_heading_of_a_name_has_a_number() {
        let pages = [("a.md", "# A\n## A\n[1](#a) [2](#a-1) [3](#a-2)\n")];
        assert_eq!(found(&pages), ["a.md:3 #a-2: no such heading"]);
    }
}
