//! The size of every package, and the longest function of each.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use cargo_metadata::{Target, TargetKind};
use usher_cluster::progress::say;

use super::{
    RULES,
    finding::Finding,
    imports::{CrateFiles, Module},
    source::Source,
};
use crate::workspace::metadata;

#[derive(Debug, Default)]
struct Size {
    folders: BTreeSet<String>,
    files: BTreeMap<String, usize>,
    longest: (usize, String),
    circles: usize,
}

impl Size {
    fn add(&mut self, module: &Module) {
        let (folder, _) = module.path.rsplit_once('/').unwrap_or_default();
        self.folders.insert(folder.to_owned());
        let lines = Source::new(&module.path, &module.text).length();
        self.files.insert(module.path.clone(), lines);
        for function in &module.file.functions {
            let place = format!("{}:{} {}", module.path, function.line, function.name);
            self.longest = (function.lines, place).max(std::mem::take(&mut self.longest));
        }
    }

    fn lines(&self) -> usize {
        self.files.values().sum()
    }
}

/// Prints the table of packages. Returns the import circles of all of them.
pub(super) fn check() -> Result<Vec<Finding>> {
    let metadata = metadata()?;
    let mut sizes = BTreeMap::new();
    let mut circles = Vec::new();
    for package in metadata.workspace_packages() {
        let size: &mut Size = sizes.entry(package.name.to_string()).or_default();
        let targets = package.targets.iter();
        for target in targets.filter(|target| is_production(target)) {
            let files = CrateFiles::load(target.src_path.as_std_path())?;
            files.modules.values().for_each(|module| size.add(module));
            let found = files.circles();
            size.circles += found.len();
            circles.extend(found);
        }
    }
    say(&table(&sizes));
    Ok(circles)
}

fn is_production(target: &Target) -> bool {
    target.is_kind(TargetKind::Lib) || target.is_kind(TargetKind::Bin)
}

fn table(sizes: &BTreeMap<String, Size>) -> String {
    let mut rows = vec![format!(
        "{:<14} {:>7} {:>6} {:>7} {:>8}  longest function",
        "package", "folders", "files", "lines", "circles"
    )];
    rows.extend(sizes.iter().map(|(name, size)| {
        let (length, place) = &size.longest;
        format!(
            "{name:<14} {:>7} {:>6} {:>7} {:>8}  {length} lines: {place}",
            size.folders.len(),
            size.files.len(),
            size.lines(),
            size.circles
        )
    }));
    let all: usize = sizes.values().map(Size::lines).sum();
    let lines = |kind| -> usize {
        let packages = RULES.cells(kind).filter_map(|name| sizes.get(name));
        packages.map(Size::lines).sum()
    };
    let daemon: Vec<&str> = RULES.cells("daemon").collect();
    rows.push(format!(
        "product, without tests and xtask: {} lines; the daemon ({}): {} lines",
        all - lines("tool"),
        daemon.join(", "),
        lines("daemon")
    ));
    rows.join("\n")
}
