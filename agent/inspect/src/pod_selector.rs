//! Selects a pod by its name, UID, container ID, PID, IP address, or a part of a name.

use std::net::IpAddr;

use crate::text::list;

/// The attributes of a pod that can select it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidate {
    pub uid: String,
    /// `namespace/name`; None if it is not known.
    pub name: Option<String>,
    /// The known IP addresses.
    pub ips: Vec<IpAddr>,
    /// IDs of the containers, including the sandbox.
    pub containers: Vec<String>,
    /// PIDs of the containers' processes.
    pub pids: Vec<i32>,
}

/// The names that match a pod. The name of a pod that is gone may be a part of another pod's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    Whole,
    /// Also parts of `namespace/name`.
    Parts,
}

/// Not exactly one pod matches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOne {
    #[error(
        "no pod on this node matches {selector:?} (namespace/name, UID, container ID, PID, IP address{}); for a pod on another node use kubectl usher, or the agent on that node (kubectl get pod -o wide names it); \
         pods on this node: {}",
        match .names {
            Names::Whole => "; a command that changes a pod accepts no part of a name",
            Names::Parts => " or part of a name",
        },
        list::first(.pods, MAX_LISTED)
    )]
    None {
        selector: String,
        names: Names,
        /// All pods of the node, for the error text.
        pods: Vec<String>,
    },
    #[error("{selector:?} matches several pods: {}", list::first(.pods, MAX_LISTED))]
    Several { selector: String, pods: Vec<String> },
}

/// Number of pods that an error lists.
const MAX_LISTED: usize = 12;
/// Minimum length of a container ID prefix. `crictl` prints 13 digits.
const ID_DIGITS: usize = 8;

/// The index of the pod that matches.
///
/// The first of these rules with any match is used: the whole name, with or without the namespace; the UID; a container ID
/// or a prefix of at least eight digits; the PID of a process; an IP address; with [`Names::Parts`] a part of
/// `namespace/name`, or a prefix of the UID.
pub fn select(selector: &str, names: Names, pods: &[Candidate]) -> Result<usize, NotOne> {
    let is_name = |pod: &Candidate| {
        pod.name.as_deref().is_some_and(|name| {
            name == selector
                || name
                    .split_once('/')
                    .is_some_and(|(_namespace, name)| name == selector)
        })
    };
    let lower = selector.to_ascii_lowercase();
    let bare = lower.rsplit("://").next().unwrap_or(&lower);
    let is_uid = |pod: &Candidate| pod.uid == lower;
    let is_container = |pod: &Candidate| {
        bare.len() >= ID_DIGITS && pod.containers.iter().any(|id| id.starts_with(bare))
    };
    let pid = selector.parse::<i32>().ok();
    let has_pid = |pod: &Candidate| pid.is_some_and(|pid| pod.pids.contains(&pid));
    let ip = selector.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    let has_ip = |pod: &Candidate| ip.is_some_and(|ip| pod.ips.contains(&ip));
    let is_part = |pod: &Candidate| {
        names == Names::Parts
            && !selector.is_empty()
            && (pod
                .name
                .as_ref()
                .is_some_and(|name| name.contains(selector))
                || pod.uid.starts_with(&lower))
    };
    let rules: [&dyn Fn(&Candidate) -> bool; 6] = [
        &is_name,
        &is_uid,
        &is_container,
        &has_pid,
        &has_ip,
        &is_part,
    ];
    for rule in rules {
        let fits = |(place, pod): (usize, &Candidate)| rule(pod).then_some(place);
        let fit: Vec<usize> = pods.iter().enumerate().filter_map(fits).collect();
        match fit.as_slice() {
            [] => {}
            [only] => return Ok(*only),
            several => {
                let names = several.iter().filter_map(|place| pods.get(*place));
                return Err(NotOne::Several {
                    selector: selector.to_owned(),
                    pods: names.map(display).collect(),
                });
            }
        }
    }
    Err(NotOne::None {
        selector: selector.to_owned(),
        names,
        pods: pods.iter().map(display).collect(),
    })
}

fn display(pod: &Candidate) -> String {
    pod.name.clone().unwrap_or_else(|| pod.uid.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Vec<Candidate> {
        let pod = |name: &str, uid: &str, ip: &str, id: &str, pid| Candidate {
            uid: uid.to_owned(),
            name: Some(name.to_owned()),
            ips: vec![ip.parse().unwrap()],
            containers: vec![id.repeat(8)],
            pids: vec![pid],
        };
        vec![
            pod(
                "shop/report-x7k2p",
                "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11",
                "10.1.0.4",
                "aaaaaaa1",
                41,
            ),
            pod(
                "shop/report-x7k2p-2",
                "1d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b12",
                "10.1.0.5",
                "bbbbbbb2",
                42,
            ),
            pod(
                "bank/report-x7k2p",
                "2d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b13",
                "fd00::4",
                "ccccccc3",
                4242,
            ),
        ]
    }

    #[test]
    fn pod_is_selected_by_every_attribute() {
        let pods = pods();
        let table = [
            ("shop/report-x7k2p", Some(0)),
            ("report-x7k2p-2", Some(1)),
            ("2d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b13", Some(2)),
            ("containerd://BBBBBBB2BBBBBBB2", Some(1)),
            ("aaaaaaa1", Some(0)),
            ("aaaa", None),
            ("42", Some(1)),
            ("4242", Some(2)),
            ("10.1.0.5", Some(1)),
            ("[fd00::4]", Some(2)),
            ("bank", Some(2)),
            ("p-2", Some(1)),
            ("2d7", Some(2)),
            ("report", None),
            ("report-x7k2p", None),
            ("missing", None),
            ("", None),
        ];
        for (selector, expected) in table {
            let found = select(selector, Names::Parts, &pods).ok();
            assert_eq!(found, expected, "{selector}");
        }
    }

    /// The first pod is gone, and the name of another one begins with its name.
    #[test]
    fn whole_name_of_a_pod_that_is_gone_selects_no_other() {
        let pods = &pods()[1..];
        for (selector, names, expected) in [
            ("shop/report-x7k2p", Names::Parts, Some(0)),
            ("shop/report-x7k2p", Names::Whole, None),
            ("report-x7k2p-", Names::Parts, Some(0)),
            ("report-x7k2p-", Names::Whole, None),
            ("2d7", Names::Whole, None),
            ("4242", Names::Whole, Some(1)),
            ("shop/report-x7k2p-2", Names::Whole, Some(0)),
        ] {
            let found = select(selector, names, pods).ok();
            assert_eq!(found, expected, "{selector} {names:?}");
        }
    }

    #[test]
    fn errors_name_the_pods() {
        let several = select("report", Names::Parts, &pods())
            .unwrap_err()
            .to_string();
        assert!(
            several.contains("shop/report-x7k2p, shop/report-x7k2p-2, bank/report-x7k2p"),
            "{several}"
        );
        let none = select("x", Names::Parts, &[]).unwrap_err().to_string();
        assert!(none.ends_with("pods on this node: none"), "{none}");
        let unnamed = Candidate {
            uid: "u".to_owned(),
            ..Candidate::default()
        };
        for (count, end) in [
            (12, "pods on this node: u, u, u, u, u, u, u, u, u, u, u, u"),
            (13, "u, u and 1 more"),
            (20, "u, u and 8 more"),
        ] {
            let many = vec![unnamed.clone(); count];
            let error = select("x", Names::Parts, &many).unwrap_err().to_string();
            assert!(error.ends_with(end), "{count}: {error}");
        }
    }
}
