//! What is offered at which place.

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

fn offered(line: &str) -> Vec<String> {
    let mut command = Line::command();
    command.build();
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let place = place(&command, &words);
    let pods = vec![
        Offer::new("shop/report-1", "2 containers"),
        Offer::new("shop/web", ""),
    ];
    lines(&place, pods)
}

#[test]
fn subcommands_and_what_they_are() {
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
    assert_eq!(offered("nothing "), [""; 0]);
}

#[test]
fn pods_that_live() {
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
fn pods_are_asked_for_only_where_one_is_wanted() {
    let mut command = Line::command();
    command.build();
    for (words, expected) in [(["conns", "--"], false), (["conns", "s"], true)] {
        let words = words.map(str::to_owned);
        assert_eq!(offer::wants_pod(&place(&command, &words)), expected);
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
fn what_a_name_has_in_it_ends_no_line() {
    let offer = Offer::new("a\nb\tc", "d\u{1b}[2J");
    assert_eq!(offer.line(), "abc\td[2J");
}

#[test]
fn every_shell_has_a_script_that_asks() {
    for shell in Shell::value_variants() {
        let script = shell.script();
        assert!(
            script.contains(COMPLETE) && script.contains(FILES),
            "{shell:?}"
        );
    }
}
