//! Checks of the network, the kubelet, the node's files, and the pods.

use std::collections::BTreeMap;

use usher_core::{
    cni::conflist::Entry,
    pod::spec::{Pod, plain},
    recipe::builtin,
};

use super::super::tests::*;

const LIST: &str =
    r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"bridge"},{"type":"portmap"}]}"#;
const WITH: &str =
    r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"bridge"},{"type":"usher-cni"}]}"#;

pub(super) fn network(files: &[(&str, &str)]) -> cni::Found {
    let files = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    cni::Found {
        programs: ["bridge", "multus", "ptp", "calico", "flannel"]
            .map(str::to_owned)
            .into(),
        platform: None,
        conf_dir: "/etc/cni/net.d".to_owned(),
        files: Ok(files.collect()),
        conf_writable: Ok(()),
        bin_dir: "/opt/cni/bin".to_owned(),
        bin_writable: Ok(()),
        stem: None,
        entry: Some(Entry::parse(r#"{"type":"usher-cni"}"#).unwrap()),
        obstacle: None,
        wanted: cni::Wanted::Yes,
    }
}

#[test]
fn network_configurations() {
    let first = |found: &cni::Found| outcome_and_fix(&cni::judge(Some(found)), "cni-first-file");
    let entry = |found: &cni::Found| outcome_and_fix(&cni::judge(Some(found)), "cni-entry");
    let there = network(&[("10-a.conflist", WITH), ("20-b.conflist", "{")]);
    assert_eq!(
        (first(&there).0, entry(&there).0),
        (Outcome::Ok, Outcome::Ok)
    );
    let absent = network(&[("10-a.conflist", LIST)]);
    assert_eq!(first(&absent).0, Outcome::Ok);
    assert_eq!(entry(&absent).0, Outcome::Failed);
    let message = of(&cni::judge(Some(&absent)), "cni-first-file").message;
    assert_eq!(message, "10-a.conflist: bridge, portmap");
    for wanted in [cni::Wanted::No, cni::Wanted::Unknown] {
        let found = cni::Found {
            wanted,
            ..network(&[("10-a.conflist", LIST)])
        };
        assert_eq!(entry(&found).0, Outcome::Skipped, "{wanted:?}");
    }
    let broken = network(&[("05-broken.conflist", "{"), ("10-a.conflist", WITH)]);
    let (outcome, fix) = first(&broken);
    assert_eq!(outcome, Outcome::Failed);
    assert!(fix.contains("/etc/cni/net.d/05-broken.conflist"), "{fix}");
    let empty = network(&[]);
    assert!(first(&empty).1.contains("cni.confDir"));
    let after = WITH.replace(
        r#"{"type":"usher-cni"}"#,
        r#"{"type":"usher-cni"},{"type":"x"}"#,
    );
    let not_last = network(&[("10-a.conflist", &after)]);
    let (outcome, fix) = entry(&not_last);
    assert_eq!(outcome, Outcome::Warning);
    assert!(fix.contains("kubectl delete pod -n usher POD"), "{fix}");
    let multus = LIST.replace("bridge", "multus");
    let called = network(&[("00-multus.conflist", &multus), ("10-a.conflist", LIST)]);
    assert!(first(&called).1.contains("cni.conf="));
    let named = cni::Found {
        stem: Some("10-a".to_owned()),
        ..called
    };
    assert_eq!(first(&named).0, Outcome::Ok);
    let message = of(&cni::judge(Some(&named)), "cni-first-file").message;
    assert_eq!(message, "10-a.conflist: bridge, portmap");
    assert!(
        cni::judge(None)
            .iter()
            .all(|check| check.outcome == Outcome::Skipped)
    );
}

#[test]
fn obstacle_of_the_installation_fails_where_the_plugin_may_be_wanted() {
    use cni::Wanted::{No, Unknown, Yes};
    let obstacle = "\"05-own.conflist\" is a symbolic link";
    for files in [
        &[("10-a.conflist", LIST)][..],
        &[("10-a.conflist", WITH)],
        &[],
    ] {
        for (wanted, fails) in [(Yes, true), (Unknown, true), (No, false)] {
            let found = cni::Found {
                obstacle: Some(obstacle.to_owned()),
                wanted,
                ..network(files)
            };
            let checks = cni::judge(Some(&found));
            let check = of(&checks, "cni-entry");
            assert_eq!(check.outcome == Outcome::Failed, fails, "{check:?}");
            assert_eq!(check.message == obstacle, fails, "{check:?}");
        }
    }
}

/// Files that cannot have usher's plugin.
#[test]
fn files_that_are_no_network() {
    let ours = r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"usher-cni"}]}"#;
    let newer = LIST.replace("1.0.0", "9.0.0");
    for (name, text, stem, message) in [
        (
            "a.txt",
            LIST,
            None,
            "a.txt: runtimes read no file with that name",
        ),
        (
            "a.conflist",
            ours,
            None,
            "a.conflist: only usher's plugin is in it",
        ),
        ("a.conflist", "{", None, "a.conflist: not JSON"),
        (
            "a.conflist",
            &newer,
            None,
            "a.conflist: cniVersion is \"9.0.0\", a version that usher-cni does not know",
        ),
        (
            "a.conflist",
            LIST,
            Some("b"),
            "there is no b.conflist, b.conf or b.json in /etc/cni/net.d",
        ),
    ] {
        let found = cni::Found {
            stem: stem.map(str::to_owned),
            ..network(&[(name, text)])
        };
        let check = of(&cni::judge(Some(&found)), "cni-first-file");
        assert_eq!(
            (check.outcome, &check.message[..]),
            (Outcome::Failed, message)
        );
    }
}

#[test]
fn directories_that_cannot_be_used() {
    let unwritable = cni::Found {
        conf_writable: Err("EROFS".to_owned()),
        bin_writable: Err("EACCES".to_owned()),
        ..network(&[("10-a.conflist", LIST)])
    };
    let checks = cni::judge(Some(&unwritable));
    assert!(
        outcome_and_fix(&checks, "cni-conf-dir")
            .1
            .contains("readOnly")
    );
    assert!(
        outcome_and_fix(&checks, "cni-bin-dir")
            .1
            .contains("cni.binDir")
    );
    let elsewhere = cni::Found {
        programs: ["loopback", "usher-cni"].map(str::to_owned).into(),
        platform: Some("gke"),
        ..network(&[("10-a.conflist", LIST)])
    };
    let (outcome, fix) = outcome_and_fix(&cni::judge(Some(&elsewhere)), "cni-bin-dir");
    assert_eq!(outcome, Outcome::Failed);
    assert!(fix.contains("--set platform=gke"), "{fix}");
    let away = cni::Found {
        files: Err("ENOENT".to_owned()),
        ..network(&[])
    };
    let checks = cni::judge(Some(&away));
    assert!(
        outcome_and_fix(&checks, "cni-conf-dir")
            .1
            .contains("cni.confDir")
    );
    assert_eq!(outcome_and_fix(&checks, "cni-entry").0, Outcome::Skipped);
}

#[test]
fn skipped_pods_are_a_warning_that_names_one() {
    let judge = |listed| {
        let found = kubelet::Found {
            url: "https://10.0.0.1:10250".to_owned(),
            token: "/token".to_owned(),
            ca: "/ca".to_owned(),
            pods: Ok(listed),
        };
        of(&kubelet::judge(&found), "kubelet-pods").clone()
    };
    let mut listed = kubelet::Listed {
        pods: 12,
        ..kubelet::Listed::default()
    };
    let check = judge(listed.clone());
    assert_eq!(check.outcome, Outcome::Ok);
    assert_eq!(check.message, "https://10.0.0.1:10250 listed 12 pods");
    listed.skipped = 2;
    listed.example = Some("pod shop/a is too large".to_owned());
    let check = judge(listed);
    assert_eq!(check.outcome, Outcome::Warning);
    let message = "usher does not manage 2 of 14 pods; one of them: pod shop/a is too large";
    assert_eq!(check.message, message);
}

#[test]
fn each_failed_request_to_the_kubelet_has_its_own_fix() {
    use kubelet::Cause;
    let cases = [
        (Cause::Token, "no such file", "kubectl create token"),
        (Cause::Trust, "no certificate", "--kubelet-ca"),
        (
            Cause::Connect,
            "connection refused",
            "systemctl status kubelet",
        ),
        (
            Cause::CertificateIssuer,
            "UnknownIssuer",
            "kubelet.certificate=",
        ),
        (Cause::CertificateTime, "certificate expired", "to renew"),
        (
            Cause::CertificateTime,
            "certificate not valid yet",
            "the node's clock",
        ),
        (
            Cause::CertificateName,
            "certificate not valid for name",
            "with a name of the certificate",
        ),
        (Cause::Timeout, "no reply", "systemctl status kubelet"),
        (
            Cause::Unauthorized,
            "status 401",
            "authentication.webhook.enabled: true",
        ),
        (
            Cause::Forbidden,
            "status 403",
            "resources: [nodes/pods], verbs: [get]",
        ),
        (Cause::ServerError, "status 500", "journalctl -u kubelet"),
        (Cause::Decode, "not a list", "is a kubelet"),
    ];
    for (cause, error, words) in cases {
        let found = kubelet::Found {
            url: "https://10.0.0.1:10250".to_owned(),
            token: "/token".to_owned(),
            ca: "/ca".to_owned(),
            pods: Err(kubelet::Refusal {
                cause,
                error: error.to_owned(),
            }),
        };
        let (outcome, fix) = outcome_and_fix(&kubelet::judge(&found), "kubelet-pods");
        assert_eq!(outcome, Outcome::Failed);
        assert!(fix.contains(words), "{cause:?}: {fix}");
    }
}

pub(super) fn node() -> node::Found {
    node::Found {
        cgroups: Ok(node::Cgroups {
            root: "/sys/fs/cgroup".to_owned(),
            layout: node::Layout::Unified,
            kubepods: Some("kubepods.slice".to_owned()),
            pods: 3,
        }),
        bundle_dir: "/run/containerd".to_owned(),
        bundles: node::Bundles::Seen(7),
        run_dir: "/run/usher".to_owned(),
        run_dir_writable: Ok(()),
        config: Ok(None),
        config_path: "/etc/usher/config.yaml".to_owned(),
    }
}

#[test]
fn places_of_the_node() {
    let checks = node::judge(&node());
    assert!(
        checks.iter().all(|check| check.outcome == Outcome::Ok),
        "{checks:?}"
    );
    assert!(
        of(&checks, "node-cgroups")
            .message
            .contains("version 2, driver systemd, 3 pods")
    );
    let broken = node::Found {
        cgroups: Err("nothing is mounted".to_owned()),
        bundles: node::Bundles::Hidden("the mount is private".to_owned()),
        run_dir_writable: Err("EROFS".to_owned()),
        config: Err("config.yaml:3:5: defaults.hold: no boolean".to_owned()),
        ..node()
    };
    let checks = node::judge(&broken);
    for (id, outcome, words) in [
        ("node-cgroups", Outcome::Failed, "USHER_CGROUP_ROOT"),
        ("node-bundles", Outcome::Warning, "HostToContainer"),
        ("node-run-directory", Outcome::Failed, "mkdir -p /run/usher"),
        ("node-configuration", Outcome::Failed, "correct that line"),
    ] {
        let (came, fix) = outcome_and_fix(&checks, id);
        assert_eq!(came, outcome, "{id}");
        assert!(fix.contains(words), "{id}: {fix}");
    }
    let off = node::Found {
        bundles: node::Bundles::Off,
        ..node()
    };
    assert_eq!(
        outcome_and_fix(&node::judge(&off), "node-bundles").0,
        Outcome::Skipped
    );
}

/// A pod with several containers of one recipe counts once for that recipe.
#[test]
fn sidecars_and_native_ones_are_counted_by_pods() {
    let container = |name: &&str| {
        let (image, _) = name.split_once('-').unwrap_or((name, ""));
        plain::container(name, &format!("example/{image}:1"))
    };
    let with = |containers: &[&str], native: &[&str]| Pod {
        native_sidecars: native.iter().map(|name| (*name).to_owned()).collect(),
        ..plain::pod(containers.iter().map(container).collect())
    };
    let pods = [
        with(&["app"], &[]),
        with(&["app", "daprd"], &[]),
        with(&["app", "vector-one", "vector-two"], &[]),
        with(&["app", "daprd", "vault-agent"], &["one", "two"]),
        with(&["app"], &["one"]),
    ];
    let found = cluster::Found::of(&pods, &builtin(), Some("v1.36.3".to_owned()));
    let expected = cluster::Found {
        recipes: [("dapr", 2), ("vault-agent", 1), ("vector", 1)]
            .map(|(name, pods)| (name.to_owned(), pods))
            .into(),
        native: 2,
        pods: 5,
        kubelet_version: Some("v1.36.3".to_owned()),
    };
    assert_eq!(found, expected);
}

#[test]
fn sidecars_that_the_recipes_know() {
    let found = cluster::Found {
        recipes: BTreeMap::from([("istio".to_owned(), 2), ("vault-agent".to_owned(), 1)]),
        native: 1,
        pods: 9,
        kubelet_version: Some("v1.36.3".to_owned()),
    };
    let checks = cluster::judge(Some(&found));
    assert_eq!(
        of(&checks, "cluster-sidecars").message,
        "istio in 2, vault-agent in 1 of 9 pods"
    );
    assert!(
        of(&checks, "cluster-native-sidecars")
            .message
            .contains("v1.36.3 supports them")
    );
    let old = cluster::Found {
        kubelet_version: Some("v1.27.0".to_owned()),
        ..found
    };
    let message = of(&cluster::judge(Some(&old)), "cluster-native-sidecars").message;
    assert!(message.contains("has no native sidecars"), "{message}");
    assert!(
        cluster::judge(None)
            .iter()
            .all(|check| check.outcome == Outcome::Skipped)
    );
}
