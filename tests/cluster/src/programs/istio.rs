//! Istio's own programs, all from one module: the agent alongside Envoy, the control plane, and the charts as objects.
//!
//! None of them is patched. Build tags are those of Istio's own build, which exclude packages that only some of
//! the programs need; the last two programs share theirs, and so most of their packages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{go, sources};
use crate::{
    cache::{self, KeyBuilder},
    progress::{output, say},
};

pub const VERSION: &str = "1.31-dev";
const AGENT_TAGS: &str = "agent,disable_pgv";
const CONTROL_PLANE_TAGS: &str = "vtprotobuf,disable_pgv";
/// The path of the bootstrap template in Istio's module.
const BOOTSTRAP: &str = "tools/packaging/common/envoy_bootstrap.json";
const BOOTSTRAP_FILE: &str = "envoy_bootstrap_tmpl.json";
/// The differences from a default install.
const OPERATOR: &str = "manifest/operator.yaml";
const RENDERER: &str = "manifest/main.go";
const MANIFEST: &str = "manifest.json";

/// Istio's agent, and the template from which it writes Envoy's configuration.
#[derive(Debug, Clone)]
pub struct PilotAgent {
    pub program: PathBuf,
    pub bootstrap_template: PathBuf,
}

/// Istio's control plane.
#[derive(Debug, Clone)]
pub struct Istio {
    /// `pilot-discovery`, known in a cluster as istiod.
    pub discovery: PathBuf,
    /// The objects of an installation: one List, in JSON.
    pub manifest: PathBuf,
}

pub(super) fn pilot_agent() -> Result<PilotAgent> {
    let name = "pilot-agent";
    let (source, args) = (source(), args(AGENT_TAGS));
    let entry = cache::entry(name, &go::key(&source, &args)?, |dir| {
        say(&format!(
            "Building Istio's {name} {VERSION} from source: about 1 minute on two cores, once"
        ));
        let package = "istio.io/istio/pilot/cmd/pilot-agent";
        go::build(name, &source, &args, package, dir)?;
        let list = ["list", "-m", "-f", "{{.Dir}}", "istio.io/istio"];
        let module = output(go::go(&source).args(list))?;
        let template = Path::new(module.trim()).join(BOOTSTRAP);
        fs::copy(&template, dir.join(BOOTSTRAP_FILE))
            .with_context(|| format!("copy {}", template.display()))?;
        Ok(())
    })?;
    Ok(PilotAgent {
        program: entry.join(name),
        bootstrap_template: entry.join(BOOTSTRAP_FILE),
    })
}

pub(super) fn control_plane() -> Result<Istio> {
    Ok(Istio {
        discovery: discovery()?,
        manifest: manifest()?,
    })
}

fn discovery() -> Result<PathBuf> {
    let name = "pilot-discovery";
    let (source, args) = (source(), args(CONTROL_PLANE_TAGS));
    let entry = cache::entry(name, &go::key(&source, &args)?, |dir| {
        say(&format!(
            "Building Istio's {name} {VERSION} from source: about 6 minutes on two cores, once"
        ));
        let package = "istio.io/istio/pilot/cmd/pilot-discovery";
        go::build(name, &source, &args, package, dir)
    })?;
    Ok(entry.join(name))
}

/// The charts as Istio's own installer renders them. The program that does it is not kept.
fn manifest() -> Result<PathBuf> {
    let name = "istio-manifest";
    let (source, args) = (source(), args(CONTROL_PLANE_TAGS));
    let module = go::key(&source, &args)?.to_string();
    let key = KeyBuilder::default()
        .input("module", module.as_bytes())
        .file(&source.join(RENDERER))?
        .file(&source.join(OPERATOR))?;
    let entry = cache::entry(name, &key.finish(), |dir| {
        say("Rendering Istio's charts: about half a minute on two cores, once");
        go::build(name, &source, &args, "./manifest", dir)?;
        let program = dir.join(name);
        let rendered = output(Command::new(&program).arg(source.join(OPERATOR)))?;
        let path = dir.join(MANIFEST);
        fs::write(&path, rendered).with_context(|| format!("write {}", path.display()))?;
        fs::remove_file(&program).with_context(|| format!("remove {}", program.display()))
    })?;
    Ok(entry.join(MANIFEST))
}

fn source() -> PathBuf {
    sources().join("istio")
}

fn args(tags: &str) -> [String; 4] {
    [
        "-tags".into(),
        tags.into(),
        "-ldflags".into(),
        format!("-s -w -X istio.io/istio/pkg/version.buildVersion={VERSION}"),
    ]
}
