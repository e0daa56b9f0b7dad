//! Pods from public issues and charts, with stand-ins for their sidecars, all at once: `field/cases.yaml` has them and what
//! usher has to make of each.

mod check;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use usher_cluster::{image::catalog::APP, workload::job};

use crate::lab::{self, Lab};

const CASES: &str = include_str!("field/cases.yaml");
/// Longer than the longest case takes while all others run.
const PATIENCE: Duration = Duration::from_secs(400);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    #[serde(rename = "source")]
    _source: String,
    #[serde(default)]
    annotations: Map<String, Value>,
    /// Fields of the pod's spec.
    #[serde(default)]
    pod: Map<String, Value>,
    #[serde(default)]
    init: Vec<Map<String, Value>>,
    containers: Vec<Map<String, Value>>,
    #[serde(default)]
    unreported: Vec<String>,
    #[serde(default)]
    released: Option<String>,
    wanted: Wanted,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wanted {
    Completes(Vec<String>),
    Connects(u16),
    Starts,
    Explained {
        findings: Vec<String>,
        says: Vec<String>,
    },
}

/// A container as the API wants it: a stand-in, or the test application.
fn container(fields: &Map<String, Value>) -> Value {
    let mut container = fields.clone();
    let does = container.remove("does");
    container.entry("image").or_insert_with(|| json!(APP));
    container.insert("imagePullPolicy".to_owned(), json!("Never"));
    if let Some(does) = does {
        let variables = container.entry("env").or_insert_with(|| json!([]));
        let stand_in = json!({"name": "STAND_IN", "value": does});
        variables.as_array_mut().unwrap().push(stand_in);
    }
    Value::Object(container)
}

impl Case {
    fn job(&self, namespace: &str) -> Value {
        let containers: Vec<Value> = self.containers.iter().map(container).collect();
        let mut job = job(&self.case, namespace, "Never", &containers);
        let template = &mut job["spec"]["template"];
        for (key, value) in &self.annotations {
            template["metadata"]["annotations"][key] = value.clone();
        }
        for (key, value) in &self.pod {
            template["spec"][key] = value.clone();
        }
        let init: Vec<Value> = self.init.iter().map(container).collect();
        template["spec"]["initContainers"] = json!(init);
        job
    }

    /// The images of its stand-ins.
    fn images(&self) -> impl Iterator<Item = &str> {
        let containers = self.init.iter().chain(&self.containers);
        let stand_ins = containers.filter(|container| container.contains_key("does"));
        stand_ins.filter_map(|container| container.get("image")?.as_str())
    }
}

/// Gives the test application the names of the sidecars' images.
fn tag_images(lab: &Lab, cases: &[Case]) {
    let images: BTreeSet<&str> = cases.iter().flat_map(Case::images).collect();
    for image in images {
        let tag = [
            "ctr", "-n", "k8s.io", "images", "tag", "--force", APP, image,
        ];
        lab.cluster.in_node(&tag).unwrap();
    }
}

#[test]
fn pods_from_the_field() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let lab: &'static Lab = &lab;
    let cases: Vec<Case> = serde_saphyr::from_str(CASES).unwrap();
    let namespace = lab.namespace("field");
    tag_images(lab, &cases);
    for case in &cases {
        lab.cluster.apply(&case.job(&namespace)).unwrap();
    }
    let begun = Instant::now();
    let mut pending: BTreeMap<&str, String> = cases
        .iter()
        .map(|case| (&case.case[..], "not observed".to_owned()))
        .collect();
    while !pending.is_empty() && begun.elapsed() < PATIENCE {
        let observed = check::Observed::of(lab, &namespace);
        for case in &cases {
            if !pending.contains_key(&case.case[..]) {
                continue;
            }
            match observed.check(case) {
                Ok(()) => {
                    let seconds = begun.elapsed().as_secs_f64();
                    eprintln!("{}: as wanted after {seconds:.1} s", case.case);
                    pending.remove(&case.case[..]);
                }
                Err(why) => {
                    pending.insert(&case.case, why);
                }
            }
        }
    }
    assert!(pending.is_empty(), "{pending:#?}");
}
