//! Container images without a container engine.
//!
//! An [`Image`] is written as a docker-archive, which containerd imports. The same inputs give the same bytes:
//! entries are sorted, times are zero, owners are explicit. Two images may share a [`Layer`]; containerd then
//! stores it once. [`catalog`] has the images of the test cluster; [`oci`] writes the published images, for several
//! architectures at once.

pub mod catalog;
mod layer;
pub mod oci;

use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    io::{self, BufWriter, Read},
    path::Path,
};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

pub use self::layer::Layer;

/// The value that gzip writes for an unknown operating system.
const UNKNOWN_SYSTEM: u8 = 255;

/// The defaults of an image for its containers.
#[derive(Debug, Clone, Default)]
pub struct ImageConfig {
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    /// `uid:gid`; empty means root.
    pub user: String,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Empty means `/`.
    pub working_dir: String,
}

#[derive(Debug, Clone)]
pub struct Image<'a> {
    /// With host and tag: `usher.test/app:1`.
    pub name: &'a str,
    pub layers: Vec<&'a Layer>,
    pub config: ImageConfig,
}

impl Image<'_> {
    /// Writes the archive atomically.
    pub fn write(&self, archive: &Path) -> Result<()> {
        let partial = archive.with_extension("partial");
        self.write_to(&partial)
            .with_context(|| format!("image {}: write {}", self.name, partial.display()))?;
        fs::rename(&partial, archive).with_context(|| format!("rename to {}", archive.display()))
    }

    fn write_to(&self, path: &Path) -> Result<()> {
        let mut out = Builder::new(BufWriter::new(File::create(path)?));
        let mut digests: Vec<String> = Vec::new();
        for layer in &self.layers {
            let layer_file = path.with_extension("layer");
            let digest = layer.write(&layer_file)?;
            let size = fs::metadata(&layer_file)?.len();
            append(
                &mut out,
                &format!("{digest}.tar"),
                size,
                File::open(&layer_file)?,
            )?;
            fs::remove_file(&layer_file)?;
            digests.push(digest);
        }
        let config = self.config_json(architecture(), &digests).to_string();
        let config_name = format!("{}.json", hex(&Sha256::digest(&config)));
        append(
            &mut out,
            &config_name,
            config.len() as u64,
            config.as_bytes(),
        )?;
        let layers: Vec<String> = digests
            .iter()
            .map(|digest| format!("{digest}.tar"))
            .collect();
        let manifest =
            json!([{ "Config": config_name, "RepoTags": [self.name], "Layers": layers }])
                .to_string();
        append(
            &mut out,
            "manifest.json",
            manifest.len() as u64,
            manifest.as_bytes(),
        )?;
        out.into_inner()?.into_inner()?.sync_all()?;
        Ok(())
    }

    /// The configuration, with the digests of the uncompressed layers.
    fn config_json(&self, architecture: &str, digests: &[String]) -> Value {
        let config = &self.config;
        let diff_ids: Vec<String> = digests
            .iter()
            .map(|digest| format!("sha256:{digest}"))
            .collect();
        let own = config
            .env
            .iter()
            .any(|variable| variable.starts_with("PATH="));
        let usual = (!own).then(|| "PATH=/usr/local/bin:/usr/bin:/bin".to_owned());
        let env: Vec<String> = usual
            .into_iter()
            .chain(config.env.iter().cloned())
            .collect();
        let working_dir = if config.working_dir.is_empty() {
            "/"
        } else {
            &config.working_dir
        };
        json!({
            "architecture": architecture,
            "os": "linux",
            "config": {
                "Entrypoint": config.entrypoint, "Cmd": config.cmd, "User": config.user, "Env": env,
                "WorkingDir": working_dir,
            },
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
            "history": diff_ids.iter().map(|_| json!({ "created_by": "usher" })).collect::<Vec<_>>(),
        })
    }
}

/// Layer and configuration of an image with static programs, in `/`; the first is the entrypoint.
pub fn from_scratch(programs: &[&Path]) -> Result<(Layer, ImageConfig)> {
    let places: Vec<String> = programs
        .iter()
        .map(|program| format!("/{}", program.file_name().unwrap_or_default().display()))
        .collect();
    let add = |layer: Layer, (place, program): (&String, &&Path)| layer.file(place, program, 0o755);
    let layer = places.iter().zip(programs).fold(Layer::default(), add);
    let entrypoint = places
        .first()
        .cloned()
        .context("an image from scratch needs a program")?;
    let config = ImageConfig {
        entrypoint: vec![entrypoint],
        // So that `kubectl exec` finds the others by their names.
        env: vec!["PATH=/".to_owned()],
        ..ImageConfig::default()
    };
    Ok((layer, config))
}

/// SHA-256 of a file, in lower-case hexadecimal digits.
pub fn sha256(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut chunk = vec![0; 1024 * 1024];
    loop {
        let length = file
            .read(&mut chunk)
            .with_context(|| format!("read {}", path.display()))?;
        if length == 0 {
            break;
        }
        hash.update(&chunk[..length]);
    }
    Ok(hex(&hash.finalize()))
}

/// Compresses as gzip does, without name and time: the same bytes give the same bytes.
pub fn gzip(from: &Path, to: &Path) -> Result<()> {
    let written = || -> io::Result<()> {
        let out = BufWriter::new(File::create(to)?);
        let mut out = GzBuilder::new()
            .mtime(0)
            .operating_system(UNKNOWN_SYSTEM)
            .write(out, Compression::best());
        io::copy(&mut File::open(from)?, &mut out)?;
        out.finish()?.into_inner()?.sync_all()
    };
    written().with_context(|| format!("compress {} to {}", from.display(), to.display()))
}

/// The name of this machine's architecture in images.
fn architecture() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn append(
    out: &mut Builder<impl io::Write>,
    name: &str,
    size: u64,
    content: impl Read,
) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(size);
    header.set_mtime(0);
    out.append_data(&mut header, name, content)
        .with_context(|| format!("append {name}"))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            write!(text, "{byte:02x}").ok();
            text
        })
}
