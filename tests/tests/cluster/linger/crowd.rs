//! A drained node: all of its pods are deleted at once, and most of them linger.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Deserializer, Value, json};
use usher_cluster::workload::{self, app_container};
use usher_tests::wait::{fewer, found_within};

use crate::{
    lab::{self, Lab, Line, until},
    load::pods_run,
};

const PODS: usize = 100;
/// The kubelet's limit is 110; some of them are for pods that end late.
const MOST: usize = 106;
/// One of so many pods did not opt in.
const PLAIN: usize = 5;
const GRACE: Duration = Duration::from_secs(20);
/// The time from the deletion to the end of an app. If the runtime waited for a second grace period from then on, the sidecars would
/// end this much later.
const APP_WORKS: &str = "10s";
/// What usher may add to the grace period, in seconds: less than [`APP_WORKS`].
const SLACK: i64 = 5;
/// All pods start, or end, within this time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(400);
const WATCH: &str = "--request-timeout=15s";

/// The end of each pod's last container, in seconds after the deadline of the pod.
type Late = BTreeMap<String, i64>;

/// A cordoned node schedules pods again after the test.
struct Cordon<'lab>(&'lab Lab);

impl Drop for Cordon<'_> {
    fn drop(&mut self) {
        lab::tidy(|| {
            let node = self.0.cluster.node_name();
            until("a node for pods", || {
                self.0.cluster.kubectl(&["uncordon", node]).ok()
            });
        });
    }
}

#[test]
fn no_pod_of_a_drained_node_outlives_its_deadline() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let namespace = lab.namespace("linger-drained");
    start_holder(&lab, &namespace);
    let before = Leaks::of(&lab);
    let begun = Timestamp::now();
    let pods = fewer(PODS).min(MOST.saturating_sub(unfinished_pods(&lab)));
    assert!(pods > 2 * PLAIN, "the node has room for {pods} pods");
    let list = (0..pods)
        .map(|number| pod(&namespace, number))
        .collect::<Vec<_>>();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": list });
    until("the crowd to be created", || lab.cluster.apply(&list).ok());
    pods_run(&lab, &namespace, pods, PATIENCE);
    let lingering = (0..pods).filter(|number| !is_plain(*number)).count();
    wait_armed(&lab, lingering, begun);
    // In a repeated test a sidecar of another one, which was marked before, may have ended.
    until("the marks of the crowd", || {
        (Leaks::of(&lab).marks >= lingering).then_some(())
    });

    let mut ends = Ends::default();
    thread::scope(|scope| {
        let drain = scope.spawn(|| drain(&lab, &namespace));
        while !drain.is_finished() {
            ends.observe(&lab, &namespace);
        }
    });
    let late = ends.late();
    // Between two watches pods may end and go, on a slow machine many of them.
    assert!(late.len() * 2 >= pods, "{late:?}");

    let held = times_of(&lab, &namespace, "linger-held");
    let (plain, mut lingered): (Late, Late) =
        late.into_iter().partition(|(pod, _)| is_plain(number(pod)));
    for (pod, late) in &mut lingered {
        *late -= held.get(pod).map_or(0, |at| ends.begun_late(pod, *at));
    }
    let [least, most] = [plain.values().min(), plain.values().max()].map(|one| *one.unwrap());
    let latest = *lingered.values().max().unwrap();
    eprintln!(
        "{pods} pods drained, the last container ended after the grace period, s: {latest} with linger, {least} to {most} without"
    );
    // The times are in whole seconds, and the node ends so many containers at once as well as it can.
    let limit = most.max(0) + (most - least) / 2 + SLACK;
    assert!(
        latest <= limit,
        "limit {limit}: {lingered:?}, plain {plain:?}"
    );
    // A holder without a processor for 2 s ends. Signals continue until the next one has armed.
    let ended = |line: &Line| line.text("message").starts_with("the holder process ended");
    let holder_ended = lab.log_since(begun).iter().any(ended);
    let is_held = |pod: &&String| held.contains_key(*pod);
    let missing: Vec<&String> = lingered.keys().filter(|pod| !is_held(pod)).collect();
    assert!(missing.is_empty() || holder_ended, "{missing:?}");
    assert_eq!(plain.keys().filter(is_held).count(), 0, "{held:?}");
    // By the agent's clock: the node may take its time to end so many containers.
    let killed = times_of(&lab, &namespace, "linger-killed");
    let ignoring = lingered.keys().filter(|pod| number(pod).is_multiple_of(2));
    assert!(killed.len() * 2 >= ignoring.count(), "{killed:?}");
    for (pod, killed) in killed {
        let waited = killed.duration_since(held[&pod]);
        assert!(
            waited.as_secs() <= GRACE.as_secs() as i64 + SLACK,
            "{pod}: {waited:?}"
        );
    }
    until("the end of all marks and descriptors of the crowd", || {
        Leaks::of(&lab).are_at_most(&before).then_some(())
    });
}

/// The first time of a decision about each pod, by its name.
fn times_of(lab: &Lab, namespace: &str, decision: &str) -> BTreeMap<String, Timestamp> {
    let mut times = BTreeMap::new();
    for line in lab.decisions(namespace) {
        if line.text("decision") == decision {
            let (_namespace, pod) = line.text("pod").split_once('/').unwrap();
            let at = line.text("timestamp").parse().unwrap();
            times.entry(pod.to_owned()).or_insert(at);
        }
    }
    times
}

/// Runs one lingering pod, so that the holder exists: it starts with the first such pod, stays, and has descriptors of its own.
fn start_holder(lab: &Lab, namespace: &str) {
    let begun = Timestamp::now();
    lab.cluster.apply(&pod(namespace, 1)).unwrap();
    pods_run(lab, namespace, 1, PATIENCE);
    wait_armed(lab, 1, begun);
    let delete = [
        "-n",
        namespace,
        "delete",
        "pods",
        "--all",
        "--grace-period=1",
    ];
    lab.cluster.kubectl(&delete).unwrap();
}

/// The name ends with the number.
fn pod(namespace: &str, number: usize) -> Value {
    let app = app_container("app", &["--term-delay", APP_WORKS, "--term-code", "0"]);
    // Those that did not opt in show when the kubelet and the runtime end a container that ignores its signal.
    let sidecar = if is_plain(number) || number.is_multiple_of(2) {
        app_container("side", &["--listen", "9000", "--ignore-term"])
    } else {
        app_container("side", &["--listen", "9000", "--term-code", "0"])
    };
    let mut pod = workload::pod(
        &format!("pod-{number}"),
        namespace,
        "Always",
        &[app, sidecar],
    );
    pod["metadata"]["labels"]["app"] = json!(namespace);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(GRACE.as_secs());
    if !is_plain(number) {
        pod["metadata"]["annotations"] =
            json!({ "usher.dev/linger": "true", "usher.dev/sidecars": "side" });
    }
    pod
}

fn is_plain(number: usize) -> bool {
    number.is_multiple_of(PLAIN)
}

fn number(pod: &str) -> usize {
    pod.trim_start_matches("pod-").parse().unwrap()
}

/// Finished pods do not count towards the kubelet's limit.
fn unfinished_pods(lab: &Lab) -> usize {
    let unfinished = "--field-selector=status.phase!=Succeeded,status.phase!=Failed";
    let list = ["get", "pods", "-A", "-o", "name", unfinished];
    lab.cluster.kubectl(&list).unwrap().lines().count()
}

fn wait_armed(lab: &Lab, many: usize, since: Timestamp) {
    until("all sidecars of the crowd to be armed", || {
        let lines = lab.log_since(since);
        let armed = lines
            .iter()
            .filter(|line| line.text("message").starts_with("armed:"));
        let armed: BTreeSet<&str> = armed.map(|line| line.text("container_id")).collect();
        (armed.len() >= many).then_some(())
    });
}

/// As an operator would do again where the API server did not reply in time.
fn drain(lab: &Lab, namespace: &str) {
    let _node = Cordon(lab);
    let selector = format!("--pod-selector=app={namespace}");
    let drain = ["drain", lab.cluster.node_name(), "--force", &selector];
    let how = ["--ignore-daemonsets", "--timeout=300s"];
    found_within(PATIENCE, "the drained node", || {
        lab.cluster.kubectl(&[&drain[..], &how].concat()).ok()
    });
}

/// Deadline and end of each pod, as the API server reports them.
#[derive(Default)]
struct Ends(BTreeMap<String, (Timestamp, Option<Timestamp>)>);

impl Ends {
    /// Watches the pods for a few seconds. The API server may close the watch of a slow client before.
    fn observe(&mut self, lab: &Lab, namespace: &str) {
        let watch = ["-n", namespace, "get", "pods", "-o", "json", "--watch"];
        let mut kubectl = lab.cluster.kubectl_command();
        let output = kubectl.args(watch).arg(WATCH).output().unwrap();
        let pods = Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        pods.map_while(Result::ok).for_each(|pod| self.add(&pod));
    }

    fn add(&mut self, pod: &Value) {
        let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
        let Some(deadline) = time(&pod["metadata"]["deletionTimestamp"]) else {
            return;
        };
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        // The kubelet's last request moves the deadline to that moment.
        let (_deadline, end) = self.0.entry(name).or_insert((deadline, None));
        let statuses = pod["status"]["containerStatuses"].as_array();
        let times = statuses.into_iter().flatten();
        let times = times.map(|one| time(&one["state"]["terminated"]["finishedAt"]));
        *end = times
            .collect::<Option<Vec<_>>>()
            .and_then(|all| all.into_iter().max())
            .or(*end);
    }

    /// The time from the deletion of a pod to the stop signal of its sidecar, in seconds. The kubelet stops some pods of a crowd
    /// late, and gives them their whole grace period from then on, with usher or without.
    fn begun_late(&self, pod: &str, signalled: Timestamp) -> i64 {
        let (deadline, _end) = self.0[pod];
        let deleted = deadline - GRACE;
        signalled.duration_since(deleted).as_secs().max(0)
    }

    fn late(&self) -> Late {
        let late = self.0.iter().filter_map(|(name, (deadline, end))| {
            Some((name.clone(), (*end)?.as_second() - deadline.as_second()))
        });
        late.collect()
    }
}

/// What the agent and the holder have open for containers.
#[derive(Debug, Clone, Copy)]
struct Leaks {
    marks: usize,
    descriptors: usize,
}

impl Leaks {
    fn of(lab: &Lab) -> Self {
        let holders = lab.holder_pids();
        let marks = holders.iter().map(|pid| {
            let info = format!("cat /proc/{pid}/fdinfo/*");
            let info = in_shell(lab, &info);
            info.lines()
                .filter(|line| line.starts_with("fanotify ino:"))
                .count()
        });
        let descriptors = holders
            .iter()
            .chain(&lab.agent_pids())
            .map(|pid| in_shell(lab, &format!("ls /proc/{pid}/fd")).lines().count())
            .sum();
        Self {
            marks: marks.sum(),
            descriptors,
        }
    }

    const fn are_at_most(self, before: &Self) -> bool {
        self.marks <= before.marks && self.descriptors <= before.descriptors
    }
}

/// Empty where a descriptor is closed meanwhile.
fn in_shell(lab: &Lab, line: &str) -> String {
    let line = format!("{line} 2>/dev/null; true");
    lab.cluster.in_node(&["sh", "-c", &line]).unwrap()
}
