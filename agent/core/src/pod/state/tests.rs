//! The runs that a pod's state keeps.

use std::time::Duration;

use super::*;
use crate::pod::exit_status::ExitStatus;
use crate::pod::restart_policy::RestartPolicy;

fn id(number: usize) -> ContainerId {
    ContainerId::parse(&format!("{number:064x}")).unwrap()
}

fn pod() -> Tracked {
    Tracked::new(crate::engine::stage::uid())
}

fn now() -> Timestamp {
    Timestamp::new(Duration::from_secs(1))
}

/// Containers that start and end faster than the agent can read them cost no memory, with and without known exit
/// codes.
#[test]
fn of_runs_without_a_name_the_newest_are_kept() {
    for code_is_known in [false, true] {
        let mut tracked = pod();
        let spec = crate::engine::stage::pod(RestartPolicy::Never, &["app"]);
        tracked.set_spec(Some(spec));
        for number in 0..100 {
            tracked.apply(&id(number), now(), ContainerChange::Appeared);
            if code_is_known {
                tracked.apply(
                    &id(number),
                    now(),
                    ContainerChange::ExitStatus(ExitStatus::Code(1)),
                );
            }
            tracked.apply(&id(number), now(), ContainerChange::Gone);
        }
        let kept: Vec<ContainerId> = tracked.runs.iter().map(|(id, _run)| id.clone()).collect();
        let newest: Vec<ContainerId> = (92..100).map(id).collect();
        assert_eq!(kept, newest, "known: {code_is_known}");
    }
}

/// The cgroup of a forgotten run is removed late.
#[test]
fn forgotten_run_does_not_appear_again() {
    let mut tracked = pod();
    tracked.apply(&id(0), now(), ContainerChange::Gone);
    assert_eq!(tracked.runs.iter().count(), 0);
}

#[test]
fn replaced_run_is_kept_until_its_exit_code_and_rules_are_known() {
    let mut tracked = pod();
    for number in 0..2 {
        tracked.apply(
            &id(number),
            now(),
            ContainerChange::Started {
                name: Some("app".to_owned()),
            },
        );
        tracked.apply(&id(number), now(), ContainerChange::Exited);
    }
    assert_eq!(tracked.runs.runs_of("app").len(), 2);
    tracked.apply(
        &id(0),
        now(),
        ContainerChange::ExitStatus(ExitStatus::Code(1)),
    );
    assert_eq!(
        tracked.runs.runs_of("app").len(),
        2,
        "no list reported its rules"
    );
    tracked.set_spec(Some(crate::engine::stage::pod(
        RestartPolicy::Never,
        &["app"],
    )));
    tracked.apply(&id(1), now(), ContainerChange::Named("app".to_owned()));
    let kept: Vec<&ContainerId> = tracked.runs.iter().map(|(id, _run)| id).collect();
    assert_eq!(kept, [&id(1)]);
}
