//! An upgrade, a rollback and the removal, while Jobs start, are held and finish.

use std::{sync::atomic::AtomicBool, thread};

use serde_json::Value;
use usher_cluster::crowd::{Crowd, Like as Crowded};

use super::{
    load::{self, Like, Load},
    release::{CHART, NEXT_TAG, Release, TAG, tag_next},
    remains,
};
use crate::lab::{self, Lab, USHER, until};

/// Changed values besides the image: each of them restarts the agent.
const OTHER_VALUES: [&str; 3] = [
    "log.level=debug",
    "resources.limits.memory=128Mi",
    "config.ladder.settle=3s",
];

#[test]
fn upgrade_and_rollback_complete_every_job() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let release = Release::install(&lab, &[]);
    lab.mode("enforce");
    tag_next(&lab.cluster);
    let namespace = lab.namespace("upgraded");
    let enough = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let load = Load::begin(scope, &lab.cluster, &namespace, Like::Meshed, &enough);
        let next = format!("image.tag={NEXT_TAG}");
        let values = [&OTHER_VALUES[..], &[next.as_str()]].concat();
        release.helm(&["upgrade", USHER, CHART, "--wait"], &values);
        assert!(release.image().ends_with(NEXT_TAG));
        release.plain(&["rollback", USHER, "1", "--wait"]);
        assert!(release.image().ends_with(TAG));
        load.end()
    });
    let runs = load::all_complete(&lab, &namespace, made);
    assert_eq!(runs.len(), made as usize);
    let held = runs.iter().filter(|run| run.refused == 0).count();
    println!(
        "{made} Jobs complete through an upgrade and a rollback; {held} of them were held, the others tried again"
    );
    assert!(held > 0);
}

#[test]
fn removal_under_load_leaves_nothing_and_pods_still_start() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let release = Release::install(&lab, &[]);
    lab.mode("enforce");
    let namespace = lab.namespace("removed");
    // Held during the change: their sidecars are not ready before it is over.
    let like = Crowded {
        apps: 2,
        annotations: vec![("usher.dev/hold-deadline", "10m")],
        wrapper: None,
    };
    let crowd = Crowd::make(&lab.cluster, &namespace, "held", 2, &like).unwrap();
    crowd.started().unwrap();
    until("held pods", || {
        let armed = lab.holds(&namespace);
        let armed = armed
            .iter()
            .filter(|line| line.text("decision") == "hold-armed");
        (armed.count() >= crowd.pods().len()).then_some(())
    });
    let tables = remains::of_usher(&lab.cluster);
    assert!(
        tables.iter().any(|line| line.starts_with("table ")),
        "{tables:#?}"
    );

    let uids = agents(&lab);
    let loaded = lab.namespace("loaded");
    let enough = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let load = Load::begin(scope, &lab.cluster, &loaded, Like::Plain, &enough);
        println!("{}", release.plain(&["uninstall", USHER, "--wait"]));
        // Helm does not wait for the pods of deleted objects.
        until("the end of the agents' pods", || {
            agents(&lab).is_empty().then_some(())
        });
        let left = remains::of_usher(&lab.cluster);
        assert_eq!(left, Vec::<String>::new(), "after the removal");
        load.end()
    });
    load::all_complete(&lab, &loaded, made);
    println!("{made} Jobs complete while usher was removed");
    // A pod that was created during the removal added nothing of usher again.
    let left = remains::of_usher(&lab.cluster);
    assert_eq!(left, Vec::<String>::new(), "after the last Job");
    until("the end of the agents' cgroups", || {
        remains::cgroups(&lab.cluster, &uids)
            .is_empty()
            .then_some(())
    });
    for pod in crowd.pods() {
        crowd.open(pod).unwrap();
    }
    // Their connections were released and not lost: they got a response, or were refused as without usher.
    let ran = crowd.ended().unwrap();
    assert_eq!(ran.len(), crowd.pods().len());
}

/// UIDs of the agents' pods.
fn agents(lab: &Lab) -> Vec<String> {
    let pods = ["-n", USHER, "get", "pods"];
    let pods = lab.cluster.kubectl_json(&pods).unwrap();
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
    pods["items"].as_array().unwrap().iter().map(uid).collect()
}
