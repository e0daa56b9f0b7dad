//! The programs that Istio's init container calls: iptables and nft of this machine, with the names that Istio expects.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::libraries;
use crate::{image::Layer, programs::Iptables};

/// It is in the images' search path.
const FOLDER: &str = "/usr/bin";
/// The plain names mean nft, as in Istio's own image.
const KINDS: [(&str, &str); 3] = [
    ("", "xtables-nft-multi"),
    ("-nft", "xtables-nft-multi"),
    ("-legacy", "xtables-legacy-multi"),
];

pub(super) fn layer(iptables: &Iptables) -> Result<Layer> {
    let folder = Path::new(FOLDER);
    let mut layer = Layer::default();
    for program in &iptables.programs {
        for library in libraries::of(program)? {
            layer = layer.file(library.clone(), library, 0o755);
        }
        let place = folder.join(program.file_name().unwrap_or_default());
        layer = layer.file(place, program, 0o755);
    }
    for (kind, program) in KINDS {
        for family in ["iptables", "ip6tables"] {
            for action in ["", "-save", "-restore"] {
                layer = layer.link(folder.join(format!("{family}{kind}{action}")), program);
            }
        }
    }
    let from = &iptables.extensions;
    for extension in fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let path = extension
            .with_context(|| format!("list {}", from.display()))?
            .path();
        layer = layer.file(path.clone(), path, 0o644);
    }
    Ok(layer)
}
