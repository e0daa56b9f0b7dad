//! One command in the agents of all nodes, some at a time. Output is in the order of the nodes.

mod buffer;

use std::{io::Write, sync::mpsc, thread, time::Duration};

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use usher_core::admin::{CostReport, Document, Origin};
use usher_inspect::text::printable::{clean, clean_document};

use self::buffer::Buffer;
use super::{
    Cluster, Code,
    agent::{Agent, OfNode},
    exec,
    exec::{Stdin, Streams},
    redirect::{self, Content},
};
use crate::{
    failure::Failure,
    global::{Exit, command_line::CommandLine},
    output::{Output, stdout},
    stderr::print_stderr,
};

/// Nodes that run the command at the same time.
const AT_ONCE: usize = 8;
/// Limit of the output of one node, which waits in memory for its turn.
const MOST_OUTPUT: usize = 64 * 1024 * 1024;
/// Limit of the time of one node. A sysdump has its own limit (`--timeout`).
const DEADLINE: Duration = Duration::from_secs(120);
/// Commands that have nothing to show for a node when they exit with 0.
const ONLY_PROBLEMS: &str = "stuck";
/// The command with reports that are added up.
const ADDED_UP: &str = "report";

/// How the output of several nodes is joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joined {
    /// A section for each node, after a line with its name.
    Sections { skips_empty: bool },
    /// One JSON array.
    Json,
    /// A YAML document for each node.
    Yaml,
    /// A file for each node.
    Files,
    /// One report with the sum.
    Sum,
}

/// The result of one node.
#[derive(Debug)]
struct Outcome {
    node: String,
    code: Code,
    output: Vec<u8>,
    errors: String,
}

/// Runs the command; the highest exit code.
pub(super) async fn run(
    cluster: &Cluster,
    agents: Vec<OfNode>,
    mut line: CommandLine,
    output: Output,
) -> Result<Code, Failure> {
    let joined = joined(&line);
    if joined == Joined::Files {
        line.set("write", "--write", "-");
    }
    if joined == Joined::Sum {
        line.set("output", "--output", "json");
    }
    let words = redirect::words(line)?;
    let outcomes = stream::iter(agents)
        .map(|(node, agent)| one(cluster, node, agent, words.clone(), joined))
        .buffered(AT_ONCE);
    tokio::pin!(outcomes);
    // A reader that pauses, such as a pager, must not take the time of the nodes.
    let (sections, texts) = mpsc::channel::<String>();
    let printer = thread::spawn(move || texts.iter().try_for_each(|text| stdout::put(&text)));
    let (mut worst, mut count, mut failed) = (0, 0, 0);
    let mut reports = Vec::new();
    let mut costs = Vec::new();
    while let Some(outcome) = outcomes.next().await {
        worst = worst.max(outcome.code);
        count += 1;
        failed += usize::from(outcome.code != 0);
        for line in outcome.errors.lines() {
            print_stderr(&clean(&format!("{}: {line}", outcome.node)));
        }
        match joined {
            Joined::Json => reports.push(report(&outcome)),
            Joined::Sum => costs.extend(cost_report(&outcome)),
            joined if sections.send(text(&outcome, joined, count == 1)).is_err() => break,
            _ => {}
        }
    }
    drop(sections);
    let printed = printer.join();
    printed.map_err(|_panic| Failure::new(Exit::Problem, "the output failed".to_owned()))??;
    if joined == Joined::Json {
        stdout::put(&joined_json(reports))?;
    }
    if joined == Joined::Sum {
        output.show(Origin::Agent, CostReport::sum(costs))?;
    }
    let nodes = if count == 1 { "node" } else { "nodes" };
    print_stderr(&format!(
        "{count} {nodes}, {failed} with an exit code other than 0"
    ));
    Ok(worst)
}

fn joined(line: &CommandLine) -> Joined {
    let output = line.value("output").and_then(|output| output.to_str());
    match (&line.subcommand[..], output) {
        ("sysdump", _) => Joined::Files,
        (ADDED_UP, _) => Joined::Sum,
        (_, Some("json")) => Joined::Json,
        (_, Some("yaml")) => Joined::Yaml,
        (name, _) => Joined::Sections {
            skips_empty: name == ONLY_PROBLEMS,
        },
    }
}

async fn one(
    cluster: &Cluster,
    node: String,
    agent: Result<Agent, Failure>,
    words: Vec<String>,
    joined: Joined,
) -> Outcome {
    let mut output = Buffer::new(MOST_OUTPUT);
    let mut errors = Buffer::new(MOST_OUTPUT);
    let command = async {
        let agent = agent?;
        let dump = (joined == Joined::Files).then(|| redirect::dump_name(Some(&node)));
        let stdout: Box<dyn Write + '_> = match &dump {
            Some(dump) => Box::new(redirect::create(dump, false)?),
            None => Box::new(&mut output),
        };
        let streams = Streams {
            stdin: Stdin::None,
            stdout,
            stderr: Box::new(&mut errors),
        };
        let ran = exec::run(cluster, &agent, words, streams).await;
        if let Some(dump) = dump {
            redirect::remove_useless(&dump, Content::Sysdump, &ran);
        }
        ran
    };
    let deadline = (joined != Joined::Files).then_some(DEADLINE);
    let mut ran = within(deadline, command).await;
    if output.is_exceeded || errors.is_exceeded {
        errors.bytes.clear();
        let text = format!(
            "more than {} MiB of output; run the command with --node {node}",
            MOST_OUTPUT / 1024 / 1024
        );
        ran = Err(Failure::new(Exit::Problem, text));
    }
    if ran.is_err() {
        // A part of a report is not a report.
        output.bytes.clear();
    }
    let (code, failure) = match ran {
        Ok(code) => (code, None),
        Err(failure) => (Code::from(failure.exit), Some(failure.text)),
    };
    let errors = String::from_utf8_lossy(&errors.bytes);
    let errors = errors.lines().map(without_program).chain(failure);
    Outcome {
        node,
        code,
        output: output.bytes,
        errors: errors.collect::<Vec<_>>().join("\n"),
    }
}

/// Runs the command of one node, for this time at most.
async fn within(
    deadline: Option<Duration>,
    command: impl Future<Output = Result<Code, Failure>>,
) -> Result<Code, Failure> {
    let Some(deadline) = deadline else {
        return command.await;
    };
    let late = |_elapsed| {
        let limit = deadline.as_secs();
        Failure::unavailable(format!(
            "the command did not end within {limit} s; run it with --node, which has no limit"
        ))
    };
    tokio::time::timeout(deadline, command)
        .await
        .map_err(late)?
}

/// Removes the program's name from the start of a line of standard error.
fn without_program(line: &str) -> String {
    line.strip_prefix("usher: ").unwrap_or(line).to_owned()
}

/// The costs on one node; None without a report, which the node's exit code explains.
fn cost_report(outcome: &Outcome) -> Option<CostReport> {
    let document: Document<CostReport> = serde_json::from_slice(&outcome.output).ok()?;
    Some(document.data)
}

fn report(outcome: &Outcome) -> Value {
    let report: Value = serde_json::from_slice(&outcome.output).unwrap_or_default();
    json!({"node": outcome.node, "exitCode": outcome.code, "report": report})
}

/// One array. The agents' escapes were decoded with their JSON, so the text is escaped again.
fn joined_json(reports: Vec<Value>) -> String {
    let text = format!("{:#}", Value::from(reports));
    format!("{}\n", clean_document(&text))
}

fn text(outcome: &Outcome, joined: Joined, is_first: bool) -> String {
    let node = &outcome.node;
    let output = String::from_utf8_lossy(&outcome.output);
    match joined {
        Joined::Sections { skips_empty: true } if outcome.code == 0 => String::new(),
        Joined::Sections { .. } if output.is_empty() => String::new(),
        Joined::Sections { .. } => {
            let gap = if is_first { "" } else { "\n" };
            format!("{gap}node {node}\n{output}")
        }
        Joined::Yaml => format!("---\n# node {node}\n{output}"),
        Joined::Json | Joined::Files | Joined::Sum => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(node: &str, code: Code, output: &str) -> Outcome {
        Outcome {
            node: node.to_owned(),
            code,
            output: output.as_bytes().to_vec(),
            errors: String::new(),
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn command_of_a_node_ends_at_its_deadline() {
        let short = Some(Duration::from_millis(1));
        let failure = within(short, std::future::pending()).await.unwrap_err();
        assert_eq!(failure.exit, Exit::Unavailable);
        assert!(failure.text.contains("did not end within"), "{failure:?}");
        assert_eq!(within(short, async { Ok(3) }).await, Ok(3));
        assert_eq!(within(None, async { Ok(3) }).await, Ok(3));
    }

    /// The agent's escape is decoded with its JSON. Printed as it is, U+009B starts a command of the terminal.
    #[test]
    fn joined_json_is_escaped_for_a_terminal() {
        let one = report(&outcome("one", 0, r#"{"image": "\u009b2J\u202e"}"#));
        let joined = joined_json(vec![one.clone()]);
        assert!(joined.contains(r"\u009b2J\u202e"), "{joined}");
        assert_eq!(serde_json::from_str::<Value>(&joined).unwrap()[0], one);
    }

    #[test]
    fn each_node_has_a_section() {
        let sections = |skips_empty| Joined::Sections { skips_empty };
        let table = [
            (
                outcome("one", 0, "ok\n"),
                sections(false),
                true,
                "node one\nok\n",
            ),
            (
                outcome("two", 1, "bad\n"),
                sections(true),
                false,
                "\nnode two\nbad\n",
            ),
            (outcome("two", 0, "none\n"), sections(true), false, ""),
            (outcome("two", 5, ""), sections(false), false, ""),
            (
                outcome("one", 0, "a: 1\n"),
                Joined::Yaml,
                true,
                "---\n# node one\na: 1\n",
            ),
        ];
        for (outcome, joined, is_first, expected) in table {
            assert_eq!(text(&outcome, joined, is_first), expected, "{outcome:?}");
        }
        let expected = json!({"node": "one", "exitCode": 1, "report": {"a": 1}});
        assert_eq!(report(&outcome("one", 1, "{\"a\": 1}")), expected);
        assert_eq!(report(&outcome("one", 5, ""))["report"], Value::Null);
        let costs = r#"{"apiVersion":"usher.dev/cli/v1","kind":"Report","from":"agent",
            "nodes":[{"node":"one","sinceMs":1,"forMs":2}],"items":[]}"#;
        let costs = cost_report(&outcome("one", 0, costs)).unwrap();
        assert_eq!(costs.nodes[0].node, "one");
        assert_eq!(cost_report(&outcome("one", 5, "")), None);
    }
}
