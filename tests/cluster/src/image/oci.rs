//! An image for several architectures, as an archive of an
//! [OCI image layout](https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md), the format for registries
//! and `ctr images import`.
//!
//! The same layers give the same bytes. The archive's `index.json` names the digest of the index, which is the image's.

use std::{
    fs::{self, File},
    io::BufWriter,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::Builder;

use super::{Image, append, gzip, hex, sha256};

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The identity of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Blob {
    media: &'static str,
    digest: String,
    path: PathBuf,
}

impl Blob {
    fn descriptor(&self) -> Result<Value> {
        let size = fs::metadata(&self.path).context("look at a blob")?.len();
        let digest = format!("sha256:{}", self.digest);
        Ok(json!({ "mediaType": self.media, "digest": digest, "size": size }))
    }
}

/// The collected blobs, in a temporary directory.
struct Store {
    directory: PathBuf,
    blobs: Vec<Blob>,
}

impl Store {
    fn text(&mut self, media: &'static str, value: &Value) -> Result<Blob> {
        let text = value.to_string();
        let digest = hex(&Sha256::digest(&text));
        let path = self.directory.join(&digest);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(self.keep(media, digest, path))
    }

    /// The blob, and the digest of its uncompressed content.
    fn layer(&mut self, layer: &super::Layer) -> Result<(Blob, String)> {
        let plain = self.directory.join("layer");
        let diff_id = layer.write(&plain)?;
        let packed = self.directory.join("layer.gz");
        gzip(&plain, &packed)?;
        fs::remove_file(&plain).context("remove the layer as it was")?;
        let digest = sha256(&packed)?;
        let path = self.directory.join(&digest);
        fs::rename(&packed, &path).context("name a layer")?;
        Ok((self.keep(LAYER, digest, path), diff_id))
    }

    fn keep(&mut self, media: &'static str, digest: String, path: PathBuf) -> Blob {
        let blob = Blob {
            media,
            digest,
            path,
        };
        if !self.blobs.contains(&blob) {
            self.blobs.push(blob.clone());
        }
        blob
    }
}

/// Writes the images of these architectures (`amd64`) as one, atomically, and returns its digest
/// (`sha256:...`). The annotations are for people and registries.
pub fn write(
    name: &str,
    images: &[(&str, Image<'_>)],
    annotations: &Value,
    archive: &Path,
) -> Result<String> {
    let directory = archive.with_extension("blobs");
    // The rest of a killed run.
    if directory.exists() {
        fs::remove_dir_all(&directory)
            .with_context(|| format!("remove {}", directory.display()))?;
    }
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    let mut store = Store {
        directory: directory.clone(),
        blobs: Vec::new(),
    };
    let digest = collect(&mut store, images, annotations)
        .and_then(|index| pack(name, &store, &index, archive))
        .with_context(|| format!("image {name}"));
    fs::remove_dir_all(&directory).with_context(|| format!("remove {}", directory.display()))?;
    digest
}

fn collect(store: &mut Store, images: &[(&str, Image<'_>)], annotations: &Value) -> Result<Blob> {
    let mut manifests = Vec::new();
    for (architecture, image) in images {
        let mut layers = Vec::new();
        let mut diff_ids = Vec::new();
        for layer in &image.layers {
            let (blob, diff_id) = store.layer(layer)?;
            layers.push(blob.descriptor()?);
            diff_ids.push(diff_id);
        }
        let config = store.text(CONFIG, &image.config_json(architecture, &diff_ids))?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config.descriptor()?, "layers": layers,
            "annotations": annotations,
        });
        let mut descriptor = store.text(MANIFEST, &manifest)?.descriptor()?;
        descriptor["platform"] = json!({ "architecture": architecture, "os": "linux" });
        manifests.push(descriptor);
    }
    let index = json!({
        "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": annotations,
    });
    store.text(INDEX, &index)
}

fn pack(name: &str, store: &Store, index: &Blob, archive: &Path) -> Result<String> {
    let mut named = index.descriptor()?;
    // The last part is the reference by the layout's own rules, the whole name is the one for containerd.
    let tag = name.rsplit_once(':').map_or(name, |(_, tag)| tag);
    named["annotations"] =
        json!({ "io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag });
    let top = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [named] }).to_string();
    let layout = json!({ "imageLayoutVersion": "1.0.0" }).to_string();
    let partial = archive.with_extension("partial");
    let file = File::create(&partial).with_context(|| format!("create {}", partial.display()))?;
    let mut out = Builder::new(BufWriter::new(file));
    for (name, text) in [("oci-layout", &layout), ("index.json", &top)] {
        append(&mut out, name, text.len() as u64, text.as_bytes())?;
    }
    let mut blobs: Vec<&Blob> = store.blobs.iter().collect();
    blobs.sort_by_key(|blob| &blob.digest);
    for blob in blobs {
        let file = File::open(&blob.path).context("open a blob")?;
        let size = file.metadata().context("look at a blob")?.len();
        append(
            &mut out,
            &format!("blobs/sha256/{}", blob.digest),
            size,
            file,
        )?;
    }
    let written = out.into_inner()?.into_inner().context("end the archive")?;
    written.sync_all().context("end the archive")?;
    fs::rename(&partial, archive).with_context(|| format!("rename to {}", archive.display()))?;
    Ok(format!("sha256:{}", index.digest))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use flate2::read::GzDecoder;

    use super::*;
    use crate::image::{ImageConfig, Layer};

    fn written(directory: &Path, name: &str) -> (String, Vec<u8>) {
        let layers = ["one", "other"].map(|text| Layer::default().bytes("/a", text, 0o755));
        let config = ImageConfig {
            entrypoint: vec!["/a".to_owned()],
            ..ImageConfig::default()
        };
        let image = |layer| Image {
            name: "usher.test/a:1",
            layers: vec![layer],
            config: config.clone(),
        };
        let images = [("amd64", image(&layers[0])), ("arm64", image(&layers[1]))];
        let archive = directory.join(name);
        let annotations = json!({ "org.opencontainers.image.version": "1" });
        let digest = write("usher.test/a:1", &images, &annotations, &archive).unwrap();
        (digest, fs::read(archive).unwrap())
    }

    #[test]
    fn same_layers_give_the_same_bytes_and_leave_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            written(dir.path(), "one.tar"),
            written(dir.path(), "two.tar")
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn every_digest_matches_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let (digest, bytes) = written(dir.path(), "one.tar");
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 0);
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(path, content);
        }
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let content = &files[&format!("blobs/{}", digest.replace(':', "/"))];
            let hash = hex(&Sha256::digest(content));
            assert_eq!(digest, format!("sha256:{hash}"));
            assert_eq!(descriptor["size"], content.len());
            content
        };
        let json = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
        let top = json(&files["index.json"]);
        assert_eq!(top["manifests"][0]["digest"], digest);
        let index = json(blob(&top["manifests"][0]));
        let mut programs = Vec::new();
        for descriptor in index["manifests"].as_array().unwrap() {
            let manifest = json(blob(descriptor));
            let config = json(blob(&manifest["config"]));
            let architecture = &descriptor["platform"]["architecture"];
            assert_eq!(config["architecture"], *architecture);
            let mut plain = Vec::new();
            let packed = blob(&manifest["layers"][0]).as_slice();
            GzDecoder::new(packed).read_to_end(&mut plain).unwrap();
            let diff_id = format!("sha256:{}", hex(&Sha256::digest(&plain)));
            assert_eq!(config["rootfs"]["diff_ids"], json!([diff_id]));
            programs.push(architecture.as_str().unwrap().to_owned());
        }
        assert_eq!(programs, ["amd64", "arm64"]);
        assert_eq!(files.len(), 2 + 1 + 2 * 3);
    }
}
