//! Stand-ins respond and exit as recorded for their kinds.
//!
//! In a machine of its own a pod with `hostNetwork` has the loopback of this
//! test, so the test can send requests to it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use usher_tests::privilege;
use usher_tests::synthetic::catalog::{
    StandIn, cloud_sql, consul, dapr, drain, envoy, istio, kuma, linkerd, logs, vault,
};
use usher_tests::synthetic::{Node, Pod, machine};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// The status of a response; 0 if the connection ends without one, None if there is no listener.
fn ask(address: IpAddr, port: u16, line: &str, header: &str) -> Option<u16> {
    let mut stream = TcpStream::connect((address, port)).ok()?;
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 256];
    let read = stream.read(&mut answer).unwrap_or(0);
    let text = String::from_utf8_lossy(&answer[..read]).into_owned();
    let code = text.split(' ').nth(1);
    Some(code.map_or(0, |code| code.parse().unwrap()))
}

struct Bench {
    node: Node,
}

impl Bench {
    fn run(&self, stand_in: StandIn) -> (Pod, String) {
        let name = stand_in.container.name.clone();
        let pod = self.node.run(&stand_in.job("stand-in").host_network());
        (pod, name)
    }

    /// The last of these requests ends it with this code, the others do not.
    fn exits_after(&self, stand_in: StandIn, requests: &[(u16, &str, u16)], code: i32) -> Duration {
        let (pod, name) = self.run(stand_in);
        let started = Instant::now();
        for (port, line, expected) in requests {
            assert!(pod.end_so_far(&name).is_none(), "before {line}");
            assert_eq!(ask(V4, *port, line, ""), Some(*expected), "{line}");
        }
        assert_eq!(pod.ended(&name).code(), code);
        started.elapsed()
    }

    fn stays(&self, stand_in: StandIn, requests: &[(u16, &str, u16)]) {
        let (pod, name) = self.run(stand_in);
        for (port, line, expected) in requests {
            assert_eq!(ask(V4, *port, line, ""), Some(*expected), "{line}");
        }
        // The sidecar must still run, to be ended by its usual signal.
        pod.signal(&name, Signal::SIGTERM);
        assert_eq!(pod.ended(&name).code(), 0);
        pod.wait_line(&name, "term ");
    }

    fn signalled(&self, stand_in: StandIn, signal: Signal, code: i32) {
        let (pod, name) = self.run(stand_in);
        pod.signal(&name, signal);
        assert_eq!(pod.ended(&name).code(), code);
    }
}

fn bench(test: &str) -> Option<Bench> {
    let test = format!("stand_in::{test}");
    (privilege::granted() && machine::entered(&test)).then(|| Bench { node: Node::new() })
}

const QUIT: &str = "POST /quitquitquit";

#[test]
fn meshes() {
    let Some(bench) = bench("meshes") else { return };
    let status = (15_020, QUIT, 200);
    let drained = drain(Duration::from_secs(5));
    let got = [(15_020, "GET /quitquitquit", 405), status];
    bench.stays(istio::v1_2(), &[(15_020, QUIT, 400), (15_000, QUIT, 200)]);
    assert!(bench.exits_after(istio::v1_3(), &got, 0) > drained);
    bench.stays(istio::v1_3(), &[(15_000, QUIT, 200)]);
    assert!(bench.exits_after(istio::v1_20(), &got, 0) > drained);
    bench.exits_after(istio::v1_20(), &[(15_000, QUIT, 200)], 0);
    bench.exits_after(istio::v1_26(), &got, 0);
    bench.exits_after(istio::v1_26_without_a_reply(), &[(15_020, QUIT, 0)], 0);
    let shutdown = (4191, "POST /shutdown", 200);
    bench.exits_after(
        linkerd::enabled(),
        &[(4191, "GET /shutdown", 405), shutdown],
        0,
    );
    bench.stays(linkerd::disabled(), &[(4191, "POST /shutdown", 404)]);
    bench.stays(
        linkerd::closed_by_policy(),
        &[(4191, "POST /shutdown", 403)],
    );
    let graceful = [(20_600, "GET /graceful_shutdown", 200)];
    assert!(bench.exits_after(consul::dataplane(), &graceful, 0) > drain(Duration::from_secs(30)));
    bench.exits_after(consul::dataplane_1_2(), &graceful, 1);
    bench.signalled(consul::dataplane_1_2(), Signal::SIGTERM, 0);
    bench.exits_after(consul::envoy(), &[(19_000, QUIT, 200)], 0);
    bench.exits_after(kuma::v2_13(), &[(9901, QUIT, 200)], 0);
    bench.exits_after(envoy::osm(), &[(15_000, QUIT, 200)], 0);
    bench.stays(envoy::app_mesh(), &[(9901, QUIT, 200)]);
    let plain = [(9901, "GET /quitquitquit", 405), (9901, QUIT, 200)];
    bench.exits_after(envoy::plain(), &plain, 0);
}

#[test]
fn others() {
    let Some(bench) = bench("others") else { return };
    let shutdown = (3500, "POST /v1.0/shutdown", 204);
    let got = (3500, "GET /v1.0/shutdown", 404);
    bench.exits_after(dapr::open(), &[got, shutdown], 0);
    bench.stays(dapr::hidden(), &[(3500, "POST /v1.0/shutdown", 404)]);
    bench.stays(dapr::with_a_token(), &[(3500, "POST /v1.0/shutdown", 401)]);
    let (pod, name) = bench.run(dapr::with_a_token());
    let header = "dapr-api-token: synthetic-api-token\r\n";
    assert_eq!(ask(V4, 3500, "POST /v1.0/shutdown", header), Some(204));
    assert_eq!(pod.ended(&name).code(), 0);
    drop(pod);
    for line in ["GET /quitquitquit", QUIT] {
        bench.exits_after(cloud_sql::v2_with_the_endpoint(), &[(9091, line, 200)], 0);
    }
    bench.signalled(cloud_sql::v2(), Signal::SIGTERM, 143);
    bench.signalled(cloud_sql::v2(), Signal::SIGINT, 130);
    bench.signalled(cloud_sql::v2_exit_zero(), Signal::SIGTERM, 0);
    bench.signalled(cloud_sql::v1(), Signal::SIGTERM, 0);
    let quit = [(8200, "POST /agent/v1/quit", 200)];
    bench.exits_after(vault::with_the_endpoint(), &quit, 0);
    bench.signalled(vault::plain(), Signal::SIGTERM, 0);
    bench.signalled(logs::fluent_bit(), Signal::SIGTERM, 0);
}

#[test]
fn addresses() {
    let Some(bench) = bench("addresses") else {
        return;
    };
    let (pod, name) = bench.run(istio::v1_20_ipv6());
    assert_eq!(ask(V4, 15_000, QUIT, ""), None);
    assert_eq!(ask(V6, 15_000, QUIT, ""), Some(200));
    assert_eq!(pod.ended(&name).code(), 0);
    drop(pod);
    // The listener of pilot-agent accepts both families.
    let (pod, name) = bench.run(istio::v1_26());
    assert_eq!(ask(V6, 15_020, "GET /healthz/ready", ""), Some(200));
    assert_eq!(ask(V4, 15_020, QUIT, ""), Some(200));
    assert_eq!(pod.ended(&name).code(), 0);
}

/// SIGTERM has no effect on pid 1 without a handler, and its child ends the
/// container.
#[test]
fn shell() {
    let Some(bench) = bench("shell") else {
        return;
    };
    let (pod, name) = bench.run(vault::below_a_shell());
    let shell = pod.pid(&name);
    let child = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let child: i32 = child.trim().parse().unwrap();
    let comm = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert_eq!((comm(shell).trim(), comm(child).trim()), ("sh", "vault"));
    pod.signal(&name, Signal::SIGTERM);
    pod.signal(&name, Signal::SIGINT);
    assert!(pod.end_so_far(&name).is_none());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), Signal::SIGTERM).unwrap();
    pod.wait_line(&name, "term ");
    assert_eq!(pod.ended(&name).code(), 0);
}
