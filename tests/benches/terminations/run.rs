//! One run of a program.

use std::{
    cell::Cell,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use usher_tests::synthetic::process::{self, Usage};
use usher_tests::wait::found_within;

use super::program::{Act, NO_PORT, Program, Step};

/// A process that has not exited by then is killed.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long a request is repeated while its port has no listener.
const LISTENS_BY: Duration = Duration::from_secs(10);
/// `MIN_SIGNAL_AGE` of `usher-core`.
const SIGNAL_AGE: Duration = Duration::from_millis(500);
/// An idle program has used no more than [`BACKGROUND`] of processor time for this long.
const STEADY: Duration = Duration::from_secs(1);
const BACKGROUND: Duration = Duration::from_millis(20);
const CLIENTS: usize = 4;
/// States of sockets in `/proc/net/tcp`.
const LISTENING: &str = "0A";
const ESTABLISHED: &str = "01";

pub(super) struct Run {
    started: Instant,
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
            started: Instant::now(),
            unshare,
            _folder: folder,
            clients: Vec::new(),
        }
    }

    /// Waits until the program is old enough to receive signals from usher.
    pub(super) fn wait_signal_age(&self) {
        self.wait_until("the age of the program", || {
            self.started.elapsed() >= SIGNAL_AGE
        });
    }

    /// Waits until the program listens on its port and does not compute any more.
    pub(super) fn wait_idle(&self, port: u16) {
        if port != NO_PORT {
            self.wait_until("its port", || self.sockets(port, LISTENING) > 0);
        }
        let cpu = || {
            self.first_process()
                .map_or(Duration::ZERO, |pid| Usage::of(pid).cpu)
        };
        let last = Cell::new((cpu(), Instant::now()));
        self.wait_until("the program to be idle", || {
            let (before, since) = last.get();
            let now = cpu();
            if now > before + BACKGROUND {
                last.set((now, Instant::now()));
            }
            since.elapsed() >= STEADY
        });
    }

    /// Clients connect and keep their connections for some time before the end and beyond it.
    pub(super) fn keep_busy(&mut self, port: u16) {
        self.wait_idle(port);
        if port == NO_PORT || self.has_ended() {
            return;
        }
        for _client in 0..CLIENTS {
            let script = format!(
                "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'POST / HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 9999\\r\\n\\r\\nx' >&3; sleep 45"
            );
            let client = self.inside().args(["bash", "-c", &script]).spawn();
            self.clients.push(client.unwrap());
        }
        self.wait_until("the connections of its clients", || {
            self.sockets(port, ESTABLISHED) >= CLIENTS
        });
    }

    /// Waits until the condition is true, or the program has ended.
    fn wait_until(&self, what: &str, so: impl Fn() -> bool) {
        found_within(PATIENCE, what, || (self.has_ended() || so()).then_some(()));
    }

    /// Whether the program has exited. Does not reap it.
    fn has_ended(&self) -> bool {
        process::state(self.unshare.id()) == Some('Z')
    }

    /// The program's TCP sockets with this port in a state
    /// ([proc_pid_net(5)](https://man7.org/linux/man-pages/man5/proc_pid_net.5.html)).
    fn sockets(&self, port: u16, state: &str) -> usize {
        let Some(pid) = self.first_process() else {
            return 0;
        };
        let local = format!(":{port:04X}");
        let is_one = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields
                .get(1)
                .is_some_and(|address| address.ends_with(&local))
                && fields.get(3) == Some(&state)
        };
        let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{pid}/net/{table}"));
        let texts = tables
            .iter()
            .filter_map(|table| std::fs::read_to_string(table).ok());
        texts
            .map(|text| text.lines().filter(|line| is_one(line)).count())
            .sum()
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
                    // Exit code 7: no connection. A request without a reply was received as well.
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

    /// The first process of the namespace, None before it exists and after it has exited.
    fn first_process(&self) -> Option<u32> {
        process::children(self.unshare.id()).first().copied()
    }

    fn init(&self) -> u32 {
        self.first_process().unwrap()
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
