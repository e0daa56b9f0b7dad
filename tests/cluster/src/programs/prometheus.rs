//! Prometheus and promtool of Debian's package. Both programs need only libc.

use std::path::PathBuf;

use anyhow::Result;

use super::{
    find,
    tree::{Fetch, tree},
};

const PACKAGE: &str = "prometheus";
const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

/// A server, and a checker of rules and queries.
#[derive(Debug, Clone)]
pub struct Prometheus {
    pub server: PathBuf,
    pub promtool: PathBuf,
}

/// The machine's own, or else Debian's, downloaded on first use.
pub fn prometheus() -> Result<Prometheus> {
    let [server, promtool] = PROGRAMS.map(find);
    if let (Some(server), Some(promtool)) = (server, promtool) {
        return Ok(Prometheus { server, promtool });
    }
    let tree = tree("prometheus-tree", &[PACKAGE], Fetch::Alone, "19 MB")?;
    let [server, promtool] = PROGRAMS.map(|program| tree.join("usr/bin").join(program));
    Ok(Prometheus { server, promtool })
}
