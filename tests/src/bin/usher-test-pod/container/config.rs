//! A bundle's `config.json`
//! ([runtime-spec, config.md](https://github.com/opencontainers/runtime-spec/blob/v1.2.0/config.md)).

use serde_json::{Value, json};
use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::{ConfigText, Order, Task};

/// The number of system calls; the default profile allows several hundred.
const CALLS: usize = 400;

/// The parts in which the file is written.
pub(crate) fn parts(order: &Order, task: &Task) -> Vec<Vec<u8>> {
    let whole = || config(order, task).to_string().into_bytes();
    match task.shape.config {
        ConfigText::Whole => vec![whole()],
        ConfigText::Garbage => vec![b"\0\xff{\"annotations\": [".repeat(100)],
        ConfigText::Padded(bytes) => {
            let mut config = config(order, task);
            config["linux"]["padding"] = json!("x".repeat(bytes));
            vec![config.to_string().into_bytes()]
        }
        ConfigText::InParts(_) => {
            let text = whole();
            let (first, second) = text.split_at(text.len() / 2);
            vec![first.to_vec(), second.to_vec()]
        }
    }
}

fn config(order: &Order, task: &Task) -> Value {
    let env: Vec<String> = order
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let calls: Vec<String> = (0..CALLS).map(|n| format!("system_call_{n}")).collect();
    let user = order.user.unwrap_or_default();
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user, "gid": user},
            "args": [task.entry.path(), "run"],
            "env": env,
            "cwd": "/",
            "capabilities": {"bounding": ["CAP_CHOWN", "CAP_KILL", "CAP_NET_BIND_SERVICE"]},
            "oomScoreAdj": 1000,
        },
        "root": {"path": "rootfs"},
        "mounts": mounts(order),
        "annotations": task.annotations,
        "linux": {
            "cgroupsPath": order.cgroup,
            "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}],
            "seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
                {"names": calls, "action": "SCMP_ACT_ALLOW"},
            ]},
        },
    })
}

fn mounts(order: &Order) -> Vec<Value> {
    let bind = |source: Value, target: &str| json!({"destination": target, "type": "bind", "source": source, "options": ["rbind", "rprivate", "rw"]});
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime"]}),
    ];
    if let Some(log) = &order.termination_log {
        mounts.push(bind(json!(log), program::TERMINATION_LOG));
    }
    if let Some(task) = &order.task {
        mounts.push(bind(json!(task.volume), program::VOLUME));
    }
    mounts
}
