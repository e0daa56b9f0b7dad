//! `usher request`: asks what listens in a pod that has no curl in it.
//!
//! A socket is opened in the pod's network namespace and connected from here. What is written in
//! the pod's files is not looked at: no name is looked up, and certificates are not known.

mod answer;
mod output;
mod place;

use std::{
    io::{self, Read},
    path::PathBuf,
    time::Duration,
};

use usher_core::base::duration;
use usher_inspect::http::{self, Header, Method, Url};

use self::{
    answer::{Answer, Ended},
    output::Output,
    place::Place,
};
use super::size;
use crate::{
    data_source::node::Node,
    failure::Failure,
    global::{Exit, Format, Global},
    print_stderr,
};

/// A body that is sent is read before, and may be so long.
const LONGEST_DATA: u64 = 64 * 1024 * 1024;

/// Send an HTTP request to what listens in a pod, as curl would in it
///
/// The connection is made in the pod's network namespace, to its loopback or one
/// of its own addresses; other addresses only with --anywhere, and then as if the
/// pod connected. URL is http://HOST:PORT/PATH, where http:// and a HOST of localhost may be left
/// out: usher request shop/report GET :15000/config_dump. No redirect is followed, and
/// https is not spoken.
///
/// The body goes to standard output with everything that a terminal would act on
/// shown as text, or with --raw as it comes.
///
/// Exits with 0 for an answer below 400, 1 for any other answer or half of one,
/// 5 when nobody answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pod
    #[arg(value_name = "POD")]
    pod: String,

    /// GET, HEAD, POST and so on
    #[arg(value_name = "METHOD")]
    method: Method,

    /// Whom to ask for what
    // The kubelet's URL is an argument of every command.
    #[arg(id = "asked", value_name = "URL")]
    url: Url,

    /// Send this header, instead of a usual one of that name; without a value the usual one is left out
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<Header>,

    /// Send this body, or that of a file (@FILE), or standard input (@-)
    #[arg(short, long, value_name = "BODY")]
    data: Option<String>,

    /// Show the answer's head, too
    #[arg(short, long)]
    include: bool,

    /// Show what comes byte for byte, for a program that reads it
    #[arg(long)]
    raw: bool,

    /// How long all of it may take
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,

    /// Read this much of a body and no more
    #[arg(long, default_value = "10MiB", value_name = "SIZE", value_parser = size::parse)]
    max_size: u64,

    /// Connect to any address, as the pod could
    #[arg(long)]
    anywhere: bool,

    /// Also where the pod is in the node's own network: what listens on the node
    #[arg(long)]
    host_network: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    match request(args, global).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(),
    }
}

async fn request(args: &Args, global: &Global) -> Result<Exit, Failure> {
    if global.file.is_some() {
        let text = "a sysdump cannot be asked: request works on a node only";
        return Err(Failure::new(Exit::Usage, text));
    }
    if !matches!(global.output, Format::Table | Format::Wide) {
        let text = "an answer is shown as it is: there is no -o json here, but -i for its head";
        return Err(Failure::new(Exit::Usage, text));
    }
    let data = args.data.as_deref().map(data).transpose()?;
    let node = Node::new(&global.node);
    let target = node.find(&args.pod).await?;
    let place = Place::of(args, &node, &target)?;
    let head = http::request(
        &args.method,
        &args.url,
        &args.headers,
        data.as_ref().map(Vec::len),
    );
    let sent = [head, data.unwrap_or_default()].concat();
    let mut output = Output::new(args.include, args.raw);
    let mut answer = Answer::new(args.method.is_head(), args.max_size);
    let ended = tokio::time::timeout(args.timeout, async {
        let stream = place.connect().await?;
        Ok::<_, Failure>(answer::exchange(stream, &sent, &mut answer, &mut output).await)
    });
    let ended = match ended.await {
        Ok(ended) => ended?,
        Err(_elapsed) if answer.status().is_none() => {
            return Err(Failure::unavailable(place.silent(args.timeout)));
        }
        Err(_elapsed) => Ended::Late(args.timeout),
    };
    let ended = match (ended, output.end()) {
        (Ended::Whole, Err(error)) => Ended::unshown(error),
        (ended, _) => ended,
    };
    Ok(told(&answer, &ended))
}

/// Says what is wrong with an answer.
fn told(answer: &Answer, ended: &Ended) -> Exit {
    match (ended, answer.status()) {
        (Ended::Whole, Some(status)) if status < 400 => Exit::Success,
        (Ended::Whole, Some(_)) => Exit::Problem,
        (Ended::Unread, _) => Exit::Success,
        (why, Some(_)) => {
            print_stderr(&format!("only a part of the answer is there: {why}"));
            Exit::Problem
        }
        (why, None) => {
            print_stderr(&format!("no answer: {why}"));
            Exit::Unavailable
        }
    }
}

/// The body to send.
fn data(given: &str) -> Result<Vec<u8>, Failure> {
    let Some(path) = given.strip_prefix('@') else {
        return Ok(given.as_bytes().to_vec());
    };
    let unreadable =
        |error: io::Error| Failure::new(Exit::Usage, format!("cannot read {path}: {error}"));
    let mut data = Vec::new();
    let read = if path == "-" {
        io::stdin()
            .lock()
            .take(LONGEST_DATA + 1)
            .read_to_end(&mut data)
    } else {
        let file = std::fs::File::open(PathBuf::from(path)).map_err(unreadable)?;
        file.take(LONGEST_DATA + 1).read_to_end(&mut data)
    };
    if read.map_err(unreadable)? as u64 > LONGEST_DATA {
        return Err(Failure::new(
            Exit::Usage,
            format!("{path} is longer than 64 MiB"),
        ));
    }
    Ok(data)
}
