//! Standard output that cannot be written: truncated output never looks complete, and a signal ends a blocked process.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, ErrorKind, PipeWriter, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    process::{Output, Stdio},
};

use nix::{
    fcntl::OFlag,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use usher_tests::{
    synthetic::{Agent, Node, PodSpec, usher},
    wait::{found_within, patience},
};

use crate::{answer, enforcing, known, network::Beside};

const POD: &str = "default/finished";
/// Commands that succeed with enough space.
const CASES: [&[&str]; 14] = [
    &["pods"],
    &["pods", "-o", "json"],
    &["pods", "-o", "yaml"],
    &["status"],
    &["status", "--wait=1s"],
    &["plan", POD],
    &["conns", POD],
    &["rules", POD],
    &["config"],
    &["metrics"],
    &["report"],
    &["completion", "bash"],
    &["cleanup", "--dry-run", "--run-dir", "/nothing"],
    &["sysdump", "--pod", POD],
];

fn into(node: &Node, arguments: &[&str], out: impl Into<Stdio>) -> Output {
    let mut command = usher::command_on(node);
    command.args(arguments).stdout(out);
    command.stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn write_failure_is_reported_with_an_error_code() {
    let Some(node) = enforcing() else { return };
    let _agent = Agent::start(&node);
    let _pod = node.run(&PodSpec::job("finished"));
    known(&node);
    for arguments in CASES {
        if !["cleanup", "sysdump"].contains(&arguments[0]) {
            answer(&node, arguments);
        }
        let output = into(&node, arguments, File::create("/dev/full").unwrap());
        let stderr = String::from_utf8_lossy(&output.stderr);
        let problems = stderr.lines().filter(|line| line.contains("No space left"));
        assert_eq!(problems.count(), 1, "{arguments:?}: {stderr}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    }
    // For a command that does not end, the first line suffices.
    let output = into(&node, &["watch"], File::create("/dev/full").unwrap());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn closed_pipe_is_no_error() {
    let Some(node) = enforcing() else { return };
    for arguments in [&["pods"][..], &["completion", "bash"], &["watch"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = into(&node, arguments, writer);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    }
}

/// Fills a pipe.
fn fill(pipe: &PipeWriter) {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let mut other = options.open(path).unwrap();
    loop {
        match other.write(b"x") {
            Ok(_) => {}
            Err(full) if full.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn stalled_reader_does_not_block_termination() {
    let Some(node) = enforcing() else { return };
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (_reader, writer) = io::pipe().unwrap();
        fill(&writer);
        let mut command = usher::command_on(&node);
        command.arg("watch").stdout(writer);
        let mut watch = Beside::start(command);
        let mut stderr = BufReader::new(watch.0.stderr.take().unwrap());
        let mut notice = String::new();
        // The next line is the header.
        stderr.read_line(&mut notice).unwrap();
        assert!(notice.contains("following the timeline's file"), "{notice}");
        kill(Pid::from_raw(watch.pid()), signal).unwrap();
        let ended = found_within(patience(), "its end", || watch.0.try_wait().unwrap());
        assert_eq!(ended.code(), Some(0), "{signal}");
    }
}
