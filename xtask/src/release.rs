//! Files that users install: the chart and its manifests, the image, the release.

pub(crate) mod chart;
pub(crate) mod dist;
pub(crate) mod image;
mod notices;
#[cfg(test)]
mod seccomp;

/// The programs of the image, each with its package. The first is the entrypoint.
const PROGRAMS: [(&str, &str); 3] = [
    ("usher-agent", "usher-agent"),
    ("usher", "usher-cli"),
    ("usher-cni", "usher-cni"),
];
/// The programs of the image omit the features for users' machines.
const IMAGE_FEATURES: &str = "--no-default-features";
/// The program for users' machines, with its package.
const KUBECTL: (&str, &str) = ("kubectl-usher", "usher-cli");
