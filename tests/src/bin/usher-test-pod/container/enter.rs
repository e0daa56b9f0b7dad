//! Runs a program in a container that has an init process, as `runc exec` does:
//! joins its cgroup and namespaces and executes from its root.
//!
//! The entering process exits when the program runs; the program's parent is
//! then the shim.

use std::process::Command;

use nix::sched::CloneFlags;
use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::{Order, Pids};

use crate::{container::stage, say};

/// Enters the container of the order's process, and starts the program.
pub(crate) fn run(order: &Order) -> Result<(), String> {
    let Pids::Of(init) = order.pids else {
        return Err("exec in no container".to_owned());
    };
    stage::join_cgroup(order)?;
    let users = order
        .users
        .map(|pid| stage::open(pid, "user"))
        .transpose()?;
    let [pids, mounts] = ["pid", "mnt"].map(|kind| stage::open(init, kind));
    stage::join(&pids?, CloneFlags::CLONE_NEWPID)?;
    stage::join(&mounts?, CloneFlags::CLONE_NEWNS)?;
    if let Some(users) = &users {
        stage::become_root_of(users)?;
    }
    if let Some(user) = order.user {
        stage::become_user(user)?;
    }
    let json = serde_json::to_string(&order.program).map_err(|error| format!("order: {error}"))?;
    let child = Command::new(program::IN_CONTAINER)
        .arg("run")
        .arg(json)
        .env_clear()
        .envs(order.env.iter().map(|(name, value)| (name, value)))
        .spawn()
        .map_err(|error| format!("exec {}: {error}", program::IN_CONTAINER))?;
    say(&format!("init {}", child.id()));
    Ok(())
}
