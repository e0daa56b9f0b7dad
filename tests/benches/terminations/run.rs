//! One run of a program.

use std::{
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::program::{Act, Program, Step};

/// What does not end by then is killed.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long a request is repeated while its port has no listener.
const LISTENS_BY: Duration = Duration::from_secs(10);

pub(super) struct Run {
    /// It is the parent of the namespace's first process, and ends with its exit code.
    unshare: Child,
    _folder: tempfile::TempDir,
    clients: Vec<Child>,
}

pub(super) struct End {
    pub(super) code: String,
    pub(super) took: Duration,
}

impl Run {
    pub(super) fn start(program: &Program, step: &Step, path: &Path) -> Self {
        let mut command = Command::new("unshare");
        command
            .args([
                "--pid",
                "--fork",
                "--kill-child",
                "--net",
                "--mount-proc",
                "sh",
                "-c",
            ])
            .arg("ip link set lo up; ip addr add 192.0.2.1/32 dev lo; exec \"$@\"")
            .arg("sh")
            .arg(path)
            .args(program.words)
            .args(step.words);
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in program.files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let log = std::fs::File::create(std::env::temp_dir().join("terminations.log")).unwrap();
        let unshare = command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            unshare,
            _folder: folder,
            clients: Vec::new(),
        }
    }

    /// Clients connect and keep their connections for some time before the end and beyond it.
    pub(super) fn keep_busy(&mut self, port: u16) {
        thread::sleep(Duration::from_secs(2));
        if self.unshare.try_wait().unwrap().is_some() {
            return;
        }
        for _client in 0..4 {
            let script = format!(
                "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'POST / HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 9999\\r\\n\\r\\nx' >&3; sleep 45"
            );
            let client = self.inside().args(["bash", "-c", &script]).spawn();
            self.clients.push(client.unwrap());
        }
        thread::sleep(Duration::from_secs(1));
    }

    /// Terminates the program and waits for its end.
    pub(super) fn end(mut self, step: &Step) -> End {
        if let Some(status) = self.unshare.try_wait().unwrap() {
            return End {
                code: format!("ended by itself with {status}"),
                took: Duration::ZERO,
            };
        }
        let mut begin = Instant::now();
        match step.act {
            Act::Signal(signal) => {
                let (name, init) = (format!("-{signal}"), self.init().to_string());
                assert!(
                    Command::new("kill")
                        .args([&name, &init])
                        .status()
                        .unwrap()
                        .success()
                );
            }
            Act::Post { port, path } => {
                let url = format!("http://127.0.0.1:{port}{path}");
                let first = Instant::now();
                loop {
                    begin = Instant::now();
                    let curl = ["curl", "-s", "-o", "/dev/null", "-X", "POST", &url];
                    // 7: no connection. A reply that does not come is none the less a request that was received.
                    let sent = self.inside().args(curl).status().unwrap();
                    if sent.code() != Some(7) || first.elapsed() > LISTENS_BY {
                        break;
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        let ended = loop {
            if let Some(status) = self.unshare.try_wait().unwrap() {
                let signal = status.signal().map(|signal| format!("signal {signal}"));
                break status
                    .code()
                    .map(|code| code.to_string())
                    .or(signal)
                    .unwrap_or_default();
            }
            if begin.elapsed() > PATIENCE {
                break "runs on".to_owned();
            }
            thread::sleep(Duration::from_millis(1));
        };
        End {
            code: ended,
            took: begin.elapsed(),
        }
    }

    /// The first process of the namespace.
    fn init(&self) -> u32 {
        let parent = self.unshare.id();
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        children
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// A command in the program's network namespace.
    fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.init().to_string(), "-n"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for child in self.clients.iter_mut().chain([&mut self.unshare]) {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
