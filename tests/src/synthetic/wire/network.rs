//! A pod's network, and how its programs use it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The call of the CNI plugin when the network namespace has been made and
/// is still empty, and its input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Announcement {
    pub plugin: PathBuf,
    pub namespace: String,
    pub name: String,
    /// The agent's socket.
    pub socket: PathBuf,
    /// The log for failures.
    pub log: PathBuf,
    /// The timeout for the agent.
    pub timeout: Duration,
}

/// A call of the plugin, as the runtime sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Added {
    /// From before its process is created to its exit.
    pub took: Duration,
    /// Its exit code; None if a signal ended it.
    pub code: Option<i32>,
    pub output: String,
}

/// What a mesh redirects to its proxy, by rules of its own: all TCP of users
/// other than the proxy's that is not for loopback.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Capture {
    /// Whether DNS queries are redirected, to [`Capture::DNS`].
    pub dns: bool,
    /// TCP ports that are not redirected.
    pub excluded: Vec<u16>,
}

impl Capture {
    /// The port that TCP is redirected to.
    pub const PORT: u16 = 15001;
    /// The port that DNS queries are redirected to.
    pub const DNS: u16 = 15053;
    /// The user and group of the proxy.
    pub const PROXY: u32 = 1337;

    /// The rules, as Istio's agent creates them in the order and at the hook and
    /// priority of iptables' `nat OUTPUT`
    /// (istio/istio `tools/istio-iptables/pkg/capture/run.go`); a script of the
    /// `nft` program.
    pub fn script(&self) -> String {
        let (proxy, port, dns) = (Self::PROXY, Self::PORT, Self::DNS);
        let mut rules = vec![
            format!("meta skuid {proxy} return"),
            format!("meta skgid {proxy} return"),
        ];
        if self.dns {
            rules.push(format!("udp dport 53 redirect to :{dns}"));
            rules.push(format!("tcp dport 53 redirect to :{dns}"));
        }
        rules.push("ip daddr 127.0.0.0/8 return".to_owned());
        rules.push("ip6 daddr ::1 return".to_owned());
        rules.extend(
            self.excluded
                .iter()
                .map(|port| format!("tcp dport {port} return")),
        );
        rules.push(format!("meta l4proto tcp redirect to :{port}"));
        let rules = rules.join("\n  ");
        format!(
            "table inet mesh {{\n chain output {{\n  type nat hook output priority -100; policy accept;\n  {rules}\n }}\n}}\n"
        )
    }
}

/// An app that connects, once for each connection, and exits: with 0 if every connection was
/// established and got a response, else with 1.
///
/// At its end it prints `main <ns>`, `connected <ns> ...`, `answered <ns>
/// ...`, `failed-to-connect <errno> <ns>`, and `reached <text>` for the
/// destination that the peer reports.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Client {
    /// The destination.
    pub to: SocketAddr,
    /// The number of simultaneous connections.
    pub connections: usize,
    /// One UDP datagram each instead of a connection: no retry, no timeout.
    pub datagram: bool,
    /// A wait before the connection, as in command wrappers.
    pub wait: Option<Wait>,
    /// The duration of its own start, before it connects.
    pub starts_for: Duration,
    /// It runs on until it is terminated.
    pub stays: bool,
    /// It exits with 0, even after failures.
    pub shrugs: bool,
}

/// A loop around a command that polls until a port answers with 2xx.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Wait {
    /// A port of 127.0.0.1.
    pub port: u16,
    /// The polling interval.
    pub period: Duration,
    /// It sleeps before the first request as well.
    pub sleeps_first: bool,
}

impl Client {
    /// One connection.
    pub fn to(to: &str) -> Self {
        Self {
            to: to.parse().expect("an address and a port"),
            connections: 1,
            datagram: false,
            wait: None,
            starts_for: Duration::ZERO,
            stays: false,
            shrugs: false,
        }
    }

    /// Sets the number of simultaneous connections.
    #[must_use]
    pub const fn times(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Uses UDP.
    #[must_use]
    pub const fn datagram(mut self) -> Self {
        self.datagram = true;
        self
    }

    /// Waits first.
    #[must_use]
    pub const fn after(mut self, wait: Wait) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets the duration of its own start.
    #[must_use]
    pub const fn starting_for(mut self, time: Duration) -> Self {
        self.starts_for = time;
        self
    }

    /// Ignores failures.
    #[must_use]
    pub const fn shrugging(mut self) -> Self {
        self.shrugs = true;
        self
    }

    /// Runs on until it is terminated.
    #[must_use]
    pub const fn staying(mut self) -> Self {
        self.stays = true;
        self
    }
}

impl Wait {
    /// `pilot-agent wait`: sleeps for 500 ms before each request
    /// (istio/istio `pilot/cmd/pilot-agent/app/wait.go`).
    pub const PILOT_AGENT: Self = Self {
        port: 15021,
        period: Duration::from_millis(500),
        sleeps_first: true,
    };

    /// `until curl ...; do sleep 1; done`
    pub const EVERY_SECOND: Self = Self {
        port: 15021,
        period: Duration::from_secs(1),
        sleeps_first: false,
    };
}
