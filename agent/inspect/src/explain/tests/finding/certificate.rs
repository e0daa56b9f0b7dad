//! Certificates of the mesh's proxy.

use super::{Id, Scenario, healthy, pods::NOW_MS};
use crate::explain::{Certificate, Severity};

/// A pod with a one-day certificate that expires at this time.
fn scenario(until_ms: u64) -> Scenario {
    let mut scenario = healthy();
    let certificate = |until_ms: u64| Certificate {
        name: "spiffe://cluster.local/ns/shop/sa/default".to_owned(),
        from_ms: until_ms - 86_400_000,
        until_ms,
    };
    let other = certificate(NOW_MS + 80_000_000);
    scenario.seen.certificates = Some(vec![other, certificate(until_ms)]);
    scenario
}

#[test]
fn an_overdue_renewal_is_a_warning_and_an_expired_certificate_an_error() {
    for (until_ms, expected) in [
        (NOW_MS + 43_200_000, None),
        (
            NOW_MS + 7_200_000,
            Some((
                Severity::Warning,
                "expires in 2 h 0 min and was not renewed",
            )),
        ),
        (
            NOW_MS - 60_000,
            Some((Severity::Error, "expired 1 min 0 s ago")),
        ),
    ] {
        let findings = scenario(until_ms).explain().findings;
        let found = findings
            .iter()
            .find(|finding| finding.id == Id::CertificateExpires);
        match expected {
            None => assert_eq!(found, None),
            Some((severity, text)) => {
                let found = found.unwrap();
                assert_eq!(found.severity, severity);
                assert!(found.problem.contains(text), "{}", found.problem);
                assert!(found.evidence[0].message.starts_with("spiffe://"));
            }
        }
    }
}
