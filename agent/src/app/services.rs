//! The services: clients of the kubelet and the API server, the configuration file, the CNI plugin's installation,
//! the health endpoint and the admin socket.

use std::{
    collections::BTreeSet,
    future::{Future, pending},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use kube::Client;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};
use usher_client::{api_server, error_chain::chain, run_dir};
use usher_core::{base::id::PodUid, pod::list::Selection, recipe::Reads, settings::config::Config};
use usher_sys::process::code_pages;

use crate::{
    args::{ApiServer, Args},
    event_loop::Input,
    install::cni::{self, Installer},
    kubernetes::{
        events::EventPublisher, kubelet::Kubelet, namespaces::Namespaces, node_watch::NodeWatch,
        own_daemonset::OwnDaemonSet, startup_taint::StartupTaint,
    },
    node::config_file::ConfigFile,
    serve::{
        admin::{self, Admin},
        metrics::{self, Service},
        probes::{self, Probes, Readiness, ServiceThread},
    },
    telemetry::{decision_log::RecorderHandle, reporter::Reporter},
};

pub(super) struct Services<'args> {
    pub(super) args: &'args Args,
    pub(super) probes: std::net::TcpListener,
    pub(super) http: std::net::TcpListener,
    /// None if the agent does not install the CNI plugin.
    pub(super) plugin: Option<cni::Settings>,
    /// The chart's preset for this node.
    pub(super) platform: Option<&'static str>,
    pub(super) kubelet: Kubelet,
    /// The fields of pods that the current configuration reads.
    pub(super) reads: watch::Sender<Reads>,
    pub(super) config: ConfigFile,
    pub(super) inputs: mpsc::Sender<Input>,
    /// Requests for the kubelet's pods. A request names the finished pods that the list must include.
    pub(super) pod_requests: mpsc::Receiver<BTreeSet<PodUid>>,
    /// Requests for Namespaces, by name.
    pub(super) namespace_requests: mpsc::Receiver<String>,
    /// Whether the Node's mode needs the CNI plugin.
    pub(super) plugin_wanted: watch::Receiver<bool>,
    /// None if the agent works without an API server.
    pub(super) publisher: Option<EventPublisher>,
    pub(super) reporter: Reporter,
    pub(super) recorder: RecorderHandle,
    pub(super) started: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Stopped,
    /// The agent was terminated after its DaemonSet was deleted: no other agent follows on this node.
    Deleted,
}

impl Services<'_> {
    /// Serves until a signal arrives or the event loop ends.
    pub(super) async fn serve(mut self) -> anyhow::Result<End> {
        let readiness = Arc::new(Readiness::default());
        let admin = self.admin(&readiness);
        tracing::info!(
            probes = %self.probes.local_addr()?,
            http = %self.http.local_addr()?,
            "serving probes and metrics"
        );
        let (service_thread, pings) = ServiceThread::new();
        let probes = Probes {
            readiness: Arc::clone(&readiness),
            event_loop: self.inputs.downgrade(),
            service_thread,
        };
        let service = Service {
            metrics: Arc::clone(&self.reporter.metrics),
            readiness: Arc::clone(&readiness),
        };
        self.send_last_node_values().await?;
        let client = match self.args.api_server {
            ApiServer::Off => None,
            ApiServer::InCluster => Some(api_server::client().await?),
        };
        if let (Some(publisher), Some(client)) = (self.publisher.take(), client.clone()) {
            // A separate task, so that recording many decisions does not delay the publisher.
            tokio::spawn(publisher.run(client));
        }
        let node = self.node_watch(client.clone(), &readiness);
        let taint = self.startup_taint(client.clone(), &readiness);
        let daemonset = self.own_daemonset(client.clone());
        let confirmed = confirm(daemonset.as_ref());
        let plugin = self.installer(&readiness);
        let namespaces = self.namespaces();
        let inputs = self.inputs;
        let namespaces = namespaces.serve(client, self.namespace_requests, inputs.clone());
        let reads = self.reads.subscribe();
        let pods = list_pods(
            self.kubelet,
            reads,
            self.pod_requests,
            inputs.clone(),
            readiness,
        );
        let config = self.config.watch(async |config: Arc<Config>| {
            // Before the event loop requests the pod list for the new configuration.
            self.reads.send_replace(config.reads());
            // Fails only when the agent is ending.
            drop(inputs.send(Input::Config(config)).await);
        });
        probes.spawn(self.probes)?;
        let listener = TcpListener::from_std(self.http)?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let is_terminated = tokio::select! {
            () = metrics::serve(listener, service) => false,
            () = probes::reply_to_pings(pings) => false,
            () = node => false,
            () = taint => false,
            () = confirmed => false,
            () = pods => false,
            () = namespaces => false,
            () = config => false,
            () = plugin => false,
            () = admin => false,
            _ = terminate.recv() => true,
            _ = interrupt.recv() => false,
        };
        match daemonset {
            Some(daemonset) if is_terminated && daemonset.is_deleted().await => Ok(End::Deleted),
            _ => Ok(End::Stopped),
        }
    }

    fn admin(&self, readiness: &Arc<Readiness>) -> impl Future<Output = ()> + use<> {
        let socket = self.args.node.run_dir.join(run_dir::ADMIN_SOCKET);
        let admin = Admin {
            node_name: self.args.node_name.clone(),
            started: self.started,
            inputs: self.inputs.clone(),
            recorder: self.recorder.clone(),
            readiness: Arc::clone(readiness),
            metrics: Arc::clone(&self.reporter.metrics),
            health: Arc::clone(&self.reporter.health),
            flags: self.args.settings.clone().into(),
        };
        admin::serve(socket, admin)
    }

    fn namespaces(&self) -> Namespaces {
        let run_dir = self.args.node.run_dir.clone();
        Namespaces::new(run_dir, self.reporter.clone())
    }

    /// Sends the Node's annotations and labels to the event loop whenever they change.
    fn node_watch(
        &self,
        client: Option<Client>,
        readiness: &Arc<Readiness>,
    ) -> impl Future<Output = ()> + use<> {
        let watch = client.map(|client| NodeWatch {
            client,
            node_name: self.args.node_name.clone(),
            run_dir: self.args.node.run_dir.clone(),
            inputs: self.inputs.clone(),
            reporter: self.reporter.clone(),
            readiness: Arc::clone(readiness),
        });
        let readiness = Arc::clone(readiness);
        async move {
            let Some(watch) = watch else {
                readiness.node_known.store(true, Ordering::Release);
                return pending().await;
            };
            watch.serve().await;
        }
    }

    /// Removes the startup taint from the Node, if one is configured.
    fn startup_taint(
        &self,
        client: Option<Client>,
        readiness: &Arc<Readiness>,
    ) -> impl Future<Output = ()> + use<> {
        let key = self.args.startup_taint.clone();
        let taint = client
            .filter(|_| !key.is_empty())
            .map(|client| StartupTaint {
                key,
                node_name: self.args.node_name.clone(),
                client,
                readiness: Arc::clone(readiness),
                reporter: self.reporter.clone(),
            });
        async move {
            let Some(taint) = taint else {
                return pending().await;
            };
            taint.serve().await;
        }
    }

    /// None without the DaemonSet's name.
    fn own_daemonset(&self, client: Option<Client>) -> Option<OwnDaemonSet> {
        let namespace = self.args.cni.pod_namespace.clone()?;
        let name = self.args.cleanup.daemonset.clone();
        client
            .filter(|_| !name.is_empty())
            .map(|client| OwnDaemonSet {
                client,
                namespace,
                name,
                node_name: self.args.node_name.clone(),
                health: Arc::clone(&self.reporter.health),
                was_read: AtomicBool::new(false),
            })
    }

    /// Keeps the CNI plugin installed while the Node's mode needs it.
    fn installer(&self, readiness: &Arc<Readiness>) -> impl Future<Output = ()> + use<> {
        let settings = self.plugin.clone();
        let platform = self.platform;
        if settings.is_some() {
            let why = "the CNI plugin was not checked yet";
            readiness.set_plugin(Some(why.to_owned()));
        }
        let is_managed = i64::from(settings.is_some());
        self.reporter.metrics.cni_managed.set(is_managed);
        let mut wanted = self.plugin_wanted.clone();
        let reporter = self.reporter.clone();
        let readiness = Arc::clone(readiness);
        async move {
            let Some(settings) = settings else {
                readiness.plugin_settled.store(true, Ordering::Release);
                readiness.changed.notify_one();
                return pending().await;
            };
            // An installed plugin stays as it is until the Node's mode is known.
            if wanted.changed().await.is_err() {
                return pending().await;
            }
            let installer = Installer::new(settings, wanted, platform, reporter, readiness);
            installer.serve().await;
        }
    }

    async fn send_last_node_values(&self) -> anyhow::Result<()> {
        let loaded = run_dir::load_node_values(&self.args.node.run_dir);
        let known = loaded.unwrap_or_else(|error| {
            tracing::warn!(
                error = %chain(&error),
                "could not read the Node's last values; observing until the API server replies"
            );
            None
        });
        let input = known.map_or(Input::NodeUnknown, Input::Node);
        Ok(self.inputs.send(input).await?)
    }
}

/// Reads the agent's DaemonSet until that succeeds. Does not end.
async fn confirm(daemonset: Option<&OwnDaemonSet>) {
    if let Some(daemonset) = daemonset {
        daemonset.confirm().await;
    }
    pending::<()>().await;
}

/// Lists the kubelet's pods whenever the event loop requests it.
async fn list_pods(
    mut kubelet: Kubelet,
    reads: watch::Receiver<Reads>,
    mut requests: mpsc::Receiver<BTreeSet<PodUid>>,
    inputs: mpsc::Sender<Input>,
    readiness: Arc<Readiness>,
) {
    while let Some(tracked) = requests.recv().await {
        let selection = Selection {
            finished: Some(tracked),
            ..Selection::from(&*reads.borrow())
        };
        let pods = kubelet.pods(selection).await.map(|list| list.pods);
        if pods.is_some() && readiness.note_list() {
            release_startup_code();
        }
        if inputs.send(Input::Pods(pods)).await.is_err() {
            return;
        }
    }
}

/// Releases the code of the start, which is most of the code that has run so far.
fn release_startup_code() {
    if let Err(error) = code_pages::give_back() {
        tracing::debug!(error = %chain(&error), "could not release the code pages of the start; the resident memory is higher than needed");
    }
}
