//! The syntax of recipes: strict YAML, in which a mistake is an error with its position.
//!
//! ```yaml
//! - name: shipper
//!   stage: logs
//!   recognize:
//!     - image: [acme/shipper]
//!   quit:
//!     - post: {port: 4000, path: /stop}
//!       code: 0
//!     - signal: SIGTERM
//!       code: 143
//!       takes: 5s
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error};

use super::{
    Act, AfterTerm, Condition, ExitCode, Measured, OneOrMore, Recipe, Recognition, Setting,
    StepRecipe, Takes,
};
use crate::recipe::step::{Header, Method, Signal, is_path};

/// Limit of the steps of a ladder.
const STEPS: usize = 16;
/// Envoy's admin endpoint that drains listeners
/// ([drain](https://www.envoyproxy.io/docs/envoy/latest/operations/admin#post--drain_listeners)).
const ENVOY_DRAIN: &str = "/drain_listeners";
/// Without the first, outbound listeners close as well; without the others, all close at once, or Envoy ends.
const ENVOY_DRAIN_PARAMETERS: [&str; 3] = ["inboundonly", "graceful", "skip_exit"];
/// Limit of the held or queried ports of a recipe.
const PORTS: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawStep {
    post: Option<RawRequest>,
    get: Option<RawRequest>,
    signal: Option<Signal>,
    process: Option<String>,
    #[serde(default)]
    when: OneOrMore<Condition>,
    #[serde(default)]
    unless: OneOrMore<Condition>,
    #[serde(default = "unknown")]
    code: ExitCode,
    measured: Option<Measured>,
    #[serde(default)]
    takes: Takes,
    #[serde(default)]
    advice: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawRequest {
    port: Setting<u16>,
    path: Setting<String>,
    #[serde(default)]
    headers: BTreeMap<String, RawHeader>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawHeader {
    env: String,
}

impl<'de> Deserialize<'de> for Recipe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The derived function of the type, not that of the trait.
        let mut recipe = Self::deserialize(deserializer)?;
        check(&recipe).map_err(D::Error::custom)?;
        // A drain ends no process.
        for step in &mut recipe.drain {
            step.code = ExitCode::ZERO;
        }
        if recipe.title.is_empty() {
            recipe.title.clone_from(&recipe.name);
        }
        Ok(recipe)
    }
}

fn check(recipe: &Recipe) -> Result<(), String> {
    let name = &recipe.name;
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > 63 || !name.bytes().all(known) {
        return Err(format!(
            "{name:?} is no name of a recipe: 1 to 63 of a-z, 0-9 and -"
        ));
    }
    if recipe.recognize.is_empty() {
        return Err(format!("recipe {name} recognizes nothing"));
    }
    if recipe.ends_by_itself && recipe.steps().next().is_some() {
        return Err(format!(
            "recipe {name} ends by itself and must have no steps"
        ));
    }
    let lacks_steps = recipe.quit.is_empty() && !recipe.ends_by_itself;
    if lacks_steps || recipe.quit.len() > STEPS || recipe.drain.len() > STEPS {
        return Err(format!("recipe {name} must have 1 to {STEPS} steps"));
    }
    check_drain(name, &recipe.drain)?;
    check_after_term(name, &recipe.after_term)?;
    if recipe.hold.sources().count() > PORTS {
        return Err(format!("recipe {name} holds at more than {PORTS} ports"));
    }
    if let Some(endpoint) = &recipe.version
        && !(is_path(&endpoint.path) && endpoint.pointer.starts_with('/'))
    {
        return Err(format!(
            "the version endpoint of recipe {name} needs a path and a pointer that begin with slashes"
        ));
    }
    Ok(())
}

/// A drain must not end the sidecar, nor close the listeners through which the apps still connect.
fn check_drain(recipe: &str, steps: &[StepRecipe]) -> Result<(), String> {
    let paths = steps.iter().filter_map(|step| match &step.act {
        Act::Request { path, .. } => Some(path.default()),
        Act::Signal { .. } => None,
    });
    for path in paths {
        let Some(query) = path.strip_prefix(ENVOY_DRAIN) else {
            continue;
        };
        let parameters: Vec<&str> = query.trim_start_matches('?').split('&').collect();
        if let Some(missing) = ENVOY_DRAIN_PARAMETERS
            .iter()
            .find(|parameter| !parameters.contains(parameter))
        {
            return Err(format!(
                "drain of recipe {recipe} requests {path} without {missing}: Envoy would end, or close the listeners that the apps use"
            ));
        }
    }
    Ok(())
}

fn check_after_term(recipe: &str, AfterTerm { sidecar, steps }: &AfterTerm) -> Result<(), String> {
    if steps.len() > STEPS {
        return Err(format!(
            "recipe {recipe} must have at most {STEPS} steps in afterTerm"
        ));
    }
    if steps.is_empty() && !sidecar.is_empty() {
        return Err(format!("afterTerm of recipe {recipe} has no steps"));
    }
    let is_signal = |step: &StepRecipe| matches!(step.act, Act::Signal { .. });
    if steps.iter().any(is_signal) {
        return Err(format!(
            "afterTerm of recipe {recipe} must have requests only: the sidecar has received its signal"
        ));
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Recognition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let way = Self::deserialize(deserializer)?;
        // A tag alone does not identify a kind.
        let tags = way.tags.clone();
        if way
            == (Self {
                tags,
                ..Self::default()
            })
        {
            return Err(D::Error::custom(
                "a container is recognized by name, image, program, command, args or when",
            ));
        }
        Ok(way)
    }
}

impl TryFrom<RawStep> for StepRecipe {
    type Error = String;

    fn try_from(raw: RawStep) -> Result<Self, String> {
        let act = match (raw.post, raw.get, raw.signal) {
            (Some(request), None, None) => request.act(Method::Post),
            (None, Some(request), None) => request.act(Method::Get),
            (None, None, Some(signal)) => Act::Signal {
                signal,
                process: raw.process.as_deref().map(comm),
            },
            _ => return Err("a step is one of post, get and signal".to_owned()),
        };
        if raw.process.is_some() && !matches!(act, Act::Signal { .. }) {
            return Err("process goes with signal only".to_owned());
        }
        Ok(Self {
            act,
            when: raw.when.0,
            unless: raw.unless.0,
            code: raw.code,
            measured: raw.measured,
            takes: raw.takes,
            advice: raw.advice,
        })
    }
}

const fn unknown() -> ExitCode {
    ExitCode::Unknown
}

/// The name of a process, cut as in the kernel
/// ([proc_pid_comm(5)](https://man7.org/linux/man-pages/man5/proc_pid_comm.5.html)).
fn comm(name: &str) -> String {
    name.chars().take(15).collect()
}

impl RawRequest {
    fn act(self, method: Method) -> Act {
        let headers = self.headers.into_iter();
        Act::Request {
            method,
            port: self.port,
            path: self.path,
            headers: headers
                .map(|(name, header)| Header {
                    name,
                    env: header.env,
                })
                .collect(),
        }
    }
}
