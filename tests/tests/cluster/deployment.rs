//! The agent has exactly the documented privileges.

use crate::lab;

/// `CAP_KILL`, `CAP_NET_ADMIN`, `CAP_NET_RAW`, `CAP_SYS_PTRACE`, `CAP_SYS_ADMIN`; `CAP_SYS_NICE` is used once.
const FIVE: u64 = 1 << 5 | 1 << 12 | 1 << 13 | 1 << 19 | 1 << 21;
const SYS_NICE: u64 = 1 << 23;

#[test]
fn five_of_six_capabilities_remain() {
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
    assert_eq!(of("CapBnd:"), FIVE | SYS_NICE);
    assert_eq!(of("CapPrm:"), FIVE);
    assert_eq!(of("CapEff:"), FIVE);
    assert_eq!(of("CapInh:"), 0);
    assert_eq!(of("NoNewPrivs:"), 1);
    assert_eq!(of("Seccomp:"), 2, "a filter is in force");
}

/// Without the file the kubelet creates no container, so this profile is in force.
#[test]
fn strict_seccomp_profile_is_in_force() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let path =
        "jsonpath={.items[*].spec.containers[*].securityContext.seccompProfile.localhostProfile}";
    let named = lab
        .cluster
        .kubectl(&["-n", lab::USHER, "get", "pods", "-o", path]);
    assert_eq!(named.unwrap().trim(), lab::PROFILE_NAME);
}

#[test]
fn rbac_allows_exactly_four_verbs() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let account = "--as=system:serviceaccount:usher:usher";
    let may = |verb: &str, resource: &str, more: &[&str]| {
        let mut args = vec!["auth", "can-i", verb, resource, "-A", account];
        args.extend(more);
        // kubectl exits with 1 for "no".
        lab.cluster
            .kubectl(&args)
            .is_ok_and(|answer| answer.trim() == "yes")
    };
    assert!(may("get", "nodes", &["--subresource=pods"]));
    assert!(may("watch", "nodes", &[]));
    assert!(may("get", "namespaces", &[]));
    assert!(may("create", "events.events.k8s.io", &[]));
    for (verb, resource, subresource) in [
        ("get", "nodes", "--subresource=proxy"),
        ("patch", "nodes", "--subresource="),
        ("list", "nodes", "--subresource="),
        ("list", "events.events.k8s.io", "--subresource="),
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
