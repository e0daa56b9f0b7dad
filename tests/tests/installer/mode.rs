//! The entry follows the Node's mode, and a restart of the agent leaves it as it is.

use usher_tests::{
    privilege,
    synthetic::{Agent, Node, clock::eventually},
};

use crate::host::{Host, PLUGIN};

const FILE: &str = "10-net.conflist";
const LIST: &str = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"bridge\"}]}";

#[test]
fn entry_follows_the_node_mode() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    host.write(FILE, LIST);
    let agent = host.start();
    host.wait_installed(&agent, FILE);
    assert_eq!(agent.metric("usher_cni_managed", ""), 1.0);
    drop(agent);
    let inode = host.inode(FILE);
    let agent = host.start();
    host.wait_installed(&agent, FILE);
    drop(agent);
    assert_eq!(host.inode(FILE), inode, "a restart replaced the file");
    let agent = host.start_in("observe");
    eventually("the end of the entry", || !host.text(FILE).contains(PLUGIN));
    assert_eq!(host.text(FILE), LIST);
    drop(agent);
}

#[test]
fn nothing_is_managed_without_directories() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    node.annotate(&[("usher.dev/hold", "enforce")]);
    let agent = Agent::start(&node);
    agent.wait_metric("usher_ready", "", |ready| ready == 1.0);
    assert_eq!(agent.metric("usher_cni_managed", ""), 0.0);
}
