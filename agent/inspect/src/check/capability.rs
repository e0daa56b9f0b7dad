//! The privileges of this process, compared with those that usher needs.
//!
//! The command usually runs in the agent's container, so it has the agent's privileges.

use std::collections::BTreeSet;

use super::{Check, Question};

questions! {
    Privileges {
        ROOT = "privileges-root",
            "the process runs as root",
            "other users lose their capabilities at exec";
        NEEDED = "privileges-capabilities",
            "the process has the capabilities that usher needs",
            "usher lacks the function of each missing capability";
        PROCESSES = "privileges-processes",
            "the processes of the node are visible",
            "without the node's pid namespace usher detects no pod";
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    pub name: &'static str,
    /// The feature that needs the capability.
    pub purpose: &'static str,
    /// Whether usher works without the capability.
    pub is_optional: bool,
}

/// The capabilities that the chart grants.
pub const CAPABILITIES: [Needed; 6] = [
    needed(
        "SYS_ADMIN",
        "entering a pod's network namespace, and holding starts",
    ),
    needed("SYS_PTRACE", "inspecting processes of other users"),
    needed("NET_ADMIN", "holding connections"),
    needed("NET_RAW", "resending the first packet of a held connection"),
    needed("KILL", "signals to sidecars of other users"),
    Needed {
        is_optional: true,
        ..needed("SYS_NICE", "priority on a busy node")
    },
];

const fn needed(name: &'static str, purpose: &'static str) -> Needed {
    Needed {
        name,
        purpose,
        is_optional: false,
    }
}

/// The facts about this process.
#[derive(Debug, Clone)]
pub struct Found {
    pub uid: u32,
    /// Effective capabilities, as Kubernetes writes them.
    pub effective: Result<BTreeSet<String>, String>,
    /// Processes of the node and of its pods.
    pub processes: Result<Processes, String>,
}

/// The processes of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Processes {
    /// The number of their network namespaces.
    pub namespaces: usize,
    /// Processes that this process cannot inspect. PID 1 is excluded: some machines hide it even from root.
    pub hidden: usize,
    /// Processes of pods without a pid in this pid namespace.
    pub outside: usize,
}

pub fn judge(found: &Found) -> Vec<Check> {
    let root = if found.uid == 0 {
        ROOT.ok("uid 0")
    } else {
        let message = format!("uid {}", found.uid);
        ROOT.failed(
            message,
            "sudo on the node; securityContext.runAsUser: 0 in the agent's container",
        )
    };
    vec![
        root,
        capabilities(&found.effective),
        processes(&found.processes),
    ]
}

fn processes(found: &Result<Processes, String>) -> Check {
    let pid_namespace = "hostPID: true in the agent's pod, as the chart has it";
    match found {
        Ok(Processes { outside, .. }) if *outside > 0 => {
            let message = format!("{outside} processes of pods are outside this pid namespace");
            PROCESSES.failed(message, pid_namespace)
        }
        Ok(Processes { hidden, namespaces, .. }) if *hidden > 0 => PROCESSES.failed(
            format!("{hidden} processes are hidden; the others are in {namespaces} network namespaces"),
            "securityContext.capabilities.add: [SYS_PTRACE], as the chart has it; with AppArmor also appArmorProfile: {type: Unconfined}",
        ),
        Ok(Processes { .. }) => {
            PROCESSES.ok("all")
        }
        Err(error) => PROCESSES.failed(error, pid_namespace),
    }
}

fn capabilities(effective: &Result<BTreeSet<String>, String>) -> Check {
    let effective = match effective {
        Ok(effective) => effective,
        Err(error) => return NEEDED.skipped(error),
    };
    let missing: Vec<&Needed> = CAPABILITIES
        .iter()
        .filter(|one| !effective.contains(one.name))
        .collect();
    if missing.is_empty() {
        let all = CAPABILITIES.map(|one| one.name).join(", ");
        return NEEDED.ok(all);
    }
    let listed: Vec<String> = missing
        .iter()
        .map(|one| format!("{} ({})", one.name, one.purpose))
        .collect();
    let message = format!("missing: {}", listed.join("; "));
    let names: Vec<&str> = missing.iter().map(|one| one.name).collect();
    let fix = format!(
        "securityContext.capabilities.add: [{}] in the agent's container, as the chart has it",
        names.join(", ")
    );
    if missing.iter().all(|one| one.is_optional) {
        NEEDED.warning(message, fix)
    } else {
        NEEDED.failed(message, fix)
    }
}
