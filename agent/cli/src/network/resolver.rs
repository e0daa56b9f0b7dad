//! Resolves names as a pod does: with its `resolv.conf` and `hosts`, and with queries from its network namespace.
//!
//! Both files are on the node: the runtime and the kubelet mount them into the pod. They are read there, so no file
//! system of the pod is entered.

mod client;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    time::{Duration, Instant},
};

use usher_client::error_chain::chain;
use usher_core::admin::Role;
use usher_inspect::dns::{
    self, Exchange, Name, Query, RecordType, Resolution, ResolvConf, Source, addresses_of,
};
use usher_sys::{
    net::netns::Netns,
    pods::{mounted_file, pidfd::Pidfd},
};

pub(crate) use self::client::{family, micros};
use crate::{
    data_source::node::{Node, Target},
    failure::Failure,
};

const DNS_PORT: u16 = 53;
const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";

#[derive(Debug)]
pub(crate) struct Resolver<'a> {
    node: &'a Node,
    netns: &'a Netns,
    target: &'a Target,
    /// Servers that replace those of `resolv.conf`.
    servers: &'a [IpAddr],
}

/// The result of querying servers for one name.
enum Reply {
    Found(Vec<IpAddr>, SocketAddr),
    /// The name does not exist, or has no addresses.
    Negative,
    /// Some server replied with an error.
    Failure,
    None,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(
        node: &'a Node,
        target: &'a Target,
        netns: &'a Netns,
        servers: &'a [IpAddr],
    ) -> Self {
        Self {
            node,
            netns,
            target,
            servers,
        }
    }

    /// Resolves a name within this time.
    ///
    /// # Errors
    /// If a server is needed, and none is known.
    pub(crate) async fn resolve(
        &self,
        name: &Name,
        timeout: Duration,
    ) -> Result<Resolution, Failure> {
        let start = Instant::now();
        let local = self.local(name);
        let conf = if local.is_empty() {
            self.conf()?
        } else {
            ResolvConf::default()
        };
        let mut lookup = Lookup {
            netns: self.netns,
            conf: &conf,
            deadline: start + timeout,
            exchanges: Vec::new(),
        };
        let found = if local.is_empty() {
            lookup.search(name).await
        } else {
            Some((local, Source::Hosts))
        };
        let exchanges = lookup.exchanges;
        let (addresses, source) = found.map_or((Vec::new(), None), |(addresses, source)| {
            (addresses, Some(source))
        });
        Ok(Resolution {
            pod: self.target.pod.display_name(),
            uid: self.target.uid.to_string(),
            name: name.to_string(),
            addresses,
            source,
            time_us: micros(start.elapsed()),
            exchanges,
            resolver: dns::Resolver {
                servers: conf.servers,
                search: conf.search,
                ndots: conf.ndots,
            },
        })
    }

    /// The pod's `resolv.conf`, with the servers of the command line.
    fn conf(&self) -> Result<ResolvConf, Failure> {
        let pod = self.target.pod.display_name();
        let conf = match self.file(Path::new(RESOLV_CONF)) {
            Ok(Some(text)) => ResolvConf::parse(&text),
            Ok(None) | Err(_) if !self.servers.is_empty() => ResolvConf::default(),
            Ok(None) => {
                return Err(Failure::unavailable(format!(
                    "the runtime has mounted no {RESOLV_CONF} into {pod}: name a DNS server with --server"
                )));
            }
            Err(error) => {
                return Err(Failure::unavailable(format!(
                    "cannot read {RESOLV_CONF} of {pod} ({error}): name a DNS server with --server"
                )));
            }
        };
        if self.servers.is_empty() {
            return Ok(conf);
        }
        Ok(ResolvConf {
            servers: self.servers.to_vec(),
            ..conf
        })
    }

    /// The addresses that need no query.
    fn local(&self, name: &Name) -> Vec<IpAddr> {
        let hosts = self.file(Path::new(HOSTS)).ok().flatten();
        let hosts = hosts.unwrap_or_default();
        let listed = addresses_of(name.relative(), &hosts);
        if listed.is_empty() && name.is_localhost() {
            return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        }
        listed
    }

    /// The text of a file that is mounted into the pod, from the first container that has it. App containers come
    /// first.
    fn file(&self, point: &Path) -> Result<Option<String>, String> {
        let mut containers: Vec<_> = self.target.running().collect();
        containers.sort_by_key(|container| container.role != Role::App);
        let mut failed = None;
        for container in containers {
            let Some(init) = container.init else { continue };
            let Ok(pidfd) = Pidfd::open(init) else {
                continue;
            };
            let read = mounted_file::read(
                &self.node.proc,
                &self.node.args.kubelet.host_root,
                init,
                point,
            );
            // Use the text only if the process is still the one that the survey found.
            if !self.target.has(&self.node.proc, container, init) || !pidfd.is_alive() {
                continue;
            }
            match read {
                Ok(Some(text)) => return Ok(Some(text)),
                Ok(None) => {}
                Err(error) => failed = Some(chain(&error)),
            }
        }
        failed.map_or(Ok(None), Err)
    }
}

/// The queries about one name.
struct Lookup<'a> {
    netns: &'a Netns,
    conf: &'a ResolvConf,
    deadline: Instant,
    exchanges: Vec<Exchange>,
}

impl Lookup<'_> {
    /// Queries the name with each search domain, as glibc does: a server without a reply ends the search.
    async fn search(&mut self, name: &Name) -> Option<(Vec<IpAddr>, Source)> {
        for candidate in self.conf.candidates(name) {
            match self.query(&candidate).await {
                Reply::Found(addresses, server) => {
                    let queried = candidate.to_string();
                    return Some((addresses, Source::Server { server, queried }));
                }
                Reply::Negative | Reply::Failure => {}
                Reply::None => return None,
            }
        }
        None
    }

    /// Queries the servers in turn, for both types of addresses at once.
    async fn query(&mut self, name: &Name) -> Reply {
        let mut last = Reply::None;
        for _attempt in 0..self.conf.attempts {
            for server in &self.conf.servers {
                let left = self.deadline.saturating_duration_since(Instant::now());
                let limit = left.min(self.conf.timeout);
                if limit.is_zero() {
                    return last;
                }
                let server = SocketAddr::new(*server, DNS_PORT);
                let query = |record| Query {
                    id: client::random_id(),
                    name: name.clone(),
                    record,
                };
                let (v4, v6) = (query(RecordType::A), query(RecordType::Aaaa));
                let (v4, v6) = tokio::join!(
                    client::exchange(self.netns, &v4, server, limit),
                    client::exchange(self.netns, &v6, server, limit)
                );
                let outcomes = [v4.outcome, v6.outcome];
                let addresses = [v4.addresses.clone(), v6.addresses.clone()].concat();
                self.exchanges.extend([v4, v6]);
                if !addresses.is_empty() {
                    return Reply::Found(addresses, server);
                }
                if outcomes.iter().all(|outcome| outcome.is_definite()) {
                    return Reply::Negative;
                }
                if outcomes.iter().any(|outcome| outcome.is_reply()) {
                    last = Reply::Failure;
                }
            }
        }
        last
    }
}
