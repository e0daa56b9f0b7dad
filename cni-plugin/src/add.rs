//! ADD: the result of the plugin before goes on, whatever the agent says.

use std::panic;

use usher_core::{
    base::id::{InvalidId, SandboxId},
    cni::protocol::{
        self, Code, Conf, Failure, InvalidArguments, InvalidMessage, Outcome, PodName, Request,
    },
};

use crate::{
    agent,
    call::Call,
    log::{Log, chain},
    netns::{self, Netns},
    rights,
};

/// Tells the agent of the pod and returns what is to be printed.
pub(crate) fn run(call: &Call) -> Result<String, Failure> {
    let conf = Conf::read(call.stdin()?)?;
    let Some(previous) = conf.previous else {
        return Err(Failure {
            code: Code::Configuration,
            message: "usher-cni makes no network".to_owned(),
            details: "there is no prevResult: it has to stand behind another plugin in a list"
                .to_owned(),
        });
    };
    // A fault of ours must not be one of the pod's; the panic itself says where on stderr.
    if panic::catch_unwind(|| told(call, &conf)).is_err() {
        Log::of(&conf).write("started a pod unheld: a panic; stderr says where");
    }
    Ok(previous.to_owned())
}

fn told(call: &Call, conf: &Conf<'_>) {
    let log = Log::of(conf);
    if let Err(error) = rights::give_up() {
        log.write(&format!(
            "goes on with more than it needs: {}",
            chain(&error)
        ));
    }
    for remark in &conf.remarks {
        log.write(&format!("used a default: {remark}"));
    }
    match tell(call, conf) {
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

fn tell(call: &Call, conf: &Conf<'_>) -> Result<(), Unheld> {
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
    let reply = agent::ask(&conf.socket, &message, &netns, conf.timeout)?;
    match reply.outcome {
        Outcome::Held | Outcome::Open => Ok(()),
        Outcome::Failed => Err(Unheld::Agent {
            reason: reply.reason.unwrap_or_default(),
        }),
    }
}

/// Why a pod starts without a hold.
#[derive(Debug, thiserror::Error)]
enum Unheld {
    #[error("it is not known which pod it is")]
    Arguments(#[from] InvalidArguments),
    #[error("CNI_CONTAINERID cannot be used")]
    Sandbox(#[from] InvalidId),
    #[error("no CNI_NETNS")]
    NoNetns,
    #[error("no network namespace to hand over")]
    Netns(#[from] netns::Error),
    #[error("no message to send")]
    Message(#[from] InvalidMessage),
    #[error("no answer from the agent")]
    Ask(#[from] agent::Error),
    #[error("the agent could not hold it: {reason}")]
    Agent { reason: String },
}
