//! Image references, as far as recognizing a sidecar needs them: `[host/]path[:tag][@digest]`
//! ([grammar](https://github.com/distribution/reference/blob/v0.6.0/reference.go)).

use crate::recipe::Version;

/// The path of an image without its tag and digest: `docker.io/istio/proxyv2`.
pub fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _digest)| name);
    match image.rsplit_once(':') {
        // A colon before the last slash is the registry's port.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

pub fn tag(image: &str) -> Option<&str> {
    let image = image.split_once('@').map_or(image, |(name, _digest)| name);
    image
        .rsplit_once(':')
        .map(|(_name, tag)| tag)
        .filter(|tag| !tag.contains('/'))
}

/// Version that the tag begins with: `1.24.6-distroless` is 1.24. None for `latest`, a digest, a private scheme.
pub fn version(image: &str) -> Option<Version> {
    tag(image)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_reference() {
        let digest = "localhost:5000/istio/proxyv2:1.24.6@sha256:abcd";
        assert_eq!(repository(digest), "localhost:5000/istio/proxyv2");
        assert_eq!(tag(digest), Some("1.24.6"));
        assert_eq!(tag("localhost:5000/istio/proxyv2"), None);
        assert_eq!(repository("proxyv2"), "proxyv2");
    }

    #[test]
    fn versions() {
        let minor = |image: &str| version(image).map(|version| version.minor);
        assert_eq!(minor("r:5000/istio/proxyv2:1.24.6-distroless"), Some(24));
        assert_eq!(minor("istio/proxyv2:latest"), None);
        assert_eq!(minor("istio/proxyv2@sha256:1.24"), None);
    }
}
