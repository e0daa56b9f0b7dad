//! `usher-cni`: the chained CNI plugin that tells the agent of a new pod before any process is in it.
//!
//! It stands last in the node's CNI list and changes nothing there: ADD prints the result of the plugin before,
//! byte for byte. In between it sends the agent one message with the pod's network namespace and waits for a
//! bounded time, so that a hold is there before the first container. Whatever goes wrong with that is a line in
//! a log: the pod starts, unheld. Only a call that leaves nothing to pass on is refused.
//!
//! Interface: [CNI 0.3.1 to 1.1.0](https://www.cni.dev/docs/spec/). Minimum kernel: any (SOCK_SEQPACKET and
//! SCM_RIGHTS on Unix sockets are older than Linux 3.10).

mod add;
mod agent;
mod call;
mod log;
mod netns;
mod rights;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use usher_core::cni::protocol::{Code, Conf, Failure, VERSIONS, versions};

use crate::call::Call;

fn main() -> ExitCode {
    let call = Call::of_process();
    let (answer, exit) = match answer(&call) {
        Ok(answer) => (answer, ExitCode::SUCCESS),
        Err(failure) => {
            let refusal = failure.json(&version(&call));
            (refusal, ExitCode::FAILURE)
        }
    };
    match io::stdout().write_all(answer.as_bytes()) {
        Ok(()) => exit,
        Err(_nobody_reads) => ExitCode::FAILURE,
    }
}

/// What goes to stdout.
fn answer(call: &Call) -> Result<String, Failure> {
    match call.verb.as_deref() {
        Some("ADD") => add::run(call),
        // It knows of no pod, so there is nothing to take away, and nothing may stand in the way of that.
        Some("DEL") => Ok(String::new()),
        Some("CHECK" | "GC" | "STATUS") => {
            Conf::read(call.stdin()?)?;
            Ok(String::new())
        }
        Some("VERSION") => Ok(versions(&version(call))),
        verb => Err(Failure {
            code: Code::Environment,
            message: "CNI_COMMAND is no verb that this plugin knows".to_owned(),
            details: verb.map_or_else(|| "it is not set".to_owned(), |verb| format!("{verb:?}")),
        }),
    }
}

/// The version that the runtime speaks; the newest where it does not say.
fn version(call: &Call) -> String {
    let conf = call.stdin().ok().and_then(|text| Conf::read(text).ok());
    conf.map_or_else(
        || VERSIONS[VERSIONS.len() - 1].to_owned(),
        |conf| conf.version,
    )
}
