//! One command in one agent: its streams and its exit code.

use std::{
    io::{self, Read, Write},
    thread,
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};

use super::{Agent, Cluster, Code};
use crate::failure::Failure;

/// Size of one copy.
const CHUNK: usize = 64 * 1024;
/// Time to copy the rest of the output after the connection is lost.
const GRACE: Duration = Duration::from_secs(1);
/// The reason and the cause in the `Status` of a command that exits with another code than 0
/// (apimachinery `pkg/util/remotecommand/constants.go`).
const NON_ZERO: &str = "NonZeroExitCode";
const EXIT_CODE: &str = "ExitCode";
const SUCCESS: &str = "Success";

pub(super) struct Streams<'a> {
    pub(super) stdin: Stdin,
    pub(super) stdout: Box<dyn Write + 'a>,
    pub(super) stderr: Box<dyn Write + 'a>,
}

/// The standard input of a command.
pub(super) enum Stdin {
    None,
    /// Open, without data. The command sees its end when the connection ends.
    Open,
    Data(Box<dyn Read + Send>),
}

/// Runs a command until it ends; its exit code.
pub(super) async fn run(
    cluster: &Cluster,
    agent: &Agent,
    words: Vec<String>,
    streams: Streams<'_>,
) -> Result<Code, Failure> {
    let Streams {
        stdin,
        mut stdout,
        mut stderr,
    } = streams;
    let has_stdin = !matches!(stdin, Stdin::None);
    let mut process = cluster.exec(agent, words, has_stdin).await?;
    let status = process.take_status();
    let output = process.stdout();
    let errors = process.stderr();
    let input = process.stdin();
    let feed = async {
        let Some(mut input) = input else {
            return std::future::pending().await;
        };
        if let Stdin::Data(source) = stdin {
            let mut chunks = chunks(source);
            while let Some(chunk) = chunks.recv().await {
                // The command may end before it has read all input.
                if input.write_all(&chunk).await.is_err() {
                    break;
                }
            }
            drop(input.shutdown().await);
        }
        // Keeps the input open.
        std::future::pending::<()>().await;
    };
    let copies = async {
        tokio::try_join!(copy(output, &mut *stdout), copy(errors, &mut *stderr)).map(drop)
    };
    let ended = async {
        match status {
            Some(status) => status.await,
            None => None,
        }
    };
    tokio::pin!(feed, copies, ended);
    let mut copied = None;
    let status = loop {
        tokio::select! {
            status = &mut ended => break status,
            result = &mut copies, if copied.is_none() => match result {
                Ok(()) => copied = Some(()),
                // The reader closed the pipe, as `head` does.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
                Err(error) => return Err(crate::output::stdout::unwritable(&error)),
            },
            () = &mut feed => {}
        }
    };
    if copied.is_none() {
        // Without a status the streams may never end.
        let copies = match &status {
            Some(_) => copies.await,
            None => tokio::time::timeout(GRACE, copies).await.unwrap_or(Ok(())),
        };
        match copies {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            copies => copies.map_err(|error| crate::output::stdout::unwritable(&error))?,
        }
    }
    let Agent { name, node, .. } = agent;
    match status {
        Some(status) => code(&status).map_err(|text| {
            Failure::unavailable(format!(
                "usher in pod {name} on node {node} did not run: {text}"
            ))
        }),
        None => {
            let why = process.join().await.err().map(|error| format!(": {error}"));
            let text = format!("lost the connection to pod {name} on node {node}");
            Err(Failure::unavailable(text + &why.unwrap_or_default()))
        }
    }
}

/// The exit code in the status of a command.
fn code(status: &Status) -> Result<Code, String> {
    if status.status.as_deref() == Some(SUCCESS) {
        return Ok(0);
    }
    let message = || {
        status
            .message
            .clone()
            .unwrap_or_else(|| "no reason given".to_owned())
    };
    if status.reason.as_deref() != Some(NON_ZERO) {
        return Err(message());
    }
    let details = status.details.as_ref();
    let causes = details.and_then(|details| details.causes.as_deref());
    let mut causes = causes.unwrap_or_default().iter();
    let code = causes.find(|cause| cause.reason.as_deref() == Some(EXIT_CODE));
    code.and_then(|cause| cause.message.as_deref()?.parse().ok())
        .ok_or_else(message)
}

async fn copy(source: Option<impl AsyncRead + Unpin>, target: &mut dyn Write) -> io::Result<()> {
    let Some(mut source) = source else {
        return Ok(());
    };
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = source.read(&mut chunk).await?;
        if length == 0 {
            return Ok(());
        }
        target.write_all(chunk.get(..length).unwrap_or_default())?;
        target.flush()?;
    }
}

/// Reads on a thread: a read of a terminal or a pipe blocks.
fn chunks(mut source: Box<dyn Read + Send>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(1);
    // If the source never ends, the thread ends with the program.
    thread::spawn(move || {
        loop {
            let mut chunk = vec![0; CHUNK];
            match source.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(length) => {
                    chunk.truncate(length);
                    if sender.blocking_send(chunk).is_err() {
                        return;
                    }
                }
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn exit_codes_are_those_of_the_command() {
        let non_zero = |causes: Value| json!({"status": "Failure", "reason": NON_ZERO, "details": {"causes": causes}});
        let table = [
            (json!({"status": "Success"}), Ok(0)),
            (
                non_zero(json!([{"reason": EXIT_CODE, "message": "4"}])),
                Ok(4),
            ),
            (
                non_zero(json!([{"reason": EXIT_CODE, "message": "137"}])),
                Ok(137),
            ),
            (non_zero(json!([])), Err("no reason given")),
            (
                non_zero(json!([{"reason": EXIT_CODE, "message": "x"}])),
                Err("no reason given"),
            ),
            (
                json!({"status": "Failure", "reason": "InternalError", "message": "no such file"}),
                Err("no such file"),
            ),
        ];
        for (status, expected) in table {
            let read = code(&serde_json::from_value(status.clone()).unwrap());
            assert_eq!(read, expected.map_err(str::to_owned), "{status}");
        }
    }
}
