//! `usher sysdump`: what every read command would say now, and some texts of the node, in one file for somebody who cannot
//! reach the node.
//!
//! `--file` has every read command answer from such a file: it holds what [`SysdumpReport`] reports are, and they are shown by the
//! same code. What the dump is to look like is for `usher_inspect::sysdump` to say; here it is gathered and written.

mod archive;
mod collection;
mod content;
mod text;

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use usher_core::base::duration;
use usher_inspect::sysdump::measure::{self, shown};

use self::collection::Collection;
use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::private_file,
    print_stderr,
};

/// Standard output, where a file is expected.
const STANDARD_OUTPUT: &str = "-";

/// Write down what can be known of this node and its pods, for somebody who cannot reach it
///
/// The file has the answers of all read commands, each pod's spec as far as
/// usher reads it, its processes, the network configurations and usher's own
/// files. Secrets are left out by rules: values of variables, annotations of
/// others, words after --password, Authorization headers, and what looks like a
/// token. manifest.json lists what is in it, what is missing and why, and how
/// often each rule left something out.
///
/// Every read command answers from it: usher explain POD --file FILE.
///
/// Exits with 0, or with 1 when something had to stay out for size or time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to write it, or - for standard output [default: standard output;
    /// where that is a terminal, usher-sysdump-TIME.tar.gz in this directory]
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Write over a file that is there
    #[arg(long)]
    force: bool,

    /// Write a directory instead, which must not be there yet
    #[arg(long, value_name = "DIR", conflicts_with_all = ["write", "force"])]
    directory: Option<PathBuf>,

    /// Only these pods; may be given several times [default: all]
    #[arg(long = "pod", value_name = "POD")]
    pods: Vec<String>,

    /// What all files together may have, before they are packed
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = measure::size)]
    size: u64,

    /// How long it may take
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration::parse)]
    timeout: Duration,

    /// The time that it says it was made, for files that are the same byte for
    /// byte [default: now]
    #[arg(long, value_name = "TIME", value_parser = measure::time)]
    at: Option<u64>,
}

/// Where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    Output,
    File(PathBuf),
    Directory(PathBuf),
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    match dump(args, global).await {
        Ok(exit) => exit,
        Err(error) => error.report(),
    }
}

async fn dump(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let at_ms = args.at.unwrap_or_else(now);
    let way = way(args, at_ms)?;
    let mut source = DataSource::open_quietly(global).await?;
    let mut collection = Collection::new(at_ms, args.size, args.timeout, &source.node);
    content::gather(&mut source, &args.pods, &mut collection).await?;
    let collected = collection.finish();
    let size = collected.size();
    let write = || match &way {
        Way::Output => archive::write(io::stdout().lock(), at_ms, collected.files()),
        Way::File(path) => {
            let file = private_file::create(path, args.force)?;
            archive::write(io::BufWriter::new(file), at_ms, collected.files())
        }
        Way::Directory(path) => archive::lay(path, collected.files()),
    };
    match write() {
        // Nobody reads on: as with any other output.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Success),
        written => written.map_err(|error| way.unwritable(&error))?,
    }
    let manifest = &collected.manifest;
    print_stderr(&format!(
        "{}: {} of {} pods in {} files; {} missing, {} left out by rules (manifest.json has all of it)",
        way.shown(),
        shown(size),
        manifest.pods.len(),
        manifest.files.len() + 1,
        manifest.missing.len(),
        collected.left_out(),
    ));
    if collected.is_cut {
        print_stderr(
            "not all of it: --size and --timeout say how much there may be, --pod which pods count",
        );
        return Ok(Exit::Problem);
    }
    Ok(Exit::Success)
}

fn way(args: &Args, at_ms: u64) -> Result<Way, Failure> {
    let is_terminal = io::stdout().is_terminal();
    match (&args.directory, &args.write) {
        (Some(path), _) => Ok(Way::Directory(path.clone())),
        (None, Some(path)) if path == Path::new(STANDARD_OUTPUT) && is_terminal => {
            let text = "an archive is nothing for a terminal: -w FILE, or > FILE";
            Err(Failure::new(Exit::Usage, text))
        }
        (None, Some(path)) if path == Path::new(STANDARD_OUTPUT) => Ok(Way::Output),
        (None, Some(path)) => Ok(Way::File(path.clone())),
        (None, None) if is_terminal => {
            let name = format!("usher-sysdump-{}.tar.gz", measure::in_name(at_ms));
            Ok(Way::File(name.into()))
        }
        (None, None) => Ok(Way::Output),
    }
}

impl Way {
    fn shown(&self) -> String {
        match self {
            Self::Output => "sysdump".to_owned(),
            Self::File(path) | Self::Directory(path) => path.display().to_string(),
        }
    }

    fn unwritable(&self, error: &io::Error) -> Failure {
        let why = match self {
            Self::File(_) => private_file::error_text(error),
            Self::Output | Self::Directory(_) => error.to_string(),
        };
        Failure::refused(format!("cannot write {}: {why}", self.shown()))
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
