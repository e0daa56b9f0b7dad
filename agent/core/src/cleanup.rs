//! The removal of usher from a node: the parts that are found, and the order of their removal.
//!
//! The order matters. The entry in the network configuration is removed first. Runtimes that have read it get time to
//! complete their calls. Then follow the binary of the plugin, the tables and the other files. A binary stays while
//! an entry names it or may name it, because without it no pod could start or stop. A directory stays while a file is
//! left in it.
//!
//! This module reads and removes nothing: [`Cleaning`] returns the next step and receives its result.

use std::{
    collections::VecDeque,
    fmt,
    path::{Path, PathBuf},
};

use crate::base::id::{NetnsId, Pid};

/// A part of usher on the node, in the order of removal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Item {
    /// A place that cannot be searched.
    Unreadable(String),
    /// A network configuration that has the plugin's entry.
    Entry(PathBuf),
    Binary(PathBuf),
    /// An incomplete file of a program that was killed.
    Temporary(PathBuf),
    /// The table in the network namespace of a process.
    Table {
        netns: NetnsId,
        pid: Pid,
        name: String,
    },
    /// The socket for requests of the plugin.
    Socket(PathBuf),
    /// A file that agent or plugin wrote.
    File(PathBuf),
    /// A file of another program in usher's directory.
    Foreign(PathBuf),
    /// The directory of these files.
    Directory(PathBuf),
}

impl Item {
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Unreadable(_) | Self::Table { .. } => None,
            Self::Entry(path)
            | Self::Binary(path)
            | Self::Temporary(path)
            | Self::Socket(path)
            | Self::File(path)
            | Self::Foreign(path)
            | Self::Directory(path) => Some(path),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.path()) {
            (_, Some(path)) => path.display().fmt(formatter),
            (Self::Unreadable(what), _) => formatter.write_str(what),
            (Self::Table { netns, pid, name }, _) => {
                let name = name.escape_debug();
                write!(formatter, "inet usher in {netns} of process {pid} ({name})")
            }
            (_, None) => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    pub why: String,
    pub advice: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub item: Item,
    /// Why it cannot be removed, where that is known in advance.
    pub obstacle: Option<Obstacle>,
}

impl Found {
    pub fn removable(item: Item) -> Self {
        Self {
            item,
            obstacle: None,
        }
    }

    pub fn stuck(item: Item, why: impl Into<String>, advice: &'static str) -> Self {
        let why = why.into();
        Self {
            item,
            obstacle: Some(Obstacle { why, advice }),
        }
    }
}

/// The result for one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    WouldRemove,
    Removed,
    Left(Obstacle),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub item: Item,
    pub outcome: Outcome,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<10}{}: ", self.item.kind(), self.item)?;
        match &self.outcome {
            Outcome::WouldRemove => formatter.write_str("would be removed"),
            Outcome::Removed => formatter.write_str("removed"),
            Outcome::Left(Obstacle { why, advice }) => write!(formatter, "LEFT: {why}; {advice}"),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of removal.
    pub lines: Vec<Line>,
}

impl Report {
    pub fn left(&self) -> impl Iterator<Item = &Line> {
        let stays = |line: &&Line| matches!(line.outcome, Outcome::Left(_));
        self.lines.iter().filter(stays)
    }

    /// Adds the parts that a second search found. A part that is not reported as left was restored by a process.
    pub fn found_again(&mut self, found: Vec<Found>) {
        for Found { item, obstacle } in found {
            if self.left().any(|line| line.item == item) {
                continue;
            }
            let outcome = Outcome::Left(obstacle.unwrap_or_else(|| Obstacle {
                why: "it came back".to_owned(),
                advice: "a process restores it: check whether an agent runs, then retry",
            }));
            self.lines.push(Line { item, outcome });
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Remove this part, and pass the result to [`Cleaning::done`].
    Remove(Item),
    /// Wait until runtimes have completed the calls that they have begun.
    WaitForRuntime,
}

#[derive(Debug)]
pub struct Cleaning {
    waiting: VecDeque<Found>,
    current: Option<Item>,
    is_dry: bool,
    /// Whether a runtime may still use an entry that was removed.
    waits_for_runtime: bool,
    report: Report,
}

impl Cleaning {
    /// Removes everything that was found, where possible.
    pub fn new(mut found: Vec<Found>) -> Self {
        found.sort_by(|one, other| one.item.cmp(&other.item));
        found.dedup_by(|one, other| one.item == other.item);
        Self {
            waiting: found.into(),
            current: None,
            is_dry: false,
            waits_for_runtime: false,
            report: Report::default(),
        }
    }

    /// The report of a removal without errors.
    pub fn dry_run(found: Vec<Found>) -> Report {
        let mut cleaning = Self::new(found);
        cleaning.is_dry = true;
        while let Some(step) = cleaning.step() {
            if let Step::Remove(_) = step {
                cleaning.done(Ok(()));
            }
        }
        cleaning.report
    }

    /// The next step; None when the removal is complete.
    pub fn step(&mut self) -> Option<Step> {
        while let Some(Found { item, obstacle }) = self.waiting.pop_front() {
            if let Some(obstacle) = obstacle.or_else(|| self.stands_behind(&item)) {
                self.settle(item, Outcome::Left(obstacle));
                continue;
            }
            if self.waits_for_runtime && !matches!(item, Item::Entry(_)) {
                self.waits_for_runtime = false;
                self.waiting.push_front(Found::removable(item));
                return Some(Step::WaitForRuntime);
            }
            self.current = Some(item.clone());
            return Some(Step::Remove(item));
        }
        None
    }

    /// Applies the result of the last [`Step::Remove`].
    pub fn done(&mut self, result: Result<(), String>) {
        let Some(item) = self.current.take() else {
            return;
        };
        self.waits_for_runtime |= matches!((&item, &result), (Item::Entry(_), Ok(())));
        let outcome = match result {
            Ok(()) if self.is_dry => Outcome::WouldRemove,
            Ok(()) => Outcome::Removed,
            Err(why) => Outcome::Left(Obstacle {
                why,
                advice: advice(&item),
            }),
        };
        self.settle(item, outcome);
    }

    pub fn report(self) -> Report {
        self.report
    }

    fn settle(&mut self, item: Item, outcome: Outcome) {
        self.report.lines.push(Line { item, outcome });
    }

    /// The obstacle, if a part that stays needs this one.
    fn stands_behind(&self, item: &Item) -> Option<Obstacle> {
        let needs = |line: &&Line| match (item, &line.item) {
            (Item::Binary(_), Item::Entry(_)) => true,
            (Item::Directory(directory), other) => {
                other.path().is_some_and(|path| path.starts_with(directory))
            }
            _ => false,
        };
        let first = self.report.left().find(needs)?;
        let (why, advice) = match item {
            Item::Binary(_) => ("still names it", "remove that entry first"),
            _ => ("is in it", "remove that first"),
        };
        let why = format!("{} {why}", first.item);
        Some(Obstacle { why, advice })
    }
}

/// The remedy where a removal failed.
fn advice(item: &Item) -> &'static str {
    match item {
        Item::Entry(_) => "take the object of type \"usher-cni\" out of it manually",
        Item::Binary(_) => {
            "remove the entry that names it, if one does, and retry as root on the node itself"
        }
        Item::Table { .. } => {
            "nsenter --target PID --net nft delete table inet usher, or delete the pod"
        }
        _ => "run this as root on the node itself, or remove it manually",
    }
}

#[cfg(test)]
mod tests;
