//! Pods whose names and values contain terminal control sequences: no subcommand prints them unescaped,
//! in any output format.
//!
//! The subcommands are those that the program itself lists, so a new one without a case here fails.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        socket::{AddressFamily, Backlog, SockaddrIn, bind, listen},
    },
    unistd::Pid,
};
use serde_json::json;
use usher_sys::net::netns::Netns;
use usher_tests::{
    synthetic::{
        Agent, ContainerSpec, Node, Pod, PodSpec,
        usher::{self, Ran},
        wire::Manner,
    },
    wait::patience,
};

use crate::{answer, enforcing, resolve::HOST_ROOT};

/// Clears the screen, sets its title, makes the terminal reply; newline; C1; right-to-left; invisible characters.
const EVIL: &str = "e\x1b[2J\x1b]0;t\x07\r\nv\u{9b}31m\u{202e}i\u{2066}\u{200b}\u{7f}l";
/// The port of a server in the pod that sends control sequences.
const PORT: u16 = 9876;
const FORMS: [&[&str]; 5] = [
    &[],
    &["-o", "wide"],
    &["-o", "json"],
    &["-o", "yaml"],
    &["--color", "always"],
];
/// The only subcommand that does not end by itself is terminated after this time.
const LONG: Duration = Duration::from_secs(3);

/// The placeholder for the pod in a case.
const POD: &str = "POD";
/// The arguments of each subcommand. Arguments that a build does not have are left out.
const CASES: [(&str, &[&[&str]]); 23] = [
    ("status", &[&[], &["--brief"]]),
    ("pods", &[&[], &["--all"]]),
    ("explain", &[&[POD]]),
    ("plan", &[&[POD], &[POD, "--mode", "enforce"]]),
    ("conns", &[&[POD], &[POD, "--all"]]),
    ("rules", &[&[POD], &[POD, "--diff"]]),
    ("config", &[&[], &["--sources"]]),
    ("metrics", &[&[], &["pods"]]),
    ("check", &[&[], &["--pre"], &[POD]]),
    ("log", &[&[]]),
    ("report", &[&[]]),
    ("stuck", &[&[]]),
    ("watch", &[&[], &[POD]]),
    ("quit", &[&[POD, "--dry-run"]]),
    ("hold", &[&[POD, "--dry-run"]]),
    ("release", &[&[POD, "--dry-run"]]),
    (
        "request",
        &[
            &[POD, "GET", "http://127.0.0.1:9876/", "-i"],
            &[POD, "GET", "http://127.0.0.1:1/"],
        ],
    ),
    (
        "connect",
        &[&[POD, "127.0.0.1:9876"], &[HOST_ROOT, POD, "db:1"]],
    ),
    (
        "resolve",
        &[&[HOST_ROOT, POD, "db"], &[HOST_ROOT, POD, "localhost"]],
    ),
    ("capture", &[&[POD, "--duration", "300ms"]]),
    ("sysdump", &[&["-w", "/dev/null"]]),
    ("cleanup", &[&["--dry-run"]]),
    ("completion", &[&["bash"]]),
];

/// Part of every name; this one fits into a path.
fn evil(length: usize) -> String {
    EVIL.chars().cycle().take(length).collect()
}

fn pod(node: &Node) -> Pod {
    let mut app = ContainerSpec::app("app").env("SPEECH", &evil(10_000));
    app.image = format!("registry.example/{}:1", evil(10_000));
    app.command = vec![evil(10_000), EVIL.to_owned()];
    let mut odd = ContainerSpec::istio(Manner::IgnoreQuit);
    odd.image = format!("registry.example/istio/proxyv2:{EVIL}");
    odd.args = vec![EVIL.to_owned(); 3];
    let mut spec = PodSpec::new(&format!("{EVIL}{}", evil(10_000)))
        .with(app)
        .with(odd)
        .annotation("usher.dev/quit-delay", EVIL)
        .annotation("usher.dev/hold-ports", EVIL)
        .annotation("usher.dev/sidecars", &format!("{EVIL}=POST :1/{EVIL}"))
        .annotation("status.sidecar.istio.io/port", EVIL)
        .with_file("/etc/hosts", &format!("127.0.0.1 localhost {EVIL}\n"))
        .with_file(
            "/etc/resolv.conf",
            &format!("nameserver 127.0.0.1\nsearch {EVIL}.example\noptions {EVIL}\n"),
        );
    spec.namespace = EVIL.to_owned();
    node.run(&spec)
}

/// A process of the app's container with a hostile name, hostile arguments and a connection. It lives as long as its
/// standard input is open.
fn stranger(node: &Node, pod: &Pod) -> Child {
    let folder = node.run_dir().with_file_name("programs");
    fs::create_dir_all(&folder).unwrap();
    let name = EVIL.replace('/', "");
    let program = folder.join(OsStr::from_bytes(&[name.as_bytes(), b"\xff\xfe"].concat()));
    // Another process writes the copy. Otherwise a child that another test forks meanwhile would inherit the file open
    // for writing, and the copy could not be executed.
    let copied = Command::new("cp").arg("/bin/bash").arg(&program).status();
    assert!(copied.unwrap().success());
    let app = pod.pid("app");
    let cgroup = fs::read_to_string(format!("/proc/{app}/cgroup")).unwrap();
    let below = cgroup.lines().find_map(|line| line.strip_prefix("0::/"));
    let mount = node.cgroup_root().parent().unwrap();
    let processes = mount.join(below.unwrap()).join("cgroup.procs");
    let script = format!(
        "echo $$ > '{}'; exec 3<>/dev/tcp/127.0.0.1/15020; echo ready; read end",
        processes.display()
    );
    let mut entered = Command::new("nsenter");
    entered
        .arg(format!("--net=/proc/{app}/ns/net"))
        .arg(&program)
        .args(["-c", &script])
        .arg(OsStr::from_bytes(b"\x1b[2J\xff\xfe\n"))
        .arg(evil(10_000))
        .arg0(EVIL)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = entered.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    child
}

/// Responds in the pod's network as long as this test process lives.
fn server(pod: &Pod) {
    let network = Netns::from_fd(pod.network_file().into()).unwrap();
    let socket = network.tcp_socket(AddressFamily::Inet).unwrap();
    let loopback = SockaddrIn::new(127, 0, 0, 1, PORT);
    bind(socket.as_raw_fd(), &loopback).unwrap();
    listen(&socket, Backlog::new(16).unwrap()).unwrap();
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(false).unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut asked = [0; 4096];
            // A disconnected client needs no response.
            drop(connection.read(&mut asked));
            let body = format!("{EVIL}\n{}", evil(10_000));
            let head = format!(
                "HTTP/1.1 200 \u{9b}2J\r\nX-A: a\u{9b}31m\u{202e}b\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            drop(connection.write_all(&[head.as_bytes(), body.as_bytes()].concat()));
        }
    });
}

/// The available subcommands.
fn subcommands(node: &Node) -> Vec<String> {
    let offered = answer(node, &["__complete", "--", ""]);
    let names = offered.lines().map(|line| line.split('\t').next().unwrap());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// Runs it until its exit, or for a limited time if it does not end by itself.
fn ran(node: &Node, arguments: &[&str]) -> Ran {
    let mut command = usher::command_on(node);
    command.args(arguments);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (ended, end) = mpsc::channel();
    let all = |mut from: Box<dyn Read + Send>| {
        let ended = ended.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            // No process may wait any more.
            ended.send(()).ok();
            String::from_utf8(bytes).unwrap()
        })
    };
    let (stdout, stderr) = (all(Box::new(stdout)), all(Box::new(stderr)));
    // Waits for the end of both streams.
    let limit = if arguments.first() == Some(&"watch") {
        LONG
    } else {
        patience()
    };
    let begun = Instant::now();
    for _ in 0..2 {
        end.recv_timeout(limit.saturating_sub(begun.elapsed())).ok();
    }
    // The program may have exited.
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).ok();
    let code = child.wait().unwrap().code();
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    Ran {
        code,
        stdout,
        stderr,
    }
}

/// The first sequence that a terminal would execute, except for our own colours.
fn acts(text: &str, has_colours: bool) -> Option<String> {
    let mut text = text.to_owned();
    if has_colours {
        for code in ["0", "1", "2", "31", "32", "33"] {
            text = text.replace(&format!("\x1b[{code}m"), "");
        }
    }
    let is_bad = |letter: char| {
        (letter.is_control() && !['\n', '\t'].contains(&letter))
            || ('\u{202a}'..='\u{202e}').contains(&letter)
            || ('\u{2066}'..='\u{2069}').contains(&letter)
            || ['\u{200e}', '\u{200f}', '\u{61c}', '\u{2028}', '\u{2029}'].contains(&letter)
    };
    let at = text.find(is_bad)?;
    let before: String = text[..at].chars().rev().take(80).collect();
    let before: String = before.chars().rev().collect();
    let after: String = text[at..].chars().take(40).collect();
    Some(format!("{before:?} then {after:?}"))
}

/// Runs all cases in all formats; each prints something at least once.
fn nothing_acts(node: &Node, pod: &Pod, more: &[&str], skipped: &[&str]) {
    for subcommand in subcommands(node) {
        if skipped.contains(&subcommand.as_str()) {
            continue;
        }
        let (_, cases) = CASES
            .iter()
            .find(|(name, _)| *name == subcommand)
            .unwrap_or_else(|| panic!("usher {subcommand} has no case in this test"));
        for case in *cases {
            let case: Vec<&str> = case
                .iter()
                .map(|word| if *word == POD { pod.uid() } else { *word })
                .collect();
            for form in FORMS {
                let arguments = [&[subcommand.as_str()], &case[..], form, more].concat();
                let ran = ran(node, &arguments);
                let has_colours = form.contains(&"always");
                for (text, stream) in [(&ran.stdout, "output"), (&ran.stderr, "error")] {
                    let found = acts(text, has_colours);
                    assert_eq!(found, None, "{arguments:?} on standard {stream}");
                }
                // There may be no decision while `watch` runs.
                assert!(
                    subcommand == "watch" || !(ran.stdout.is_empty() && ran.stderr.is_empty()),
                    "{arguments:?} says nothing"
                );
                // The command line of each case is valid, unless it has no such format.
                let fits = !refuses(&arguments);
                assert_eq!(ran.code != Some(2), fits, "{arguments:?}: {}", ran.stderr);
            }
        }
    }
}

/// The file is no document, or a file does not support this format.
fn refuses(arguments: &[&str]) -> bool {
    let has = |word: &&str| arguments.contains(word);
    let is_document = has(&"json") || has(&"yaml");
    let from_file = has(&"--file");
    let of_now = ["--pre", "--diff", "--mode"].iter().any(has);
    let is_stream = ["capture", "request"]
        .iter()
        .any(|one| arguments.first() == Some(one));
    is_stream && is_document || from_file && of_now
}

struct Fixture {
    pod: Pod,
    stranger: Child,
}

impl Fixture {
    fn new(node: &Node) -> Self {
        let pod = pod(node);
        server(&pod);
        let stranger = stranger(node, &pod);
        Self { pod, stranger }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.stranger.stdin.take());
        drop(self.stranger.wait());
    }
}

#[test]
fn with_an_agent() {
    let Some(node) = enforcing() else { return };
    let fixture = Fixture::new(&node);
    let agent = Agent::start(&node);
    agent.wait_metric(
        "usher_decisions_total",
        "decision=\"invalid-annotation\"",
        |count| count > 0.0,
    );
    nothing_acts(&node, &fixture.pod, &[], &[]);
}

#[test]
fn without_an_agent() {
    let Some(node) = enforcing() else { return };
    let fixture = Fixture::new(&node);
    // A sysdump that was changed afterwards.
    let line = json!({
        "at_ms": 1, "uid": fixture.pod.uid(), "pod": EVIL, "decision": EVIL, "reason": evil(10_000), "container": EVIL,
    });
    fs::write(node.run_dir().join("timeline.jsonl"), format!("{line}\n")).unwrap();
    fs::write(node.run_dir().join("cni.log"), EVIL).unwrap();
    nothing_acts(&node, &fixture.pod, &[], &[]);
}

#[test]
fn from_a_crafted_sysdump() {
    let Some(node) = enforcing() else { return };
    let fixture = Fixture::new(&node);
    let dump: PathBuf = node.run_dir().with_file_name("evil");
    let dump = dump.to_str().unwrap();
    answer(&node, &["sysdump", "--directory", dump]);
    let live = [
        "capture", "connect", "resolve", "request", "watch", "quit", "hold", "release", "log",
        "cleanup", "sysdump",
    ];
    nothing_acts(&node, &fixture.pod, &["--file", dump], &live);
    let manifest = Path::new(dump).join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("sysdump/v1", "\\u001b[2J\\u009b")).unwrap();
    let ran = ran(&node, &["pods", "--file", dump]);
    assert_eq!(ran.code, Some(5));
    assert_eq!(acts(&ran.stderr, false), None);
}
