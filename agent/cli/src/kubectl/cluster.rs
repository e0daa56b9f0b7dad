//! Requests to the API server. An error about a missing permission names it.

use std::time::Duration;

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    core::v1::Pod,
};
use kube::{
    Api, Client, Config, Error,
    api::{AttachParams, AttachedProcess, ListParams, PostParams},
    client::UpgradeConnectionError,
    config::{KubeConfigOptions, Kubeconfig},
};
use usher_client::error_chain::chain;
use usher_inspect::pod_selector::Names;

use super::{
    ClusterArgs,
    agent::{self, Agent, SELECTOR},
};
use crate::failure::Failure;

const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
/// The container of the agent, in every pod of the chart.
const CONTAINER: &str = "agent";
/// The program in that container.
const PROGRAM: &str = "usher";
/// Buffer of each stream, for a slow reader.
const BUFFER: usize = 256 * 1024;
/// Limit of a request that is not a command, in a large cluster as well.
const REQUEST: Duration = Duration::from_secs(60);
/// The namespace of the documentation. Agents are expected there without the permission to list pods of all namespaces.
const NAMESPACE: &str = "usher";

/// The API server, by a kubeconfig.
pub(super) struct Cluster {
    client: Client,
    usher_namespace: Option<String>,
}

impl Cluster {
    pub(super) fn new(client: Client, usher_namespace: Option<String>) -> Self {
        Self {
            client,
            usher_namespace,
        }
    }

    /// Reads the kubeconfig.
    pub(super) async fn connect(args: &ClusterArgs) -> Result<Self, Failure> {
        let options = KubeConfigOptions {
            context: args.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = match &args.kubeconfig {
            Some(path) => match Kubeconfig::read_from(path) {
                Ok(file) => Config::from_custom_kubeconfig(file, &options).await,
                Err(error) => Err(error),
            },
            None => Config::from_kubeconfig(&options).await,
        };
        let invalid = |text: String| Failure::usage(format!("cannot use the kubeconfig: {text}"));
        let mut config = config.map_err(|error| invalid(chain(&error)))?;
        // A command such as `usher watch` may print nothing for a long time. Other requests have a limit of their own.
        config.read_timeout = None;
        let client = Client::try_from(config).map_err(|error| invalid(chain(&error)))?;
        Ok(Self::new(client, args.usher_namespace.clone()))
    }

    /// The namespace of the kubeconfig's context.
    pub(super) fn default_namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// The pod of this name, or else, with [`Names::Parts`], the only one with this part in its name.
    ///
    /// # Errors
    /// When no pod or several pods match, or a permission is missing.
    pub(super) async fn pod(
        &self,
        namespace: &str,
        name: &str,
        names: Names,
    ) -> Result<Pod, Failure> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        match bounded(REQUEST, pods.get(name)).await {
            Err(error) if code(&error) == Some(NOT_FOUND) && names == Names::Whole => {
                return Err(agent::no_pod(namespace, name));
            }
            Err(error) if code(&error) == Some(NOT_FOUND) => {}
            found => return found.map_err(|error| failure(&error, "get pods", Some(namespace))),
        }
        let listed = bounded(REQUEST, pods.list(&ListParams::default())).await;
        let listed = listed.map_err(|error| failure(&error, "list pods", Some(namespace)))?;
        agent::by_part(listed.items, namespace, name)
    }

    /// The agents of all nodes, or of one.
    ///
    /// # Errors
    /// When a permission is missing.
    pub(super) async fn agents(&self, node: Option<&str>) -> Result<Vec<Agent>, Failure> {
        let given = self.usher_namespace.as_deref();
        let listed = match self.list(given, node).await {
            Err(error) if code(&error) == Some(FORBIDDEN) && given.is_none() => {
                let listed = self.list(Some(NAMESPACE), node).await;
                listed.map_err(|error| {
                    let mut failure = failure(&error, "list pods", Some(NAMESPACE));
                    failure.text +=
                        "; if usher has another namespace, name it with --usher-namespace";
                    failure
                })?
            }
            listed => listed.map_err(|error| failure(&error, "list pods", given))?,
        };
        Ok(listed.iter().filter_map(Agent::new).collect())
    }

    async fn list(&self, namespace: Option<&str>, node: Option<&str>) -> kube::Result<Vec<Pod>> {
        let client = self.client.clone();
        let pods: Api<Pod> = match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let mut query = ListParams::default().labels(SELECTOR);
        if let Some(node) = node {
            query = query.fields(&format!("spec.nodeName={node}"));
        }
        Ok(bounded(REQUEST, pods.list(&query)).await?.items)
    }

    /// Starts `usher` in an agent.
    pub(super) async fn exec(
        &self,
        agent: &Agent,
        words: Vec<String>,
        has_stdin: bool,
    ) -> Result<AttachedProcess, Failure> {
        let namespace = &agent.namespace[..];
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = AttachParams::default()
            .container(CONTAINER)
            .stdin(has_stdin)
            .stdout(true)
            .stderr(true)
            .max_stdin_buf_size(BUFFER)
            .max_stdout_buf_size(BUFFER)
            .max_stderr_buf_size(BUFFER);
        let command: Vec<String> = [PROGRAM.to_owned()].into_iter().chain(words).collect();
        match pods.exec(&agent.name, command, &params).await {
            Ok(process) => Ok(process),
            Err(error) if code(&error) == Some(FORBIDDEN) => {
                let missing = self.missing_verbs(namespace).await;
                Err(missing_permission(
                    &format!("{missing} pods/exec"),
                    Some(namespace),
                    None,
                ))
            }
            Err(error) => {
                let Agent { name, node, .. } = agent;
                let text = format!("cannot run usher in pod {namespace}/{name} on node {node}");
                Err(Failure::unavailable(format!("{text}: {}", chain(&error))))
            }
        }
    }

    /// The verbs on `pods/exec` that the user does not have: a WebSocket is opened with GET, and newer API servers require
    /// `create` as well.
    async fn missing_verbs(&self, namespace: &str) -> String {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let mut missing = Vec::new();
        for verb in ["get", "create"] {
            let attributes = ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                resource: Some("pods".to_owned()),
                subresource: Some("exec".to_owned()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            };
            let review = SelfSubjectAccessReview {
                spec: SelfSubjectAccessReviewSpec {
                    resource_attributes: Some(attributes),
                    ..SelfSubjectAccessReviewSpec::default()
                },
                ..SelfSubjectAccessReview::default()
            };
            let params = PostParams::default();
            let review = bounded(REQUEST, reviews.create(&params, &review)).await;
            let is_allowed = review
                .ok()
                .and_then(|review| Some(review.status?.allowed))
                .unwrap_or_default();
            if !is_allowed {
                missing.push(verb);
            }
        }
        match &missing[..] {
            // The access reviews contradict the response.
            [] => "get and create".to_owned(),
            missing => missing.join(" and "),
        }
    }
}

/// Waits for the response to a request, for this time at most.
async fn bounded<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> kube::Result<T> {
    let late =
        |_elapsed| Error::Service(format!("no response within {} s", limit.as_secs()).into());
    tokio::time::timeout(limit, request).await.map_err(late)?
}

/// The HTTP status of an error.
fn code(error: &Error) -> Option<u16> {
    match error {
        Error::Api(status) => Some(status.code),
        Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(code)) => {
            Some(code.as_u16())
        }
        _ => None,
    }
}

/// The failure of a request that needs this permission.
fn failure(error: &Error, permission: &str, namespace: Option<&str>) -> Failure {
    match error {
        Error::Api(status) if status.code == FORBIDDEN => {
            missing_permission(permission, namespace, Some(&status.message))
        }
        Error::Api(status) => Failure::unavailable(format!("the API server: {}", status.message)),
        error => Failure::unavailable(format!("the API server does not answer: {}", chain(error))),
    }
}

fn missing_permission(permission: &str, namespace: Option<&str>, message: Option<&str>) -> Failure {
    let place = namespace.map_or("in all namespaces".to_owned(), |name| {
        format!("in namespace {name}")
    });
    let message = message.map(|message| format!(" ({message})"));
    Failure::refused(format!(
        "missing permission: {permission} {place}{}",
        message.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::Exit;

    #[tokio::test(flavor = "current_thread")]
    async fn request_without_a_response_ends() {
        let never = std::future::pending::<kube::Result<()>>();
        let error = bounded(Duration::from_millis(1), never).await.unwrap_err();
        let failure = failure(&error, "get pods", None);
        assert_eq!(failure.exit, Exit::Unavailable);
        assert!(failure.text.contains("no response within"), "{failure:?}");
    }
}
