//! `cargo xtask image`: an image with the agent, the CNI plugin, which the agent installs on the host, `usher`, and the
//! licences of what they contain. All are static programs: they run with any libraries of a host, or none.

use std::path::{Path, PathBuf};

use anyhow::Result;
use usher_cluster::{
    image::{self, Image, ImageConfig, Layer},
    programs::{self, Profile},
    progress::say,
};

use super::{IMAGE_FEATURES, PROGRAMS, notices};
use crate::{
    file,
    workspace::{shown, target_dir},
};

/// The image's name in `deploy/manifests/usher.yaml`.
const AGENT: &str = "usher.test/usher-agent:dev";

/// Builds the image of `deploy/manifests/usher.yaml`. Returns its archive.
pub(crate) fn agent(profile: Profile) -> Result<PathBuf> {
    let programs = programs(profile)?;
    let folder = target_dir().join("image");
    file::create_folder(&folder)?;
    let archive = folder.join("usher-agent.tar");
    let (layer, config) = layer(&programs, &notices::text()?)?;
    Image {
        name: AGENT,
        layers: vec![&layer],
        config,
    }
    .write(&archive)?;
    say(&format!("image {AGENT} is in {}", shown(&archive)));
    Ok(archive)
}

/// Builds the programs of the image.
pub(crate) fn programs(profile: Profile) -> Result<Vec<PathBuf>> {
    PROGRAMS
        .iter()
        .map(|(program, package)| {
            let args = ["--bin", program, IMAGE_FEATURES];
            let folder = programs::build_static(package, profile, &args, &target_dir())?;
            Ok(folder.join(program))
        })
        .collect()
}

/// The layer and the configuration of the image.
pub(super) fn layer(programs: &[PathBuf], notices: &str) -> Result<(Layer, ImageConfig)> {
    let programs: Vec<&Path> = programs.iter().map(PathBuf::as_path).collect();
    let (layer, config) = image::from_scratch(&programs)?;
    let place = format!("/{}", notices::NAME);
    Ok((layer.bytes(place, notices, 0o644), config))
}
