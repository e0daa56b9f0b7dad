//! `usher request`: sends an HTTP request to a port of a pod.
//!
//! The socket is opened in the pod's network namespace and used from here. Names are not resolved (`usher resolve` does), and TLS
//! is not supported.

mod destination;
mod output;
mod response;

use std::{
    io::{self, Read},
    path::PathBuf,
    time::Duration,
};

use usher_core::base::duration;
use usher_inspect::{
    http::{self, Header, Method, Url},
    pod_selector::Names,
    sysdump::measure,
};

use self::{
    destination::Destination,
    output::Output,
    response::{Ended, Response},
};
use crate::{
    data_source::node::Node,
    failure::Failure,
    global::{Exit, Global},
    stderr::print_stderr,
};

/// Limit of a request body, which is read before it is sent.
const MAX_BODY: u64 = 64 * 1024 * 1024;

/// Send an HTTP request to a port of a pod, as curl in the pod would
///
/// The connection is made in the pod's network namespace, to its loopback or to one of its own addresses. --anywhere
/// allows other addresses, which are connected as if the pod did it. URL is http://HOST:PORT/PATH; http:// and the host
/// localhost are optional: usher request shop/report GET :15000/config_dump. Redirects are not followed, and https is
/// not supported.
///
/// The body is written to standard output, with control characters escaped, or unchanged with --raw.
///
/// Exits with 0 for a status below 400, with 1 for another status or an
/// incomplete response, with 5 when there is no response.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pod: namespace/name, UID, container ID, PID, IP address or a unique part of its name
    pod: String,

    /// HTTP method, such as GET
    method: Method,

    /// URL to request
    // Not named "url": that is the ID of the kubelet's URL, an argument of every command.
    #[arg(id = "request_url", value_name = "URL")]
    url: Url,

    /// Add or replace a header; without a value, remove the default one
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<Header>,

    /// Request body: a text, a file (@FILE) or standard input (@-)
    #[arg(short, long, value_name = "BODY")]
    data: Option<String>,

    /// Also print the status line and the headers
    #[arg(short, long)]
    include: bool,

    /// Print the response unchanged, for a program that reads it
    #[arg(long)]
    raw: bool,

    /// Timeout of the whole exchange
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,

    /// Read at most this much of the body
    #[arg(long, default_value = "10MiB", value_name = "SIZE", value_parser = measure::size_above_zero)]
    max_size: u64,

    /// Allow any address that the pod can reach
    #[arg(long)]
    anywhere: bool,

    /// Allow a pod that uses the node's network, and with it the node's ports
    #[arg(long)]
    host_network: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    if !global.output.is_for_people() {
        let text = "request prints the response as it is and does not support -o json; use -i for the headers";
        return Err(Failure::usage(text));
    }
    let data = args.data.as_deref().map(data).transpose()?;
    let node = Node::new(&global.node);
    let target = node.find(&args.pod, Names::Parts).await?;
    let destination = Destination::new(args, &node, &target)?;
    let head = http::request(
        &args.method,
        &args.url,
        &args.headers,
        data.as_ref().map(Vec::len),
    );
    let sent = [head, data.unwrap_or_default()].concat();
    let mut output = Output::new(args.include, args.raw);
    let mut response = Response::new(args.method.is_head(), args.max_size);
    let ended = tokio::time::timeout(args.timeout, async {
        let stream = destination.connect().await?;
        Ok::<_, Failure>(response::exchange(stream, &sent, &mut response, &mut output).await)
    });
    let ended = match ended.await {
        Ok(ended) => ended?,
        Err(_elapsed) if response.status().is_none() => {
            return Err(Failure::unavailable(destination.timeout_text(args.timeout)));
        }
        Err(_elapsed) => Ended::Late(args.timeout),
    };
    let ended = match (ended, output.end()) {
        (Ended::Whole, Err(error)) => Ended::from_output(error),
        (ended, _) => ended,
    };
    Ok(report(&response, &ended))
}

/// Reports the defect of a response.
fn report(response: &Response, ended: &Ended) -> Exit {
    match (ended, response.status()) {
        (Ended::Whole, Some(status)) if status < 400 => Exit::Success,
        (Ended::Whole, Some(_)) => Exit::Problem,
        (Ended::ReaderClosed, _) => Exit::Success,
        (why, Some(_)) => {
            print_stderr(&format!("incomplete response: {why}"));
            Exit::Problem
        }
        (why, None) => {
            print_stderr(&format!("no response: {why}"));
            Exit::Unavailable
        }
    }
}

/// Reads the request body.
fn data(text: &str) -> Result<Vec<u8>, Failure> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(text.as_bytes().to_vec());
    };
    let unreadable = |error: io::Error| Failure::usage(format!("cannot read {path}: {error}"));
    let mut data = Vec::new();
    let read = if path == "-" {
        io::stdin().lock().take(MAX_BODY + 1).read_to_end(&mut data)
    } else {
        let file = std::fs::File::open(PathBuf::from(path)).map_err(unreadable)?;
        file.take(MAX_BODY + 1).read_to_end(&mut data)
    };
    if read.map_err(unreadable)? as u64 > MAX_BODY {
        return Err(Failure::usage(format!(
            "request body {path} is longer than 64 MiB"
        )));
    }
    Ok(data)
}
