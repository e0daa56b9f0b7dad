//! What is left of usher on a node, and the way in which it goes.
//!
//! Order matters. The entry in the network configuration goes first; runtimes that had read it get some time to end
//! what they began; then the binary that it named, the tables, what was written beside. A binary stays behind an entry
//! that stays, since without it no pod could start or end, and a directory behind what is left in it.
//!
//! Nothing is looked at or removed here: [`Cleaning`] says what is next, and receives its result.

use std::{
    collections::VecDeque,
    fmt,
    path::{Path, PathBuf},
};

use crate::base::id::{NetnsId, Pid};

/// Something of usher, in the order in which things go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Thing {
    /// A place that may have something of usher, and would not be looked at.
    Unseen(String),
    /// A network configuration that has the plugin's entry.
    Entry(PathBuf),
    Binary(PathBuf),
    /// A file that a program which was killed has left half written.
    Temporary(PathBuf),
    /// The table in the network namespace of a process.
    Table {
        netns: NetnsId,
        pid: Pid,
        /// The name of that process.
        name: String,
    },
    /// The socket on which the plugin asks.
    Socket(PathBuf),
    /// A file that agent or plugin wrote.
    File(PathBuf),
    /// Something in usher's directory that usher did not put there.
    Foreign(PathBuf),
    /// The directory of these files.
    Directory(PathBuf),
}

impl Thing {
    /// What it is, in one word.
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

/// Why something stays, and what a person can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    pub why: String,
    pub advice: &'static str,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub thing: Thing,
    /// Why it cannot be removed, where that is known before it is tried.
    pub obstacle: Option<Obstacle>,
}

impl Found {
    /// Something that is to be removed.
    pub fn removable(thing: Thing) -> Self {
        Self {
            thing,
            obstacle: None,
        }
    }

    /// Something that has to stay.
    pub fn stuck(thing: Thing, why: impl Into<String>, advice: &'static str) -> Self {
        let why = why.into();
        Self {
            thing,
            obstacle: Some(Obstacle { why, advice }),
        }
    }
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    WouldGo,
    Gone,
    Left(Obstacle),
}

/// One line for people.
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

/// What became of everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order in which it was dealt with.
    pub lines: Vec<Line>,
}

impl Report {
    pub fn left(&self) -> impl Iterator<Item = &Line> {
        let stays = |line: &&Line| matches!(line.fate, Fate::Left(_));
        self.lines.iter().filter(stays)
    }

    /// Whether nothing stays.
    pub fn is_clean(&self) -> bool {
        self.left().next().is_none()
    }

    /// Takes in what is there after all was done: whatever is not known to stay has come back.
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

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// This goes. [`Cleaning::done`] wants to hear about it.
    Remove(Thing),
    /// Runtimes are given time to end the calls that they have begun.
    Linger,
}

/// The way in which all goes.
#[derive(Debug)]
pub struct Cleaning {
    waiting: VecDeque<Found>,
    current: Option<Thing>,
    is_dry: bool,
    /// Whether a runtime may be using an entry that has just gone.
    lingers: bool,
    report: Report,
}

impl Cleaning {
    /// All of this goes, where it can.
    pub fn new(mut found: Vec<Found>) -> Self {
        found.sort_by(|one, other| one.thing.cmp(&other.thing));
        found.dedup_by(|one, other| one.thing == other.thing);
        Self {
            waiting: found.into(),
            current: None,
            is_dry: false,
            lingers: false,
            report: Report::default(),
        }
    }

    /// What would become of all this, if every removal succeeded.
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

    /// What is next; None when all is done.
    pub fn step(&mut self) -> Option<Step> {
        while let Some(Found { thing, obstacle }) = self.waiting.pop_front() {
            if let Some(obstacle) = obstacle.or_else(|| self.stands_behind(&thing)) {
                self.settle(thing, Fate::Left(obstacle));
                continue;
            }
            if self.lingers && !matches!(thing, Thing::Entry(_)) {
                self.lingers = false;
                self.waiting.push_front(Found::removable(thing));
                return Some(Step::Linger);
            }
            self.current = Some(thing.clone());
            return Some(Step::Remove(thing));
        }
        None
    }

    /// What came of the removal that was last asked for.
    pub fn done(&mut self, outcome: Result<(), String>) {
        let Some(thing) = self.current.take() else {
            return;
        };
        self.lingers |= matches!((&thing, &outcome), (Thing::Entry(_), Ok(())));
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

    /// What became of everything.
    pub fn report(self) -> Report {
        self.report
    }

    fn settle(&mut self, thing: Thing, fate: Fate) {
        self.report.lines.push(Line { thing, fate });
    }

    /// Whether something that stays needs this.
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

/// What a person can do where a removal failed.
fn advice(thing: &Thing) -> &'static str {
    match thing {
        Thing::Entry(_) => "take the object of type \"usher-cni\" out of it manually",
        Thing::Table { .. } => {
            "nsenter --target PID --net nft delete table inet usher, or delete the pod"
        }
        _ => "run this as root on the node itself, or remove it manually",
    }
}

#[cfg(test)]
mod tests;
