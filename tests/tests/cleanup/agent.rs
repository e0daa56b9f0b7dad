//! `usher-agent --cleanup`.

use std::fs;

use usher_tests::synthetic::{Node, clock::eventually};

use crate::host::{Host, SIDECAR, entered};

#[test]
fn ready_once_nothing_is_left() {
    if !entered("agent::ready_once_nothing_is_left") {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    let pod = host.dirty();
    let notes = node.run_dir().join("notes");
    fs::write(&notes, "mine").unwrap();
    pod.send_line(SIDECAR, "listen");
    // The kernel repeats the SYN of a held connection. One that arrives earlier would be refused.
    pod.wait_line(SIDECAR, "listening 15021 ");

    let agent = host.cleaning_agent();
    eventually("what is left", || agent.get("/readyz").1.contains("notes"));
    assert_eq!(agent.get("/readyz").0, 503);
    assert_eq!(agent.get("/healthz").0, 200);
    // The readiness does not delay anything else.
    assert_eq!(pod.client_result("app").code, 0);
    fs::remove_file(&notes).unwrap();
    eventually("the node to be clean", || agent.get("/readyz").0 == 200);
    host.assert_clean(&pod);

    // Another program restores an old configuration.
    host.write(
        "net.d/20-old.conflist",
        "{\"name\":\"o\",\"plugins\":[{\"type\":\"usher-cni\"}]}",
    );
    eventually("the end of what came back", || {
        !host.path("net.d/20-old.conflist").exists()
    });
    eventually("the node to be clean again", || {
        agent.get("/readyz").0 == 200
    });
    assert_eq!(agent.stop(), Some(0));
    host.assert_clean(&pod);
}

#[test]
fn waits_for_another_agent_to_exit() {
    if !entered("agent::waits_for_another_agent_to_exit") {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    let before = host.agent();
    let pod = host.held(&before);
    let files = host.files();
    let agent = host.cleaning_agent();
    eventually("the other agent to be seen", || {
        agent.get("/readyz").1.contains("an agent still runs")
    });
    assert_eq!(host.files(), files);
    assert_eq!(before.stop(), Some(0));
    eventually("the node to be clean", || agent.get("/readyz").0 == 200);
    host.assert_clean(&pod);
}
