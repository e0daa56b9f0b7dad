//! Rejects text that no file may have: paths of one machine, hosts of registries, unfinished work, programs that the
//! agent starts, words that this repository does not use.

use super::{
    RULES, RULES_PATH,
    finding::Finding,
    source::{Line, Source},
};

/// The folder of CNI plugins on GKE: not a path of one machine.
const EVERY_MACHINE: &str = concat!("/", "home/kubernetes/bin");
/// The folders of the programs that run on nodes.
const ON_NODES: [&str; 2] = ["agent/", "cni-plugin/"];
/// The files with words that people read.
const WORDED: [&str; 4] = [".rs", ".md", ".yaml", ".txt"];
/// Modules may start their own program again as a new process.
const OWN_PROGRAM: &str = "\"/proc/self/exe\"";

pub(super) fn machine_paths(source: &Source) -> Vec<Finding> {
    let folder = |line: &Line<'_>| {
        let text = line.text.replace(EVERY_MACHINE, "");
        let mut folders = RULES.cells("machine").map(|name| format!("/{name}/"));
        folders.find(|folder| has(&text, folder, |before| !is_of_path(before)))
    };
    find(source, "machine-path", "is a folder of one machine", folder)
}

/// Checks everything except comments, tests, prose and lock files.
pub(super) fn registries(source: &Source) -> Vec<Finding> {
    let file = source.file_name();
    let is_rust = source.is_rust();
    let is_data_of_tests = source.path.contains("/src/") && source.path.contains("/tests/");
    let is_prose = file.ends_with(".md") || ["Cargo.lock", "go.sum"].contains(&file);
    if is_prose || is_data_of_tests && !is_rust {
        return Vec::new();
    }
    let host = |line: &Line<'_>| {
        let text = match is_rust {
            true if line.is_test => "",
            true => line.code(),
            false => line.text,
        };
        let mut hosts = RULES.cells("registry").map(|host| host.replace(' ', "."));
        hosts.find(|host| has(text, host, |before| !before.is_alphanumeric()))
    };
    find(
        source,
        "registry",
        "is a registry: users have their own",
        host,
    )
}

pub(super) fn unfinished(source: &Source) -> Vec<Finding> {
    let mark = |line: &Line<'_>| {
        let mut numbers = line.text.split('#').skip(1);
        if numbers.any(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
            return None;
        }
        let mut marks = RULES.cells("unfinished");
        let mark = marks.find(|mark| has(line.text, mark, |before| !before.is_alphanumeric()));
        mark.map(str::to_owned)
    };
    find(
        source,
        "unfinished",
        "needs the number of an issue, as (#12)",
        mark,
    )
}

/// The agent must start no other program: its image has none, and a program's output is not an API.
pub(super) fn processes(source: &Source) -> Vec<Finding> {
    let mut folders = ON_NODES.iter();
    let is_on_nodes = folders.any(|folder| source.path.starts_with(folder));
    if !source.is_rust() || !is_on_nodes || source.text.contains(OWN_PROGRAM) {
        return Vec::new();
    }
    let is_of_name = |before: char| before.is_alphanumeric() || before == '_';
    let start = |line: &Line<'_>| {
        let code = if line.is_test { "" } else { line.code() };
        let mut starts = ["process::Command", "Command::new("].into_iter();
        let start = starts.find(|text| has(code, text, |before| !is_of_name(before)));
        start.map(str::to_owned)
    };
    find(
        source,
        "process",
        "starts a program, which nothing on nodes may do",
        start,
    )
}

/// Whole words in any case, also between the underscores of a name.
pub(super) fn words(source: &Source) -> Vec<Finding> {
    if !WORDED.iter().any(|end| source.path.ends_with(end)) {
        return Vec::new();
    }
    let is_accepted = |word: &str| {
        let mut accepted = RULES.rows("accepted");
        accepted.any(|[file, accepted, _]| file == source.path && accepted == word)
    };
    let word = |line: &Line<'_>| {
        let text = line.text.to_lowercase();
        let parts: Vec<&str> = text.split(|one: char| !one.is_alphanumeric()).collect();
        let text = format!(" {} ", parts.join(" "));
        let mut words = RULES.rows("word").map(|[word, _]| word);
        let word = words.find(|word| text.contains(&format!(" {word} ")) && !is_accepted(word));
        word.map(str::to_owned)
    };
    let problem = format!("is a word with a replacement in {RULES_PATH}");
    find(source, "word", &problem, word)
}

/// A finding for each line with a match, which `problem` continues.
fn find(
    source: &Source,
    rule: &'static str,
    problem: &str,
    matches: impl Fn(&Line<'_>) -> Option<String>,
) -> Vec<Finding> {
    source
        .lines()
        .filter_map(|line| Some((line.number, matches(&line)?)))
        .map(|(line, text)| Finding::error(&source.path, line, rule, format!("{text} {problem}")))
        .collect()
}

/// Whether `text` contains `what` at its start or after a character that may precede it.
fn has(text: &str, what: &str, may_precede: impl Fn(char) -> bool) -> bool {
    text.match_indices(what)
        .any(|(at, _)| text[..at].chars().next_back().is_none_or(&may_precede))
}

fn is_of_path(before: char) -> bool {
    before.is_alphanumeric() || ".-_})>~*".contains(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Source {
        Source::new("agent/src/a.rs", text)
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for name in RULES.cells("machine") {
            let folder = format!("/{name}/");
            let text = format!("ok\nlet a = \"{folder}a\";\n");
            let found = machine_paths(&rust(&text));
            assert_eq!(found.len(), 1, "{folder}");
            assert_eq!((found[0].line, found[0].rule), (2, "machine-path"));
            let inside = format!("format!(\"{{dir}}{folder}a\"); see docs{folder}b");
            assert_eq!(machine_paths(&rust(&inside)), []);
        }
    }

    #[test]
    fn registries_are_found_where_something_may_be_fetched() {
        let image = format!(
            "image: {}/a/b:1\n",
            RULES.cells("registry").next().unwrap().replace(' ', ".")
        );
        let found = registries(&Source::new("deploy/manifests/usher.yaml", &image));
        assert_eq!((found[0].line, found[0].rule), (1, "registry"));
        assert_eq!(registries(&rust(&format!("let a = \"{image}\";"))).len(), 1);
        assert_eq!(registries(&rust(&format!("// {image}"))), []);
        assert_eq!(registries(&Source::new("docs/a.md", &image)), []);
        assert_eq!(registries(&Source::new("tests/tests/a.rs", &image)), []);
    }

    #[test]
    fn agent_starts_no_programs_outside_its_tests() {
        let text = "use std::process::Command;\nfn a() {\n    Command::new(\"b\");\n}\n\
                    #[cfg(test)]\nmod tests {\n    use std::process::Command;\n}\n";
        let lines = |path: &str, text: &str| -> Vec<usize> {
            let found = processes(&Source::new(path, text));
            found.iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("agent/src/a.rs", text), [1, 3]);
        assert_eq!(lines("cni-plugin/src/a.rs", text), [1, 3]);
        assert!(lines("xtask/src/a.rs", text).is_empty());
        assert!(lines("agent/tests/a.rs", text).is_empty());
        let own = format!("const PROGRAM: &str = {OWN_PROGRAM};\n{text}");
        assert!(lines("agent/src/a.rs", &own).is_empty());
        let other = "MyCommand::new(1)\nArgs::command()";
        assert!(lines("agent/src/a.rs", other).is_empty());
    }

    #[test]
    fn unfinished_work_has_an_issue() {
        for word in RULES.cells("unfinished") {
            assert_eq!(unfinished(&rust(&format!("// {word}(#12): a"))), []);
            let found = unfinished(&rust(&format!("// {word}: a")));
            assert_eq!(found[0].rule, "unfinished");
            assert_eq!(unfinished(&rust(&format!("// AUTO{word}S"))), []);
        }
    }

    #[test]
    fn words_are_found_in_any_case_and_within_names() {
        let [two, one] = [concat!("In ", "vain"), concat!("to", "ld")];
        let text = format!("{two} a\nis_{one}_{one}\n{one}er\n");
        let found = words(&Source::new("b.md", &text));
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 2]);
        assert_eq!(words(&Source::new("b.json", &text)), []);
    }

    #[test]
    fn every_line_has_the_cells_of_its_kind() {
        let lines = RULES.0.lines();
        let count = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let one = [
            "name",
            "machine",
            "registry",
            "unfinished",
            "daemon",
            "tool",
        ];
        let one: usize = one.iter().map(|kind| RULES.cells(kind).count()).sum();
        let two = RULES.rows::<2>("word").count() + RULES.rows::<2>("folder").count();
        let accepted = || RULES.rows::<3>("accepted");
        let three = accepted().count() + RULES.rows::<3>("arrow").count();
        assert_eq!(one + two + three, count.count());
        for [file, word, reason] in accepted() {
            let mut words = RULES.rows("word");
            assert!(words.any(|[listed, _]| listed == word), "{word}");
            assert!(!file.is_empty() && !reason.is_empty());
        }
    }
}
