use std::collections::BTreeMap;

use super::*;
use crate::{annotation, id::PodUid, policy::RestartPolicy};

fn ladder(name: &str, image: &str, args: &[&str], port: Option<&str>, host: bool) -> String {
    let container = Container {
        name: name.to_owned(),
        image: image.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        restart_policy: None,
        restart_rules: Vec::new(),
        status: None,
    };
    let key = annotation::ISTIO_STATUS_PORT.to_owned();
    let pod = Pod {
        uid: PodUid::parse("0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11").unwrap(),
        namespace: "a".to_owned(),
        name: "b".to_owned(),
        annotations: port
            .map(|port| (key, port.to_owned()))
            .into_iter()
            .collect(),
        deleting: false,
        host_network: host,
        restart_policy: RestartPolicy::Never,
        containers: Vec::new(),
    };
    recognise(&pod, &container).map_or_else(
        || "app".to_owned(),
        |sidecar| {
            let steps: Vec<_> = sidecar.ladder.iter().map(ToString::to_string).collect();
            format!("{}: {}", sidecar.recipe, steps.join(", "))
        },
    )
}

#[test]
fn istio_by_version() {
    let status = "POST :15020/quitquitquit";
    let admin = "POST :15000/quitquitquit";
    let expected = BTreeMap::from([
        ("1.2.10", "SIGTERM".to_owned()),
        ("1.3.0", format!("{status}, SIGTERM")),
        ("1.4.0", format!("{admin}, {status}, SIGTERM")),
        ("1.25.5-distroless", format!("{admin}, {status}, SIGTERM")),
        ("1.26.0", format!("{status}, {admin}, SIGTERM")),
        ("1.31-dev", format!("{status}, {admin}, SIGTERM")),
        ("latest", format!("{status}, {admin}, SIGTERM")),
    ]);
    for (tag, steps) in expected {
        let image = format!("docker.io/istio/proxyv2:{tag}");
        let found = ladder("istio-proxy", &image, &["proxy", "sidecar"], None, false);
        assert_eq!(found, format!("istio: {steps}"), "{tag}");
    }
}

#[test]
fn istio_status_port() {
    let with = |args: &[&str], port| ladder("istio-proxy", "r/proxyv2:1.26.1", args, port, false);
    let at =
        |port: &str| format!("istio: POST :{port}/quitquitquit, POST :15000/quitquitquit, SIGTERM");
    assert_eq!(with(&[], Some("15999")), at("15999"));
    assert_eq!(with(&["--statusPort", "15021"], None), at("15021"));
    assert_eq!(with(&["--statusPort"], None), at("15020"));
    assert_eq!(with(&[], Some("many")), at("15020"));
    let off = "istio: POST :15000/quitquitquit, SIGTERM";
    assert_eq!(with(&[], Some("0")), off);
}

#[test]
fn host_network_gets_signals_only() {
    let image = "istio/proxyv2:1.26.1";
    let found = ladder("istio-proxy", image, &[], None, true);
    assert_eq!(found, "istio: SIGTERM");
}

#[test]
fn conservative() {
    let app = "app".to_owned();
    assert_eq!(ladder("app", "istio/proxyv2:1.26.1", &[], None, false), app);
    assert_eq!(
        ladder("istio-proxy", "shop/report:1", &[], None, false),
        app
    );
    assert_eq!(ladder("envoy", "shop/envoy:1", &[], None, false), app);
    let mirrored = ["proxy", "sidecar"];
    let found = ladder("istio-proxy", "mirror/mesh:1", &mirrored, None, false);
    assert!(found.starts_with("istio: "));
    let envoy = "envoy: POST :9901/quitquitquit, SIGTERM";
    let image = "docker.io/envoyproxy/envoy:v1.40.0";
    assert_eq!(ladder("front", image, &[], None, false), envoy);
}
