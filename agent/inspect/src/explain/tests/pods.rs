//! Pods as the kubelet lists them, with the relevant fields only. Times are seconds before the present.

use std::net::SocketAddr;

use serde_json::{Value, json};
use usher_core::{
    admin::Modes,
    base::id::Pid,
    decision::timeline::{Detail, Entry},
    hold::Released,
    node::socket::{Protocol, Socket, State},
    pod::list,
    recipe::Version,
    settings::{config::Config, mode::Mode, overrides::NamespaceValues},
};

use crate::explain::{Case, Explanation, Facts, OnTerm, Process, Seen, explain, write_time};

/// The present of all tests.
pub(super) const NOW_MS: u64 = 1_795_306_205_000;
pub(super) const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

/// The modes of a Node that was read.
pub(super) fn known() -> Modes {
    Modes {
        known: true,
        ..Modes::default()
    }
}

/// A pod, and the node's data about it.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) pod: Value,
    pub(super) seen: Seen,
}

pub(super) fn time(ago: u64) -> String {
    write_time(NOW_MS - ago * 1000)
}

/// A container with the additional fields `more`.
pub(super) fn proxy(name: &str, image: &str, more: Value) -> Value {
    let mut container = json!({"name": name, "image": image});
    if let (Some(container), Value::Object(more)) = (container.as_object_mut(), more) {
        container.extend(more);
    }
    container
}

pub(super) fn app(more: Value) -> Value {
    proxy("app", "registry.example/report:1", more)
}

pub(super) fn istio(more: Value) -> Value {
    let mut proxy = proxy("istio-proxy", "registry.example/istio/proxyv2:1.26.2", more);
    proxy["args"] = json!(["proxy", "sidecar"]);
    proxy
}

/// A Job's pod of these containers.
pub(super) fn job(containers: &[Value]) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": "report", "uid": UID, "creationTimestamp": time(61),
            "ownerReferences": [{"kind": "Job", "name": "report", "controller": true}],
        },
        "spec": {"nodeName": "node-1", "restartPolicy": "Never", "containers": containers},
        "status": {"phase": "Running", "startTime": time(60)},
    })
}

/// The same pod with Istio's proxy as a native sidecar.
pub(super) fn native(containers: &[Value]) -> Value {
    let mut pod = job(containers);
    let mut proxy = istio(json!({"restartPolicy": "Always"}));
    proxy["image"] = json!("registry.example/istio/proxyv2:1.27.0");
    pod["spec"]["initContainers"] = json!([proxy]);
    pod
}

fn socket(state: State, uid: u32, port: u16, peer: SocketAddr) -> Socket {
    Socket {
        protocol: Protocol::Tcp,
        state,
        local: ([0; 4], port).into(),
        peer,
        both_families: false,
        interface: 0,
        receive_queue: 0,
        send_queue: 0,
        uid,
        inode: 1,
        cookie: 1,
        cgroup: 0,
        timer: None,
        retransmits: 1,
        rtt: None,
        all_retransmits: None,
        drops: None,
        received: None,
    }
}

fn placeholder(place: usize) -> String {
    format!("\u{1}{place}\u{1}")
}

/// Replaces each placeholder by its text.
fn restore(value: &mut Value, texts: &[String]) {
    match value {
        Value::String(string) => {
            for (place, text) in texts.iter().enumerate() {
                *string = string.replace(&placeholder(place), text);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| restore(value, texts)),
        Value::Object(values) => values.values_mut().for_each(|value| restore(value, texts)),
        _ => {}
    }
}

/// Connections that were refused before the sidecar was ready.
pub(super) fn would_hold(connections: u64) -> Detail {
    Detail::WouldHold {
        held_ms: Some(300),
        connections: Some(connections),
    }
}

pub(super) fn released(cause: Released, connections: u64) -> Detail {
    Detail::HoldReleased {
        cause: Some(cause),
        held_ms: Some(30_000),
        connections: Some(connections),
    }
}

pub(super) const ARMED: Detail = Detail::HoldArmed {
    ports: Vec::new(),
    deadline_ms: None,
};

pub(super) const QUIT_ACCEPTED: Detail = Detail::QuitAccepted { exit_code: Some(0) };

impl Scenario {
    pub(super) fn new(pod: Value) -> Self {
        let mode = Mode::Observe;
        let seen = Seen {
            now_ms: NOW_MS,
            modes: Some(Modes {
                quit: mode,
                hold: mode,
                ..known()
            }),
            ..Seen::default()
        };
        Self { pod, seen }
    }

    /// Explains the pod, and asserts that the explanation does not depend on display text.
    pub(super) fn explain(&self) -> Explanation {
        let explanation = self.explain_once();
        let (reworded, texts) = self.reworded();
        let mut other = serde_json::to_value(reworded.explain_once()).unwrap();
        restore(&mut other, &texts);
        let expected = serde_json::to_value(&explanation).unwrap();
        assert_eq!(other, expected, "a text for people decides");
        explanation
    }

    /// The same scenario with every display text replaced by a placeholder, and the texts.
    fn reworded(&self) -> (Self, Vec<String>) {
        let mut scenario = self.clone();
        let mut texts = Vec::new();
        for entry in scenario.seen.timeline.iter_mut().flatten() {
            texts.push(std::mem::replace(
                &mut entry.reason,
                placeholder(texts.len()),
            ));
        }
        let status = &mut scenario.pod["status"];
        if status.is_object() {
            status["message"] = json!("the sidecar is not ready at the deadline");
        }
        for list in ["initContainerStatuses", "containerStatuses"] {
            let containers = status.get_mut(list).and_then(Value::as_array_mut);
            for one in containers.into_iter().flatten() {
                for key in ["state", "lastState"] {
                    let states = one.get_mut(key).and_then(Value::as_object_mut);
                    for (_, state) in states.into_iter().flatten() {
                        state["message"] = json!("the sidecar is not ready at the deadline");
                    }
                }
            }
        }
        (scenario, texts)
    }

    fn explain_once(&self) -> Explanation {
        let list = json!({"items": [self.pod]}).to_string();
        let config = Config::default();
        let read = list::parse(list.as_bytes(), &config.reads()).unwrap();
        let pod = read
            .pods
            .first()
            .unwrap_or_else(|| panic!("the pod is invalid: {read:?}"));
        let facts = Facts::parse(&self.pod);
        explain(&Case::new(
            pod,
            &facts,
            &self.seen,
            &config,
            &NamespaceValues::default(),
        ))
    }

    /// The status of a container; adds it if it is missing.
    fn status(&mut self, name: &str) -> &mut Value {
        let inits = self.pod["spec"]["initContainers"]
            .as_array()
            .into_iter()
            .flatten();
        let is_init = inits.into_iter().any(|init| init["name"] == name);
        let key = if is_init {
            "initContainerStatuses"
        } else {
            "containerStatuses"
        };
        let list = &mut self.pod["status"][key];
        if list.is_null() {
            *list = json!([]);
        }
        let list = list.as_array_mut().unwrap();
        let at = list
            .iter()
            .position(|status| status["name"] == name)
            .unwrap_or_else(|| {
                list.push(json!({"name": name, "restartCount": 0, "state": {}, "lastState": {}}));
                list.len() - 1
            });
        &mut list[at]
    }

    pub(super) fn running(mut self, name: &str, since: u64) -> Self {
        let status = self.status(name);
        status["state"] = json!({"running": {"startedAt": time(since)}});
        status["ready"] = json!(true);
        self
    }

    pub(super) fn ended(mut self, name: &str, began: u64, ended: u64, code: i32) -> Self {
        let status = self.status(name);
        status["state"] = json!({"terminated": {
            "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
            "startedAt": time(began), "finishedAt": time(ended),
        }});
        status["ready"] = json!(false);
        self
    }

    /// Restarts a container after its current run.
    pub(super) fn restarted(mut self, name: &str, since: u64) -> Self {
        let status = self.status(name);
        status["lastState"] = status["state"].take();
        status["restartCount"] = json!(1);
        self.running(name, since)
    }

    /// Kills a container, and restarts it.
    pub(super) fn killed(self, name: &str, code: i32) -> Self {
        self.ended(name, 40, 20, code)
            .restarted(name, 19)
            .policy("Always")
    }

    pub(super) fn unready(mut self, name: &str) -> Self {
        self.status(name)["ready"] = json!(false);
        self
    }

    pub(super) fn policy(mut self, policy: &str) -> Self {
        self.pod["spec"]["restartPolicy"] = json!(policy);
        self
    }

    pub(super) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.pod["metadata"]["annotations"][key] = json!(value);
        self
    }

    pub(super) fn deadline(mut self, seconds: u64) -> Self {
        self.pod["spec"]["activeDeadlineSeconds"] = json!(seconds);
        self
    }

    pub(super) fn reason(mut self, phase: &str, reason: &str) -> Self {
        self.pod["status"]["phase"] = json!(phase);
        self.pod["status"]["reason"] = json!(reason);
        self
    }

    pub(super) fn shared(mut self) -> Self {
        self.pod["spec"]["shareProcessNamespace"] = json!(true);
        self
    }

    pub(super) fn mode(mut self, mode: Mode) -> Self {
        self.seen.modes = Some(Modes {
            quit: mode,
            hold: mode,
            ..known()
        });
        self
    }

    pub(super) fn kubelet(mut self, version: Version) -> Self {
        self.seen.kubelet = Some(version);
        self
    }

    pub(super) fn process(
        mut self,
        container: &str,
        own_pid: i32,
        name: &str,
        words: &[&str],
        on_term: OnTerm,
    ) -> Self {
        self.seen.processes.get_or_insert_default().push(Process {
            container: container.to_owned(),
            pid: Pid(1000 + own_pid),
            own_pid,
            name: name.to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            on_term,
        });
        self
    }

    pub(super) fn listening(mut self, ports: &[u16]) -> Self {
        let listener = |port: &u16| socket(State::Listen, 0, *port, ([0; 4], 0).into());
        self.seen.sockets = Some(ports.iter().map(listener).collect());
        self
    }

    pub(super) fn connecting(mut self, user: u32, to: [u8; 4]) -> Self {
        let socket = socket(State::SynSent, user, 40_000, (to, 80).into());
        self.seen.sockets.get_or_insert_default().push(socket);
        self
    }

    pub(super) fn decided(mut self, ago: u64, detail: Detail, reason: &str) -> Self {
        self.seen.timeline.get_or_insert_default().push(Entry {
            at_ms: NOW_MS - ago * 1000,
            uid: UID.to_owned(),
            pod: "shop/report".to_owned(),
            detail,
            container: None,
            reason: reason.to_owned(),
            since_exit_ms: None,
        });
        self
    }
}
