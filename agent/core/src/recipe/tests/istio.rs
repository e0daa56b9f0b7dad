//! Istio, by version and by the settings of its pod.

use super::{Case, ladder, plan};

#[test]
fn istio_by_version() {
    let status = "POST :15020/quitquitquit";
    let admin = "POST :15000/quitquitquit";
    for (tag, steps) in [
        ("1.2.10", "SIGTERM 5s".to_owned()),
        ("1.3.0", format!("{status} 5s, SIGTERM 5s")),
        ("1.4.0", format!("{admin}, {status} 5s, SIGTERM 5s")),
        (
            "1.25.5-distroless",
            format!("{admin}, {status} 5s, SIGTERM 5s"),
        ),
        ("1.26.0", format!("{status}, {admin}, SIGTERM 5s")),
        ("1.31-dev", format!("{status}, {admin}, SIGTERM 5s")),
        ("latest", format!("{status}, {admin}, SIGTERM 5s")),
    ] {
        let image = format!("docker.io/istio/proxyv2:{tag}");
        let case = Case {
            name: "istio-proxy",
            image: &image,
            ..Case::default()
        };
        assert_eq!(ladder(case), format!("istio: {steps}"), "{tag}");
    }
}

#[test]
fn istio_with_the_settings_of_its_pod() {
    let case = Case {
        name: "istio-proxy",
        image: "r/proxyv2:1.26.1",
        ..Case::default()
    };
    let at = |port: &str| {
        format!("istio: POST :{port}/quitquitquit, POST :15000/quitquitquit, SIGTERM 5s")
    };
    let port = |value| [("status.sidecar.istio.io/port", value)];
    assert_eq!(
        ladder(Case {
            annotations: &port("15999"),
            ..case
        }),
        at("15999")
    );
    assert_eq!(
        ladder(Case {
            words: &["--statusPort", "15021"],
            ..case
        }),
        at("15021")
    );
    assert_eq!(
        ladder(Case {
            words: &["--statusPort=15022"],
            ..case
        }),
        at("15022")
    );
    assert_eq!(
        ladder(Case {
            words: &["--statusPort"],
            ..case
        }),
        at("15020")
    );
    assert_eq!(
        ladder(Case {
            annotations: &port("many"),
            ..case
        }),
        at("15020")
    );
    let off = "istio: POST :15000/quitquitquit, SIGTERM 5s";
    assert_eq!(
        ladder(Case {
            annotations: &port("0"),
            ..case
        }),
        off
    );
    assert_eq!(
        ladder(Case {
            host_network: true,
            ..case
        }),
        "istio: SIGTERM 5s"
    );
    let drained = [("usher.dev/drain", "7s")];
    let first = ladder(Case {
        annotations: &drained,
        ..case
    });
    assert!(
        first.starts_with("istio: drain POST :15020/drain 7s, POST :15020"),
        "{first}"
    );
    let older = Case {
        image: "r/proxyv2:1.12.1",
        annotations: &drained,
        ..case
    };
    let first = ladder(older);
    assert!(
        first.starts_with("istio: drain POST :15000/drain_listeners?inboundonly&graceful&skip_exit 7s, POST :15000"),
        "{first}"
    );
}

/// The steps that end the sidecar of a deleted pod after SIGTERM, or the reason that there are
/// none.
#[test]
fn after_term() {
    let sidecar = Case {
        name: "istio-proxy",
        image: "r/proxyv2:1.26.1",
        words: &["proxy", "sidecar", "--domain", "x"],
        ..Case::default()
    };
    let admin = "POST :15000/quitquitquit";
    let gateway = "MayBeGateway";
    for (what, case, expected) in [
        ("a sidecar", sidecar, admin),
        (
            "the oldest version",
            Case {
                image: "r/proxyv2:1.20.8",
                ..sidecar
            },
            admin,
        ),
        (
            "an older version",
            Case {
                image: "r/proxyv2:1.19.0",
                ..sidecar
            },
            "only with version from 1.20",
        ),
        (
            "an unknown version",
            Case {
                image: "r/proxyv2:latest",
                ..sidecar
            },
            admin,
        ),
        (
            "a mirror",
            Case {
                image: "mirror/mesh:1.26",
                ..sidecar
            },
            admin,
        ),
        (
            "a gateway",
            Case {
                words: &["proxy", "router"],
                ..sidecar
            },
            gateway,
        ),
        (
            "no arguments",
            Case {
                words: &[],
                ..sidecar
            },
            gateway,
        ),
        (
            "the admin port moved",
            Case {
                env: &[("PROXY_CONFIG", "{\"proxyAdminPort\": 15999}")],
                ..sidecar
            },
            "POST :15999/quitquitquit",
        ),
        (
            "the status port switched off",
            Case {
                annotations: &[("status.sidecar.istio.io/port", "0")],
                ..sidecar
            },
            admin,
        ),
        (
            "it waits for connections",
            Case {
                env: &[("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true")],
                ..sidecar
            },
            "not with variable EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true",
        ),
        (
            "it does not wait for connections",
            Case {
                env: &[("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "false")],
                ..sidecar
            },
            admin,
        ),
        (
            "it sleeps",
            Case {
                env: &[("MINIMUM_DRAIN_DURATION", "8s")],
                ..sidecar
            },
            "not with variable MINIMUM_DRAIN_DURATION",
        ),
        (
            "without Envoy",
            Case {
                env: &[("DISABLE_ENVOY", "true")],
                ..sidecar
            },
            "not with variable DISABLE_ENVOY=true",
        ),
    ] {
        let plan = plan(case);
        let after_term = &plan.sidecars[0].after_term;
        let text = match after_term {
            Ok(steps) => steps
                .iter()
                .map(|step| step.step.to_string())
                .collect::<Vec<_>>()
                .join(", "),
            Err(reason) => format!("{reason:?}"),
        };
        let fits = match after_term {
            Ok(_) => text == expected,
            Err(_) => text.contains(expected),
        };
        assert!(fits, "{what}: {text}");
    }
}

/// pilot-agent without Envoy. Its quit handler panics from 1.26 on, and its /drain handler since
/// 1.21, its first version.
#[test]
fn without_envoy() {
    let environment = [("DISABLE_ENVOY", "true")];
    let drained = [("usher.dev/drain", "7s")];
    let quit = "istio: POST :15020/quitquitquit 5s, SIGTERM 5s";
    for (image, expected) in [
        ("r/proxyv2:1.31.0", "istio: SIGTERM 5s"),
        ("r/proxyv2:1.26.0", "istio: SIGTERM 5s"),
        ("r/proxyv2:1.25.9", quit),
        ("r/proxyv2:1.10.0", quit),
    ] {
        for annotations in [&[][..], &drained] {
            let case = Case {
                name: "istio-proxy",
                image,
                env: &environment,
                annotations,
                ..Case::default()
            };
            assert_eq!(ladder(case), expected, "{image} {annotations:?}");
        }
    }
}
