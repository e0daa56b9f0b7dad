//! ADD: passes the previous plugin's result on, independent of the agent's reply.

use std::panic;

use usher_core::{
    base::{
        error_chain::chain,
        id::{InvalidId, SandboxId},
    },
    cni::protocol::{
        self, Code, Conf, Failure, InvalidArguments, InvalidMessage, Outcome, PodName, Request,
    },
};

use crate::{
    agent,
    call::Call,
    log::Log,
    netns::{self, Netns},
    rights,
};

/// Reports the pod to the agent and returns the result to print.
pub(crate) fn run(call: &Call) -> Result<String, Failure> {
    let conf = Conf::read(call.stdin()?)?;
    let Some(previous) = conf.previous else {
        return Err(Failure {
            code: Code::Configuration,
            message: "usher-cni does not set up a network".to_owned(),
            details: "no prevResult: usher-cni must follow another plugin in a list".to_owned(),
        });
    };
    // A bug in the plugin must not fail the pod. The panic handler writes the location to stderr.
    if panic::catch_unwind(|| report(call, &conf)).is_err() {
        Log::of(&conf).write("started a pod unheld: panic, see stderr");
    }
    Ok(previous.to_owned())
}

fn report(call: &Call, conf: &Conf<'_>) {
    let log = Log::of(conf);
    if let Err(error) = rights::drop_unneeded() {
        log.write(&format!(
            "continued with more capabilities than needed: {}",
            chain(&error)
        ));
    }
    for remark in &conf.remarks {
        log.write(&format!("used a default: {remark}"));
    }
    match announce(call, conf) {
        Ok(()) => {}
        Err(error) => {
            let pod = protocol::pod(&call.arguments).map_or_else(
                |_unknown| format!("sandbox {:?}", call.container),
                |PodName {
                     namespace, name, ..
                 }| format!("pod {namespace}/{name}"),
            );
            log.write(&format!("started {pod} unheld: {}", chain(&error)));
        }
    }
}

fn announce(call: &Call, conf: &Conf<'_>) -> Result<(), Unheld> {
    let pod = protocol::pod(&call.arguments)?;
    if conf.own_pod.as_ref().is_some_and(|own| own.is(&pod)) {
        return Ok(());
    }
    let sandbox = SandboxId::parse(&call.container)?;
    let path = call.netns.as_ref().ok_or(Unheld::NoNetns)?;
    let netns = Netns::open(path)?;
    let request = Request {
        pod,
        sandbox,
        interface: call.interface.clone(),
    };
    let message = request.encode()?;
    let reply = agent::request(&conf.socket, &message, &netns, conf.timeout)?;
    match reply.outcome {
        Outcome::Held | Outcome::NotHeld => Ok(()),
        Outcome::Failed => Err(Unheld::Agent {
            reason: reply.reason.unwrap_or_default(),
        }),
    }
}

/// Why a pod starts without a hold.
#[derive(Debug, thiserror::Error)]
enum Unheld {
    #[error("CNI_ARGS names no pod")]
    Arguments(#[from] InvalidArguments),
    #[error("invalid CNI_CONTAINERID")]
    Sandbox(#[from] InvalidId),
    #[error("no CNI_NETNS")]
    NoNetns,
    #[error("cannot pass the network namespace")]
    Netns(#[from] netns::Error),
    #[error("cannot encode the request")]
    Message(#[from] InvalidMessage),
    #[error("no reply from the agent")]
    Request(#[from] agent::Error),
    #[error("the agent could not hold the pod: {reason}")]
    Agent { reason: String },
}
