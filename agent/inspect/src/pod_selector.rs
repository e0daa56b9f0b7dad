//! Which pod is meant: by its name, UID, IP, a container's id, a process, or a part of any name.

use std::net::IpAddr;

/// What is known of a pod for telling it from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its UID.
    pub uid: String,
    /// `namespace/name`; None where nobody can tell.
    pub name: Option<String>,
    /// Its addresses, as far as they are known.
    pub ips: Vec<IpAddr>,
    /// Ids of its containers, the sandbox among them.
    pub containers: Vec<String>,
    /// Names of its containers with their init processes.
    pub pids: Vec<i32>,
}

/// Not exactly one pod is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOne {
    /// None is.
    #[error("no pod of this node is {given:?} (a namespace/name, UID, container id, pid, IP or a part of a name); there are: {}", listed(.there))]
    None {
        /// What was given.
        given: String,
        /// The pods that there are.
        there: Vec<String>,
    },
    /// Several are.
    #[error("{given:?} is in the names of several pods: {}", listed(.meant))]
    Several {
        /// What was given.
        given: String,
        /// The pods that it fits.
        meant: Vec<String>,
    },
}

/// Names that an error shows.
const SHOWN: usize = 12;
/// Digits of a container's id that are enough to be one, as `crictl` shows them.
const ID_DIGITS: usize = 8;

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let mut text = names
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// The place of the pod that is meant.
///
/// The first of these ways in which any pod fits counts: its whole name, with or without the namespace; UID; container
/// id or eight or more digits of one; pid of an init process; IP; a part of `namespace/name`, or the beginning of a UID.
///
/// # Errors
/// [`NotOne`].
pub fn choose(given: &str, pods: &[Candidate]) -> Result<usize, NotOne> {
    let is_name = |pod: &Candidate| {
        pod.name.as_deref().is_some_and(|name| {
            name == given
                || name
                    .split_once('/')
                    .is_some_and(|(_namespace, name)| name == given)
        })
    };
    let lower = given.to_ascii_lowercase();
    let bare = lower.rsplit("://").next().unwrap_or(&lower);
    let is_uid = |pod: &Candidate| pod.uid == lower;
    let is_container = |pod: &Candidate| {
        bare.len() >= ID_DIGITS && pod.containers.iter().any(|id| id.starts_with(bare))
    };
    let pid = given.parse::<i32>().ok();
    let has_pid = |pod: &Candidate| pid.is_some_and(|pid| pod.pids.contains(&pid));
    let ip = given.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    let has_ip = |pod: &Candidate| ip.is_some_and(|ip| pod.ips.contains(&ip));
    let is_part = |pod: &Candidate| {
        !given.is_empty()
            && (pod.name.as_ref().is_some_and(|name| name.contains(given))
                || pod.uid.starts_with(&lower))
    };
    let ways: [&dyn Fn(&Candidate) -> bool; 6] = [
        &is_name,
        &is_uid,
        &is_container,
        &has_pid,
        &has_ip,
        &is_part,
    ];
    for way in ways {
        let fits = |(place, pod): (usize, &Candidate)| way(pod).then_some(place);
        let fit: Vec<usize> = pods.iter().enumerate().filter_map(fits).collect();
        match fit.as_slice() {
            [] => {}
            [only] => return Ok(*only),
            several => {
                let names = several.iter().filter_map(|place| pods.get(*place));
                return Err(NotOne::Several {
                    given: given.to_owned(),
                    meant: names.map(display).collect(),
                });
            }
        }
    }
    Err(NotOne::None {
        given: given.to_owned(),
        there: pods.iter().map(display).collect(),
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
    fn every_way_to_name_a_pod() {
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
            ("nobody", None),
            ("", None),
        ];
        for (given, expected) in table {
            assert_eq!(choose(given, &pods).ok(), expected, "{given}");
        }
    }

    #[test]
    fn errors_name_the_pods() {
        let several = choose("report", &pods()).unwrap_err().to_string();
        assert!(
            several.contains("shop/report-x7k2p, shop/report-x7k2p-2, bank/report-x7k2p"),
            "{several}"
        );
        let none = choose("x", &[]).unwrap_err().to_string();
        assert!(none.ends_with("there are: none"), "{none}");
        let unnamed = Candidate {
            uid: "u".to_owned(),
            ..Candidate::default()
        };
        for (count, end) in [
            (12, "there are: u, u, u, u, u, u, u, u, u, u, u, u"),
            (13, "u, u and 1 more"),
            (20, "u, u and 8 more"),
        ] {
            let many = vec![unnamed.clone(); count];
            let error = choose("x", &many).unwrap_err().to_string();
            assert!(error.ends_with(end), "{count}: {error}");
        }
    }
}
