//! containerd's configuration: the directories of its CNI plugins
//! ([format](https://github.com/containerd/containerd/blob/v2.1.4/docs/cri/config.md)).

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;

/// The plugins of containerd that have the keys, in versions 1, 2 and 3 of the format.
const PLUGINS: [&str; 3] = [
    "cri",
    "io.containerd.grpc.v1.cri",
    "io.containerd.cri.v1.runtime",
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    imports: Vec<String>,
    plugins: BTreeMap<String, Plugin>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Plugin {
    cni: Cni,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cni {
    bin_dir: Option<PathBuf>,
    /// From containerd 2.1 on.
    bin_dirs: Vec<PathBuf>,
}

/// The directories that the configuration names. Empty if it names none, cannot be read, or imports other files, which
/// may name others.
pub fn plugin_dirs(text: &str) -> Vec<PathBuf> {
    let config: Config = toml::from_str(text).unwrap_or_default();
    if !config.imports.is_empty() {
        return Vec::new();
    }
    let plugins = config.plugins.into_iter();
    plugins
        .filter(|(name, _plugin)| PLUGINS.contains(&name.as_str()))
        .flat_map(|(_name, plugin)| plugin.cni.bin_dir.into_iter().chain(plugin.cni.bin_dirs))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_each_version() {
        let table: [(&str, &[&str]); 8] = [
            ("", &[]),
            ("[plugins.cri.cni]\nbin_dir = \"/a\"", &["/a"]),
            (
                // As Debian's package has it.
                "version = 2\n[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    \
                 [plugins.\"io.containerd.grpc.v1.cri\".cni]\n      bin_dir = \"/usr/lib/cni\"\n  \
                 [plugins.\"io.containerd.internal.v1.opt\"]\n    path = \"/var/lib/containerd\"",
                &["/usr/lib/cni"],
            ),
            (
                "[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['/a', '/b']",
                &["/a", "/b"],
            ),
            ("[plugins.other.cni]\nbin_dir = \"/a\"", &[]),
            (
                "imports = ['conf.d/*.toml']\n[plugins.cri.cni]\nbin_dir = \"/a\"",
                &[],
            ),
            ("[plugins.cri.cni]\nbin_dir = 1", &[]),
            ("[plugins.cri", &[]),
        ];
        for (text, expected) in table {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(plugin_dirs(text), expected, "{text}");
        }
    }
}
