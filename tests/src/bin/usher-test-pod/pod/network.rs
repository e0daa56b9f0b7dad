//! The network namespace of a pod, and the user namespace that owns it.
//!
//! With `hostUsers: false` the runtime makes the network namespace inside a new
//! user namespace
//! ([user_namespaces(7)](https://man7.org/linux/man-pages/man7/user_namespaces.7.html)).
//! A process that has entered one cannot do the shim's other work any more, so
//! a child creates both and stays in them; the shim maps the child's ids, as only
//! its parent may, and enters only the network namespace.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sched::{CloneFlags, setns, unshare};
use usher_tests::synthetic::wire::Sandbox;

use crate::{BROKEN, pod::loopback, pod::route};

/// The first of a pod's 65536 ids on the node.
const FIRST_ID: u32 = 1_000_000;

/// The owner of the pod's namespaces; the network namespace is the shim's own.
#[derive(Default)]
pub(crate) struct Network {
    holder: Option<Child>,
}

impl Network {
    /// Creates the pod's network namespace, and moves this process there.
    pub(crate) fn open(sandbox: &Sandbox) -> Result<Self, String> {
        if sandbox.host_network {
            return Ok(Self::default());
        }
        let mut network = Self::default();
        if sandbox.own_users {
            network.holder = Some(hold()?);
            network.join()?;
        } else {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|error| format!("unshare(CLONE_NEWNET): {error}"))?;
        }
        loopback::up()?;
        if sandbox.routed {
            route::open()?;
        }
        if !sandbox.filter.is_empty() {
            route::filter(&sandbox.filter)?;
        }
        Ok(network)
    }

    /// A process in the pod's user namespace, if it has one of its own.
    pub(crate) fn users(&self) -> Option<i32> {
        let holder = self.holder.as_ref()?;
        i32::try_from(holder.id()).ok()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the shim has one thread and stays in the pod's namespace"
    )]
    fn join(&self) -> Result<(), String> {
        let pid = self.users().ok_or("no process holds the namespaces")?;
        let path = format!("/proc/{pid}/ns/net");
        let network = File::open(&path).map_err(|error| format!("open {path}: {error}"))?;
        setns(network, CloneFlags::CLONE_NEWNET).map_err(|error| format!("setns {path}: {error}"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(holder) = &mut self.holder {
            // The holder exits when its standard input closes; the shim reaps it.
            drop(holder.stdin.take());
        }
    }
}

/// Starts the child and maps its ids.
fn hold() -> Result<Child, String> {
    let mut holder = Command::new("/proc/self/exe")
        .args(["users", "[]"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("spawn users: {error}"))?;
    let mut ready = [0];
    let output = holder.stdout.as_mut().expect("piped above");
    output
        .read_exact(&mut ready)
        .map_err(|error| format!("user namespace: {error}"))?;
    let map = format!("0 {FIRST_ID} 65536");
    for file in ["uid_map", "gid_map"] {
        let path = format!("/proc/{}/{file}", holder.id());
        std::fs::write(&path, &map).map_err(|error| format!("write {path}: {error}"))?;
    }
    Ok(holder)
}

/// The child: creates the namespaces, reports it, and runs until it is released.
pub(crate) fn users() -> ExitCode {
    let flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET;
    let made = unshare(flags).map_err(std::io::Error::from);
    let announced = made.and_then(|()| std::io::stdout().write_all(b"\n"));
    let mut rest = Vec::new();
    match announced.and_then(|()| std::io::stdin().read_to_end(&mut rest)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(BROKEN),
    }
}
