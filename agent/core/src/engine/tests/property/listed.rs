//! The kubelet's containers in the form of its list.

use crate::{
    engine::tests::{
        kubelet::{Member, Policy, State},
        stage::{container, id, pod},
    },
    pod::{
        restart_policy::{RestartPolicy, RestartRule},
        spec::{Ended, Pod, RunState, Status},
    },
};

pub(super) fn spec(members: &[Member]) -> Pod {
    let mut pod = pod(RestartPolicy::Always, &[]);
    let containers = members.iter().map(|member| {
        let mut made = container(&member.name);
        if member.name == "shipper" {
            made.image = "fluent/fluent-bit:3".to_owned();
        }
        made.restart_policy = Some(match member.policy {
            Policy::Always => RestartPolicy::Always,
            Policy::OnFailure => RestartPolicy::OnFailure,
            Policy::Never => RestartPolicy::Never,
        });
        let rules = member.rules.iter().map(|rule| RestartRule {
            codes: rule.codes.iter().map(|code| i32::from(*code)).collect(),
            within: rule.within,
            whole_pod: rule.all,
        });
        made.restart_rules = rules.collect();
        made
    });
    pod.containers = containers.collect();
    pod
}

/// The name of a member's run.
pub(super) fn run(member: &Member, number: usize) -> String {
    format!("{}.{number}", member.name)
}

pub(super) fn status(member: &Member) -> Option<Status> {
    let newest = member.runs.checked_sub(1)?;
    let (state, before) = match member.state {
        State::Waits(before) => (RunState::Waiting, before),
        State::Runs(before) => (RunState::Running, before),
        State::Ended(code, before) => (RunState::Terminated(code.into()), before),
    };
    let last = before.map(|past| Ended {
        id: id(&run(member, past.run)),
        code: past.code.into(),
    });
    let id = Some(id(&run(member, newest)));
    Some(Status { id, state, last })
}
