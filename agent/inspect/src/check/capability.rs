//! What this process may do, held against what usher needs.
//!
//! The command runs in the agent's container as a rule, so what it may do the agent may do.

use std::collections::BTreeSet;

use super::{Category, Check, Question};

const ROOT: Question = Question {
    id: "privileges-root",
    category: Category::Privileges,
    title: "runs as root",
    why: "capabilities of other users are lost at the exec",
};
const NEEDED: Question = Question {
    id: "privileges-capabilities",
    category: Category::Privileges,
    title: "has the capabilities that usher needs",
    why: "each is for one thing, which does not work without it",
};
const PROCESSES: Question = Question {
    id: "privileges-processes",
    category: Category::Privileges,
    title: "sees the processes of the node",
    why: "without the node's pid namespace no pod is seen at all",
};

/// All of them.
pub const ALL: &[&Question] = &[&ROOT, &NEEDED, &PROCESSES];

/// A capability, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    /// As Kubernetes writes it.
    pub name: &'static str,
    /// What does not work without it.
    pub purpose: &'static str,
    /// Whether usher works without it all the same.
    pub is_optional: bool,
}

/// What the chart gives the agent.
pub const CAPABILITIES: [Needed; 6] = [
    needed(
        "SYS_ADMIN",
        "entering a pod's network namespace, and holding starts",
    ),
    needed("SYS_PTRACE", "looking at processes of other users"),
    needed("NET_ADMIN", "holding connections"),
    needed(
        "NET_RAW",
        "sending the first packet of a held connection once more",
    ),
    needed("KILL", "signals to sidecars that run as another user"),
    Needed {
        is_optional: true,
        ..needed("SYS_NICE", "deciding first on a busy node")
    },
];

const fn needed(name: &'static str, purpose: &'static str) -> Needed {
    Needed {
        name,
        purpose,
        is_optional: false,
    }
}

/// What this process is.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its user.
    pub uid: u32,
    /// Effective capabilities, as Kubernetes writes them.
    pub effective: Result<BTreeSet<String>, String>,
    /// Processes of the node and of its pods.
    pub processes: Result<Processes, String>,
}

/// What is seen of the node's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Processes {
    /// Network namespaces that they are in.
    pub namespaces: usize,
    /// Processes that may not be looked at; the node's first one, which some machines hide even from root, is not counted.
    pub hidden: usize,
    /// Processes of pods that have no number here: this is another pid namespace.
    pub outside: usize,
}

/// Judges it.
pub fn judge(found: &Found) -> Vec<Check> {
    let root = if found.uid == 0 {
        ROOT.ok("uid 0")
    } else {
        let saw = format!("uid {}", found.uid);
        ROOT.failed(
            saw,
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
            let saw = format!("{outside} processes of pods are in no pid namespace that this one sees");
            PROCESSES.failed(saw, pid_namespace)
        }
        Ok(Processes { hidden, namespaces, .. }) if *hidden > 0 => PROCESSES.failed(
            format!("{hidden} processes may not be looked at; others are in {namespaces} network namespaces"),
            "securityContext.capabilities.add: [SYS_PTRACE], as the chart has it; where AppArmor is on, appArmorProfile: {type: Unconfined}",
        ),
        Ok(Processes { .. }) => {
            PROCESSES.ok("all of them".to_owned())
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
    let saw: Vec<String> = missing
        .iter()
        .map(|one| format!("{} ({})", one.name, one.purpose))
        .collect();
    let saw = format!("missing: {}", saw.join("; "));
    let names: Vec<&str> = missing.iter().map(|one| one.name).collect();
    let mend = format!(
        "securityContext.capabilities.add: [{}] in the agent's container, as the chart has it",
        names.join(", ")
    );
    if missing.iter().all(|one| one.is_optional) {
        NEEDED.warning(saw, mend)
    } else {
        NEEDED.failed(saw, mend)
    }
}
