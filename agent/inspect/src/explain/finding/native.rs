//! Sidecars that could be native sidecars.
//!
//! From Kubernetes 1.29 on, the kubelet starts an init container with `restartPolicy: Always` before the apps and ends
//! it after them, so the pod does not need usher. From 1.27 on, Istio makes its proxy a native sidecar unless a setting
//! forbids it or a node is older than 1.33. From 1.19 on, `ENABLE_NATIVE_SIDECARS` of istiod enables it.

use usher_core::{pod::image, recipe::Version};

use super::{Finding, Id, Severity, short};
use crate::explain::Case;

const ANNOTATION: &str = "sidecar.istio.io/nativeSidecar";

const fn version(minor: u32) -> Version {
    Version { major: 1, minor }
}

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let proxy = case
        .istio()
        .filter(|proxy| !proxy.is_native && !case.is_over())?;
    let istio = image::version(&proxy.image).filter(|istio| *istio >= version(19))?;
    let (source, message) = match (case.seen.kubelet, &case.seen.native_elsewhere) {
        (Some(kubelet), _) if kubelet >= version(29) => (
            "kubelet".to_owned(),
            format!("version {kubelet}; native sidecars from 1.29 on"),
        ),
        (None, Some(other)) => (
            format!("pod {other}"),
            "has a native sidecar, and runs on this node".to_owned(),
        ),
        _ => return None,
    };
    let annotation = case.facts.annotation(ANNOTATION);
    let annotated = annotation.map_or("absent".to_owned(), |value| format!("{:?}", short(value)));
    let problem = format!(
        "the kubelet can run {} as a native sidecar, which starts before the apps and ends after them",
        proxy.name
    );
    let finding = Finding::new(Id::NativePossible, Severity::Hint, problem)
        .about(&proxy.name)
        .because(source, message)
        .because(proxy.path("image"), format!("Istio {istio}"))
        .because(Case::annotation_path(ANNOTATION), annotated);
    if istio < version(24) {
        return Some(finding.fix(
            "Set ENABLE_NATIVE_SIDECARS=true of istiod; the annotation needs Istio 1.24.",
            "kubectl -n istio-system set env deployment/istiod ENABLE_NATIVE_SIDECARS=true",
        ));
    }
    let remedy = match annotation {
        Some("false") => "Set the annotation to true, or remove it.",
        _ => {
            "Enable it by the pod's annotation, or for all pods by ENABLE_NATIVE_SIDECARS=true of istiod."
        }
    };
    Some(finding.fix(remedy, Case::template_annotation(ANNOTATION, "true")))
}
