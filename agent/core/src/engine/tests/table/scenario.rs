//! The words that a row of the table consists of.
//!
//! A pod is described by words: a policy (`Never`), containers and settings.
//!
//! | word | meaning |
//! | --- | --- |
//! | `app` | a container; `istio-proxy`, `sql` (Cloud SQL proxy), `logs` (Fluent Bit) and `daprd` have the images of sidecars |
//! | `app:Never` | with a policy of its own |
//! | `app[42]` `app[!0,1]` `app[42=all]` `app[1][42=all]` | with restart rules: In, NotIn, RestartAllContainers; two rules |
//! | `usher.dev/quit=false` | an annotation; `_` stands for a space |
//! | `label:KEY=VALUE` `annotation:KEY=VALUE` | of its Namespace |
//! | `native=NAME` `init=NAME[42=all]` | a native sidecar; an init container or native sidecar with a rule |
//! | `host` `class=NAME` `image=NAME=IMAGE` `in=NAMESPACE` | hostNetwork, RuntimeClass, another image, another Namespace |
//! | `args=NAME=WORDS` `env=NAME=KEY=VALUE` | arguments and a variable of a container |
//! | `requests=NAME=MILLICORES,BYTES` `probe=NAME` `resize=NAME` | requested resources of a container; a liveness probe; a resize restarts it |
//! | `api-away` | the API server does not answer |
//!
//! Events are words as well. Runs are numbered: `app.0` is the first of `app`.
//!
//! | word | meaning |
//! | --- | --- |
//! | `all` | the pod appears, its sandbox and all containers start, it is listed |
//! | `pod` `list` `gone` | it appears, is listed, disappears |
//! | `+NAME` `+NAME?` `*NAME` `~NAME` | a new run starts; one that is never named; one that is only created; one without a process |
//! | `NAME!3` `NAME!TERM` `NAME!` | the newest run ends with a code, by a signal, in an unknown way |
//! | `NAME!later3` | it exits, and then the kernel reports its code, as on a node |
//! | `?x` | a container starts and ends before it can be read |
//! | `NAME=T3` `NAME=R` `NAME=W` `NAME=W3` `NAME=T128@x` `NAME=R@x` | its status from now on: terminated, running, waiting, waiting after a code; of the run `x`; `NAME=R3@x` has `x` as the run before; `NAME=L0@x` ended after the newest known run, which ended with 1 |
//! | `NAME>200` `NAME>accepted` `NAME>signalled` `NAME>refused` `NAME>late` `NAME>silent` `NAME>over` | the outcome of an attempt |
//! | `NAME>opaque` `NAME>started` `NAME>executed` `NAME>gone` `NAME>version=1.20.1` | its processes are hidden; are found late; run its image; its cgroup is gone; the reply to its version query |
//! | `deleting` `terminal=Evicted` `KEY=VALUE` | the pod is listed like this from now on |
//! | `marked` | its deletion is requested; the kubelet's next list has it |
//! | `config` `off` `observe` `enforce` `api-back` | the configuration is loaded; the mode changes; the API server responds again |
//! | `2s` `500ms` | time passes |
//! | `;` | earlier reports do not count |

mod spec;

use std::collections::BTreeMap;

use crate::{
    Action, Event,
    admin::NamespaceCost,
    base::id::{ContainerId, ContainerKey},
    engine::tests::stage::{Stage, id, key, pod, uid},
    pod::{
        container_change::ContainerChange,
        exit_status::ExitStatus,
        restart_policy::RestartPolicy,
        spec::{Ended, RunState, Status},
    },
    quit::{ladder::MIN_SIGNAL_AGE, outcome::Outcome},
    settings::{config::Config, mode::Mode, overrides::NamespaceValues},
};

use self::spec::describe;

pub(super) struct Scenario {
    stage: Stage,
    config: String,
    /// The number of runs of each container.
    runs: BTreeMap<String, usize>,
    namespace: NamespaceValues,
}

impl Scenario {
    pub(super) fn new(words: &str, config: &str) -> Self {
        let mut spec = pod(RestartPolicy::Never, &[]);
        spec.containers.clear();
        let mut namespace = NamespaceValues::default();
        let mut away = false;
        for word in words.split_whitespace() {
            let values = |text: &str| {
                let (key, value) = text.split_once('=').unwrap();
                (key.to_owned(), value.replace('_', " "))
            };
            if word == "api-away" {
                away = true;
            } else if let Some(text) = word.strip_prefix("label:") {
                namespace.labels.extend([values(text)]);
            } else if let Some(text) = word.strip_prefix("annotation:") {
                namespace.annotations.extend([values(text)]);
            } else if word.contains('/') && !word.starts_with("image=") && !word.starts_with("env=")
            {
                spec.annotations.extend([values(word)]);
            } else {
                describe(&mut spec, word);
            }
        }
        let mut stage = Stage::new(Mode::Enforce, spec);
        stage.namespace = (!away).then(|| namespace.clone());
        Self {
            stage,
            config: config.to_owned(),
            runs: BTreeMap::new(),
            namespace,
        }
    }

    /// The number of queries of the kubelet.
    pub(super) fn queries(&self) -> usize {
        let actions = self.stage.actions.iter();
        actions
            .filter(|action| matches!(action, Action::FetchPods))
            .count()
    }

    pub(super) fn costs(&self) -> Vec<NamespaceCost> {
        self.stage.engine.costs(self.stage.now)
    }

    pub(super) fn reported(self) -> Vec<String> {
        self.stage.log
    }

    pub(super) fn apply(&mut self, word: &str) {
        if let Some(name) = word.strip_prefix('+') {
            self.start(name);
        } else if let Some(name) = word.strip_prefix('*') {
            self.create(name);
        } else if let Some(name) = word.strip_prefix('~') {
            let run = self.next_run(name);
            self.stage.appear(&run);
        } else if let Some(run) = word.strip_prefix('?') {
            self.stage.appear(run);
            self.stage
                .send(Event::container(key(run), ContainerChange::Gone));
        } else if let Some((name, how)) = word.split_once('!') {
            self.end(name, how);
        } else if let Some((name, what)) = word.split_once('>') {
            self.answer(name, what);
        } else if let Some((name, value)) = word.split_once('=') {
            self.change(name, value);
        } else {
            self.happen(word);
        }
    }

    fn happen(&mut self, word: &str) {
        let stage = &mut self.stage;
        match word {
            ";" => stage.log.clear(),
            "pod" => stage.send(Event::PodAppeared(uid())),
            "list" => stage.list(),
            "gone" => stage.send(Event::PodGone(uid())),
            "off" => stage.mode(Mode::Off),
            "observe" => stage.mode(Mode::Observe),
            "enforce" => stage.mode(Mode::Enforce),
            "api-back" => stage.namespace = Some(self.namespace.clone()),
            "config" => {
                let config = Config::parse("row", &self.config).unwrap();
                stage.configure(config);
            }
            "marked" => stage.spec.deleting = true,
            "deleting" => {
                stage.spec.deleting = true;
                stage.list();
            }
            "all" => {
                let containers = stage.spec.containers.iter();
                let names: Vec<String> = containers.map(|found| found.name.clone()).collect();
                self.apply("pod");
                self.apply("+sandbox?");
                for name in names {
                    self.start(&name);
                }
                // The containers run for long enough to receive a signal.
                self.stage.now = self.stage.now + MIN_SIGNAL_AGE;
                self.apply("list");
            }
            time => stage.pass(crate::base::duration::parse(time).unwrap()),
        }
    }

    fn start(&mut self, name: &str) {
        let key = self.create(name);
        self.stage
            .send(Event::container(key, ContainerChange::Executed));
    }

    fn create(&mut self, name: &str) -> ContainerKey {
        let (name, named) = match name.strip_suffix('?') {
            Some(name) => (name, None),
            None => (name, Some(name.to_owned())),
        };
        let run = self.next_run(name);
        self.stage.appear(&run);
        let (key, name) = (key(&run), named);
        let created = key.clone();
        self.stage
            .send(Event::container(key, ContainerChange::Started { name }));
        created
    }

    fn next_run(&mut self, name: &str) -> String {
        let runs = self.runs.entry(name.to_owned()).or_default();
        *runs += 1;
        format!("{name}.{}", *runs - 1)
    }

    fn newest(&self, name: &str) -> String {
        format!("{name}.{}", self.runs[name] - 1)
    }

    fn id_of_newest(&self, name: &str) -> ContainerId {
        id(&self.newest(name))
    }

    fn end(&mut self, name: &str, how: &str) {
        let key = key(&self.newest(name));
        let code = how.strip_prefix("later");
        if how.is_empty() || code.is_some() {
            let exited = Event::container(key.clone(), ContainerChange::Exited);
            self.stage.send(exited);
        }
        let status = match code.unwrap_or(how) {
            "" => return,
            "created" => {
                self.stage
                    .send(Event::container(key.clone(), ContainerChange::NotStarted));
                return self
                    .stage
                    .send(Event::container(key, ContainerChange::Gone));
            }
            "TERM" => ExitStatus::Signal(15),
            "KILL" => ExitStatus::Signal(9),
            code => ExitStatus::Code(code.parse().unwrap()),
        };
        let of = key.clone();
        self.stage
            .send(Event::container(of, ContainerChange::ExitStatus(status)));
        self.stage
            .send(Event::container(key, ContainerChange::Gone));
    }

    fn answer(&mut self, name: &str, what: &str) {
        let run = self.newest(name);
        let outcome = match what {
            "accepted" => Outcome::Accepted,
            "signalled" => Outcome::Signalled,
            "refused" => Outcome::Refused,
            "late" => Outcome::TimedOut,
            "silent" => Outcome::NoReply,
            "over" => Outcome::Gone,
            "started" => {
                let (key, name) = (key(&run), Some(name.to_owned()));
                return self
                    .stage
                    .send(Event::container(key, ContainerChange::Started { name }));
            }
            "executed" => {
                return self
                    .stage
                    .send(Event::container(key(&run), ContainerChange::Executed));
            }
            "gone" => {
                return self
                    .stage
                    .send(Event::container(key(&run), ContainerChange::Gone));
            }
            "opaque" => {
                return self
                    .stage
                    .send(Event::container(key(&run), ContainerChange::Hidden));
            }
            _ => {
                if let Some(version) = what.strip_prefix("version=") {
                    let asked = self.stage.version_queries.contains(&key(&run));
                    assert!(asked, "{name} has not been asked");
                    let (key, version) = (key(&run), Some(version.to_owned()));
                    return self.stage.send(Event::VersionAnswered { key, version });
                }
                Outcome::Rejected(what.parse().unwrap())
            }
        };
        self.stage.outcome(&run, outcome);
    }

    fn change(&mut self, name: &str, value: &str) {
        if name == "terminal" {
            self.stage.spec.terminal = Some(value.to_owned());
            return self.stage.list();
        }
        if name.contains('/') {
            let annotation = (name.to_owned(), value.to_owned());
            self.stage.spec.annotations.extend([annotation]);
            return self.stage.list();
        }
        let (state, run) = match value.split_once('@') {
            Some((state, run)) => (state, Some(run.to_owned())),
            None => (value, self.runs.get(name).map(|_| self.newest(name))),
        };
        let code = state.get(1..).and_then(|code| code.parse().ok());
        let id = run.map(|run| id(&run));
        let last = id.clone().zip(code).map(|(id, code)| Ended { id, code });
        let (state, last, id) = match &state[..1] {
            "R" if last.is_some() => (RunState::Running, last, Some(self.id_of_newest(name))),
            "R" => (RunState::Running, None, id),
            "T" => (RunState::Terminated(code.unwrap()), None, id),
            "L" => {
                let last = Some(self.id_of_newest(name)).map(|id| Ended { id, code: 1 });
                (RunState::Terminated(code.unwrap()), last, id)
            }
            _ => (RunState::Waiting, last, id),
        };
        let mut containers = self.stage.spec.containers.iter_mut();
        let found = containers.find(|found| found.name == name);
        found.unwrap().status = Some(Status { id, state, last });
    }
}
