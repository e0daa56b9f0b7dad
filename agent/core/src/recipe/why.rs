//! Explains why a container is a sidecar, and why a step applies or not.

use std::collections::BTreeMap;

use super::{
    Act, Condition, ExitCode, Pattern, Recipe, Recognition, StepRecipe, Subject, may_have_requests,
};
use crate::recipe::step::Step;

/// The result for one step of a recipe and one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) step: Step,
    pub(crate) code: ExitCode,
    pub(crate) exists: bool,
    pub(crate) why: String,
}

impl Recipe {
    /// The facts by which the container is recognized; None where it is not.
    pub(crate) fn recognized_by(&self, subject: Subject<'_>) -> Option<String> {
        Some(self.recognized(subject)?.words(subject))
    }

    /// The result for each step that terminates it, in the order of the recipe.
    pub(crate) fn choices(&self, subject: Subject<'_>) -> Vec<Choice> {
        let steps = self.quit.iter();
        steps.map(|step| step.choice(subject)).collect()
    }
}

impl Recognition {
    fn words(&self, subject: Subject<'_>) -> String {
        let container = subject.container;
        let fits = |patterns: &[Pattern], test: &dyn Fn(&Pattern) -> bool| {
            let fit = patterns.iter().find(|pattern| test(pattern));
            fit.map(|pattern| pattern.as_str().to_owned())
        };
        let name = fits(&self.names, &|pattern| pattern.matches(&container.name));
        let image = fits(&self.images, &|pattern| {
            pattern.matches_image(&container.image)
        });
        let mut parts = Vec::new();
        parts.extend(name.map(|name| format!("name {name}")));
        parts.extend(image.map(|image| format!("image {image}")));
        let program = subject.program().filter(|_| !self.programs.is_empty());
        parts.extend(program.map(|program| format!("program {program}")));
        let command = fits(&self.commands, &|pattern| {
            subject.commands().any(|name| pattern.matches(name))
        });
        parts.extend(command.map(|name| format!("command {name}")));
        if !self.args.is_empty() {
            parts.push(format!("arguments {}", self.args.join(" ")));
        }
        parts.extend(self.when.words());
        parts.join(", ")
    }
}

impl StepRecipe {
    pub(super) fn choice(&self, subject: Subject<'_>) -> Choice {
        let step = self
            .act
            .with(|port| port.of(subject), |path| path.of(subject));
        let holds = |condition: &&Condition| condition.holds(subject);
        let when = self.when.iter().find(holds);
        let unless = self.unless.iter().find(holds);
        let off = matches!(&step, Step::Request(request) if request.port == 0);
        let is_request = matches!(self.act, Act::Request { .. });
        let (exists, why) = match (when, unless) {
            (_, Some(unless)) => (false, format!("not with {}", unless.text())),
            (None, None) if !self.when.is_empty() => {
                let all: Vec<String> = self.when.iter().map(Condition::text).collect();
                (false, format!("only with {}", all.join(" or ")))
            }
            _ if off => (false, "the pod has switched its port off".to_owned()),
            _ if is_request && !may_have_requests(subject.pod) => {
                let why = "the pod's loopback is the node's: its listener may be any process";
                (false, why.to_owned())
            }
            (Some(when), None) => (true, format!("with {}", when.text())),
            (None, None) => (true, "always".to_owned()),
        };
        Choice {
            step,
            code: self.code,
            exists,
            why,
        }
    }
}

impl Condition {
    fn text(&self) -> String {
        self.words().join(" and ")
    }

    fn words(&self) -> Vec<String> {
        let Self {
            version,
            flag,
            shell,
            env,
            variables,
            annotations,
            annotated,
            unannotated,
        } = self;
        let mut words = Vec::new();
        if version.is_limited() {
            words.push(format!("version {version}"));
        }
        words.extend(flag.iter().map(|flag| format!("argument {flag}")));
        words.extend(shell.then(|| "a shell's script".to_owned()));
        let pairs = |what: &str, pairs: &BTreeMap<String, String>| -> Vec<String> {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| format!("{what} {key}={value}"))
                .collect()
        };
        words.extend(pairs("variable", env));
        words.extend(variables.iter().map(|name| format!("variable {name}")));
        words.extend(pairs("annotation", annotations));
        words.extend(annotated.iter().map(|key| format!("annotation {key}")));
        words.extend(unannotated.iter().map(|key| format!("no annotation {key}")));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::stage::{container, pod},
        pod::{restart_policy::RestartPolicy, spec::Pod},
        recipe::{Version, builtin},
    };

    fn choices(recipe: &str, words: &[&str], version: Option<(u32, u32)>) -> Vec<String> {
        choices_in(&pod(RestartPolicy::Never, &["app"]), recipe, words, version)
    }

    fn choices_in(
        pod: &Pod,
        recipe: &str,
        words: &[&str],
        version: Option<(u32, u32)>,
    ) -> Vec<String> {
        let recipes = builtin();
        let recipe = recipes.iter().find(|one| one.name == recipe).unwrap();
        let mut proxy = container("proxy");
        proxy.words = words.iter().map(|word| (*word).to_owned()).collect();
        let subject = Subject {
            pod,
            container: &proxy,
            version: version.map(|(major, minor)| Version { major, minor }),
        };
        let ladder = recipe.quit_ladder(subject);
        let choices = recipe.choices(subject);
        let there = choices.iter().filter(|choice| choice.exists).count();
        assert_eq!(there, ladder.len(), "{choices:?}");
        let choices = choices.into_iter();
        let line = |one: Choice| format!("{} {} {}: {}", one.exists, one.step, one.code, one.why);
        choices.map(line).collect()
    }

    #[test]
    fn each_step_has_a_reason() {
        let old = choices("istio", &[], Some((1, 2)));
        assert!(
            old.iter().any(|line| line.contains("only with version")),
            "{old:?}"
        );
        let new = choices("istio", &[], Some((1, 30)));
        assert!(
            new[0].contains("true POST :15020/quitquitquit 0"),
            "{new:?}"
        );
        let without = choices("cloud-sql-proxy", &[], None);
        assert!(
            without[0].starts_with("false") && without[0].contains("--quitquitquit"),
            "{without:?}"
        );
        let with = choices("cloud-sql-proxy", &["--quitquitquit"], None);
        assert!(with[0].contains("with argument --quitquitquit"), "{with:?}");
    }

    #[test]
    fn steps_that_the_pod_rules_out_have_a_reason() {
        let mut off = pod(RestartPolicy::Never, &["app"]);
        let port = "status.sidecar.istio.io/port".to_owned();
        off.annotations.insert(port, "0".to_owned());
        let lines = choices_in(&off, "istio", &[], Some((1, 30)));
        assert_eq!(
            lines[0],
            "false POST :0/quitquitquit 0: the pod has switched its port off"
        );
        let mut host = pod(RestartPolicy::Never, &["app"]);
        host.host_network = true;
        let lines = choices_in(&host, "istio", &[], Some((1, 30)));
        let reason = "the pod's loopback is the node's: its listener may be any process";
        assert_eq!(
            lines[0],
            format!("false POST :15020/quitquitquit 0: {reason}")
        );
    }

    #[test]
    fn recognition_names_the_evidence() {
        let pod = pod(RestartPolicy::Never, &["app"]);
        let recipes = builtin();
        // Words, where the image is a mirror of another name.
        let by = |name: &str, words: Option<&[&str]>| {
            let mut container = pod.container(name).unwrap().clone();
            if let Some(words) = words {
                container.image = "mirror/mesh:1".to_owned();
                container.words = words.iter().map(|word| (*word).to_owned()).collect();
            }
            let subject = Subject {
                pod: &pod,
                container: &container,
                version: None,
            };
            recipes
                .iter()
                .find_map(|recipe| recipe.recognized_by(subject))
        };
        assert_eq!(by("app", None), None);
        let by_image = by("istio-proxy", None).unwrap();
        assert_eq!(by_image, "name istio-proxy, image proxyv2");
        let by_words = by("istio-proxy", Some(&["proxy", "sidecar"])).unwrap();
        assert_eq!(by_words, "name istio-proxy, arguments proxy sidecar");
    }
}
