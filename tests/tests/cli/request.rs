//! `usher request`, compared with curl in the same network namespace.

mod server;

use std::{
    ffi::OsStr,
    fs::File,
    io::{Read, Write},
    process::{Command, Output, Stdio},
};

use usher_cluster::programs;
use usher_tests::{
    privilege,
    synthetic::{ContainerSpec, Node, Pod, PodSpec, catalog::mesh, usher, wire::Listen},
};

use self::server::{ANSWERS, LARGE, Server};
use crate::run;

fn pod(name: &str) -> Option<(Node, Pod, Server)> {
    let node = privilege::granted_with(&["nsenter"]).then(Node::new)?;
    let spec = PodSpec::new(name)
        .with(ContainerSpec::app("app"))
        .with(mesh::proxy(Listen::AtOnce));
    let pod = node.run(&spec);
    let server = Server::start(&pod);
    Some((node, pod, server))
}

/// Runs `usher request` on the pod; its standard output is a pipe.
fn request<S: AsRef<OsStr>>(node: &Node, pod: &Pod, arguments: &[S]) -> Output {
    let mut command = usher::command_on(node);
    command.args(["request", "--raw", &pod.name()]);
    command.args(arguments).output().unwrap()
}

/// Runs curl in the pod's network namespace.
fn curl<S: AsRef<OsStr>>(pod: &Pod, arguments: &[S]) -> Output {
    let curl = programs::ensure_package("curl", "curl").unwrap();
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net={}", pod.network_path().display()))
        .arg(curl);
    command
        .args([
            "--silent",
            "--show-error",
            "--noproxy",
            "*",
            "--max-time",
            "20",
        ])
        .args(arguments);
    command.output().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn response_matches_curl() {
    let Some((node, pod, server)) = pod("received") else {
        return;
    };
    for (path, status, answer) in ANSWERS {
        let url = server.url(path);
        let ours = request(&node, &pod, &["GET", &url, "-i"]);
        let theirs = curl(&pod, &["-i", &url]);
        assert_eq!(theirs.status.code(), Some(0), "{path}: {}", stderr(&theirs));
        assert_eq!(
            code(&ours),
            Some(i32::from(*status >= 400)),
            "{path}: {}",
            stderr(&ours)
        );
        assert_eq!(ours.stdout, theirs.stdout, "{path}: {}", stderr(&ours));
        assert!(ours.stderr.is_empty(), "{path}: {}", stderr(&ours));
        // Both sent the same request, except for their names.
        let [ours, theirs] = [server.received(), server.received()];
        let words = |received: &str| {
            received
                .lines()
                .filter(|line| !line.starts_with("User-Agent"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(words(&ours), words(&theirs));
        assert!(ours.contains("User-Agent: usher/"), "{ours}");

        let ours = request(&node, &pod, &["HEAD", &url, "--include"]);
        let theirs = curl(&pod, &["--head", &url]);
        assert_eq!(ours.stdout, theirs.stdout, "HEAD {path}");
        assert!(answer.starts_with(&ours.stdout), "HEAD {path}");
        drop([server.received(), server.received()]);
    }
    // Without -i the output is the body.
    let ours = request(&node, &pod, &["GET", &server.url("/chunked")]);
    assert_eq!(ours.stdout, b"hello, world");
    // Data after the body is not part of it: curl prints it with -i.
    let ours = request(&node, &pod, &["GET", &server.url("/trailer"), "-i"]);
    assert!(ours.stdout.ends_with(b"\r\n\r\nok"), "{ours:?}");
}

#[test]
fn large_bodies_are_complete() {
    let Some((node, pod, server)) = pod("large") else {
        return;
    };
    for path in ["/large", "/large-chunked", "/large-until-close"] {
        let url = server.url(path);
        let (ours, theirs) = (request(&node, &pod, &["GET", &url]), curl(&pod, &[&url]));
        assert_eq!(code(&ours), Some(0), "{path}: {}", stderr(&ours));
        assert_eq!(ours.stdout.len(), LARGE, "{path}");
        assert!(ours.stdout == theirs.stdout, "{path}");
        let cut = request(&node, &pod, &["GET", &url, "--max-size", "1M"]);
        assert_eq!(
            (code(&cut), cut.stdout.len()),
            (Some(1), 1024 * 1024),
            "{path}"
        );
        assert!(cut.stdout == ours.stdout[..1024 * 1024]);
        let why = "incomplete response: the body is longer than 1048576 bytes";
        assert!(stderr(&cut).contains(why), "{}", stderr(&cut));
    }
}

#[test]
fn request_matches_curl() {
    let Some((node, pod, server)) = pod("sends") else {
        return;
    };
    let url = server.url("/plain");
    let file = node.run_dir().join("body");
    let body: Vec<u8> = (0..200_000).map(|byte| byte as u8).collect();
    std::fs::write(&file, &body).unwrap();
    let from_file = format!("@{}", file.display());
    for data in ["a=b&c=d", "", &from_file] {
        let headers = [
            "-H",
            "X-One: 1",
            "-H",
            "Accept: text/plain",
            "-H",
            "User-Agent: same",
        ];
        let ours = ["POST", &url, "--data", data];
        let ours = request(&node, &pod, &[&ours[..], &headers].concat());
        assert_eq!(code(&ours), Some(0), "{}", stderr(&ours));
        // curl would request permission to send a long body.
        let theirs = ["--data-binary", data, "-H", "Expect:", &url];
        let theirs = curl(&pod, &[&theirs[..], &headers].concat());
        assert_eq!(theirs.status.code(), Some(0), "{}", stderr(&theirs));
        let sort = |received: String| {
            let (head, body) = received.split_once("\r\n\r\n").unwrap();
            let mut lines: Vec<_> = head.lines().map(str::to_owned).collect();
            lines[1..].sort_unstable();
            (lines, body.to_owned())
        };
        assert_eq!(sort(server.received()), sort(server.received()));
    }
    let mut command = usher::command_on(&node);
    command.args(["request", &pod.name(), "PUT", &url, "-d", "@-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"from a pipe")
        .unwrap();
    assert!(child.wait().unwrap().success());
    let received = server.received();
    assert!(
        received.starts_with("PUT /plain HTTP/1.1\r\n")
            && received.ends_with("\r\n\r\nfrom a pipe"),
        "{received}"
    );
}

#[test]
fn failed_exchange_is_reported() {
    let Some((node, pod, server)) = pod("silent") else {
        return;
    };
    // Only a server that does not reply is waited for; the others may be slow on a busy machine.
    for (path, expected, words) in [
        (
            "/short",
            1,
            "incomplete response: the connection was closed",
        ),
        ("/bad-chunk", 1, "incomplete response: invalid chunk size"),
        ("/not-http", 5, "no response: the response is not HTTP/1"),
        ("/closed", 5, "no response: the connection was closed"),
        ("/lengths", 5, "no response: invalid Content-Length"),
        ("/never", 5, "no response from port "),
        ("/half", 1, "the rest was not received within 5s"),
    ] {
        let timeout = match path {
            "/never" => "1s",
            "/half" => "5s",
            _ => "30s",
        };
        let url = server.url(path);
        let ours = request(&node, &pod, &["GET", &url, "--timeout", timeout]);
        assert_eq!(code(&ours), Some(expected), "{path}: {}", stderr(&ours));
        assert!(stderr(&ours).contains(words), "{path}: {}", stderr(&ours));
    }
    let ours = request(&node, &pod, &["GET", ":9/"]);
    assert_eq!(code(&ours), Some(5));
    for words in [
        "no listener on 127.0.0.1:9 in default/silent; TCP listeners of the pod: ",
        "15001 (istio-proxy)",
    ] {
        assert!(stderr(&ours).contains(words), "{}", stderr(&ours));
    }
}

#[test]
fn addresses_outside_the_pod_are_rejected() {
    let Some((node, pod, _server)) = pod("own") else {
        return;
    };
    let name = pod.name();
    for (url, code, words) in [
        (
            "http://192.0.2.7/",
            3,
            "192.0.2.7 is not an address of default/own; use --anywhere",
        ),
        ("http://[2001:db8::1]/", 3, "is not an address of"),
        ("http://example.org/", 2, "cannot be resolved in the pod"),
        ("https://localhost/", 2, "unsupported URL scheme https://"),
        ("http://a:b@localhost/", 2, "Authorization"),
        ("/a b", 2, "percent-encoded"),
    ] {
        let ran = run(&node, &["request", &name, "GET", url]);
        assert_eq!(
            (ran.code, &ran.stdout[..]),
            (Some(code), ""),
            "{url}: {ran:?}"
        );
        assert!(ran.stderr.contains(words), "{url}: {ran:?}");
    }
    // This pod has no route to other hosts.
    let ran = run(
        &node,
        &["request", &name, "GET", "http://192.0.2.7/", "--anywhere"],
    );
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(
        ran.stderr.contains("cannot connect to 192.0.2.7:80"),
        "{ran:?}"
    );
    for (arguments, words) in [
        (["G ET", "/", "-i"], "invalid HTTP method"),
        (["GET", "/", "-Hx"], "invalid HTTP header"),
        (["GET", "/", "-Hx: a\r\nb: c"], "invalid HTTP header"),
        (["GET", "/", "-ojson"], "does not support -o json"),
    ] {
        let ran = run(&node, &[&["request", &name][..], &arguments].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
    }
    // IPv6's loopback, without a listener on IPv4's.
    let ran = run(
        &node,
        &[
            "request",
            &name,
            "GET",
            "http://[::1]:15021/healthz/ready",
            "-i",
        ],
    );
    assert!(
        ran.code == Some(0) && ran.stdout.starts_with("HTTP/1.1 200"),
        "{ran:?}"
    );
}

#[test]
fn response_is_escaped_for_a_terminal() {
    let Some((node, pod, server)) = pod("hostile") else {
        return;
    };
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = usher::command_on(&node);
    command.args(["request", &pod.name(), "GET", &server.url("/hostile"), "-i"]);
    let status = command.stdout(terminal.slave).status().unwrap();
    drop(command);
    assert!(status.success());
    let mut shown = Vec::new();
    // It ends with an error when the peer closes.
    drop(File::from(terminal.master).read_to_end(&mut shown));
    let shown = String::from_utf8(shown).unwrap();
    assert!(
        shown
            .chars()
            .all(|one| !one.is_control() || "\r\n\t".contains(one)),
        "{shown:?}"
    );
    for words in [
        "X-Title: \\x1b]0;owned\\x07",
        "X-C1: \\u{9b}31m",
        "body \\x1b[2J \\u{202e}",
        "a\tb",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    // A request for raw bytes gets them unescaped.
    let raw = request(&node, &pod, &["GET", &server.url("/hostile")]);
    assert!(raw.stdout.starts_with(b"body \x1b[2J"));
}

#[test]
fn write_error_is_reported_once() {
    let Some((node, pod, server)) = pod("cut") else {
        return;
    };
    // A line with a newline, and one without.
    for path in ["/plain", "/until-close"] {
        let mut command = usher::command_on(&node);
        command.args(["request", &pod.name(), "GET", &server.url(path)]);
        command.stdout(File::create("/dev/full").unwrap());
        let output = command.stderr(Stdio::piped()).output().unwrap();
        assert_eq!(code(&output), Some(1), "{path}: {output:?}");
        let stderr = stderr(&output);
        assert!(
            stderr.contains("cannot write to standard output"),
            "{path}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{path}: {stderr}");
    }
}

#[test]
fn capture_does_not_write_to_a_terminal() {
    let Some((node, pod, _server)) = pod("terminal") else {
        return;
    };
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = usher::command_on(&node);
    command.args(["capture", &pod.name(), "-w", "-"]);
    let output = command
        .stdout(terminal.slave)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = output.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("standard output is a terminal"),
        "{}",
        stderr(&output)
    );
}
