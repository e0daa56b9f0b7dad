//! runc without resource limits, for a node that sees cgroup v2 without controllers.
//!
//! On a hybrid machine the controllers belong to the v1 hierarchies, so in the v2 view `cpu.weight` and the like do
//! not exist and runc refuses to start. containerd calls this program as its runc: it removes `linux.resources` from
//! the bundle's `config.json` and becomes the real runc, whose path is in `USHER_TEST_RUNC` (default `runc`).

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    if let Some(bundle) = bundle(&args) {
        drop_resources(&bundle.join("config.json"))?;
    }
    let runc = env::var_os("USHER_TEST_RUNC").unwrap_or_else(|| "runc".into());
    let error = Command::new(&runc).args(&args).exec();
    Err(error).with_context(|| format!("become {}", runc.display()))
}

/// The value of `--bundle` for `create` and `run`.
fn bundle(args: &[OsString]) -> Option<PathBuf> {
    let at = args.iter().position(|arg| arg == "--bundle")?;
    args.get(at + 1).map(PathBuf::from)
}

fn drop_resources(config: &Path) -> Result<()> {
    let text = fs::read(config).with_context(|| format!("read {}", config.display()))?;
    let mut spec: Value =
        serde_json::from_slice(&text).with_context(|| format!("parse {}", config.display()))?;
    if let Some(linux) = spec.get_mut("linux").and_then(Value::as_object_mut) {
        linux.insert("resources".into(), json!({}));
    }
    let fresh = config.with_extension("json.usher");
    fs::write(&fresh, spec.to_string()).with_context(|| format!("write {}", fresh.display()))?;
    fs::rename(&fresh, config).with_context(|| format!("replace {}", config.display()))
}
