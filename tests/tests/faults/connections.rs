//! A client on the node opens connections to the port for health and metrics, and sends nothing.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;

use usher_tests::synthetic::{Agent, PodSpec};
use usher_tests::wait::patience;

use crate::{enforcing, finish_and_quit};

/// More than the agent serves at the same time.
const MANY: usize = 200;
/// The limit of simultaneous connections of an agent.
const MOST: usize = 64;
/// Descriptors that are opened and closed meanwhile.
const OTHERS: usize = 16;

#[test]
fn silent_connections_block_no_other_client() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let before = agent.open_descriptors();
    let connect = |_| TcpStream::connect(agent.http()).unwrap();
    let silent: Vec<TcpStream> = (0..MANY).map(connect).collect();
    assert_eq!(agent.get("/healthz"), (200, "ok\n".to_owned()));
    let open = agent.open_descriptors();
    assert!(open <= before + MOST + OTHERS, "{before}, then {open}");
    let pod = node.run(&PodSpec::job("meanwhile"));
    finish_and_quit(&agent, &pod);
    for mut stream in silent {
        stream.set_read_timeout(Some(patience())).unwrap();
        match stream.read(&mut [0]) {
            Ok(read) => assert_eq!(read, 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}
