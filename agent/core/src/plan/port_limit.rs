//! The limit of the ports that are held in one pod: each of them has a probe, which is a job of the worker process.

use super::Sidecar;
use crate::hold::{HeldPort, MAX_HELD_PORTS};

/// Drops the held ports beyond the limit. Returns their number.
pub(super) fn limit(sidecars: &mut [Sidecar], declared: &mut Vec<HeldPort>) -> usize {
    let mut room = MAX_HELD_PORTS;
    let mut omitted = 0;
    let all = sidecars.iter_mut().map(|sidecar| &mut sidecar.held_ports);
    for held_ports in all.chain([declared]) {
        let before = held_ports.len();
        if before > room {
            // Assumed ports are released together, when the sidecar listens on enough of them.
            held_ports.retain(|held_port| !held_port.is_assumed);
            held_ports.truncate(room);
            held_ports.shrink_to_fit();
        }
        room -= held_ports.len();
        omitted += before - held_ports.len();
    }
    omitted
}

#[cfg(test)]
mod tests {
    use crate::{
        hold::NotHeld,
        plan::{Plan, version_query::VersionQueries},
        pod::spec::{Pod, plain},
        settings::{config::Config, overrides::NamespaceValues},
    };

    /// A pod with an app and these database proxies.
    fn plan(proxies: &[(&str, Vec<String>)]) -> Plan {
        let proxies = proxies.iter().enumerate().map(|(number, (image, words))| {
            let mut proxy = plain::container(&format!("proxy-{number}"), image);
            proxy.words.clone_from(words);
            proxy
        });
        let app = plain::container("app", "shop/report:1");
        let pod: Pod = plain::pod([app].into_iter().chain(proxies).collect());
        let (config, values) = (Config::default(), NamespaceValues::default());
        Plan::of(&pod, &config, &values, &VersionQueries::default())
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
                "assumed ports are held together",
                vec![(V2, assumed(22)), (V1, listed(7000, 1))],
                1,
                66,
            ),
        ] {
            let plan = plan(&proxies);
            assert_eq!(plan.held_ports().len(), held, "{what}");
            assert_eq!(plan.omitted_ports, omitted, "{what}");
            assert_eq!(plan.not_held, None, "{what}");
        }
        let plan = plan(&[(V2, assumed(22))]);
        let too_many = NotHeld::TooManyPorts { ports: 66 };
        assert_eq!(plan.not_held, Some(too_many));
    }
}
