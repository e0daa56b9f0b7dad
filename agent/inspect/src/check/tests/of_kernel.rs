//! Checks of the kernel and of this process's privileges.

use super::super::tests::*;

pub(super) fn kernel() -> kernel::Found {
    kernel::Found {
        release: "6.18.5".to_owned(),
        netns: Ok(kernel::Network {
            table: Ok(()),
            log: Ok(()),
            queue: Ok(()),
            queue_kind: Some("nft queue"),
            sockets: Ok(true),
        }),
        pidfd: Ok(()),
        exit: Ok(true),
        fanotify: Ok(()),
        inotify: Ok(()),
        limits: kernel::Limits {
            instances: Some(128),
            watches: Some(65_536),
        },
        pods: Some(30),
    }
}

#[test]
fn complete_kernel() {
    let checks = kernel::judge(&kernel());
    assert_eq!(checks.len(), kernel::ALL.len());
    assert!(
        checks.iter().all(|check| check.outcome == Outcome::Ok),
        "{checks:?}"
    );
}

/// Each feature that a kernel may lack, with the outcome and a word of the fix.
#[test]
fn kernel_without_one_feature() {
    let network = |found: &mut kernel::Found, change: fn(&mut kernel::Network)| {
        change(found.netns.as_mut().unwrap());
    };
    let lack = |cause| -> Result<(), kernel::Lack> {
        Err(kernel::Lack {
            cause,
            error: "no".to_owned(),
        })
    };
    type Case<'a> = (&'a str, Outcome, &'a str, &'a dyn Fn(&mut kernel::Found));
    let cases: [Case<'_>; 14] = [
        ("kernel-release", Outcome::Failed, "6.1", &|found| {
            found.release = "4.18.0-553.el8".to_owned();
        }),
        ("kernel-release", Outcome::Warning, "6.1", &|found| {
            found.release = "5.15.0".to_owned();
        }),
        ("kernel-release", Outcome::Skipped, "", &|found| {
            found.release = "odd".to_owned();
        }),
        ("kernel-netns", Outcome::Failed, "CAP_SYS_ADMIN", &|found| {
            found.netns = Err("EPERM".to_owned());
        }),
        (
            "kernel-table",
            Outcome::Failed,
            "modprobe nf_tables",
            &|found| {
                network(found, |network| network.table = Err("no".to_owned()));
            },
        ),
        ("kernel-log", Outcome::Failed, "nfnetlink_log", &|found| {
            network(found, |network| network.log = Err("no".to_owned()));
        }),
        ("kernel-queue", Outcome::Warning, "nft_queue", &|found| {
            network(found, |network| network.queue = Err("no".to_owned()));
        }),
        ("kernel-sockets", Outcome::Failed, "tcp_diag", &|found| {
            network(found, |network| network.sockets = Ok(false));
        }),
        ("kernel-pidfd", Outcome::Failed, "5.3", &|found| {
            found.pidfd = Err("ENOSYS".to_owned());
        }),
        ("kernel-exit", Outcome::Warning, "6.15", &|found| {
            found.exit = Ok(false);
        }),
        ("kernel-fanotify", Outcome::Warning, "SYS_ADMIN", &|found| {
            found.fanotify = lack(kernel::Cause::Permission);
        }),
        (
            "kernel-fanotify",
            Outcome::Warning,
            "max_user_groups",
            &|found| found.fanotify = lack(kernel::Cause::Groups),
        ),
        (
            "kernel-inotify-instances",
            Outcome::Failed,
            "max_user_instances",
            &|found| {
                found.inotify = Err("EMFILE".to_owned());
            },
        ),
        (
            "kernel-inotify-watches",
            Outcome::Failed,
            "max_user_watches=65536",
            &|found| {
                found.limits.watches = Some(500);
            },
        ),
    ];
    for (id, outcome, words, change) in cases {
        let mut found = kernel();
        change(&mut found);
        let checks = kernel::judge(&found);
        let (came, fix) = outcome_and_fix(&checks, id);
        assert_eq!(came, outcome, "{id}");
        assert!(fix.contains(words), "{id}: {fix}");
        let wrong = |check: &&Check| matches!(check.outcome, Outcome::Failed | Outcome::Warning);
        assert!(
            checks.iter().filter(wrong).all(|check| check.id == id),
            "{id}: {checks:?}"
        );
    }
}

#[test]
fn checks_in_a_namespace_are_skipped_without_one() {
    let mut found = kernel();
    found.netns = Err("EPERM".to_owned());
    let checks = kernel::judge(&found);
    for id in [
        "kernel-table",
        "kernel-log",
        "kernel-queue",
        "kernel-sockets",
    ] {
        assert_eq!(outcome_and_fix(&checks, id).0, Outcome::Skipped);
    }
}

#[test]
fn missing_capabilities_are_listed_with_their_purpose() {
    let all: BTreeSet<String> = capability::CAPABILITIES
        .iter()
        .map(|one| one.name.to_owned())
        .collect();
    let judge = |effective: BTreeSet<String>| {
        capability::judge(&capability::Found {
            uid: 0,
            effective: Ok(effective),
            processes: Ok(capability::Processes::default()),
        })
    };
    assert_eq!(
        outcome_and_fix(&judge(all.clone()), "privileges-capabilities").0,
        Outcome::Ok
    );
    for one in capability::CAPABILITIES {
        let mut without = all.clone();
        without.remove(one.name);
        let check = of(&judge(without), "privileges-capabilities");
        // Without SYS_NICE usher is late on a busy node, but works.
        let expected = match one.name {
            "SYS_NICE" => Outcome::Warning,
            _ => Outcome::Failed,
        };
        assert_eq!(check.outcome, expected, "{}", one.name);
        assert!(check.message.contains(one.purpose), "{}", check.message);
        assert!(check.fix.unwrap().contains(&format!("[{}]", one.name)));
    }
    let user = capability::Found {
        uid: 1000,
        effective: Ok(all),
        processes: Err("EACCES".to_owned()),
    };
    let checks = capability::judge(&user);
    assert!(
        outcome_and_fix(&checks, "privileges-root")
            .1
            .contains("sudo")
    );
    assert!(
        outcome_and_fix(&checks, "privileges-processes")
            .1
            .contains("hostPID")
    );
    for (outside, hidden, words) in [(1, 0, "hostPID"), (0, 1, "SYS_PTRACE")] {
        let processes = Ok(capability::Processes {
            namespaces: 1,
            hidden,
            outside,
        });
        let found = capability::Found {
            processes,
            ..user.clone()
        };
        let (outcome, fix) = outcome_and_fix(&capability::judge(&found), "privileges-processes");
        assert_eq!(outcome, Outcome::Failed);
        assert!(fix.contains(words), "{fix}");
    }
}

#[test]
fn all_processes_of_the_node_are_visible() {
    let found = capability::Found {
        uid: 0,
        effective: Ok(BTreeSet::new()),
        processes: Ok(capability::Processes {
            namespaces: 7,
            hidden: 0,
            outside: 0,
        }),
    };
    let check = of(&capability::judge(&found), "privileges-processes");
    assert_eq!((check.outcome, &check.message[..]), (Outcome::Ok, "all"));
}

#[test]
fn limits_of_releases_and_watches() {
    for (release, outcome) in [
        ("5.2.21", Outcome::Failed),
        ("5.3.0", Outcome::Warning),
        ("6.0.19", Outcome::Warning),
        ("6.1.0-18-amd64", Outcome::Ok),
    ] {
        let mut found = kernel();
        found.release = release.to_owned();
        let check = of(&kernel::judge(&found), "kernel-release");
        assert_eq!(check.outcome, outcome, "{release}");
    }
    // The check assumes at least the kubelet's default number of pods.
    for (watches, pods, outcome, message) in [
        (
            944,
            Some(30),
            Outcome::Ok,
            "944 per user; 110 pods need up to 944",
        ),
        (
            943,
            None,
            Outcome::Failed,
            "943 per user; 110 pods need up to 944",
        ),
        (
            1664,
            Some(200),
            Outcome::Ok,
            "1664 per user; 200 pods need up to 1664",
        ),
        (
            1663,
            Some(200),
            Outcome::Failed,
            "1663 per user; 200 pods need up to 1664",
        ),
    ] {
        let mut found = kernel();
        found.limits.watches = Some(watches);
        found.pods = pods;
        let check = of(&kernel::judge(&found), "kernel-inotify-watches");
        assert_eq!((check.outcome, &check.message[..]), (outcome, message));
    }
}
