//! The output of a node's runtime and of its processes.

use std::{path::Path, str};

use usher_core::{
    base::id::{Pid, PodUid},
    cni::protocol::{self, Conf, Reply, Request},
    node::{bundle, cgroup, mountinfo},
    start::{News, Order},
};
use usher_inspect::explain::Process;
use usher_sys::pods::proc::text;

/// The runtime's input to the CNI plugin: its configuration, and its arguments.
pub(super) fn cni_conf(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    let conf = Conf::read(text);
    let is_conf = conf.is_ok();
    if let Ok(conf) = conf
        && let Some(previous) = conf.previous
    {
        assert!(text.contains(previous));
    }
    let _pod = protocol::pod(text);
    is_conf
}

/// The messages between the plugin and the agent.
pub(super) fn cni_message(bytes: &[u8]) -> bool {
    let mut is_message = false;
    if let Ok(request) = Request::decode(bytes) {
        is_message = true;
        let encoded = request.encode().expect("what was read can be written");
        assert_eq!(Request::decode(&encoded).expect("and read"), request);
    }
    if let Ok(reply) = Reply::decode(bytes) {
        is_message = true;
        let encoded = reply.encode().expect("what was read can be written");
        assert_eq!(Reply::decode(&encoded).expect("and read"), reply);
    }
    is_message
}

/// The messages between the agent and its holder.
pub(super) fn start_message(bytes: &[u8]) -> bool {
    let mut is_message = false;
    if let Ok(order) = Order::decode(bytes) {
        is_message = true;
        assert_eq!(Order::decode(&order.encode()).expect("it was read"), order);
    }
    if let Ok(news) = News::decode(bytes) {
        is_message = true;
        assert_eq!(News::decode(&news.encode()).expect("it was read"), news);
    }
    is_message
}

/// A bundle's configuration, as a container runtime writes it.
pub(super) fn bundle(bytes: &[u8]) -> bool {
    let Ok(bundle) = bundle::parse(bytes) else {
        return false;
    };
    assert!(PodUid::parse(bundle.pod.as_str()).is_ok());
    if let Some(name) = bundle.container {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        assert!(name.len() < 64 && name.bytes().all(fits), "{name:?}");
    }
    true
}

/// The mounts of a container's process, and of the node.
pub(super) fn mountinfo(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    let uid = PodUid::parse("7987997a-2c12-4655-9314-796855bf397c").expect("a UID");
    let name = mountinfo::container_name(text, &uid);
    let mut is_found = name.is_some();
    if let Some(name) = name {
        assert!(!name.is_empty() && !name.contains('/'), "{name:?}");
    }
    let found = mountinfo::executable(text);
    assert!(found.len() <= 256);
    is_found |= !found.is_empty();
    // In order, and each mount point once.
    let bytes = |point: &Path| point.as_os_str().as_encoded_bytes().to_vec();
    assert!(found.is_sorted_by(|(_, one), (_, next)| bytes(one) < bytes(next)));
    for (_id, point) in found {
        assert!(point.is_absolute() && point != Path::new("/"));
        assert!(mountinfo::propagates(text, &point).is_some());
    }
    is_found
}

/// Names of cgroups, and the text that names the cgroup of a process.
pub(super) fn cgroup(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    for name in text.split(['/', '\n']) {
        let _parent = (cgroup::is_kubepods(name), cgroup::is_qos(name));
        if let Some(uid) = cgroup::pod(name) {
            assert_eq!(cgroup::pod(&format!("pod{uid}")), Some(uid));
        }
        if let Some(id) = cgroup::container(name) {
            assert_eq!(
                cgroup::container(&format!("cri-containerd-{id}.scope")),
                Some(id)
            );
        }
    }
    let process = cgroup::of_process(text);
    let is_process = process.is_some();
    if let Some((uid, id)) = process {
        let again = format!("0::/kubepods/pod{uid}/{id}\n");
        assert_eq!(cgroup::of_process(&again), Some((uid, id)));
    }
    is_process
}

/// The kernel's data about a process, in which the process chose its name and its arguments.
pub(super) fn proc_status(bytes: &[u8]) -> bool {
    // The kernel's files have one line or many; the command line follows a zero byte.
    let end = bytes.iter().position(|byte| *byte == 0);
    let (status, words) = bytes.split_at(end.unwrap_or(bytes.len()));
    let _stat = text::stat(status);
    let _candidate = text::candidate(Pid(7), status, b"7 (a) S 1");
    // A process with any name is parsed.
    let is_kept = |byte: &u8| !b"\n\\".contains(byte);
    let name: Vec<u8> = status.iter().copied().filter(is_kept).take(15).collect();
    let stat = [&b"7 ("[..], &name, b") S", &b" 1".repeat(50)].concat();
    let status_of_it = [b"Name:\t", &name[..], STATUS.as_bytes()].concat();
    let candidate = text::candidate(Pid(7), &status_of_it, &stat);
    assert_eq!(candidate.expect("a process").nspid, [7, 1]);
    let text = String::from_utf8_lossy(status);
    let Some(process) = Process::parse("app", Pid(7), &text, words) else {
        return false;
    };
    assert!(process.words.len() <= words.len() && !process.name.contains('\n'));
    assert!(process.words.last().is_none_or(|word| !word.is_empty()));
    true
}

/// The fields that every kernel has, after the name.
const STATUS: &str = "\nState:\tS (sleeping)\nTgid:\t7\nPid:\t7\nPPid:\t1\nTracerPid:\t0\nUid:\t0 0 0 0\nGid:\t0 0 0 0\nFDSize:\t64\n\
    Groups:\t\nNSpid:\t7\t1\nThreads:\t1\nSigQ:\t0/1\nSigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t0\nCapInh:\t0\n\
    CapPrm:\t0\nCapEff:\t0\n";
