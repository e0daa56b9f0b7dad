//! The first program of a container, of every kind and at every location.

use usher_tests::synthetic::wire::Entry;
use usher_tests::synthetic::{Agent, PodSpec};

use crate::{APP, app, held, holding, is_held_until_ready, pod, proxy, ran_after_the_proxy, ready};

fn at(entry: Entry) -> PodSpec {
    let name = format!("{entry:?}").to_lowercase();
    pod(&name).with(app(APP).entry(entry)).with(proxy())
}

#[test]
fn each_kind_of_entry_point() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = Entry::ALL.map(|entry| node.create(&at(entry)));
    for pod in &pods {
        held(&agent, pod);
    }
    for pod in &pods {
        ready(pod);
    }
    for pod in &pods {
        ran_after_the_proxy(pod);
    }
}

#[test]
fn each_kind_of_entry_point_with_shared_pids() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    for entry in Entry::ALL {
        let pod = node.create(&at(entry).sharing_processes());
        is_held_until_ready(&agent, &pod);
    }
}

#[test]
fn host_pids_and_user_namespace() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let mut node_pids = at(Entry::Root).host_pids();
    node_pids.name = "node-pids".to_owned();
    let mut own_users = at(Entry::Root).own_users();
    own_users.name = "own-users".to_owned();
    for spec in [node_pids, own_users] {
        is_held_until_ready(&agent, &node.create(&spec));
    }
}
