//! Clients other than root are rejected, for reads and for orders.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, PodSpec, program, usher};

use crate::{enforcing, run};

/// An unprivileged user id.
const UNPRIVILEGED: u32 = 65534;
/// The socket that [`as_another_user`] sends requests to.
const SOCKET: &str = "USHER_TEST_SOCKET";
const POD: &str = "USHER_TEST_POD";
/// A log filter.
const FILTER: &str = r#"{"directives":["info"],"forMs":60000}"#;

/// Every request that the agent supports.
fn routes(uid: &str) -> Vec<(&'static str, String)> {
    let pod = |what: &str| format!("/v1/pods/{uid}/{what}");
    let mut routes = vec![
        ("GET", "/v1/status".to_owned()),
        ("GET", "/v1/pods".to_owned()),
        ("GET", "/v1/costs".to_owned()),
        ("GET", "/v1/watch".to_owned()),
        ("GET", "/v1/log".to_owned()),
        ("PUT", "/v1/log".to_owned()),
        ("DELETE", "/v1/log".to_owned()),
        ("GET", "/v1/metrics".to_owned()),
        ("GET", "/v1/config".to_owned()),
    ];
    routes.extend(["timeline", "plan", "plan/enforce", "table"].map(|what| ("GET", pod(what))));
    routes.extend(["quit", "hold", "release", "repair"].map(|what| ("POST", pod(what))));
    routes
}

/// The status of the response.
fn ask(socket: &Path, method: &str, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let body = if method == "PUT" { FILTER } else { "{}" };
    // In one write: the rejection may come before the end of the request.
    let question = format!(
        "{method} {path} HTTP/1.1\r\nhost: usher\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(question.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    String::from_utf8_lossy(&status[9..]).into_owned()
}

/// A copy of a program that every user may run.
fn public(program: &Path, directory: &Path) -> PathBuf {
    let copy = directory.join(program.file_name().unwrap());
    // Another process writes the copy. Otherwise a child that another test forks meanwhile would inherit the file open
    // for writing, and the copy could not be executed.
    let copied = Command::new("cp").args([program, &copy]).status().unwrap();
    assert!(copied.success());
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    copy
}

/// Makes a file accessible to every user.
fn open_up(path: &Path) {
    for directory in path.ancestors().skip(1) {
        let Ok(metadata) = fs::metadata(directory) else {
            continue;
        };
        let mode = metadata.permissions().mode();
        if mode & 0o005 != 0o005 && directory.starts_with(std::env::temp_dir()) {
            fs::set_permissions(directory, Permissions::from_mode(mode | 0o755)).unwrap();
        }
    }
}

#[test]
fn only_root_receives_answers() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&PodSpec::job("guarded"));
    let agent = Agent::start(&node);
    pod.finish("app", 1);
    let socket = node.run_dir().join("admin.sock");
    eventually("root to be answered", || {
        run(&node, &["pods"]).stdout.contains("guarded")
    });
    // The socket itself is closed to other users; here its mode must not be the reason.
    assert_eq!(
        fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    open_up(&socket);
    for (method, path) in routes(pod.uid()) {
        assert_eq!(ask(&socket, method, &path), "200", "root: {method} {path}");
    }
    let directory = node.run_dir().join("public");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    let this = public(&std::env::current_exe().unwrap(), &directory);
    let stranger = Command::new(this)
        .args([
            "--exact",
            "peer::as_another_user",
            "--ignored",
            "--nocapture",
        ])
        .env(SOCKET, &socket)
        .env(POD, pod.uid())
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&stranger.stdout);
    assert!(
        stranger.status.success() && stdout.contains("1 passed"),
        "{stranger:?}"
    );
    let program = public(&program::beside_this("usher").unwrap(), &directory);
    for words in [
        &["quit", "guarded"][..],
        &["hold", "guarded"],
        &["release", "guarded"],
        &["watch"],
        &["pods"],
        &["plan", "guarded"],
    ] {
        let ran = usher::command_on(&node);
        let mut command = Command::new(&program);
        for (name, value) in ran.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let ran = command
            .args(words)
            .uid(UNPRIVILEGED)
            .gid(UNPRIVILEGED)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(3), "{words:?}: {ran:?}");
        assert!(
            stderr.contains("only root may use the admin socket"),
            "{words:?}: {stderr}"
        );
    }
    // The orders had no effect.
    let root = format!("requested by uid 0, pid {}: ", std::process::id());
    let lines = agent.log().lines();
    let orders = lines
        .iter()
        .filter(|line| line["decision"] == "operator-request");
    assert!(orders.clone().count() > 0, "not even of what root ordered");
    for order in orders {
        let reason = order["reason"].as_str().unwrap();
        assert!(reason.contains(&root), "{order}");
    }
}

/// The part of [`only_root_receives_answers`] that runs as another user, in a process of its own: a test program cannot
/// change its user and still run the other tests. It is ignored in a plain run, because it needs the socket of that
/// test.
#[test]
#[ignore = "run by another test, as another user"]
fn as_another_user() {
    let (Some(socket), Ok(pod)) = (std::env::var_os(SOCKET), std::env::var(POD)) else {
        return;
    };
    for (method, path) in routes(&pod) {
        assert_eq!(
            ask(Path::new(&socket), method, &path),
            "403",
            "{method} {path}"
        );
    }
}
