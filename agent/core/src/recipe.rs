//! Recipes: which containers are sidecars, and how each kind is terminated.
//!
//! A recipe is data, both the built-in ones and those of a configuration file: `format` has the syntax, [`Recipe`] is
//! the parsed form, and `ladder` derives the steps for one container. The effects that a recipe states (exit code,
//! time) decide the order of its steps.
//!
//! Recognition is conservative: a container that no recipe recognizes is an app, and usher does nothing while an app
//! runs.

mod builtin;
mod condition;
mod describe;
mod format;
mod hold;
mod ladder;
mod one_or_more;
mod pattern;
mod setting;
pub mod step;
mod subject;
mod version;
mod why;

use std::collections::BTreeSet;

use serde::Deserialize;

pub use self::{
    builtin::{Builtin, builtin},
    condition::Condition,
    describe::{Described, Stretch},
    hold::{Captured, Dns, Get, HoldRecipe, Instances, PortList, ReadyRecipe},
    ladder::{AfterTerm, LadderStep, Purpose},
    one_or_more::OneOrMore,
    pattern::Pattern,
    setting::{Setting, Sources, Takes, Value},
    step::ExitCode,
    subject::Subject,
    version::{Version, Versions},
};
pub(crate) use self::{
    hold::{Identity, declared_held_ports},
    ladder::may_have_requests,
    why::Choice,
};
use crate::{
    pod::{
        image,
        spec::{Container, Pod},
    },
    recipe::step::{Header, Method, Signal},
};

/// When a sidecar quits, relative to the others of its pod. A stage begins
/// when everything of the earlier ones has ended or was given up.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Deserialize,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// First: database proxies, secret agents, and the sidecars that a pod's annotation declares.
    #[default]
    Helper,
    /// Log shippers, which also send the last log lines of the helpers.
    Logs,
    /// Mesh proxies, after every container that may still need the network.
    Mesh,
}

/// Whether the stop signal of a sidecar may be held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Linger {
    #[default]
    Yes,
    /// The signal begins work that other programs wait for, such as failing a health check.
    Never,
}

/// One kind of sidecar.
// `Recipe::deserialize` is the derived function, which checks nothing; the one of the trait does (`format`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, rename_all = "camelCase")]
pub struct Recipe {
    /// Unique; a custom recipe of the same name replaces a built-in one.
    pub name: String,
    /// A short description, for people; the name where the recipe has none.
    #[serde(default)]
    pub title: String,
    /// Further notes, for people.
    #[serde(default)]
    pub notes: String,
    /// The sources of its facts, for people.
    #[serde(default)]
    pub sources: Vec<String>,
    #[serde(default)]
    pub stage: Stage,
    /// A container is of this kind where one of these holds.
    pub recognize: Vec<Recognition>,
    /// It is not of this kind where one of these holds.
    #[serde(default)]
    pub unless: OneOrMore<Condition>,
    /// The query for a sidecar's version, where its image's tag does not contain it.
    pub version: Option<VersionEndpoint>,
    /// Steps that drain its connections first, where the user requests it.
    #[serde(default)]
    pub drain: Vec<StepRecipe>,
    #[serde(default)]
    pub quit: Vec<StepRecipe>,
    #[serde(default)]
    pub after_term: AfterTerm,
    /// It exits without a request once the other containers of its pod have ended.
    #[serde(default)]
    pub ends_by_itself: bool,
    /// Whether its stop signal may be held until the apps of a deleted pod have ended.
    #[serde(default)]
    pub linger: Linger,
    #[serde(default)]
    pub hold: HoldRecipe,
}

/// One way to recognize a kind; all given criteria must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct Recognition {
    #[serde(rename = "name")]
    pub names: Vec<Pattern>,
    /// The end of its image's path.
    #[serde(rename = "image")]
    pub images: Vec<Pattern>,
    /// Tags of its image.
    #[serde(rename = "tag")]
    pub tags: Vec<Pattern>,
    /// Base names of the program that it runs, also below a shell.
    #[serde(rename = "program")]
    pub programs: Vec<Pattern>,
    /// Base names of words of its command or script.
    #[serde(rename = "command")]
    pub commands: Vec<Pattern>,
    /// These words stand one after the other in its command and arguments.
    pub args: Vec<String>,
    /// Conditions on its flags, environment and annotations.
    pub when: Condition,
}

/// A request with a JSON reply that contains the version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionEndpoint {
    pub port: Setting<u16>,
    /// Path, beginning with a slash.
    pub path: String,
    /// The place of the version in the reply ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)).
    pub pointer: String,
}

/// One step of a recipe, with the effects that are known of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "format::RawStep")]
pub struct StepRecipe {
    pub act: Act,
    /// It exists only where one of these holds; empty for everywhere.
    pub when: Vec<Condition>,
    /// It does not exist where one of these holds.
    pub unless: Vec<Condition>,
    pub code: ExitCode,
    /// The run of the real program that shows its effects; None where they follow from the source.
    pub measured: Option<Measured>,
    /// How long the sidecar takes to end.
    pub takes: Takes,
    /// What would allow a clean end, where this step causes none.
    pub advice: String,
}

/// A run of a real program that was terminated by a step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Versions of the program.
    pub version: String,
    /// Year and month.
    pub date: String,
    /// The shortest and the longest time until its process ended.
    pub ends: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Request {
        method: Method,
        /// TCP port; 0 disables the port, and thus the step.
        port: Setting<u16>,
        path: Setting<String>,
        /// Headers from the sidecar's own environment.
        headers: Vec<Header>,
    },
    Signal {
        signal: Signal,
        /// Name of a process; None for the init process.
        process: Option<String>,
    },
}

impl Recipe {
    pub fn recognizes(&self, pod: &Pod, container: &Container) -> bool {
        let subject = Subject {
            pod,
            container,
            version: image::version(&container.image),
        };
        self.recognized(subject).is_some()
    }

    /// The first way by which a container is of this kind.
    fn recognized(&self, subject: Subject<'_>) -> Option<&Recognition> {
        let way = self.recognize.iter().find(|way| way.holds(subject))?;
        let excluded = self.unless.0.iter().any(|unless| unless.holds(subject));
        (!excluded).then_some(way)
    }

    /// The port and the query for a container's version.
    pub(crate) fn version_endpoint(&self, subject: Subject<'_>) -> Option<(u16, &VersionEndpoint)> {
        let endpoint = self.version.as_ref()?;
        let port = endpoint.port.of(subject);
        (port != 0 && may_have_requests(subject.pod)).then_some((port, endpoint))
    }

    /// All steps of the recipe, for any purpose.
    fn steps(&self) -> impl Iterator<Item = &StepRecipe> {
        self.drain
            .iter()
            .chain(&self.quit)
            .chain(&self.after_term.steps)
    }

    fn settings(&self) -> impl Iterator<Item = Sources<'_>> {
        let queried = self.version.iter().map(|endpoint| endpoint.port.sources());
        let steps = self.steps().flat_map(|step| {
            let request = match &step.act {
                Act::Request { port, path, .. } => vec![port.sources(), path.sources()],
                Act::Signal { .. } => Vec::new(),
            };
            request.into_iter().chain(step.takes.sources())
        });
        queried.chain(steps).chain(self.hold.sources())
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let recognize = self.recognize.iter().chain(&self.after_term.sidecar);
        let recognize = recognize.map(|way| &way.when);
        let steps = self.steps();
        let steps = steps.flat_map(|step| step.when.iter().chain(&step.unless));
        recognize
            .chain(&self.unless.0)
            .chain(steps)
            .chain(self.hold.conditions())
    }
}

impl Recognition {
    fn holds(&self, subject: Subject<'_>) -> bool {
        let container = subject.container;
        let any = |patterns: &[Pattern], test: &dyn Fn(&Pattern) -> bool| {
            patterns.is_empty() || patterns.iter().any(test)
        };
        any(&self.names, &|pattern| pattern.matches(&container.name))
            && any(&self.images, &|pattern| {
                pattern.matches_image(&container.image)
            })
            && any(&self.tags, &|pattern| {
                image::tag(&container.image).is_some_and(|tag| pattern.matches(tag))
            })
            && any(&self.programs, &|pattern| {
                subject.program().is_some_and(|name| pattern.matches(name))
            })
            && any(&self.commands, &|pattern| {
                subject.commands().any(|name| pattern.matches(name))
            })
            && subject.has_words(&self.args)
            && self.when.holds(subject)
    }
}

/// The variable or the annotation of a place, without the pointer into its document.
fn variable(place: &str) -> &str {
    place.split_once('#').map_or(place, |(name, _pointer)| name)
}

/// The parts of a pod that recipes read, so that the rest need not be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    pub annotations: BTreeSet<String>,
    /// Names of variables with literal values.
    pub env: BTreeSet<String>,
}

impl Reads {
    /// Whether a list for `other` also contains these parts.
    pub fn is_part_of(&self, other: &Self) -> bool {
        self.annotations.is_subset(&other.annotations) && self.env.is_subset(&other.env)
    }

    /// The parts that these recipes read.
    pub fn of<'recipe>(recipes: impl IntoIterator<Item = &'recipe Recipe>) -> Self {
        let mut reads = Self::default();
        for recipe in recipes {
            for sources in recipe.settings() {
                let keys = sources.annotations.iter().map(|place| variable(place));
                reads.annotations.extend(keys.map(str::to_owned));
                let names = sources.env.iter().map(|place| variable(place));
                reads.env.extend(names.map(str::to_owned));
            }
            for condition in recipe.conditions() {
                let keys = condition.annotations.keys();
                let keys = keys
                    .chain(&condition.annotated)
                    .chain(&condition.unannotated);
                reads.annotations.extend(keys.cloned());
                reads.env.extend(condition.env.keys().cloned());
                reads.env.extend(condition.variables.iter().cloned());
            }
        }
        reads
    }
}

#[cfg(test)]
pub(crate) mod tests;
