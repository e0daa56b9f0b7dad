//! What a run comes to: a table, the same as JSON, and how to see a failure again.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::{
    outcome::Outcome,
    session::{Session, VARIABLE},
};
use crate::workspace::shown;

const HEADER: [&str; 8] = [
    "target",
    "executions",
    "per s",
    "edges",
    "features",
    "corpus",
    "seconds",
    "crashes",
];

/// A line for each target.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let row = |one: &Outcome| {
        let numbers = [
            one.executions,
            one.per_second,
            one.edges,
            one.features,
            one.corpus,
            one.seconds,
            one.failure.is_some().into(),
        ];
        let mut row = vec![one.target.clone()];
        row.extend(numbers.map(|number| number.to_string()));
        row
    };
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    rows.extend(outcomes.iter().map(row));
    let total: u64 = outcomes.iter().map(|one| one.executions).sum();
    let lines: Vec<String> = rows.iter().map(|row| line(row)).collect();
    format!("{}\n{total} executions in all", lines.join("\n"))
}

/// The name to the left, numbers to the right.
fn line(row: &[String]) -> String {
    let cells = row.iter().enumerate().map(|(at, cell)| match at {
        0 => format!("{cell:<16}"),
        _ => format!("{cell:>11}"),
    });
    cells.collect()
}

/// The same for programs.
pub(super) fn json(outcomes: &[Outcome]) -> Result<String> {
    let document = json!({ "targets": outcomes });
    serde_json::to_string_pretty(&document).context("write the report")
}

/// What was found, and how to see it again.
pub(super) fn failure(outcome: &Outcome, session: &Session) -> String {
    let Some(failure) = &outcome.failure else {
        return String::new();
    };
    let target = &outcome.target;
    let says = failure.says.join("\n    ");
    let log = shown(&session.log(target));
    let again = match &failure.file {
        None => format!("  it left no input; all that it said: {log}"),
        Some(file) => {
            let (file, program) = (shown(Path::new(file)), shown(&session.program));
            format!(
                "  input:  {file}\n  log:    {log}\n  replay: {VARIABLE}={target} {program} {file}\n  \
                 keep:   cp {file} tests/fuzz/corpus/{target}/NAME && cargo test -p usher-tests --test corpus"
            )
        }
    };
    format!("\n{target} FAILED:\n    {says}\n{again}")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{test::fuzz::outcome::Failure, workspace::root};

    fn outcome(failure: Option<Failure>) -> Outcome {
        Outcome {
            target: "word".to_owned(),
            executions: 2048,
            per_second: 1024,
            edges: 310,
            features: 512,
            corpus: 25,
            memory: 41,
            seconds: 2,
            failure,
        }
    }

    #[test]
    fn columns_are_under_their_names() {
        let table = table(&[outcome(None)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].len(), lines[1].len());
        assert!(lines[1].starts_with("word ") && lines[1].ends_with(" 0"));
        assert_eq!(lines[2], "2048 executions in all");
        let document: serde_json::Value =
            serde_json::from_str(&json(&[outcome(None)]).unwrap()).unwrap();
        assert_eq!(document["targets"][0]["perSecond"], 1024);
    }

    #[test]
    fn failure_can_be_replayed() {
        let session = Session {
            program: root().join("target/fuzz/p"),
            place: root().join("target/fuzz"),
            seed: None,
        };
        let file = root().join("target/fuzz/crashes/word-crash-00");
        let failed = outcome(Some(Failure {
            file: Some(file.display().to_string()),
            says: vec!["panicked at a.rs:1".to_owned()],
        }));
        let text = failure(&failed, &session);
        assert!(text.contains("panicked at a.rs:1"), "{text}");
        let replay = "USHER_FUZZ_TARGET=word target/fuzz/p target/fuzz/crashes/word-crash-00";
        assert!(text.contains(replay), "{text}");
        assert_eq!(
            session.log("word"),
            PathBuf::from(root()).join("target/fuzz/log/word.log")
        );
    }
}
