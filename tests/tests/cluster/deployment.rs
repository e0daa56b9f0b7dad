//! The agent has the rights that it says it needs, and no others.

use crate::lab;

#[test]
fn capabilities_are_six() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let pids = lab.agent_pids();
    let path = format!("/proc/{}/status", pids[0]);
    let status = lab.cluster.in_node(&["cat", &path]).unwrap();
    let of = |field: &str| {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    // CAP_KILL, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYS_NICE.
    let six = 1 << 5 | 1 << 12 | 1 << 13 | 1 << 19 | 1 << 21 | 1 << 23;
    assert_eq!(of("CapBnd:"), six);
    assert_eq!(of("CapEff:"), six);
    assert_eq!(of("Seccomp:"), 2, "a filter is in force");
}

#[test]
fn rights_are_three() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let account = "--as=system:serviceaccount:usher-system:usher-agent";
    let may = |verb: &str, resource: &str, more: &[&str]| {
        let mut args = vec!["auth", "can-i", verb, resource, "-A", account];
        args.extend(more);
        // It exits with 1 for "no".
        lab.cluster
            .kubectl(&args)
            .is_ok_and(|answer| answer.trim() == "yes")
    };
    assert!(may("get", "nodes", &["--subresource=pods"]));
    assert!(may("watch", "nodes", &[]));
    assert!(may("get", "namespaces", &[]));
    for (verb, resource, subresource) in [
        ("get", "nodes", "--subresource=proxy"),
        ("patch", "nodes", "--subresource="),
        ("list", "namespaces", "--subresource="),
        ("list", "pods", "--subresource="),
        ("delete", "pods", "--subresource="),
        ("create", "pods", "--subresource=exec"),
        ("get", "secrets", "--subresource="),
    ] {
        assert!(
            !may(verb, resource, &[subresource]),
            "{verb} {resource} {subresource}"
        );
    }
}
