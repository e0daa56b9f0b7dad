//! libcni calls the plugin after another plugin. The tests use `cnitool` and the reference plugins on a separate node.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use usher_cluster::programs;
use usher_core::cni::conflist::{Edit, Entry, Kind, insert, remove};

use crate::{
    agent::{Then, held, serve},
    call::arguments,
    place::Place,
};

const NETWORK: &str = "net";
const FIRST_WITH_CHECK: &str = "0.4.0";

/// A separate node, whose bridge and addresses are not visible on this machine.
struct Node {
    plugins: PathBuf,
    networks: PathBuf,
    netns: String,
}

impl Node {
    /// Makes this thread and its child processes a separate node.
    fn enter(place: &Place, reference: &Path) -> Self {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        // libcni stores results here, and host-local its addresses.
        mount(
            Some("tmpfs"),
            "/var/lib",
            Some("tmpfs"),
            MsFlags::empty(),
            none,
        )
        .unwrap();
        let plugins = place.folder("plugins");
        let networks = place.folder("networks");
        for program in fs::read_dir(reference).unwrap() {
            let program = program.unwrap();
            std::os::unix::fs::symlink(program.path(), plugins.join(program.file_name())).unwrap();
        }
        let ours = env!("CARGO_BIN_EXE_usher-cni");
        std::os::unix::fs::symlink(ours, plugins.join("usher-cni")).unwrap();
        Self {
            plugins,
            networks,
            netns: place.netns().display().to_string(),
        }
    }

    fn write(&self, list: &str) {
        fs::write(self.networks.join("10-net.conflist"), list).unwrap();
    }

    fn call(&self, verb: &str, netns: &str) -> Output {
        Command::new(self.plugins.join("cnitool"))
            .args([verb, NETWORK, netns])
            .env("CNI_PATH", &self.plugins)
            .env("NETCONFPATH", &self.networks)
            .env("CNI_ARGS", arguments("job-1"))
            .output()
            .unwrap()
    }

    /// Makes a call that must succeed, and returns its output.
    fn expect(&self, verb: &str) -> String {
        let output = self.call(verb, &self.netns);
        assert!(output.status.success(), "{verb}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn list(primary: &str, version: &str) -> String {
    format!(
        "{{\n  \"cniVersion\": \"{version}\",\n  \"name\": \"{NETWORK}\",\n  \"plugins\": [\n    {{\n      \
         \"type\": \"{primary}\",\n      \"ipam\": {{\"type\": \"host-local\", \"subnet\": \"10.88.0.0/24\"}}\n    \
         }}\n  ]\n}}\n"
    )
}

/// Runs a test on a separate node, on a thread that ends with the node.
fn on_a_node(test: impl FnOnce(&Place, &Node) + Send + 'static) {
    let Some(place) = Place::new() else { return };
    // Builds missing programs now, because the node's namespace has no network to download their sources.
    let reference = programs::cni_reference().unwrap();
    let run = move || {
        let node = Node::enter(&place, &reference);
        test(&place, &node);
    };
    thread::spawn(run).join().unwrap();
}

fn chained(place: &Place, list: &str) -> String {
    let entry = Entry::parse(&place.conf("\"timeout\":\"5s\"")).unwrap();
    match insert(list, Kind::ConfList, &entry).unwrap() {
        Edit::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn life_of_a_pod_in_every_version_after_two_networks() {
    for primary in ["bridge", "ptp"] {
        for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
            on_a_node(move |place, node| life(place, node, primary, version));
        }
    }
}

fn life(place: &Place, node: &Node, primary: &str, version: &str) {
    let plain = list(primary, version);
    node.write(&plain);
    let alone = node.expect("add");
    node.expect("del");
    // A new namespace has an interface with new names and addresses; the rest is unchanged.
    let keys = |result: &str| {
        let value: serde_json::Value = serde_json::from_str(result).unwrap();
        let object = value.as_object().unwrap();
        object.keys().cloned().collect::<Vec<_>>()
    };

    let list = chained(place, &plain);
    node.write(&list);
    node.expect("status");
    let agent = serve(&place.socket(), Then::Reply(held()));
    let result = node.expect("add");
    let request = agent.join().unwrap();
    assert_eq!(request.descriptors, [place.netns_id()]);
    assert_eq!(keys(&result), keys(&alone), "{primary} {version}");
    assert!(
        result.contains(&format!("\"cniVersion\": \"{version}\"")),
        "{result}"
    );
    assert_eq!(place.log(), [""; 0]);

    let check = node.call("check", &node.netns);
    if version < FIRST_WITH_CHECK {
        let stderr = String::from_utf8_lossy(&check.stderr);
        assert!(
            stderr.contains("does not support the CHECK command"),
            "{check:?}"
        );
    } else {
        assert!(check.status.success(), "{primary} {version}: {check:?}");
    }
    node.expect("gc");
    node.expect("del");
    node.expect("del");
    // Without an agent, the pod starts unheld.
    fs::remove_file(place.socket()).unwrap();
    assert_eq!(keys(&node.expect("add")), keys(&alone));
    assert_eq!(place.log().len(), 1);
    // usher-cni is removed from the list while the pod exists.
    let Ok(Edit::Text(without)) = remove(&list, "usher-cni") else {
        panic!("it is in the list");
    };
    assert_eq!(without, plain);
    node.write(&without);
    node.expect("del");
}

#[test]
fn single_configuration_works_like_the_list_that_it_becomes() {
    on_a_node(|place, node| {
        let conf = format!(
            "{{\n \"cniVersion\": \"1.0.0\",\n \"name\": \"{NETWORK}\",\n \"type\": \"ptp\",\n \
             \"ipam\": {{\"type\": \"host-local\", \"subnet\": \"10.88.0.0/24\"}}\n}}\n"
        );
        let entry = Entry::parse(&place.conf("\"timeout\":\"5s\"")).unwrap();
        let Ok(Edit::Text(list)) = insert(&conf, Kind::Conf, &entry) else {
            panic!("it becomes a list");
        };
        node.write(&list);
        let agent = serve(&place.socket(), Then::Reply(held()));
        node.expect("add");
        agent.join().unwrap();
        node.expect("check");
        node.expect("del");
        assert_eq!(place.log(), [""; 0]);
    });
}

#[test]
fn removed_namespace_and_pod_older_than_the_entry() {
    on_a_node(|place, node| {
        let plain = list("bridge", "1.0.0");
        node.write(&plain);
        node.expect("add");
        node.write(&chained(place, &plain));
        node.expect("check");
        node.expect("del");
        let removed = node.call("del", "/run/netns/gone");
        assert!(removed.status.success(), "{removed:?}");
        let add = node.call("add", "/run/netns/gone");
        assert!(!add.status.success(), "{add:?}");
    });
}

#[test]
fn only_plugin_of_a_list_is_rejected_with_a_reason() {
    on_a_node(|place, node| {
        let entry = place.conf("\"timeout\":\"1s\"");
        node.write(&format!(
            "{{\"cniVersion\":\"1.0.0\",\"name\":\"{NETWORK}\",\"plugins\":[{entry}]}}"
        ));
        let add = node.call("add", &node.netns);
        let stderr = String::from_utf8_lossy(&add.stderr);
        assert!(!add.status.success(), "{add:?}");
        assert!(
            stderr.contains("usher-cni must follow another plugin"),
            "{stderr}"
        );
        node.expect("del");
    });
}
