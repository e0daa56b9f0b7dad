//! The running agent compared with the reference.

use std::collections::{BTreeMap, BTreeSet};

use usher_core::metric::{self, Kind, Metric};
use usher_tests::privilege;
use usher_tests::synthetic::{Agent, Node, PodSpec};

use crate::promtool::{passes, promtool};

/// The labels of one series, with their values.
type Labels = BTreeMap<String, String>;

/// One metric family of a text.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    samples: BTreeSet<Labels>,
}

/// The families of a text in Prometheus' format; each sample belongs to the preceding family.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            last = name.to_owned();
            families.entry(last.clone()).or_default().help = help.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, last);
            families.get_mut(name).unwrap().kind = kind.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            assert!(name.starts_with(&last), "{line} after {last}");
            let labels = labels.strip_suffix('}').unwrap();
            let labels = labels.split(',').filter(|label| !label.is_empty());
            let labels = labels.map(|label| {
                let (key, value) = label.split_once('=').unwrap();
                (key.to_owned(), value.trim_matches('"').to_owned())
            });
            let labels = labels.filter(|(key, _)| key != "le").collect();
            families.get_mut(&last).unwrap().samples.insert(labels);
        }
    }
    families
}

fn series(metric: &Metric) -> BTreeSet<Labels> {
    let mut all = vec![Labels::new()];
    for label in metric.labels {
        let with = |labels: &Labels, value: &str| {
            let mut labels = labels.clone();
            labels.insert(label.key.to_owned(), value.to_owned());
            labels
        };
        let values = |labels: Labels| label.values.iter().map(move |value| with(&labels, value));
        all = all.into_iter().flat_map(values).collect();
    }
    all.into_iter().collect()
}

/// An agent after events of all kinds.
fn busy(node: &Node) -> Agent {
    node.annotate(&[("usher.dev/mode", "enforce")]);
    let agent = Agent::start(node);
    let pod = node.run(&PodSpec::job("counted"));
    pod.finish("app", 0);
    agent.wait_for("sidecar-ended", &pod.name());
    agent.wait_metric("usher_quit_attempts_total", "accepted", |count| count > 0.5);
    agent
}

#[test]
fn running_agent_serves_exactly_the_reference() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let agent = busy(&node);
    let families = families(&agent.metrics());
    let names: BTreeSet<&str> = families.keys().map(String::as_str).collect();
    assert_eq!(names, metric::all().map(|metric| metric.name).collect());
    for metric in metric::all() {
        let family = &families[metric.name];
        assert_eq!(family.kind, metric.kind.into_str(), "{}", metric.name);
        assert_eq!(family.help, format!("{}.", metric.meaning));
        assert_eq!(family.samples, series(metric), "{}", metric.name);
    }
}

#[test]
fn buckets_match_the_reference() {
    if !privilege::granted() {
        return;
    }
    let text = busy(&Node::new()).metrics();
    for metric in metric::all().filter(|metric| metric.kind == Kind::Histogram) {
        let start = format!("{}_bucket{{le=\"", metric.name);
        let buckets = text.lines().filter_map(|line| line.strip_prefix(&start));
        let bounds: Vec<&str> = buckets.filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(bounds.len(), usize::from(metric::BUCKETS) + 1);
        assert_eq!((bounds[0], bounds[18]), ("0.00025", "65.536"));
    }
}

#[test]
fn own_process_is_measured() {
    if !privilege::granted() {
        return;
    }
    let agent = busy(&Node::new());
    let of = |name: &str| agent.metric(name, "");
    assert!(of("process_resident_memory_bytes") > 1e6);
    assert!(of("process_open_fds") > 3.0 && of("process_open_fds") < of("process_max_fds"));
    assert!(of("process_cpu_seconds_total") < 60.0);
    assert!((of("usher_ready") - 1.0).abs() < f64::EPSILON);
}

#[test]
fn promtool_accepts_the_metrics() {
    let Some(promtool) = promtool() else {
        return;
    };
    if !privilege::granted() {
        return;
    }
    let text = busy(&Node::new()).metrics();
    passes(&promtool, &["check", "metrics"], &text);
}
