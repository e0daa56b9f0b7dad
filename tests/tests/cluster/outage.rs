//! The API server is unavailable, and sidecars are terminated all the same: the kernel reports the exit of an app, and
//! the agent read the rest when the pod started.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use usher_cluster::{
    Component, Signal,
    workload::{istio_annotations, istio_proxy_container},
};
use usher_tests::wait::found_within;

use crate::{
    lab::{self, Lab, PATIENCE, SOON, until},
    load,
    workload::{add_gate, open_gate, pods},
};

/// The duration in seconds; a pipeline has time for a few, a person for five minutes.
const OUTAGE: &str = "USHER_TEST_OUTAGE";
const SHORT: u64 = 20;
/// Jobs before it, for the decisions; Jobs with apps that exit during it, one after the other; the number of those with
/// a real Istio.
const BEFORE: usize = 20;
const DURING: usize = 16;
const ISTIO: usize = 2;
/// The permitted growth of the agent.
const GROWTH_KIB: u64 = 8 * 1024;

/// The unavailable API server, restarted on drop.
struct Away<'lab>(&'lab Lab);

impl<'lab> Away<'lab> {
    fn start(lab: &'lab Lab) -> Self {
        let away = Self(lab);
        lab.cluster
            .stop(Component::ApiServer, Signal::SIGKILL)
            .unwrap();
        away
    }

    fn end(self) {
        drop(self);
    }

    fn come_back(&self) {
        self.0.cluster.start(Component::ApiServer).unwrap();
        until("the API server", || {
            self.0.cluster.kubectl(&["get", "--raw", "/readyz"]).ok()
        });
        // The agent would read it again only after a minute, which is not tested here.
        let controllers = Component::ControllerManager;
        self.0.cluster.stop(controllers, Signal::SIGKILL).unwrap();
        self.0.cluster.start(controllers).unwrap();
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        lab::tidy(|| self.come_back());
    }
}

/// The memory of the agent, which must be the same process at the end.
struct Memory {
    status: PathBuf,
    first: u64,
    most: u64,
}

impl Memory {
    fn of(lab: &Lab) -> Self {
        let pids = lab.agent_pids();
        let root = lab.cluster.node_root().unwrap();
        let status = root.join("proc").join(&pids[0]).join("status");
        let first = resident_kib(&status);
        let most = first;
        Self {
            status,
            first,
            most,
        }
    }

    fn look(&mut self) -> u64 {
        let now = resident_kib(&self.status);
        self.most = self.most.max(now);
        now
    }
}

fn resident_kib(status: &Path) -> u64 {
    let text = fs::read_to_string(status).expect("the agent lives");
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let mut words = line.unwrap().split_whitespace();
    words.nth(1).unwrap().parse().unwrap()
}

fn outage() -> Duration {
    let seconds = env::var(OUTAGE).map_or(SHORT, |seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds)
}

/// Jobs with apps that exit one after the other from the opening of their gates on, the last one when the outage is over.
fn staggered(namespace: &str, many: usize, istio: usize, outage: Duration) -> Vec<Value> {
    let step = outage / u32::try_from(many).unwrap();
    let lasts = |number: usize| step * u32::try_from(number + 1).unwrap();
    let light = |number| load::light_job(namespace, &format!("job-{number}"), lasts(number));
    let mut jobs: Vec<Value> = (0..many).map(light).collect();
    for job in jobs.iter_mut().rev().take(istio) {
        let pod = &mut job["spec"]["template"];
        pod["metadata"]["annotations"] = istio_annotations();
        pod["spec"]["containers"][0]["args"] =
            json!(["--run-for", pod["spec"]["containers"][0]["args"][3]]);
        pod["spec"]["containers"][1] = istio_proxy_container();
    }
    for job in &mut jobs {
        add_gate(&mut job["spec"]["template"]["spec"]);
    }
    jobs
}

/// Waits until all containers of these pods run.
fn all_run(lab: &Lab, namespace: &str, many: usize) -> Vec<Value> {
    load::pods_run(lab, namespace, many, PATIENCE);
    pods(lab, namespace)
}

fn names(pods: &[Value]) -> Vec<String> {
    let names = pods.iter().map(|pod| &pod["metadata"]["name"]);
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// Waits for the exit of every sidecar of a namespace, for longer than the outage lasts.
fn all_end(lab: &Lab, namespace: &str, many: usize, limit: Duration, mut look: impl FnMut()) {
    found_within(limit, &format!("the end of {many} sidecars"), || {
        look();
        (lab.count(namespace, "sidecar-ended") >= many).then_some(())
    });
}

#[test]
fn sidecars_are_terminated_during_an_api_server_outage() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let (outage, namespace) = (outage(), lab.namespace("outage"));
    let burst = lab.namespace("burst");
    let short = |number| load::light_job(&burst, &format!("job-{number}"), Duration::ZERO);
    load::create(&lab, &(0..BEFORE).map(short).collect::<Vec<_>>());
    load::all_complete(&lab, &burst, BEFORE);

    load::create(&lab, &staggered(&namespace, DURING, ISTIO, outage));
    let pods = all_run(&lab, &namespace, DURING);
    let mut memory = Memory::of(&lab);
    let (away, since) = (Away::start(&lab), Instant::now());
    assert_eq!(lab.count(&namespace, "pod-finished"), 0);
    pods.iter().for_each(|pod| open_gate(&lab, pod));
    all_end(&lab, &namespace, DURING, outage + PATIENCE, || {
        memory.look();
    });
    assert!(!lab.cluster.runs(Component::ApiServer));
    let lasted = since.elapsed();
    assert!(lasted >= outage, "{lasted:?}");
    let asked: Vec<f64> = lab
        .decisions(&namespace)
        .iter()
        .filter(|line| line.text("decision") == "quit-accepted")
        .map(|line| line.0["since_exit_ms"].as_f64().unwrap())
        .collect();
    let latest = asked.iter().copied().fold(0.0, f64::max);
    away.end();

    load::all_complete(&lab, &namespace, DURING);
    load::each_was_quit_once(&lab, &namespace, &names(&pods));
    let last = memory.look();
    eprintln!(
        "away for {lasted:?}: {DURING} pods finished, each sidecar asked at most {latest} ms after its app; \
         resident memory in KiB: {} before, {} at most, {last} after",
        memory.first, memory.most
    );
    assert!(
        latest < SOON.as_secs_f64() * 1000.0,
        "{latest} ms after the end of the app"
    );
    assert!(memory.most < memory.first + GROWTH_KIB, "the agent grew");
}

/// The kubelet authorizes its clients with the API server, so a new agent reads no pods before the server is back.
#[test]
fn agent_killed_during_the_outage_recovers_afterwards() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let namespace = lab.namespace("outage-kill");
    // No other app of the node has this name.
    let lasts = Duration::from_millis(1_987);
    let mut job = load::light_job(&namespace, "job", lasts);
    add_gate(&mut job["spec"]["template"]["spec"]);
    load::create(&lab, &[job]);
    let pods = all_run(&lab, &namespace, 1);
    let away = Away::start(&lab);
    let killed = lab.agent_pids();
    for pid in &killed {
        lab.cluster.in_node(&["kill", "-KILL", pid]).unwrap();
    }
    open_gate(&lab, &pods[0]);
    let app = ["pgrep", "-f", "--", "--run-for 1987ms"];
    until("another agent, and the end of the app", || {
        let pids = lab.agent_pids();
        let agent = !pids.is_empty() && pids != killed;
        // `pgrep` fails if it finds no process.
        (agent && lab.cluster.in_node(&app).is_err()).then_some(())
    });
    away.end();
    load::all_complete(&lab, &namespace, 1);
    load::each_was_quit_once(&lab, &namespace, &names(&pods));
}

/// Decisions of the outage are reported afterwards, with their original timestamps.
#[test]
fn events_of_the_outage_arrive_afterwards_with_their_timestamps() {
    let Some(lab) = lab::alone() else {
        return;
    };
    const MANY: usize = 4;
    let (outage, namespace) = (Duration::from_secs(SHORT / 2), lab.namespace("events"));
    load::create(&lab, &staggered(&namespace, MANY, 0, outage));
    let pods = all_run(&lab, &namespace, MANY);
    let (away, from) = (Away::start(&lab), now());
    pods.iter().for_each(|pod| open_gate(&lab, pod));
    all_end(&lab, &namespace, MANY, outage + PATIENCE, || {});
    let to = now();
    away.end();

    let list = ["-n", &*namespace, "get", "events.events.k8s.io"];
    let events = until("an Event for each sidecar", || {
        let events = lab.cluster.kubectl_json(&list).ok()?;
        let mut events = events["items"].as_array()?.clone();
        events.retain(|event| event["reason"] == "SidecarQuit");
        (events.len() >= MANY).then_some(events)
    });
    assert_eq!(events.len(), MANY, "{events:#?}");
    for event in &events {
        let time = event["eventTime"].as_str().unwrap();
        assert!(
            from.as_str() < time && time < to.as_str(),
            "{from} {time} {to}"
        );
        assert_eq!(event["reportingController"], "usher.dev/agent");
        let pod = event["regarding"]["name"].as_str().unwrap();
        assert!(names(&pods).iter().any(|name| name == pod), "{pod}");
    }
    load::all_complete(&lab, &namespace, MANY);
}

/// In the format of Events: UTC, to be compared as text.
fn now() -> String {
    let out = Command::new("date")
        .args(["-u", "+%Y-%m-%dT%H:%M:%S.%6NZ"])
        .output()
        .unwrap();
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}
