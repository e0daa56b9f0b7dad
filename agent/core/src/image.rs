//! Image references, as far as recognising a sidecar needs them:
//! `[host/]path[:tag][@digest]`
//! ([grammar](https://github.com/distribution/reference/blob/v0.6.0/reference.go)).

/// The path of an image without its tag and digest: `docker.io/istio/proxyv2`.
pub fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _digest)| name);
    match image.rsplit_once(':') {
        // A colon before the last slash is the registry's port.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

/// The tag of an image, if it has one.
pub fn tag(image: &str) -> Option<&str> {
    let image = image.split_once('@').map_or(image, |(name, _digest)| name);
    image
        .rsplit_once(':')
        .map(|(_name, tag)| tag)
        .filter(|tag| !tag.contains('/'))
}

/// Whether the repository of `image` is `path` or ends with `/path`.
pub fn is(image: &str, path: &str) -> bool {
    repository(image)
        .strip_suffix(path)
        .is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Major and minor version that a tag begins with: `1.24.6-distroless` is
/// (1, 24). None for `latest`, a digest, a private scheme.
pub fn version(image: &str) -> Option<(u32, u32)> {
    let mut parts = tag(image)?.trim_start_matches('v').split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let digits = minor
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(minor.len());
    Some((major, minor[..digits].parse().ok()?))
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
    fn whole_path_components() {
        assert!(is("docker.io/istio/proxyv2:1.20", "proxyv2"));
        assert!(is("proxyv2", "proxyv2"));
        assert!(!is("docker.io/istio/my-proxyv2:1.20", "proxyv2"));
        assert!(!is("docker.io/proxyv2/app:1", "proxyv2"));
    }

    #[test]
    fn versions() {
        let of = |tag: &str| version(&format!("istio/proxyv2:{tag}"));
        assert_eq!(of("1.24.6-distroless"), Some((1, 24)));
        assert_eq!(of("1.31-dev"), Some((1, 31)));
        assert_eq!(of("v1.3.0"), Some((1, 3)));
        assert_eq!(of("latest"), None);
        assert_eq!(of("1"), None);
        assert_eq!(of("99999999999999.1"), None);
        assert_eq!(version("istio/proxyv2@sha256:1.24"), None);
    }
}
