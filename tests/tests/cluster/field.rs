//! Pods from public issues and charts, with stand-ins for their sidecars, all at once. `field/cases` has a file for
//! each kind, with the expected outcome of each pod.
//!
//! A case that needs more than a pod and time has `acts`: a deletion, a suspension, or a command in a container.

mod acts;
mod case;
mod check;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use usher_cluster::image::catalog::APP;
use usher_tests::wait::poll_within;

use self::{
    acts::Acts,
    case::{Case, Kind},
    check::Observed,
};
use crate::{
    cli_explain::exec_usher,
    lab::{self, Lab},
};

/// Longer than the longest case takes while all others run.
const PATIENCE: Duration = Duration::from_secs(500);
/// The number of rounds between two checks of an explanation.
const EXPLAINED_EACH: usize = 8;
const FILES: [&str; 5] = [
    include_str!("field/cases/explain.yaml"),
    include_str!("field/cases/hold.yaml"),
    include_str!("field/cases/quit.yaml"),
    include_str!("field/cases/scripted.yaml"),
    include_str!("field/cases/start.yaml"),
];

fn cases() -> Vec<Case> {
    let files = FILES.iter();
    files
        .flat_map(|file| serde_saphyr::from_str::<Vec<Case>>(file).unwrap())
        .collect()
}

/// Tags the test application with the image names of the sidecars.
fn tag_images(lab: &Lab, cases: &[Case]) {
    let images: BTreeSet<&str> = cases.iter().flat_map(Case::images).collect();
    for image in images {
        let tag = [
            "ctr", "-n", "k8s.io", "images", "tag", "--force", APP, image,
        ];
        lab.cluster.in_node(&tag).unwrap();
    }
}

fn create(lab: &Lab, case: &Case, namespace: &str) {
    lab.cluster.apply(&case.object(namespace)).unwrap();
    if case.kind == Kind::CronJob {
        let from = format!("cronjob/{}", case.case);
        let create = ["-n", namespace, "create", "job", &case.case, "--from"];
        lab.cluster
            .kubectl(&[&create[..], &[&from]].concat())
            .unwrap();
    }
}

#[test]
fn cases_have_names_and_sources_of_their_own() {
    let cases = cases();
    let names: BTreeSet<&str> = cases.iter().map(|case| &case.case[..]).collect();
    assert_eq!(names.len(), cases.len());
    assert!(cases.iter().all(|case| !case.source.is_empty()));
}

#[test]
fn pods_from_the_field() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let lab: &'static Lab = &lab;
    let cases = cases();
    let namespace = lab.namespace("field");
    tag_images(lab, &cases);
    for case in &cases {
        create(lab, case, &namespace);
    }
    let begun = Instant::now();
    let mut pending: BTreeMap<&str, String> = cases
        .iter()
        .map(|case| (&case.case[..], "not observed".to_owned()))
        .collect();
    let mut acts: BTreeMap<&str, Acts<'_>> = cases
        .iter()
        .map(|case| (&case.case[..], Acts::new(case)))
        .collect();
    let mut round = 0;
    let all = poll_within(PATIENCE, || {
        round += 1;
        let observed = Observed::of(lab, &namespace);
        for (number, case) in cases.iter().enumerate() {
            // An explanation takes seconds on a busy node, and would delay the acts of other cases.
            if case.is_explained() && round % EXPLAINED_EACH != number % EXPLAINED_EACH {
                continue;
            }
            let Some(state) = pending.get_mut(&case.case[..]) else {
                continue;
            };
            let acted = acts.get_mut(&case.case[..]).unwrap().go_on(&observed);
            match acted.and_then(|()| observed.check(case)) {
                Ok(()) => {
                    let seconds = begun.elapsed().as_secs_f64();
                    eprintln!("{}: as wanted after {seconds:.1} s", case.case);
                    pending.remove(&case.case[..]);
                }
                Err(why) => *state = why,
            }
        }
        pending.is_empty().then_some(())
    });
    assert!(all.is_some(), "{pending:#?}");
    let (status, code) = exec_usher(lab, &["status"]);
    assert_eq!(code, Some(0), "{status}");
}
