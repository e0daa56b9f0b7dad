//! A proxy whose certificate is expired or expires soon. Meshes renew certificates early: Istio at half of their
//! validity.

use super::{Finding, Id};
use crate::explain::{
    Case,
    date::{span, write},
};

/// The renewal is overdue when less than one part in `LEFT` of the validity remains.
const LEFT: u64 = 5;

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let proxy = case.istio().filter(|proxy| proxy.runs())?;
    let certificates = case.seen.certificates.iter().flatten();
    let certificate = certificates.min_by_key(|certificate| certificate.until_ms)?;
    let now = case.seen.now_ms;
    let left = certificate.until_ms.saturating_sub(now);
    let whole = certificate.until_ms.saturating_sub(certificate.from_ms);
    let name = &proxy.name;
    let finding = if left == 0 {
        let problem = format!(
            "the certificate of {name} expired {}: other pods of the mesh refuse its connections",
            case.ago(certificate.until_ms)
        );
        Finding::error(Id::CertificateExpires, problem)
    } else if left < whole / LEFT {
        let problem = format!(
            "the certificate of {name} expires in {} and was not renewed",
            span(left)
        );
        Finding::warning(Id::CertificateExpires, problem)
    } else {
        return None;
    };
    let validity = format!(
        "{} valid from {} to {}",
        certificate.name,
        write(certificate.from_ms),
        write(certificate.until_ms)
    );
    Some(
        finding
            .about(name)
            .because("Envoy's admin port, /certs", validity.trim())
            .fix(
                "Find why the proxy cannot renew it: its log names the error of the certificate authority.",
                case.logs(name),
            ),
    )
}
