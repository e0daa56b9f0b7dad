//! tcpdump and tshark of Debian's packages, unpacked into the cache with the libraries that they need.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::{
    find,
    tree::{self, Fetch},
};

const NAME: &str = "wireshark";
const PACKAGES: [&str; 2] = ["tcpdump", "tshark"];

/// The programs that capture and read packets.
#[derive(Debug, Clone)]
pub struct Wireshark {
    folder: Option<PathBuf>,
}

/// The machine's own, or else Debian's, downloaded on first use.
pub fn wireshark() -> Result<Wireshark> {
    if PACKAGES.iter().all(|program| find(program).is_some()) {
        return Ok(Wireshark { folder: None });
    }
    let entry = tree::tree(NAME, &PACKAGES, Fetch::WithDependencies, "22 MB")?;
    Ok(Wireshark {
        folder: Some(entry),
    })
}

impl Wireshark {
    /// Captures, in a network namespace that is a file of `/proc` or a mount.
    pub fn tcpdump(&self, network: &Path) -> Command {
        let tcpdump = self.program("tcpdump");
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", network.display()));
        command.arg(tcpdump.get_program());
        let variables = tcpdump.get_envs();
        command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Reads a capture.
    pub fn tshark(&self) -> Command {
        self.program("tshark")
    }

    fn program(&self, name: &str) -> Command {
        match &self.folder {
            Some(folder) => tree::program(folder, &format!("usr/bin/{name}")),
            None => Command::new(find(name).unwrap_or_else(|| name.into())),
        }
    }
}
