//! All that talks to others: kubelet, API server, configuration, health and metrics, the admin socket.

use std::{
    future::{Future, pending},
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use kube::Client;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};
use usher_client::{api_server, error_chain::chain, run_dir};
use usher_core::{recipe::Reads, settings::config::Config};
use usher_sys::process::code_pages;

use crate::{
    args::{ApiServer, Args},
    event_loop::Input,
    install::cni::{self, Installer},
    kubernetes::{
        events::{Events, Teller},
        kubelet::Kubelet,
        namespaces::Namespaces,
        node_watch::NodeWatch,
        startup_taint::StartupTaint,
    },
    node::config_file::ConfigFile,
    serve::{
        admin::{self, Admin},
        http::{self, Readiness, Service},
    },
    telemetry::{decision_log::Desk, metrics::Metrics},
};

/// What talks to others.
pub(super) struct Services<'args> {
    pub(super) args: &'args Args,
    /// Of health and metrics.
    pub(super) http: std::net::TcpListener,
    /// None where no CNI plugin is to be installed.
    pub(super) plugin: Option<cni::Settings>,
    /// Whether the Node wants it.
    pub(super) plugin_wanted: watch::Receiver<bool>,
    pub(super) kubelet: Kubelet,
    /// What the configuration in force looks at in pods.
    pub(super) reads: watch::Sender<Reads>,
    pub(super) config: ConfigFile,
    pub(super) wanted_pods: mpsc::Receiver<()>,
    pub(super) wanted_namespaces: mpsc::Receiver<String>,
    pub(super) inputs: mpsc::Sender<Input>,
    /// None where nobody is told.
    pub(super) events: Option<Events>,
    pub(super) teller: Teller,
    pub(super) metrics: Arc<Metrics>,
    pub(super) desk: Desk,
    pub(super) begun: Instant,
}

impl Services<'_> {
    /// Serves until a signal comes, or the first thread is gone.
    pub(super) async fn serve(mut self) -> anyhow::Result<()> {
        let readiness = Arc::new(Readiness::default());
        let service = Service {
            metrics: Arc::clone(&self.metrics),
            readiness: Arc::clone(&readiness),
            inputs: self.inputs.clone(),
        };
        let admin = admin::answer(
            self.args.node.run_dir.join(run_dir::ADMIN_SOCKET),
            Admin {
                node_name: self.args.node_name.clone(),
                begun: self.begun,
                inputs: self.inputs.clone(),
                desk: self.desk.clone(),
                readiness: Arc::clone(&readiness),
                metrics: Arc::clone(&self.metrics),
                flags: self.args.settings.clone().into(),
            },
        );
        tracing::info!(http = %self.http.local_addr()?, "serving health and metrics");
        let known = self.last_known_annotations();
        let known = known.map_or(Input::NodeUnknown, Input::Node);
        self.inputs.send(known).await?;
        let client = match self.args.api_server {
            ApiServer::Off => None,
            ApiServer::InCluster => Some(api_server::client().await?),
        };
        if let (Some(events), Some(client)) = (self.events.take(), client.clone()) {
            // A task of its own: recording many decisions leaves it its turn.
            tokio::spawn(events.serve(client));
        }
        let node = self.node_watch(client.clone(), &readiness);
        let taint = self.startup_taint(client.clone(), &readiness);
        let plugin = self.installer(&readiness);
        let run_dir = self.args.node.run_dir.clone();
        let namespaces = Namespaces::new(run_dir, Arc::clone(&self.metrics)).serve(
            client.clone(),
            self.wanted_namespaces,
            self.inputs.clone(),
        );
        let fetch = fetch(
            self.kubelet,
            self.reads.subscribe(),
            self.wanted_pods,
            self.inputs.clone(),
            Arc::clone(&readiness),
        );
        let config = self.config.watch(async |config: Arc<Config>| {
            // Before the list that the new configuration asks for.
            self.reads.send_replace(config.reads());
            // Nobody listens only when the agent is ending.
            drop(self.inputs.send(Input::Config(config)).await);
        });
        let listener = TcpListener::from_std(self.http)?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            () = http::serve(listener, service) => Ok(()),
            () = node => Ok(()),
            () = taint => Ok(()),
            () = fetch => Ok(()),
            () = namespaces => Ok(()),
            () = config => Ok(()),
            () = plugin => Ok(()),
            () = admin => Ok(()),
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    }

    /// Tells the modes that the own Node's annotations ask for, as they change.
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
            metrics: Arc::clone(&self.metrics),
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

    /// Takes the startup taint off the Node, where there is to be one.
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
                metrics: Arc::clone(&self.metrics),
                teller: self.teller.clone(),
            });
        async move {
            let Some(taint) = taint else {
                return pending().await;
            };
            taint.serve().await;
        }
    }

    /// Has the CNI plugin installed while the Node wants it.
    fn installer(&self, readiness: &Arc<Readiness>) -> impl Future<Output = ()> + use<> {
        let settings = self.plugin.clone();
        let is_managed = i64::from(settings.is_some());
        self.metrics.cni_managed.set(is_managed);
        let mut wanted = self.plugin_wanted.clone();
        let metrics = Arc::clone(&self.metrics);
        let teller = self.teller.clone();
        let readiness = Arc::clone(readiness);
        async move {
            let Some(settings) = settings else {
                readiness.plugin_settled.store(true, Ordering::Release);
                readiness.news.notify_one();
                return pending().await;
            };
            // What is there stays as it is until somebody says what the Node wants.
            if wanted.changed().await.is_err() {
                return pending().await;
            }
            let installer = Installer::new(settings, wanted, metrics, teller, readiness);
            installer.serve().await;
        }
    }

    fn last_known_annotations(&self) -> Option<run_dir::Annotations> {
        match run_dir::load(&self.args.node.run_dir, run_dir::NODE_ANNOTATIONS) {
            Ok(known) => known,
            Err(error) => {
                tracing::warn!(
                    error = %chain(&error),
                    "could not read the Node's last known annotations; observing until the API server tells"
                );
                None
            }
        }
    }
}

/// Asks the kubelet whenever the loop that decides wants it to be asked.
async fn fetch(
    mut kubelet: Kubelet,
    reads: watch::Receiver<Reads>,
    mut wanted: mpsc::Receiver<()>,
    inputs: mpsc::Sender<Input>,
    readiness: Arc<Readiness>,
) {
    while wanted.recv().await.is_some() {
        let reads = reads.borrow().clone();
        let pods = kubelet.pods(&reads).await.map(|list| list.pods);
        if pods.is_some() {
            let is_first = !readiness.listed.swap(true, Ordering::AcqRel);
            readiness.news.notify_one();
            if is_first {
                forget_the_start();
            }
        }
        if inputs.send(Input::Pods(pods)).await.is_err() {
            return;
        }
    }
}

/// Most of the code that has run so far was for the start.
fn forget_the_start() {
    if let Err(error) = code_pages::give_back() {
        tracing::debug!(error = %chain(&error), "more memory counts as the agent's than it needs");
    }
}
