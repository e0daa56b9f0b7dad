//! The candidates at each position of the command line.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use clap::{CommandFactory, Parser, Subcommand};

use crate::completion::*;

#[derive(Parser)]
#[command(name = "usher")]
struct Line {
    /// The form
    #[arg(short, long, global = true)]
    output: Option<Form>,
    /// A dump
    #[arg(long, global = true)]
    file: Option<std::path::PathBuf>,
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand)]
enum Sub {
    /// Its connections
    ///
    /// At length.
    Conns {
        #[arg(value_name = "POD")]
        pod: String,
        /// Listening ones
        #[arg(short, long)]
        listening: bool,
        /// One port
        #[arg(short, long)]
        port: Option<u16>,
        #[arg(long, hide = true)]
        secret: bool,
    },
    /// Pods
    Pods,
    #[command(hide = true)]
    Hidden,
    /// Several
    Watch {
        #[arg(value_name = "POD")]
        pods: Vec<String>,
    },
}

#[derive(Clone, ValueEnum)]
enum Form {
    /// For people
    Table,
    Json,
}

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

fn offered(line: &str) -> Vec<String> {
    let pods = || {
        vec![
            ("shop/report-1".to_owned(), "2 containers"),
            ("shop/web".to_owned(), ""),
        ]
    };
    candidates(Line::command(), words(line), pods)
}

#[test]
fn subcommands_with_descriptions() {
    assert_eq!(
        offered(""),
        [
            "conns\tIts connections",
            "pods\tPods",
            "watch\tSeveral",
            "help\tPrint this message or the help of the given subcommand(s)"
        ]
    );
    assert_eq!(offered("po"), ["pods\tPods"]);
    assert_eq!(offered("-o json po"), ["pods\tPods"]);
}

#[test]
fn live_pods_are_candidates() {
    let both = ["shop/report-1\t2 containers", "shop/web"];
    for line in [
        "conns ",
        "conns shop/",
        "--output json conns ",
        "conns -l ",
        "conns --port 80 ",
        "conns -lp 80 ",
        "conns --port=80 ",
        "conns --port = 80 ",
        "conns -- ",
        "watch shop/web ",
    ] {
        assert_eq!(offered(line), both, "{line}");
    }
    assert_eq!(offered("conns shop/w"), ["shop/web"]);
    assert_eq!(offered("conns shop/web "), [""; 0], "one is enough");
}

#[test]
fn node_is_read_only_where_a_pod_is_expected() {
    for (line, expected) in [("conns --", false), ("conns s", true)] {
        let was_read = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&was_read);
        candidates(Line::command(), words(line), move || {
            flag.store(true, Ordering::Relaxed);
            Vec::new()
        });
        assert_eq!(was_read.load(Ordering::Relaxed), expected, "{line}");
    }
}

#[test]
fn flags_of_the_subcommand_and_of_all() {
    let flags = offered("conns shop/web --");
    assert!(
        flags.contains(&"--listening\tListening ones".to_owned()),
        "{flags:?}"
    );
    assert!(
        flags.contains(&"--output\tThe form".to_owned()),
        "{flags:?}"
    );
    assert!(
        !flags.iter().any(|flag| flag.contains("secret")),
        "{flags:?}"
    );
    assert_eq!(offered("conns --li"), ["--listening\tListening ones"]);
    assert_eq!(offered("conns -- --li"), [""; 0]);
}

#[test]
fn values_of_flags() {
    for line in [
        "--output ",
        "conns -o ",
        "conns --output = ",
        "conns --output =",
    ] {
        assert_eq!(offered(line), ["table\tFor people", "json"], "{line}");
    }
    assert_eq!(offered("conns --output=j"), ["--output=json"]);
    assert_eq!(offered("conns --output = j"), ["json"]);
    assert_eq!(offered("--file "), [FILES]);
    assert_eq!(offered("--file=/tmp/"), [FILES]);
    assert_eq!(offered("conns --port "), [""; 0]);
    assert_eq!(offered("conns --listening=x"), [""; 0]);
}

#[test]
fn control_characters_in_names_are_removed() {
    let candidate = CompletionCandidate::new("a\nb\tc").help(Some("d\u{1b}[2J".into()));
    assert_eq!(line(&candidate, ""), "abc\td");
}

#[test]
fn every_shell_has_a_script_that_calls_the_program() {
    for shell in Shell::value_variants() {
        let script = shell.script();
        assert!(
            script.contains(COMPLETE) && script.contains(FILES),
            "{shell:?}"
        );
    }
}
