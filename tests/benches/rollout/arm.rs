//! The ways to end a pod, and the pods.

use serde_json::{Map, Value, json};
use usher_cluster::workload::app_container;

/// The port of the app.
pub(crate) const PORT: u16 = 8080;
/// The sleep that users add against failed requests, in seconds.
const SLEEP: u32 = 15;
const GRACE: u32 = 60;
const LINGER: (&str, &str) = ("usher.dev/linger", "true");
/// The counterpart of `preStop: sleep`.
const FIXED: (&str, &str) = ("usher.dev/pre-stop", "5s");
/// Settings of one pod's proxy.
const PROXY_CONFIG: &str = "proxy.istio.io/config";
/// What pilot-agent does without a setting, and longer than any app of these works.
const DRAINS: [&str; 2] = [
    "terminationDrainDuration: 5s",
    "terminationDrainDuration: 60s",
];
/// Until clients send nothing.
const AUTO: (&str, &str) = ("usher.dev/pre-stop", "auto");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proxy {
    None,
    Regular,
    Native,
}

#[derive(Debug, Clone)]
pub(crate) struct Arm {
    /// For people.
    pub(crate) title: String,
    /// The name of its objects.
    pub(crate) name: &'static str,
    pub(crate) proxy: Proxy,
    sleeps: bool,
    /// Whether usher manages the pods.
    pub(crate) is_managed: bool,
    annotations: Vec<(&'static str, &'static str)>,
}

impl Arm {
    fn new(name: &'static str, title: &str, proxy: Proxy) -> Self {
        Self {
            title: title.to_owned(),
            name,
            proxy,
            sleeps: false,
            is_managed: false,
            annotations: Vec::new(),
        }
    }

    fn sleeps(mut self) -> Self {
        self.sleeps = true;
        self
    }

    /// The time for which pilot-agent drains after its stop signal.
    fn drains(mut self, setting: &'static str) -> Self {
        self.annotations.push((PROXY_CONFIG, setting));
        self
    }

    fn with_usher(mut self, annotations: &[(&'static str, &'static str)]) -> Self {
        self.is_managed = true;
        self.annotations.extend(annotations);
        self
    }

    /// With Istio's sidecar. The first is plain, the second sleeps, and the last has a budget.
    pub(crate) fn meshed() -> Vec<Self> {
        let [fixed, auto] =
            [FIXED, AUTO].map(|(_key, value)| format!("usher, linger and pre-stop: {value}"));
        vec![
            Self::new("plain", "Istio", Proxy::Regular),
            Self::new("sleep", "Istio, preStop: sleep 15", Proxy::Regular).sleeps(),
            Self::new("native", "Istio, native sidecar", Proxy::Native),
            Self::new("native-sleep", "the same, preStop: sleep 15", Proxy::Native).sleeps(),
            Self::new("linger", "usher, linger", Proxy::Regular).with_usher(&[LINGER]),
            Self::new("fixed", &fixed, Proxy::Regular).with_usher(&[LINGER, FIXED]),
            Self::new("auto", &auto, Proxy::Regular).with_usher(&[LINGER, AUTO]),
        ]
    }

    /// Without a mesh, in the same order.
    pub(crate) fn bare() -> Vec<Self> {
        let [fixed, auto] = [FIXED, AUTO].map(|(_key, value)| format!("usher, pre-stop: {value}"));
        vec![
            Self::new("bare", "no mesh", Proxy::None),
            Self::new("bare-sleep", "no mesh, preStop: sleep 15", Proxy::None).sleeps(),
            Self::new("bare-fixed", &fixed, Proxy::None).with_usher(&[FIXED]),
            Self::new("bare-auto", &auto, Proxy::None).with_usher(&[AUTO]),
        ]
    }

    /// Pods that are deleted one by one. The first has a budget, and the second has no sidecar.
    pub(crate) fn deleted() -> Vec<Self> {
        vec![
            Self::new("usher", "usher", Proxy::Regular).with_usher(&[]),
            Self::new("bare", "no sidecar", Proxy::None),
            Self::new("plain", "Istio", Proxy::Regular),
            Self::new("native", "Istio, native sidecar", Proxy::Native),
        ]
    }

    /// Pods of apps that work on and call a service: the first is plain, and those with usher have a budget.
    pub(crate) fn calling() -> Vec<Self> {
        let [short, long] = DRAINS;
        let title = |of: &str, setting| format!("{of}, {setting}");
        vec![
            Self::new("plain", &title("Istio", short), Proxy::Regular).drains(short),
            Self::new("plain-long", &title("Istio", long), Proxy::Regular).drains(long),
            Self::new("native", "Istio, native sidecar", Proxy::Native),
            Self::new("linger", &title("usher, linger", short), Proxy::Regular)
                .drains(short)
                .with_usher(&[LINGER]),
            Self::new("linger-long", &title("usher, linger", long), Proxy::Regular)
                .drains(long)
                .with_usher(&[LINGER]),
        ]
    }

    /// An app that serves, and ends at once on its stop signal.
    pub(crate) fn server(&self) -> Value {
        let port = PORT.to_string();
        let mut app = app_container("app", &["--serve", &port, "--term-code", "0"]);
        if self.sleeps {
            app["lifecycle"] = json!({ "preStop": { "sleep": { "seconds": SLEEP } } });
        }
        app
    }

    /// A pod without an owner.
    pub(crate) fn pod(&self, namespace: &str, name: &str, app: Value) -> Value {
        let mut pod = self.template(app);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["namespace"] = json!(namespace);
        pod
    }

    /// Metadata and spec of its pods. The app serves at [`PORT`].
    pub(crate) fn template(&self, mut app: Value) -> Value {
        app["readinessProbe"] =
            json!({ "httpGet": { "path": "/", "port": PORT }, "periodSeconds": 1 });
        let mut annotations = metadata_annotations(self.proxy);
        annotations.insert("usher.dev/quit".into(), json!(self.is_managed.to_string()));
        for (key, value) in &self.annotations {
            annotations.insert((*key).into(), json!(value));
        }
        json!({
            "metadata": { "labels": labels(self.name, self.proxy), "annotations": annotations },
            "spec": { "terminationGracePeriodSeconds": GRACE, "containers": [app] },
        })
    }
}

/// Whether and how the injector adds the proxy. usher holds no connections of the pod.
pub(crate) fn metadata_annotations(proxy: Proxy) -> Map<String, Value> {
    let native = (proxy == Proxy::Native).to_string();
    let hold = ("usher.dev/hold".to_owned(), json!("false"));
    let native = ("sidecar.istio.io/nativeSidecar".to_owned(), json!(native));
    Map::from_iter([hold, native])
}

pub(crate) fn labels(name: &str, proxy: Proxy) -> Value {
    let inject = (proxy != Proxy::None).to_string();
    json!({ "app": name, "sidecar.istio.io/inject": inject })
}
