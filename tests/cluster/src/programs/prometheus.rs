//! Prometheus and promtool of Debian's package. Both programs need nothing but libc.

use std::path::PathBuf;

use anyhow::Result;

use super::{
    find,
    tree::{Fetch, tree},
};

const PACKAGE: &str = "prometheus";
const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

/// A server, and what checks rules and queries without one.
#[derive(Debug, Clone)]
pub struct Prometheus {
    pub server: PathBuf,
    pub promtool: PathBuf,
}

/// Those of the machine, or else Debian's, fetched when they are first wanted.
pub fn prometheus() -> Result<Prometheus> {
    let [server, promtool] = PROGRAMS.map(find);
    if let (Some(server), Some(promtool)) = (server, promtool) {
        return Ok(Prometheus { server, promtool });
    }
    let tree = tree("prometheus-tree", &[PACKAGE], Fetch::Alone, "19 MB")?;
    let [server, promtool] = PROGRAMS.map(|program| tree.join("usr/bin").join(program));
    Ok(Prometheus { server, promtool })
}
