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
pub enum Thing {
    /// A place that cannot be searched.
    Unseen(String),
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

impl Thing {
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Unseen(_) | Self::Table { .. } => None,
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

impl fmt::Display for Thing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.path()) {
            (_, Some(path)) => path.display().fmt(formatter),
            (Self::Unseen(what), _) => formatter.write_str(what),
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
    pub thing: Thing,
    /// Why it cannot be removed, where that is known in advance.
    pub obstacle: Option<Obstacle>,
}

impl Found {
    pub fn removable(thing: Thing) -> Self {
        Self {
            thing,
            obstacle: None,
        }
    }

    pub fn stuck(thing: Thing, why: impl Into<String>, advice: &'static str) -> Self {
        let why = why.into();
        Self {
            thing,
            obstacle: Some(Obstacle { why, advice }),
        }
    }
}

/// The result for one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    WouldGo,
    Gone,
    Left(Obstacle),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub thing: Thing,
    pub fate: Fate,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<10}{}: ", self.thing.kind(), self.thing)?;
        match &self.fate {
            Fate::WouldGo => formatter.write_str("would be removed"),
            Fate::Gone => formatter.write_str("removed"),
            Fate::Left(Obstacle { why, advice }) => write!(formatter, "LEFT: {why}; {advice}"),
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
        let stays = |line: &&Line| matches!(line.fate, Fate::Left(_));
        self.lines.iter().filter(stays)
    }

    /// Adds the parts that a second search found. A part that is not reported as left was restored by a process.
    pub fn found_again(&mut self, found: Vec<Found>) {
        for Found { thing, obstacle } in found {
            if self.left().any(|line| line.thing == thing) {
                continue;
            }
            let fate = Fate::Left(obstacle.unwrap_or_else(|| Obstacle {
                why: "it came back".to_owned(),
                advice: "a process restores it: check whether an agent runs, then retry",
            }));
            self.lines.push(Line { thing, fate });
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Remove this part, and pass the result to [`Cleaning::done`].
    Remove(Thing),
    /// Wait until runtimes have completed the calls that they have begun.
    WaitForRuntime,
}

#[derive(Debug)]
pub struct Cleaning {
    waiting: VecDeque<Found>,
    current: Option<Thing>,
    is_dry: bool,
    /// Whether a runtime may still use an entry that was removed.
    waits_for_runtime: bool,
    report: Report,
}

impl Cleaning {
    /// Removes everything that was found, where possible.
    pub fn new(mut found: Vec<Found>) -> Self {
        found.sort_by(|one, other| one.thing.cmp(&other.thing));
        found.dedup_by(|one, other| one.thing == other.thing);
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
        while let Some(Found { thing, obstacle }) = self.waiting.pop_front() {
            if let Some(obstacle) = obstacle.or_else(|| self.stands_behind(&thing)) {
                self.settle(thing, Fate::Left(obstacle));
                continue;
            }
            if self.waits_for_runtime && !matches!(thing, Thing::Entry(_)) {
                self.waits_for_runtime = false;
                self.waiting.push_front(Found::removable(thing));
                return Some(Step::WaitForRuntime);
            }
            self.current = Some(thing.clone());
            return Some(Step::Remove(thing));
        }
        None
    }

    /// Applies the result of the last [`Step::Remove`].
    pub fn done(&mut self, outcome: Result<(), String>) {
        let Some(thing) = self.current.take() else {
            return;
        };
        self.waits_for_runtime |= matches!((&thing, &outcome), (Thing::Entry(_), Ok(())));
        let fate = match outcome {
            Ok(()) if self.is_dry => Fate::WouldGo,
            Ok(()) => Fate::Gone,
            Err(why) => Fate::Left(Obstacle {
                why,
                advice: advice(&thing),
            }),
        };
        self.settle(thing, fate);
    }

    pub fn report(self) -> Report {
        self.report
    }

    fn settle(&mut self, thing: Thing, fate: Fate) {
        self.report.lines.push(Line { thing, fate });
    }

    /// The obstacle, if a part that stays needs this one.
    fn stands_behind(&self, thing: &Thing) -> Option<Obstacle> {
        let needs = |line: &&Line| match (thing, &line.thing) {
            (Thing::Binary(_), Thing::Entry(_)) => true,
            (Thing::Directory(directory), other) => {
                other.path().is_some_and(|path| path.starts_with(directory))
            }
            _ => false,
        };
        let first = self.report.left().find(needs)?;
        let (why, advice) = match thing {
            Thing::Binary(_) => ("still names it", "remove that entry first"),
            _ => ("is in it", "remove that first"),
        };
        let why = format!("{} {why}", first.thing);
        Some(Obstacle { why, advice })
    }
}

/// The remedy where a removal failed.
fn advice(thing: &Thing) -> &'static str {
    match thing {
        Thing::Entry(_) => "take the object of type \"usher-cni\" out of it manually",
        Thing::Binary(_) => {
            "remove the entry that names it, if one does, and retry as root on the node itself"
        }
        Thing::Table { .. } => {
            "nsenter --target PID --net nft delete table inet usher, or delete the pod"
        }
        _ => "run this as root on the node itself, or remove it manually",
    }
}

#[cfg(test)]
mod tests;
