//! The snapshot of pods for operators.

use super::{
    hold::{bare, held, istio},
    stage::{PROXY, Stage, id, key, pod, run_of, status, uid},
};
use crate::{
    Event,
    admin::{Container, ContainerState, Pod as AdminPod, PodState, Role},
    base::id::PodUid,
    decision::Verb,
    hold::Features,
    pod::{
        container_change::ContainerChange,
        restart_policy::RestartPolicy,
        spec::{Pod, RunState},
    },
    quit::outcome::Outcome,
    settings::mode::{Mode, Modes},
    start,
};

impl Stage {
    fn seen(&self) -> AdminPod {
        let mut pods = self.engine.pods();
        assert_eq!(pods.len(), 1, "{pods:?}");
        pods.remove(0)
    }

    fn state(&self) -> PodState {
        self.seen().state
    }
}

fn plain() -> Pod {
    pod(RestartPolicy::Never, &["app"])
}

/// Name, role, state and exit code of each container.
fn lines(pod: &AdminPod) -> Vec<String> {
    let containers = pod.containers.iter();
    let line = |one: &Container| {
        let name = one.name.as_deref().unwrap_or("?");
        let code = one.exit_code.map(|code| format!(" {code}"));
        let (role, state) = (one.role, one.state);
        format!("{name}: {role:?} {state:?}{}", code.unwrap_or_default())
    };
    containers.map(line).collect()
}

#[test]
fn pod_state_reflects_its_progress() {
    let mut stage = Stage::new(Mode::Enforce, plain());
    assert!(stage.engine.pods().is_empty());
    assert_eq!(stage.engine.pod_name(&uid()), None);
    stage.send(Event::PodAppeared(uid()));
    let unlisted = stage.seen();
    assert_eq!((unlisted.state, unlisted.name), (PodState::Unknown, None));
    assert_eq!(unlisted.uid, uid().to_string());
    stage.list();
    let listed = stage.seen();
    assert_eq!(
        (listed.namespace.as_deref(), listed.name.as_deref()),
        (Some("shop"), Some("report"))
    );
    let name = stage.engine.pod_name(&uid());
    assert_eq!(name.as_deref(), Some("shop/report"));
    for name in ["app", PROXY] {
        stage.start(name, &run_of(name));
    }
    let running = stage.seen();
    assert_eq!(running.state, PodState::Running);
    assert_eq!(running.decision.as_deref(), Some("waiting"));
    assert_eq!(running.reason.as_deref(), Some("app container app runs"));
    stage.exit("a", 0);
    assert_eq!(stage.state(), PodState::Finished);
    stage.outcome("i", Outcome::Accepted);
    stage.exit("i", 0);
    assert_eq!(stage.state(), PodState::Done);
    stage.send(Event::PodGone(uid()));
    assert!(stage.engine.pods().is_empty());
}

#[test]
fn pods_on_the_node_have_a_cgroup_or_await_replies() {
    let mut stage = Stage::new(Mode::Enforce, plain());
    stage.list();
    assert!(stage.engine.pods_on_node().is_empty());
    stage.run_all();
    assert_eq!(stage.engine.pods_on_node(), [uid()].into());
    stage.exit("a", 0);
    stage.send(Event::PodGone(uid()));
    assert_eq!(stage.engine.pods_on_node(), [uid()].into());
    stage.outcome("i", Outcome::Accepted);
    assert!(stage.engine.pods_on_node().is_empty());
}

#[test]
fn pods_out_of_scope_have_their_own_states() {
    let mut stage = Stage::new(Mode::Enforce, pod(RestartPolicy::Always, &["app"]));
    stage.run_all();
    assert_eq!(stage.state(), PodState::NotApplicable);
    let mut stage = Stage::new(Mode::Enforce, plain());
    stage.namespace = None;
    stage.run_all();
    assert_eq!(stage.state(), PodState::Unknown);
    // The containers are listed, and their roles are unknown.
    assert_eq!(
        lines(&stage.seen()),
        ["app: Other Running", "istio-proxy: Other Running"]
    );
    let mut spec = plain();
    (spec.deleting, spec.host_network) = (true, true);
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.run_all();
    let reported = stage.seen();
    assert!(reported.deleting && reported.host_network, "{reported:?}");
}

#[test]
fn a_pod_whose_connections_or_starts_wait_is_held() {
    let seen = |stage: &Stage| {
        let reported = stage.seen();
        (reported.state, reported.held_ports, reported.held_starts)
    };
    let mut stage = held(Mode::Enforce, istio());
    assert_eq!(seen(&stage), (PodState::Running, Vec::new(), 0));
    stage.announce();
    assert_eq!(seen(&stage), (PodState::Held, vec![15001], 0));
    stage.armed();
    assert_eq!(seen(&stage), (PodState::Held, vec![15001], 0));
    stage.request(Verb::Release);
    assert_eq!(seen(&stage), (PodState::Held, vec![15001], 0));
    stage.released(0);
    assert_eq!(seen(&stage), (PodState::Running, Vec::new(), 0));
    // Observe mode only counts connections.
    let mut stage = held(Mode::Observe, istio());
    stage.announce();
    assert_eq!(seen(&stage), (PodState::Running, Vec::new(), 0));
    stage.armed();
    assert_eq!(seen(&stage), (PodState::Running, Vec::new(), 0));
    // A start that is still held.
    let mut spec = istio();
    let start = ("usher.dev/hold".to_owned(), "start".to_owned());
    spec.annotations.extend([start]);
    let mut stage = held(Mode::Enforce, spec);
    stage.hold();
    for result in [start::StartResult::Marked, start::StartResult::Held] {
        let (key, name) = (key("a"), "app".to_owned());
        stage.send(Event::Start { key, name, result });
    }
    assert_eq!(seen(&stage), (PodState::Held, vec![15001], 1));
    stage.request(Verb::Release);
    stage.released(0);
    assert_eq!(seen(&stage), (PodState::Held, Vec::new(), 1));
}

#[test]
fn each_container_has_its_role_and_exit() {
    let mut spec = pod(RestartPolicy::OnFailure, &["app", "late", "quiet"]);
    spec.init_containers = vec!["setup".to_owned()];
    spec.native_sidecars = vec!["logs".to_owned()];
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.send(Event::PodAppeared(uid()));
    stage.start("setup", "s");
    stage.exit("s", 3);
    stage.start("app", "a");
    stage.exit("a", 1);
    // The app's next run exists, and its container's name is not known yet.
    stage.appear("n");
    // The kernel reports the exit without its code, and the kubelet reports the code.
    stage.start("quiet", "q");
    stage.send(Event::container(key("q"), ContainerChange::Exited));
    status(&mut stage.spec, "quiet", "q", RunState::Terminated(7));
    // This container ended before the agent started.
    status(&mut stage.spec, "late", "l", RunState::Terminated(9));
    stage.start(PROXY, "i");
    // A known exit code takes precedence over the kubelet's status.
    status(&mut stage.spec, "app", "a", RunState::Terminated(99));
    status(&mut stage.spec, PROXY, "i", RunState::Running);
    stage.list();
    let reported = stage.seen();
    assert_eq!(
        lines(&reported),
        [
            "setup: Init Exited 3",
            "logs: Native Unseen",
            "app: App Exited 1",
            "late: App Exited 9",
            "quiet: App Exited 7",
            "istio-proxy: Sidecar Running",
            "?: Other Starting"
        ]
    );
    let [_, logs, app, late, _, proxy, next] = reported.containers.as_slice() else {
        panic!("{reported:?}");
    };
    let has = |one: &Container, run: &str| one.id.as_deref() == Some(id(run).as_str());
    assert!(has(app, "a") && has(late, "l") && has(proxy, "i") && has(next, "n"));
    assert_eq!((&logs.id, &logs.image), (&None, &None));
    assert_eq!(app.image.as_deref(), Some("shop/report:1"));
    let recipes = [app, proxy].map(|one| one.recipe.as_deref());
    assert_eq!(recipes, [None, Some("istio")]);
}

#[test]
fn earlier_running_run_is_listed_with_the_newest() {
    let mut stage = Stage::new(Mode::Enforce, pod(RestartPolicy::OnFailure, &["app"]));
    stage.run_all();
    stage.start("app", "b");
    assert_eq!(
        lines(&stage.seen()),
        [
            "app: App Running",
            "istio-proxy: Sidecar Running",
            "app: Other Running"
        ]
    );
    stage.exit("a", 0);
    let reported = stage.seen();
    assert_eq!(reported.containers.len(), 2);
    assert_eq!(reported.containers[0].state, ContainerState::Running);
    assert_eq!(reported.containers[0].role, Role::App);
}

#[test]
fn pods_are_sorted_by_namespace_and_name() {
    let mut stage = Stage::new(Mode::Enforce, plain());
    let pods = [("shop", "b"), ("shop", "a"), ("bank", "z"), ("", "")];
    let mut listed = Vec::new();
    for (at, (namespace, name)) in pods.into_iter().enumerate() {
        let uid = format!("{at}d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11");
        let uid = PodUid::parse(&uid).unwrap();
        stage.send(Event::PodAppeared(uid.clone()));
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        listed.push(Pod {
            uid,
            namespace,
            name,
            ..plain()
        });
    }
    listed.pop();
    stage.answer_with(listed);
    let names: Vec<_> = stage
        .engine
        .pods()
        .into_iter()
        .map(|pod| pod.name)
        .collect();
    let expected = [Some("z"), Some("a"), Some("b"), None];
    assert_eq!(names, expected.map(|name| name.map(str::to_owned)));
}

#[test]
fn modes_and_kernel_features_are_in_the_snapshot() {
    let mut stage = Stage::new(Mode::Enforce, plain());
    assert_eq!(stage.engine.features(), None);
    stage.hold_mode = Mode::Observe;
    stage.mode(Mode::Enforce);
    let (quit, hold) = (Mode::Enforce, Mode::Observe);
    assert_eq!(
        stage.engine.modes(),
        Modes {
            quit,
            hold,
            linger: hold
        }
    );
    let stage = bare(Mode::Enforce, istio());
    let hold = stage.engine.features().map(|found: &Features| &found.hold);
    assert_eq!(hold, Some(&Ok(())));
}
