//! Native sidecars that are possible and not used.
//!
//! From Kubernetes 1.29 on the kubelet starts an init container with `restartPolicy: Always` before the apps and ends it
//! after them. Istio makes its proxy one by itself from 1.27 on, unless it is told not to or a node is older than 1.33;
//! before that, from 1.19 on, `ENABLE_NATIVE_SIDECARS` of istiod has it do so. Each cures both of what usher is for.

use usher_core::recipe::Version;

use super::{Case, Finding, Id, Severity, finding::short};

const ANNOTATION: &str = "sidecar.istio.io/nativeSidecar";

const fn version(minor: u32) -> Version {
    Version { major: 1, minor }
}

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let proxy = case
        .istio()
        .filter(|proxy| !proxy.is_native && !case.is_over());
    let Some(proxy) = proxy else {
        return Vec::new();
    };
    let (source, says) = match (case.seen.kubelet, &case.seen.native_elsewhere) {
        (Some(kubelet), _) if kubelet >= version(29) => (
            "kubelet".to_owned(),
            format!("version {kubelet}; native sidecars from 1.29 on"),
        ),
        (None, Some(other)) => (
            format!("pod {other}"),
            "has a native sidecar, and runs on this node".to_owned(),
        ),
        _ => return Vec::new(),
    };
    let istio = Case::version(proxy);
    if istio.is_none_or(|istio| istio < version(19)) {
        return Vec::new();
    }
    let annotation = case.facts.annotation(ANNOTATION);
    let by_annotation = istio >= Some(version(24));
    let refused = annotation == Some("false");
    let problem = format!(
        "the kubelet can run {} as a native sidecar, which starts before the apps and ends after them by itself",
        proxy.name
    );
    let annotated = annotation.map_or("absent".to_owned(), |value| format!("{:?}", short(value)));
    let tag = istio.map_or(String::new(), |istio| istio.to_string());
    let finding = Finding::new(Id::NativePossible, Severity::Hint, problem)
        .about(&proxy.name)
        .by(source, says)
        .by(format!("{}.image", proxy.place), format!("Istio {tag}"))
        .by(format!("metadata.annotations[{ANNOTATION}]"), annotated);
    let remedy = match (refused, by_annotation) {
        (true, true) => "Set the annotation to true, or remove it.",
        (_, true) => {
            "Ask for it by the pod's annotation, or for all pods by ENABLE_NATIVE_SIDECARS=true of istiod."
        }
        (_, false) => "Set ENABLE_NATIVE_SIDECARS=true of istiod; the annotation needs Istio 1.24.",
    };
    let how = if by_annotation {
        Case::template_annotation(ANNOTATION, "true")
    } else {
        "kubectl -n istio-system set env deployment/istiod ENABLE_NATIVE_SIDECARS=true".to_owned()
    };
    vec![finding.mend(remedy, how)]
}
