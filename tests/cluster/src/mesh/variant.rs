//! The Jobs of the mesh: one app that sends one request to the peer at its first instruction, and all its variations.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{NAMESPACE, PEER, QUIT, READY};
use crate::{
    image::catalog::ISTIO_PROXY,
    workload::{app_container, job},
};

/// The port of the peer, for the exclusions in rules and annotations.
const EXCLUDED: &str = "80";

/// The position of the proxy, and whether the app waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// The pod is not injected.
    None,
    /// After the app, as Istio's injector places it without native sidecars.
    Last,
    /// Before the app, which does not wait for it.
    First,
    /// Before the app, which starts when the proxy's `postStart` hook has seen it ready:
    /// `holdApplicationUntilProxyStarts`.
    Awaited,
    /// An init container with `restartPolicy: Always`.
    Native,
}

/// The variants of a user's init container that sends one request to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitCase {
    /// No exclusion.
    Plain,
    /// The peer's port is excluded from capture for the whole pod.
    ExcludedPort,
    /// It runs as the proxy's user, whose connections are not captured.
    ProxyUser,
}

#[derive(Debug, Clone)]
pub struct Variant {
    pub proxy: Proxy,
    /// `Never` or `OnFailure`; `Always` means a Deployment.
    pub restart_policy: &'static str,
    pub init: Option<InitCase>,
    /// The capture rules exist before the user's init container, as with Istio's CNI plugin. Otherwise
    /// they follow it: the injector puts its own init container last, even one that is named first in the pod.
    pub rules_first: bool,
    /// The duration of istiod's stop, from just before the pod's binding. None: no stop.
    pub delay: Option<Duration>,
    /// Additional annotations of the pod.
    pub annotations: Vec<(&'static str, &'static str)>,
    /// Arguments of the app after `--get PEER`.
    pub args: Vec<&'static str>,
    /// A loop around the app's command polls the proxy's readiness at this interval.
    pub wrapper: Option<&'static str>,
    /// The app runs below a parent that requests the proxy to quit afterwards.
    pub has_parent: bool,
}

impl Variant {
    /// With `restartPolicy: Never`, and no other variation.
    #[must_use]
    pub fn new(proxy: Proxy) -> Self {
        Self {
            proxy,
            restart_policy: "Never",
            init: None,
            rules_first: false,
            delay: None,
            annotations: Vec::new(),
            args: Vec::new(),
            wrapper: None,
            has_parent: false,
        }
    }

    /// The kind of the object.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if self.restart_policy == "Always" {
            "Deployment"
        } else {
            "Job"
        }
    }

    /// The object, with an app container named `app`.
    #[must_use]
    pub fn object(&self, name: &str) -> Value {
        let mut job = self.job(name);
        if self.kind() == "Job" {
            return job;
        }
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": job["metadata"].take(),
            "spec": {
                "selector": { "matchLabels": { "app": name } },
                "template": job["spec"]["template"].take(),
            },
        })
    }

    fn job(&self, name: &str) -> Value {
        let mut args = match self.wrapper {
            Some(every) => vec!["--until-ready", READY, every, "/usher-test-app"],
            None => Vec::new(),
        };
        if self.has_parent {
            args.extend(["--then-post", QUIT, "/usher-test-app"]);
        }
        args.extend(["--get", PEER]);
        args.extend(&self.args);
        let mut containers = vec![app_container("app", &args)];
        if self.proxy == Proxy::First {
            containers.push(impatient_proxy());
        }
        let mut job = job(name, NAMESPACE, self.restart_policy, &containers);
        if self.restart_policy == "OnFailure" {
            job["spec"]["backoffLimit"] = json!(6);
        }
        let template = &mut job["spec"]["template"];
        template["metadata"]["labels"]["sidecar.istio.io/inject"] =
            json!((self.proxy != Proxy::None).to_string());
        template["metadata"]["annotations"] = self.annotations();
        if let Some(case) = self.init {
            let mut init = vec![init_container(case)];
            if self.rules_first {
                init.insert(0, rules_container(case));
            }
            template["spec"]["initContainers"] = init.into();
        }
        job
    }

    fn annotations(&self) -> Value {
        let mut annotations = Map::new();
        let native = (self.proxy == Proxy::Native).to_string();
        annotations.insert("sidecar.istio.io/nativeSidecar".into(), native.into());
        if matches!(self.proxy, Proxy::First | Proxy::Awaited) {
            let config = json!({ "holdApplicationUntilProxyStarts": true }).to_string();
            annotations.insert("proxy.istio.io/config".into(), config.into());
        }
        if self.init == Some(InitCase::ExcludedPort) {
            let ports = "traffic.sidecar.istio.io/excludeOutboundPorts";
            annotations.insert(ports.into(), EXCLUDED.into());
        }
        for (name, value) in &self.annotations {
            annotations.insert((*name).to_owned(), (*value).into());
        }
        annotations.into()
    }
}

/// A proxy container that the injector completes, with a hook that does not wait instead of its own.
fn impatient_proxy() -> Value {
    json!({
        "name": "istio-proxy",
        "image": "auto",
        "imagePullPolicy": "Never",
        "lifecycle": { "postStart": { "exec": { "command": ["pilot-agent", "version"] } } },
    })
}

/// Does the work of Istio's init container, which then finds it done.
fn rules_container(case: InitCase) -> Value {
    let excluded = match case {
        InitCase::ExcludedPort => EXCLUDED,
        InitCase::Plain | InitCase::ProxyUser => "",
    };
    json!({
        "name": "rules",
        "image": ISTIO_PROXY,
        "imagePullPolicy": "Never",
        "args": [
            "istio-iptables", "-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*",
            "-d", "15090,15021,15020", "-o", excluded,
        ],
        "securityContext": {
            "capabilities": { "add": ["NET_ADMIN", "NET_RAW"] },
            "runAsUser": 0,
            "runAsGroup": 0,
        },
    })
}

fn init_container(case: InitCase) -> Value {
    let mut container = app_container("user-init", &["--get", PEER]);
    if case == InitCase::ProxyUser {
        container["securityContext"] = json!({ "runAsUser": 1337, "runAsGroup": 1337 });
    }
    container
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_injected_pods_request_injection() {
        for (proxy, label) in [(Proxy::None, "false"), (Proxy::Last, "true")] {
            let job = Variant::new(proxy).object("job");
            let labels = &job["spec"]["template"]["metadata"]["labels"];
            assert_eq!(labels["sidecar.istio.io/inject"], label);
            assert_eq!(labels["app"], "job");
        }
    }

    #[test]
    fn deployment_selects_its_own_pods() {
        let variant = Variant {
            restart_policy: "Always",
            ..Variant::new(Proxy::First)
        };
        let object = variant.object("app");
        let template = &object["spec"]["template"];
        assert_eq!(object["kind"], "Deployment");
        assert_eq!(object["spec"]["selector"]["matchLabels"]["app"], "app");
        assert_eq!(template["metadata"]["labels"]["app"], "app");
        assert_eq!(template["spec"]["restartPolicy"], "Always");
    }

    #[test]
    fn awaited_proxy_sets_hold_application_until_proxy_starts() {
        let annotations = Variant::new(Proxy::Awaited).annotations();
        assert_eq!(
            annotations["proxy.istio.io/config"],
            "{\"holdApplicationUntilProxyStarts\":true}"
        );
        assert_eq!(annotations["sidecar.istio.io/nativeSidecar"], "false");
    }
}
