//! The platform of this node.

use std::path::Path;

use usher_core::node::platform::MARKERS;

/// The chart's preset for this node. None for nodes with the usual paths, and if the host's root directory is not
/// readable.
pub fn detect(host_root: &Path) -> Option<&'static str> {
    MARKERS
        .iter()
        .find(|(marker, _)| host_root.join(marker).is_dir())
        .map(|(_, platform)| *platform)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use usher_core::node::platform::remedy;

    use super::*;

    #[test]
    fn platform_is_known_by_its_directory() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(detect(root.path()), None);
        fs::create_dir_all(root.path().join("var/lib/rancher/k3s")).unwrap();
        assert_eq!(detect(root.path()), Some("k3s"));
        assert!(remedy(Some("k3s")).contains("--set platform=k3s"));
        assert!(remedy(None).contains("cni.binDir"));
    }
}
