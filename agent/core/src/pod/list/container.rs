//! One container of a pod, from its spec and its status.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{probe::RawProbe, reduced, resources::RawResources};
use crate::{
    base::id::ContainerId,
    pod::{
        image,
        restart_policy::{RestartPolicy, RestartRule},
        spec::{Container, Ended, ProbeKind, RunState, Status},
    },
    recipe::Reads,
};

/// The action of a rule that restarts the whole pod
/// ([KEP-5532](https://github.com/kubernetes/enhancements/issues/5532)).
const RESTART_ALL: &str = "RestartAllContainers";

/// The policy of a resource whose change restarts the container.
const RESTART_CONTAINER: &str = "RestartContainer";

/// Ids in the range of the API, which is larger than that of the kernel.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawSecurity {
    run_as_user: Option<i64>,
    run_as_group: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawContainer<'list> {
    pub(super) name: String,
    #[serde(default)]
    image: String,
    #[serde(borrow)]
    command: Option<&'list RawValue>,
    #[serde(borrow)]
    args: Option<&'list RawValue>,
    #[serde(borrow)]
    env: Option<&'list RawValue>,
    #[serde(borrow)]
    resources: Option<RawResources<'list>>,
    security_context: Option<RawSecurity>,
    restart_policy: Option<RestartPolicy>,
    restart_policy_rules: Option<Vec<RawRule>>,
    liveness_probe: Option<RawProbe>,
    startup_probe: Option<RawProbe>,
    resize_policy: Option<Vec<RawResizePolicy>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResizePolicy {
    #[serde(default)]
    restart_policy: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRule {
    #[serde(default)]
    action: String,
    exit_codes: Option<ExitCodes>,
}

#[derive(Deserialize)]
struct ExitCodes {
    operator: Operator,
    #[serde(default)]
    values: Vec<i32>,
}

#[derive(Deserialize, PartialEq)]
enum Operator {
    In,
    NotIn,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawStatus {
    pub(super) name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    #[serde(rename = "imageID", default)]
    image_id: String,
    #[serde(default)]
    state: RawState,
    #[serde(default)]
    last_state: RawState,
}

#[derive(Deserialize, Default)]
struct RawState {
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<Terminated>,
}

#[derive(Deserialize)]
struct Terminated {
    #[serde(rename = "exitCode", default)]
    exit_code: i32,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
}

impl RawContainer<'_> {
    pub(super) fn into_container(
        self,
        status: Option<RawStatus>,
        pod: Option<RawSecurity>,
        reads: &Reads,
    ) -> Result<Container, serde_json::Error> {
        let id = |id: Option<i64>| u32::try_from(id?).ok();
        let own = self.security_context;
        let own_user = id(own.and_then(|security| security.run_as_user));
        let own_group = id(own.and_then(|security| security.run_as_group));
        let user = id(own
            .and_then(|security| security.run_as_user)
            .or_else(|| pod.and_then(|security| security.run_as_user)));
        let rules = self.restart_policy_rules.unwrap_or_default();
        let words = reduced::words([self.command, self.args])?;
        let env = self.env.map(|env| reduced::env(env, reads));
        // Only an image without a version in its tag is identified by it.
        let unversioned = image::version(&self.image).is_none();
        let image_id = status.as_ref().filter(|_| unversioned);
        let image_id = image_id.map(|status| status.image_id.clone());
        let startup = self.startup_probe.map(|raw| raw.of(ProbeKind::Startup));
        let resize_policies = self.resize_policy.unwrap_or_default();
        let liveness = self.liveness_probe.map(|raw| raw.of(ProbeKind::Liveness));
        Ok(Container {
            name: self.name,
            image: self.image,
            image_id: image_id.filter(|id| !id.is_empty()),
            words,
            env: env.transpose()?.unwrap_or_default(),
            user,
            own_user,
            own_group,
            requests: self
                .resources
                .map(|resources| resources.explicit().into())
                .unwrap_or_default(),
            restart_policy: self.restart_policy,
            restart_rules: rules
                .into_iter()
                .map(|rule| {
                    let whole_pod = rule.action == RESTART_ALL;
                    match rule.exit_codes {
                        Some(codes) => RestartRule {
                            within: codes.operator == Operator::In,
                            codes: codes.values,
                            whole_pod,
                        },
                        // A rule that this version cannot evaluate may apply to any code. It counts for all codes, so
                        // that no exit is final.
                        None => RestartRule {
                            within: false,
                            codes: Vec::new(),
                            whole_pod,
                        },
                    }
                })
                .collect(),
            probes: startup.into_iter().chain(liveness).collect(),
            restarts_on_resize: resize_policies
                .iter()
                .any(|policy| policy.restart_policy == RESTART_CONTAINER),
            status: status.map(Into::into),
        })
    }
}

impl From<RawStatus> for Status {
    fn from(raw: RawStatus) -> Self {
        let last = raw.last_state.terminated.and_then(|ended| {
            let id = ContainerId::parse_url(&ended.container_id?).ok()?;
            Some(Ended {
                id,
                code: ended.exit_code,
            })
        });
        Self {
            id: raw
                .container_id
                .and_then(|id| ContainerId::parse_url(&id).ok()),
            state: match (raw.state.terminated, raw.state.running) {
                (Some(ended), _) => RunState::Terminated(ended.exit_code),
                (None, Some(_)) => RunState::Running,
                (None, None) => RunState::Waiting,
            },
            last,
        }
    }
}
