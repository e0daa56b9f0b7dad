//! Describes a recipe for people: the steps for each range of versions, in the order in which they are taken.
//!
//! It is the result of [`super::ladder`] for a pod with default settings; the documentation is generated from it.

use super::{Act, Condition, Recipe, StepRecipe, Versions, ladder};
use crate::recipe::step::Step;

/// The steps for a range of versions, the first one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch<'recipe> {
    pub versions: Versions,
    pub steps: Vec<Described<'recipe>>,
}

/// A step for a range of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described<'recipe> {
    pub step: &'recipe StepRecipe,
    /// It exists only where one of these holds, apart from their versions; empty for everywhere.
    pub when: Vec<&'recipe Condition>,
    /// It does not exist where one of these holds.
    pub unless: Vec<&'recipe Condition>,
}

impl Recipe {
    /// The steps that terminate it, newest versions first.
    pub fn quit_by_version(&self) -> Vec<Stretch<'_>> {
        by_version(&self.quit, |steps| {
            steps.sort_by_key(|step| ladder::rank(step.step.code, step.step.takes.by_default()));
        })
    }

    /// The steps that drain it, newest versions first: the first existing step of each range is taken.
    pub fn drain_by_version(&self) -> Vec<Stretch<'_>> {
        by_version(&self.drain, |steps| {
            if let Some(at) = steps.iter().position(Described::is_everywhere) {
                steps.truncate(at + 1);
            }
        })
    }
}

impl Described<'_> {
    /// Whether it exists in all pods.
    pub fn is_everywhere(&self) -> bool {
        self.when.is_empty() && self.unless.is_empty()
    }
}

impl Act {
    /// The step in a pod with default settings.
    pub fn by_default(&self) -> Step {
        self.with(|port| *port.default(), |path| path.default().clone())
    }
}

fn by_version(all: &[StepRecipe], order: impl Fn(&mut Vec<Described<'_>>)) -> Vec<Stretch<'_>> {
    let conditions = all
        .iter()
        .flat_map(|step| step.when.iter().chain(&step.unless));
    let mut stretches: Vec<Stretch<'_>> = Vec::new();
    for versions in Versions::between(conditions.map(|condition| condition.version)) {
        let mut steps: Vec<_> = all.iter().filter_map(|step| of(step, versions)).collect();
        order(&mut steps);
        match stretches.last_mut() {
            Some(older) if older.steps == steps => older.versions = older.versions.and(versions),
            _ => stretches.push(Stretch { versions, steps }),
        }
    }
    stretches.reverse();
    stretches
}

/// The step with the conditions that remain for these versions; None where the step does not exist.
fn of(step: &StepRecipe, versions: Versions) -> Option<Described<'_>> {
    let applies = |condition: &&Condition| condition.version.contain(Some(versions.oldest()));
    let mut when: Vec<_> = step.when.iter().filter(applies).collect();
    let unless: Vec<_> = step.unless.iter().filter(applies).collect();
    if when.is_empty() && !step.when.is_empty() || unless.iter().any(|one| is_of_version(one)) {
        return None;
    }
    if when.iter().any(|one| is_of_version(one)) {
        when.clear();
    }
    Some(Described { step, when, unless })
}

/// Whether a condition is about the version alone.
fn is_of_version(condition: &Condition) -> bool {
    let Condition {
        version: _,
        flag,
        shell,
        env,
        variables,
        annotations,
        annotated,
        unannotated,
    } = condition;
    let has_none = |lists: &[&Vec<String>]| lists.iter().all(|list| list.is_empty());
    flag.is_none()
        && !shell
        && env.is_empty()
        && annotations.is_empty()
        && has_none(&[variables, annotated, unannotated])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        pod::spec::plain,
        recipe::{ExitCode, LadderStep, Subject, Version, builtin},
    };

    type Steps = Vec<(Step, ExitCode, Duration)>;

    /// The described steps for a version, where no flag is set.
    fn steps(stretches: &[Stretch<'_>], version: Option<Version>) -> Steps {
        let mut fitting = stretches
            .iter()
            .filter(|stretch| stretch.versions.contain(version));
        let stretch = fitting.next().unwrap();
        assert!(fitting.next().is_none(), "two ranges have {version:?}");
        let steps = stretch.steps.iter().filter(|step| step.when.is_empty());
        steps
            .map(|Described { step, .. }| {
                (step.act.by_default(), step.code, step.takes.by_default())
            })
            .collect()
    }

    #[test]
    fn description_matches_the_steps() {
        let pod = plain::pod(vec![plain::container("a", "a")]);
        let done =
            |ladder_step: LadderStep| (ladder_step.step, ladder_step.code, ladder_step.takes);
        for recipe in builtin().iter() {
            let quit = recipe.quit_by_version();
            let drain = recipe.drain_by_version();
            let minors = (0..40).map(|minor| Some(Version { major: 1, minor }));
            let edges = [(0, 0), (2, 13), (2, 14), (3, 0)];
            let edges = edges.map(|(major, minor)| Some(Version { major, minor }));
            for version in minors.chain(edges).chain([None]) {
                let subject = Subject {
                    pod: &pod,
                    container: &pod.containers[0],
                    version,
                };
                let ladder = recipe.quit_ladder(subject);
                let ladder: Steps = ladder.into_iter().map(done).collect();
                assert_eq!(steps(&quit, version), ladder, "{} {version:?}", recipe.name);
                let time = Duration::from_secs(5);
                let step = recipe
                    .drain_step(subject, time)
                    .map(|ladder_step| ladder_step.step);
                let first = steps(&drain, version).into_iter().next();
                assert_eq!(first.map(|(step, ..)| step), step, "{}", recipe.name);
            }
        }
    }

    #[test]
    fn newest_first_and_no_range_twice() {
        let recipes = builtin();
        let ranges = |name: &str| {
            let recipe = recipes.iter().find(|recipe| recipe.name == name).unwrap();
            let stretches = recipe.quit_by_version();
            let texts = stretches.iter().map(|stretch| stretch.versions.to_string());
            texts.collect::<Vec<_>>().join(", ")
        };
        let istio = "from 1.26, 1.4 to below 1.26, 1.3 to below 1.4, below 1.3";
        assert_eq!(ranges("istio"), istio);
        assert_eq!(ranges("linkerd"), "any version");
    }

    #[test]
    fn remaining_conditions() {
        let recipes = builtin();
        let proxy = recipes.iter().find(|one| one.name == "cloud-sql-proxy");
        let stretches = proxy.unwrap().quit_by_version();
        let counts: Vec<_> = stretches[0]
            .steps
            .iter()
            .map(|step| (step.when.len(), step.unless.len(), step.step.code))
            .collect();
        assert_eq!(
            counts,
            [(2, 0, 0), (2, 0, 0), (2, 0, 0), (1, 2, 143), (0, 2, 143)]
                .map(|(when, unless, code)| (when, unless, ExitCode::Known(code)))
        );
    }
}
