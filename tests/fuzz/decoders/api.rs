//! Responses of the kubelet and the API server.

use std::{collections::BTreeMap, str, sync::LazyLock, time::Duration};

use serde_json::Value;
use usher_core::{
    node::taint,
    pod::list::{self, Reader, Selection},
    recipe::Reads,
    settings::{
        annotation,
        config::{Config, Defaults},
        mode::{DefaultModes, NodeModes, NodeValues},
        overrides::{NamespaceValues, Tuning, Values},
    },
};
use usher_inspect::explain::{self, Case, Facts, Seen};

/// The kubelet's pod list.
pub(super) fn podlist(bytes: &[u8]) -> bool {
    static READS: LazyLock<Reads> = LazyLock::new(|| Config::default().reads());
    let Ok(list) = list::parse(bytes, &*READS) else {
        return false;
    };
    // A list arrives in chunks of any size.
    let mut reader = Reader::new(Selection::from(&*READS));
    for chunk in bytes.chunks(1 + bytes.len() % 7) {
        reader.read(chunk).expect("the list is valid");
    }
    let chunked = reader.finish().expect("the list is complete");
    assert_eq!(chunked.pods, list.pods);
    assert_eq!(chunked.skipped_counts, list.skipped_counts);
    for container in list.pods.iter().flat_map(|pod| &pod.containers) {
        assert!(container.probes.len() <= 2);
        for probe in &container.probes {
            assert!(probe.period >= Duration::from_secs(1) && probe.failures >= 1);
        }
    }
    !list.pods.is_empty()
}

/// Annotations of Nodes, Namespaces and pods. A line is a place (`node`, `namespace`, `label`, else the pod), the key
/// behind our prefix, and the value.
pub(super) fn annotations(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    let mut places: BTreeMap<&str, Values> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let place = words.next().unwrap_or_default();
        let (Some(key), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        let key = format!("{}{key}", annotation::PREFIX);
        places
            .entry(place)
            .or_default()
            .insert(key, value.to_owned());
    }
    let mut of = |place: &str| places.remove(place).unwrap_or_default();
    let node = NodeValues {
        annotations: of("node"),
        labels: of("node-label"),
    };
    let modes = NodeModes::resolve(DefaultModes::default(), &node);
    assert!(modes.invalid.len() <= 6);
    let namespace = NamespaceValues {
        annotations: of("namespace"),
        labels: of("label"),
    };
    let (tuning, bad) = Tuning::read(&Defaults::default(), &namespace, &of("pod"));
    let longest = Duration::from_secs(600);
    assert!(tuning.quit_delay <= longest && tuning.drain <= longest);
    assert!((Duration::from_secs(1)..=longest).contains(&tuning.hold_deadline));
    assert!(tuning.named.len() <= 32);
    let ports: Vec<u16> = tuning.hold_ports.into_values().flatten().collect();
    assert!(ports.len() <= 16 && !ports.contains(&0), "{ports:?}");
    assert!(bad.iter().all(|bad| bad.value.chars().count() <= 64));
    !places.is_empty() || bad.is_empty()
}

/// A pod in the kubelet's list, and the output of `usher explain` for it.
pub(super) fn facts(bytes: &[u8]) -> bool {
    static CONFIG: LazyLock<(Config, Reads)> = LazyLock::new(|| {
        let config = Config::default();
        let reads = config.reads();
        (config, reads)
    });
    let (config, reads) = &*CONFIG;
    let Ok(list) = list::parse(bytes, reads) else {
        return false;
    };
    let selection = Selection {
        documents: list.pods.iter().map(|pod| pod.uid.clone()).collect(),
        ..Selection::from(reads)
    };
    let Ok(list) = list::parse(bytes, selection) else {
        panic!("the list was valid");
    };
    let (seen, namespace) = (Seen::default(), NamespaceValues::default());
    let mut is_explained = false;
    for pod in &list.pods {
        let Some(facts) = list
            .documents
            .get(&pod.uid)
            .and_then(|pod| Facts::read(pod))
        else {
            continue;
        };
        let case = Case::new(pod, &facts, &seen, config, &namespace);
        let findings = explain::diagnose(&case);
        let explanation = explain::explain(&case);
        assert_eq!(explanation.findings.len(), findings.len());
        let _needed = explain::needs_kubelet_version(&facts);
        is_explained = true;
    }
    is_explained
}

/// The taints of the Node.
pub(super) fn taint(bytes: &[u8]) -> bool {
    const KEY: &str = "usher.dev/starting";
    let Ok(Value::Array(taints)) = serde_json::from_slice(bytes) else {
        return false;
    };
    let is_ours = |taint: &&Value| taint["key"] == KEY;
    let ours = taints.iter().filter(is_ours).count();
    let Some(removal) = taint::removal(KEY, &taints) else {
        assert_eq!(ours, 0);
        return false;
    };
    assert_eq!(removal.taints.len(), ours);
    let (test, change) = (&removal.patch[0], &removal.patch[1]);
    assert_eq!(test["value"], Value::Array(taints.clone()));
    let left = change["value"].as_array().map_or(0, Vec::len);
    assert_eq!(left, taints.len() - ours);
    ours > 0
}
