//! The replies of the kubelet, the API server and the agent.

use std::collections::BTreeSet;

use usher_client::{
    cleanup,
    error_chain::chain,
    install::settings::Settings,
    kubelet::{self, CertificateFault, Kubelet},
};
use usher_core::{
    admin::{ContainerState, Status},
    base::id::{NetnsId, Pid},
    cleanup::Item,
    pod::{list::Selection, spec::Pod},
    settings::config::Config,
};
use usher_inspect::check::{
    agent::{self, Agent, Plugin},
    cluster,
    kubelet::{Cause, Found, Listed, Refusal},
};
use usher_sys::net::netns::Netns;

use crate::{
    data_source::{DataSource, node::Node},
    failure::Failure,
    node::metrics,
};

/// The kubelet's reply.
#[derive(Debug)]
pub(super) struct Pods {
    pub(super) found: Found,
    /// The number of pods, if it is known.
    pub(super) seen: Option<u64>,
    list: Option<(Vec<Pod>, Config)>,
}

impl Pods {
    pub(super) fn cluster(&self, version: Option<String>) -> Option<cluster::Found> {
        let (pods, config) = self.list.as_ref()?;
        Some(cluster::Found::of(pods, &config.recipes, version))
    }
}

/// Requests the pods from the kubelet, as the agent does.
pub(super) async fn kubelet(node: &Node) -> Pods {
    let args = &node.args.kubelet;
    let found = |pods| Found {
        url: args.url.to_string().trim_end_matches('/').to_owned(),
        token: args.token.display().to_string(),
        ca: args.ca.display().to_string(),
        pods,
    };
    let failed = |cause, error| Pods {
        found: found(Err(Refusal { cause, error })),
        seen: None,
        list: None,
    };
    let kubelet = match Kubelet::new(args) {
        Ok(kubelet) => kubelet,
        Err(error) => return failed(Cause::Setting, chain(&error)),
    };
    let file = node.args.config.display().to_string();
    let text = std::fs::read_to_string(&node.args.config).unwrap_or_default();
    // node-configuration reports an invalid file.
    let config = Config::parse(&file, &text).unwrap_or_default();
    let selection = Selection::from(&config.reads());
    let list = match kubelet.pods(selection).await {
        Ok(list) => list,
        Err(error) => return failed(cause(&error), chain(&error)),
    };
    let listed = Listed {
        pods: list.pods.len() + list.omitted_finished,
        skipped: list.skipped_counts.values().sum(),
        example: list.skipped.first().map(|skipped| chain(skipped)),
    };
    Pods {
        seen: u64::try_from(listed.pods).ok(),
        found: found(Ok(listed)),
        list: Some((list.pods, config)),
    }
}

fn cause(error: &kubelet::Error) -> Cause {
    match error {
        kubelet::Error::Token { .. } => Cause::Token,
        kubelet::Error::Tls { .. } => Cause::Trust,
        kubelet::Error::Connect { .. }
        | kubelet::Error::Untrusted { .. }
        | kubelet::Error::Http { .. } => match error.certificate_fault() {
            None => Cause::Connect,
            Some(CertificateFault::Time) => Cause::CertificateTime,
            Some(CertificateFault::Name) => Cause::CertificateName,
            Some(CertificateFault::Issuer) => Cause::CertificateIssuer,
        },
        kubelet::Error::Timeout { .. }
        | kubelet::Error::Stalled { .. }
        | kubelet::Error::TooSlow { .. } => Cause::Timeout,
        kubelet::Error::Unauthorized { .. } => Cause::Unauthorized,
        kubelet::Error::Forbidden { .. } => Cause::Forbidden,
        kubelet::Error::Status { .. } => Cause::ServerError,
        kubelet::Error::Body { .. }
        | kubelet::Error::TooLong { .. }
        | kubelet::Error::Decode { .. } => Cause::Decode,
    }
}

/// Queries the agent, and searches for tables without one.
pub(super) async fn agent(
    source: &DataSource,
    status: Result<Status, Failure>,
    settings: Option<&Settings>,
) -> agent::Found {
    let agent = match status {
        Ok(status) => of(source, status, settings).await,
        Err(failure) => Err(failure.text),
    };
    let tables = match &agent {
        // The tables of an agent that runs are no remains.
        Err(reason) if source.agent().is_ok() => Err(reason.clone()),
        agent => tables(source, agent.is_ok()).await,
    };
    agent::Found {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        agent,
        tables,
    }
}

async fn of(
    source: &DataSource,
    status: Status,
    settings: Option<&Settings>,
) -> Result<Agent, String> {
    let samples = metrics::gather(source)
        .await
        .map_err(|failure| failure.text)?;
    Ok(Agent {
        status,
        plugin: settings.map_or(Plugin::Absent, plugin),
        samples: samples.items,
    })
}

fn plugin(settings: &Settings) -> Plugin {
    match settings.is_binary_current() {
        Ok(None) => Plugin::Absent,
        Ok(Some(true)) => Plugin::Same,
        Ok(Some(false)) if !settings.source.exists() => {
            let source = settings.source.display();
            Plugin::Unknown(format!("there is no {source} here"))
        }
        Ok(Some(false)) => Plugin::Other,
        Err(error) => Plugin::Unknown(chain(&error)),
    }
}

/// Tables in network namespaces that none of the agent's pods uses; all tables if no agent runs.
async fn tables(source: &DataSource, has_agent: bool) -> Result<Vec<String>, String> {
    let known = if has_agent {
        namespaces(source).await?
    } else {
        BTreeSet::new()
    };
    let mut left = Vec::new();
    for found in cleanup::tables::look(&source.node.proc) {
        match &found.item {
            Item::Table { netns, .. } if known.contains(&(netns.dev, netns.ino)) => {}
            Item::Table { .. } => left.push(found.item.to_string()),
            Item::Unreadable(what) => return Err(format!("{what} cannot be looked at")),
            _ => {}
        }
    }
    Ok(left)
}

/// The network namespaces of the pods that the agent reports.
async fn namespaces(source: &DataSource) -> Result<BTreeSet<(u64, u64)>, String> {
    let pods = source.pods().await.map_err(|failure| failure.text)?;
    let containers = pods.items.iter().flat_map(|pod| &pod.containers);
    let pids = containers
        .filter(|container| container.state == ContainerState::Running)
        .filter_map(|container| container.pid);
    let of = |pid| Netns::of_process(&source.node.proc, Pid(pid)).ok();
    Ok(pids
        .filter_map(of)
        .map(|netns| {
            let NetnsId { dev, ino } = netns.id();
            (dev, ino)
        })
        .collect())
}
