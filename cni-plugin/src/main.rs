//! `usher-cni`: the chained CNI plugin that reports a new pod to the agent before the pod has a process.
//!
//! It is the last plugin in the node's CNI list and changes nothing: ADD prints the previous plugin's result byte for
//! byte. Before that it sends the agent one message with the pod's network namespace and waits for a bounded time, so
//! that the hold exists before the first container. A problem is logged in one line, and the pod starts unheld. Only a
//! call without a result to pass on fails.
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
            let error = failure.json(&version(&call));
            (error, ExitCode::FAILURE)
        }
    };
    match io::stdout().write_all(answer.as_bytes()) {
        Ok(()) => exit,
        Err(_no_reader) => ExitCode::FAILURE,
    }
}

/// The output for stdout.
fn answer(call: &Call) -> Result<String, Failure> {
    match call.verb.as_deref() {
        Some("ADD") => add::run(call),
        // The plugin keeps no state, and DEL must never fail.
        Some("DEL") => Ok(String::new()),
        Some("CHECK" | "GC" | "STATUS") => {
            Conf::read(call.stdin()?)?;
            Ok(String::new())
        }
        Some("VERSION") => Ok(versions(&version(call))),
        verb => Err(Failure {
            code: Code::Environment,
            message: "unsupported CNI_COMMAND".to_owned(),
            details: verb.map_or_else(|| "not set".to_owned(), |verb| format!("{verb:?}")),
        }),
    }
}

/// The runtime's CNI version, or the newest one if it sends none.
fn version(call: &Call) -> String {
    let conf = call.stdin().ok().and_then(|text| Conf::read(text).ok());
    conf.map_or_else(
        || VERSIONS[VERSIONS.len() - 1].to_owned(),
        |conf| conf.version,
    )
}
