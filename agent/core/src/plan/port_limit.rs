//! The limit of the ports that are held in one pod: each of them has a probe, which is a job of the worker process.

use std::collections::BTreeSet;

use super::Sidecar;
use crate::hold::{HeldPort, MAX_HELD_PORTS};

/// Several sidecars may hold the same port; each is checked on its own.
const MAX_CLAIMS: usize = 4 * MAX_HELD_PORTS;

/// Drops the held ports beyond the limit, last those that a mesh redirects to. Returns how many are not held.
pub(super) fn limit(sidecars: &mut [Sidecar], declared: &mut Vec<HeldPort>) -> usize {
    let all = sidecars.iter_mut().map(|sidecar| &mut sidecar.held_ports);
    let mut lists: Vec<&mut Vec<HeldPort>> = all.chain([declared]).collect();
    let claims = lists.iter().flat_map(|list| list.iter());
    let mesh = claims.filter(|held_port| held_port.captured.is_some());
    let mut kept: BTreeSet<u16> = mesh.map(|held_port| held_port.port).collect();
    while kept.len() > MAX_HELD_PORTS {
        kept.pop_last();
    }
    let mut dropped = BTreeSet::new();
    let mut room = MAX_CLAIMS;
    for held_ports in &mut lists {
        let ports = held_ports.iter().map(|held_port| held_port.port);
        let wanted: BTreeSet<u16> = ports.chain(kept.iter().copied()).collect();
        if wanted.len() <= MAX_HELD_PORTS {
            kept = wanted;
        } else {
            held_ports.retain(|held_port| {
                let port = held_port.port;
                // Assumed ports are released together, when the sidecar listens on enough of them.
                let fits = kept.contains(&port) || kept.len() < MAX_HELD_PORTS;
                let is_kept = fits && !held_port.is_assumed;
                match is_kept {
                    true => kept.insert(port),
                    false => dropped.insert(port),
                };
                is_kept
            });
            held_ports.shrink_to_fit();
        }
        held_ports.truncate(room);
        room -= held_ports.len();
    }
    dropped.difference(&kept).count()
}

#[cfg(test)]
mod tests {
    use super::MAX_CLAIMS;
    use crate::{
        hold::{MAX_HELD_PORTS, NotHeld},
        plan::{Plan, version_query::VersionQueries},
        pod::spec::{Pod, plain},
        settings::{config::Config, overrides::NamespaceValues},
    };

    /// With an app and these database proxies.
    fn pod(proxies: &[(&str, Vec<String>)]) -> Pod {
        let proxies = proxies.iter().enumerate().map(|(number, (image, words))| {
            let mut proxy = plain::container(&format!("proxy-{number}"), image);
            proxy.words.clone_from(words);
            proxy
        });
        let app = plain::container("app", "shop/report:1");
        plain::pod([app].into_iter().chain(proxies).collect())
    }

    fn plan(pod: &Pod) -> Plan {
        let (config, values) = (Config::default(), NamespaceValues::default());
        Plan::of(pod, &config, &values, &VersionQueries::default())
    }

    fn listed(first: usize, number: usize) -> Vec<String> {
        let ports = (first..first + number).map(|port| format!("p:r:i=tcp:{port}"));
        let ports: Vec<String> = ports.collect();
        vec![format!("-instances={}", ports.join(","))]
    }

    #[test]
    fn ports_beyond_the_limit_are_not_held() {
        const V1: &str = "gcr.io/cloudsql-docker/gce-proxy:1.33.16";
        const V2: &str = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.11.3";
        // Three engines for each instance.
        let assumed = |number: usize| vec!["p:r:i".to_owned(); number];
        for (what, proxies, held, omitted) in [
            ("the limit", vec![(V1, listed(7000, 64))], 64, 0),
            ("one more", vec![(V1, listed(7000, 65))], 64, 1),
            ("many more", vec![(V1, listed(1, 20_000))], 64, 19_936),
            (
                "two proxies",
                vec![(V1, listed(7000, 60)), (V1, listed(8000, 60))],
                64,
                56,
            ),
            ("assumed ports", vec![(V2, assumed(21))], 63, 0),
            (
                "one port of two proxies",
                vec![(V1, listed(7000, 64)), (V1, listed(7063, 1))],
                64,
                0,
            ),
            (
                "assumed ports that the other proxy has",
                vec![(V1, listed(5432 - 61, 62)), (V2, assumed(1))],
                64,
                0,
            ),
            (
                "assumed ports are held together",
                vec![(V2, assumed(22)), (V1, listed(7000, 1))],
                1,
                66,
            ),
        ] {
            let plan = plan(&pod(&proxies));
            assert_eq!(plan.held_ports().len(), held, "{what}");
            assert_eq!(plan.omitted_ports, omitted, "{what}");
            assert_eq!(plan.not_held, None, "{what}");
        }
        let plan = plan(&pod(&[(V2, assumed(22))]));
        let too_many = NotHeld::TooManyPorts { ports: 66 };
        assert_eq!(plan.not_held, Some(too_many));
    }

    /// Each claim is checked on its own whenever something of the pod changes.
    #[test]
    fn claims_of_many_sidecars_are_bounded() {
        let image = "gcr.io/cloudsql-docker/gce-proxy:1.33.16";
        let proxies: Vec<_> = (0..40).map(|_| (image, listed(7000, 64))).collect();
        let plan = plan(&pod(&proxies));
        let claims = plan
            .sidecars
            .iter()
            .map(|one| one.held_ports.len())
            .sum::<usize>();
        assert_eq!(claims, MAX_CLAIMS);
        assert_eq!(plan.held_ports().len(), 64);
    }

    #[test]
    fn ports_of_a_mesh_are_held_first() {
        const ISTIO: &str = "docker.io/istio/proxyv2:1.22.0";
        let image = "gcr.io/cloudsql-docker/gce-proxy:1.33.16";
        let mut pod = pod(&[(image, listed(7000, 80))]);
        pod.containers.push(plain::container("istio-proxy", ISTIO));
        let plan = plan(&pod);
        let held: Vec<u16> = plan.held_ports().iter().map(|held| held.port).collect();
        assert_eq!(held.len(), MAX_HELD_PORTS);
        assert!(held.contains(&15001), "{held:?}");
    }
}
