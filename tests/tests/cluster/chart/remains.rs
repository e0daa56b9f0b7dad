//! The remains of usher: on the node's disk, in its processes, its cgroups and all network namespaces, and
//! among the cluster's objects.

use std::fs;

use usher_cluster::Cluster;

use crate::lab::USHER;

/// Directories in which no name contains usher.
const PLACES: [&str; 4] = ["etc/cni/net.d", "opt/cni/bin", "run", "var/log"];
/// Intended leftovers of tests, and the kubelet's data of removed pods.
const NOT_OURS: [&str; 2] = ["usher-test", "usher_usher"];
/// Cluster-wide kinds of the chart's objects.
const CLUSTER_WIDE: &str = "clusterroles,clusterrolebindings,validatingadmissionpolicies,\
                            validatingadmissionpolicybindings";
const IN_NAMESPACE: &str =
    "daemonsets,jobs,pods,serviceaccounts,roles,rolebindings,configmaps,resourcequotas";
/// Each namespace once, by any process in it.
const TABLES: &str = r#"
seen=' '
for process in /proc/[0-9]*; do
  id=$(readlink "$process/ns/net") || continue
  case "$seen" in *" $id "*) continue ;; esac
  seen="$seen$id "
  nsenter --net="$process/ns/net" nft list tables 2>/dev/null | grep usher | sed "s|^|$id |"
done
true"#;
const PROCESSES: &str = "ps -e -o pid=,args= | grep -E 'usher-(agent|cni)' | grep -v grep || true";

/// The remaining objects, one a line.
pub(super) fn of_usher(cluster: &Cluster) -> Vec<String> {
    let mut found = files(cluster);
    let mut ask = |what: &str, script: &str| {
        let stdout = cluster.in_node(&["sh", "-c", script]).unwrap();
        found.extend(stdout.lines().map(|line| format!("{what} {line}")));
    };
    ask("table", TABLES);
    ask("process", PROCESSES);
    found.extend(objects(cluster));
    found
}

/// Cgroups of pods that have ended.
pub(super) fn cgroups(cluster: &Cluster, uids: &[String]) -> Vec<String> {
    let script = "find /sys/fs/cgroup -type d -name '*pod*'";
    let all = cluster.in_node(&["sh", "-c", script]).unwrap();
    let of = |line: &&str| uids.iter().any(|uid| line.contains(uid.as_str()));
    all.lines().filter(of).map(str::to_owned).collect()
}

fn files(cluster: &Cluster) -> Vec<String> {
    let root = cluster.node_root().expect("the node is up");
    let mut found = Vec::new();
    for place in PLACES {
        for entry in fs::read_dir(root.join(place)).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = name.contains("usher") && !NOT_OURS.iter().any(|not| name.contains(not));
            if ours {
                found.push(format!("file /{place}/{name}"));
            }
        }
    }
    for entry in fs::read_dir(root.join(PLACES[0])).unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        if text.contains("usher") {
            found.push(format!("entry in {}", entry.path().display()));
        }
    }
    found
}

fn objects(cluster: &Cluster) -> Vec<String> {
    let label = format!("-lapp.kubernetes.io/instance={USHER}");
    let get = |kinds: &str| {
        let get = ["-n", USHER, "get", kinds, &label, "-o", "name"];
        cluster.kubectl(&get).unwrap()
    };
    let all = get(CLUSTER_WIDE) + &get(IN_NAMESPACE);
    all.lines().map(|line| format!("object {line}")).collect()
}
