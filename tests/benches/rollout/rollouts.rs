//! Rolling restarts under load.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use usher_tests::record::{Limit, Record, Sample};

use crate::{
    Effort,
    arm::{Arm, PORT, Proxy},
    client::{Client, Counts},
    place::Place,
};

const PODS: u32 = 4;
/// A restart of the pods on a busy machine.
const LIMIT: &str = "--timeout=300s";

struct Row {
    arm: Arm,
    /// From the restart until the last old pod is gone.
    times: Sample,
    /// By a client in the mesh, if there is one, and by one outside of it.
    clients: Vec<(&'static str, Counts)>,
}

impl Row {
    fn failed(&self) -> u32 {
        self.clients.iter().map(|(_, counts)| counts.failed).sum()
    }
}

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    let sets = [
        ("Istio", "mesh", Arm::meshed()),
        ("no mesh", "bare", Arm::bare()),
    ];
    for (title, key, arms) in sets {
        let rows: Vec<Row> = arms
            .into_iter()
            .map(|arm| run(place, arm, effort))
            .collect();
        report(record, title, key, &rows, effort);
    }
}

fn report(record: &mut Record, title: &str, key: &str, rows: &[Row], effort: &Effort) {
    let rate = effort.rate;
    record.section(&format!(
        "restart of {PODS} pods -> the last old pod is gone, {title}, {rate} requests a second of each client"
    ));
    rows.iter()
        .for_each(|row| record.times(&row.arm.title, &row.times));
    for row in rows {
        for (client, counts) in &row.clients {
            let what = format!(
                "{}: failed of {} from {client}, requests",
                row.arm.title, counts.sent
            );
            record.figure(&what, counts.failed.into());
        }
    }
    let [plain, sleep, .., usher] = rows else {
        return;
    };
    let failed = usher.failed().into();
    record
        .limit(
            &format!("rollout.failed.{key}"),
            &format!("{}, failed requests", usher.arm.title),
            failed,
            Limit::AtMost(0.0),
        )
        .against(&plain.arm.title, plain.failed().into());
    let added = |row: &Row| row.times.quantile_ms(0.5) - plain.times.quantile_ms(0.5);
    record.limit(
        &format!("rollout.added.{key}"),
        "time that usher adds / time that sleep 15 adds, p50",
        added(usher) / added(sleep),
        Limit::AtMost(0.5),
    );
}

fn run(place: &Place, arm: Arm, effort: &Effort) -> Row {
    let deployment = Deployment::create(place, &arm);
    let url = deployment.address();
    let client = |name, proxy| Client::begin(place, name, proxy, &url, effort.rate);
    let outside = client("outside", Proxy::None);
    let inside = (arm.proxy != Proxy::None).then(|| client("inside", Proxy::Regular));
    let mut times = Sample::default();
    for number in 0..effort.rollouts {
        let took = deployment.restart();
        println!("{}, restart {number}: {took:.1?}", arm.title);
        times.add(took);
    }
    let inside = inside.map(|client| ("a client in the mesh", client.counts()));
    let outside = ("a client outside of a mesh", outside.counts());
    let clients: Vec<_> = inside.into_iter().chain([outside]).collect();
    println!("{}: {clients:?}", arm.title);
    Row {
        arm,
        times,
        clients,
    }
}

/// Existing pods and their Service, removed on drop.
struct Deployment<'place> {
    place: &'place Place,
    name: &'static str,
}

impl<'place> Deployment<'place> {
    fn create(place: &'place Place, arm: &Arm) -> Self {
        let metadata = json!({ "name": arm.name, "namespace": place.namespace });
        let selector = json!({ "app": arm.name });
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": { "selector": selector, "ports": [{ "name": "http", "port": 80, "targetPort": PORT }] },
        });
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": PODS,
                "selector": { "matchLabels": selector },
                "template": arm.template(arm.server()),
            },
        });
        for object in [service, deployment] {
            place.cluster.apply(&object).unwrap();
        }
        let deployment = Self {
            place,
            name: arm.name,
        };
        deployment.wait_rollout();
        deployment
    }

    /// Address and port of the Service.
    fn address(&self) -> String {
        let service = self.get(&["service", self.name]);
        format!("{}:80", service["spec"]["clusterIP"].as_str().unwrap())
    }

    /// Replaces all pods, and returns the time until the last old one is gone.
    fn restart(&self) -> Duration {
        let old = self.pods();
        let begun = Instant::now();
        self.kubectl(&["rollout", "restart", &self.object()]);
        self.wait_rollout();
        let mut gone = vec!["wait", "--for=delete", LIMIT];
        gone.extend(old.iter().map(String::as_str));
        self.kubectl(&gone);
        begun.elapsed()
    }

    fn wait_rollout(&self) {
        self.kubectl(&["rollout", "status", &self.object(), LIMIT]);
    }

    fn object(&self) -> String {
        format!("deployment/{}", self.name)
    }

    fn pods(&self) -> Vec<String> {
        let selector = format!("app={}", self.name);
        let pods = self.kubectl(&["get", "pods", "-l", &selector, "-o", "name"]);
        pods.lines().map(str::to_owned).collect()
    }

    fn get(&self, what: &[&str]) -> Value {
        let get = ["-n", &self.place.namespace, "get"];
        self.place
            .cluster
            .kubectl_json(&[&get[..], what].concat())
            .unwrap()
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let namespace = ["-n", &self.place.namespace];
        self.place
            .cluster
            .kubectl(&[&namespace[..], args].concat())
            .unwrap()
    }
}

impl Drop for Deployment<'_> {
    fn drop(&mut self) {
        let objects = [self.object(), format!("service/{}", self.name)];
        let delete = [
            "-n",
            &self.place.namespace,
            "delete",
            &objects[0],
            &objects[1],
        ];
        // The cluster may be gone.
        self.place
            .cluster
            .kubectl(&[&delete[..], &["--wait=false"]].concat())
            .ok();
    }
}
