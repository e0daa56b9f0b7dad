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
    answer(&mut holder)?;
    let map = format!("0 {FIRST_ID} 65536");
    for file in ["uid_map", "gid_map"] {
        let path = format!("/proc/{}/{file}", holder.id());
        std::fs::write(&path, &map).map_err(|error| format!("write {path}: {error}"))?;
    }
    let input = holder.stdin.as_mut().expect("piped above");
    let written = input.write_all(b"\n");
    written.map_err(|error| format!("network namespace: {error}"))?;
    answer(&mut holder)?;
    Ok(holder)
}

/// Waits until the child has created a namespace.
fn answer(holder: &mut Child) -> Result<(), String> {
    let output = holder.stdout.as_mut().expect("piped by the parent");
    let read = output.read_exact(&mut [0]);
    read.map_err(|error| format!("namespaces of the pod: {error}"))
}

/// The child: creates the namespaces, reports each, and runs until it is released. The network namespace comes when the ids are
/// mapped, as in runc, so that its files in `/proc` belong to the pod's root.
pub(crate) fn users() -> ExitCode {
    match namespaces() {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(BROKEN),
    }
}

fn namespaces() -> std::io::Result<usize> {
    let (mut input, mut output) = (std::io::stdin(), std::io::stdout());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    output.write_all(b"\n")?;
    input.read_exact(&mut [0])?;
    unshare(CloneFlags::CLONE_NEWNET)?;
    output.write_all(b"\n")?;
    input.read_to_end(&mut Vec::new())
}
