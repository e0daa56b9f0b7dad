//! Held ports from recipes and annotations, and the user of the proxy.

use super::super::hold::*;

/// The armed hold of a pod, or the reason that there is none.
fn armed(spec: Pod) -> String {
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    stage.take_hold().remove(0)
}

#[test]
fn proxy_is_recognized_by_user_and_group() {
    let users = |user| {
        let mut spec = istio();
        spec.containers[1].own_user = user;
        armed(spec)
    };
    assert_eq!(users(None), ARM);
    assert_eq!(users(Some(2000)), "arm 15001 30s, users [1337, 2000]");
    // Root identifies no sidecar: apps run as root as well.
    assert_eq!(users(Some(0)), ARM);
}

#[test]
fn readiness_probe_depends_on_the_version() {
    let probe = |image: &str| {
        let mut spec = istio();
        spec.containers[1].image = image.to_owned();
        let mut stage = held(Mode::Enforce, spec);
        stage.hold();
        stage.start(PROXY, "i");
        stage.take_hold().remove(0)
    };
    assert_eq!(probe("istio/proxyv2:1.6.0"), WATCH);
    let before =
        "watch [Listens { port: 15001 }, Answers { port: 15020, path: \"/healthz/ready\" }]";
    assert_eq!(probe("istio/proxyv2:1.5.9"), before);
}

#[test]
fn a_port_may_depend_on_the_sidecars_arguments() {
    let vault = |cache: Option<&str>| {
        let mut spec = istio();
        spec.containers[1] = container("vault-agent");
        spec.containers[1].image = "hashicorp/vault:1.17".to_owned();
        let key = "vault.hashicorp.com/agent-cache-enable";
        let output = cache.map(|value| (key.to_owned(), value.to_owned()));
        spec.annotations = output.into_iter().collect();
        armed(spec)
    };
    assert_eq!(vault(Some("true")), "arm 8200 30s, users []");
    assert!(vault(None).starts_with("answer NotHeld: no recipe knows a port"));
}

#[test]
fn first_of_two_holds_at_one_port_applies() {
    let mut spec = istio();
    let declared = [("usher.dev/hold-ports".to_owned(), "app=15001".to_owned())];
    spec.annotations = declared.into();
    assert_eq!(armed(spec), ARM);
}

/// The pod sets the first port of its instances, and the last port has no next one.
#[test]
fn ports_of_instances_end_at_the_last_port() {
    let sql = ("cloud-sql-connectors/cloud-sql-proxy:2.11.3", "p:r:i");
    let alloydb = (
        "alloydb-connectors/alloydb-auth-proxy:1.13.0",
        "projects/p/locations/l/clusters/c/instances/i",
    );
    let flag = |port: u16| (Some(format!("--port={port}")), None);
    let variable = |name, port: u16| (None, Some((name, port.to_string())));
    for ((image, instance), (flag, variable), instances, expected) in [
        (sql, flag(65_535), 1, "65535 30s"),
        (sql, flag(65_535), 3, "65535 30s"),
        (sql, flag(65_534), 2, "65534 30s, 65535 30s"),
        (sql, variable("CSQL_PROXY_PORT", 65_535), 1, "65535 30s"),
        (
            sql,
            variable("CSQL_PROXY_PORT", 65_534),
            2,
            "65534 30s, 65535 30s",
        ),
        (alloydb, flag(65_535), 1, "65535 30s"),
        (alloydb, flag(65_534), 2, "65534 30s, 65535 30s"),
        (
            alloydb,
            variable("ALLOYDB_PROXY_PORT", 65_535),
            2,
            "65535 30s",
        ),
    ] {
        let mut spec = istio();
        let proxy = &mut spec.containers[1];
        *proxy = container("database-proxy");
        proxy.image = format!("gcr.io/{image}");
        proxy.words = flag.into_iter().collect();
        proxy
            .words
            .extend((0..instances).map(|_| instance.to_owned()));
        proxy.env = variable
            .into_iter()
            .map(|(name, port)| (name.to_owned(), port))
            .collect();
        assert_eq!(armed(spec), format!("arm {expected}, users []"));
    }
}

#[test]
fn ports_beyond_the_limit_are_reported() {
    let mut spec = istio();
    spec.containers[1] = container("sql-proxy");
    spec.containers[1].image = "gcr.io/cloudsql-docker/gce-proxy:1.33.16".to_owned();
    let ports: Vec<String> = (7000..7066)
        .map(|port| format!("p:r:i=tcp:{port}"))
        .collect();
    spec.containers[1].words = vec![format!("-instances={}", ports.join(","))];
    let mut stage = held(Mode::Enforce, spec);
    let omitted = "2 ports are not held, because usher holds at most 64 ports of a pod";
    let because = stage.forecast(None).hold.because;
    assert!(because.contains(&omitted.to_owned()), "{because:?}");
    stage.announce();
    stage.armed();
    let output = stage.take_hold();
    let armed = output.iter().find(|line| line.starts_with("hold-armed"));
    assert!(
        armed.is_some_and(|line| line.starts_with(&format!("hold-armed: {omitted}; "))),
        "{output:?}"
    );
}
