//! `usher sysdump`: the reports of all read commands, and files of the node, in one file.
//!
//! Every read command accepts such a file with `--file`: the file has each [`crate::output::SysdumpReport`], and the
//! same code prints them. `usher_inspect::sysdump` defines the layout and the redaction; this module collects and
//! writes.

mod archive;
mod collection;
mod content;
mod text;

use std::{
    fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Duration,
};

use usher_client::wall_clock;
use usher_core::base::duration;
use usher_inspect::sysdump::measure::{self, size_text};

use self::collection::Collection;
use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::private_file,
    stderr::print_stderr,
};

/// The file name that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// Write the state of this node and its pods to a file, for offline analysis
///
/// The file has the reports of all read commands, each pod's spec as far as usher reads it, its processes, the CNI
/// configurations and usher's own files. Secrets are redacted by rules: values of environment variables, annotations of
/// other programs, arguments after --password, Authorization headers, and texts that look like a token. manifest.json
/// lists the files, what is missing and why, and how often each rule redacted something.
///
/// Every read command can read it: usher explain POD --file FILE.
///
/// Exits with 0, or with 1 when --size or --timeout cut the content, or when the output cannot be written.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File to write, or - for standard output [default: standard output, or
    /// usher-sysdump-TIME.tar.gz in this directory if that is a terminal]
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Overwrite an existing file
    #[arg(long)]
    force: bool,

    /// Write a directory instead, which must not exist
    #[arg(long, value_name = "DIR", conflicts_with_all = ["write", "force"])]
    directory: Option<PathBuf>,

    /// Only these pods; repeatable [default: all]
    #[arg(long = "pod", value_name = "POD")]
    pods: Vec<String>,

    /// Limit of all files together, before compression
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = measure::size)]
    size: u64,

    /// Limit of the time to collect
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration::parse)]
    timeout: Duration,

    /// Time that the file is stamped with, for reproducible files [default: now]
    #[arg(long, value_name = "TIME", value_parser = measure::time)]
    at: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Destination {
    Output,
    File(PathBuf),
    Directory(PathBuf),
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let at_ms = args.at.unwrap_or_else(wall_clock::now_ms);
    let destination = destination(args, at_ms)?;
    let mut source = DataSource::open_quietly(global).await?;
    let mut collection = Collection::new(at_ms, args.size, args.timeout, &source.node);
    content::gather(&mut source, &args.pods, &mut collection).await?;
    let collected = collection.finish();
    let size = collected.size();
    let write = || match &destination {
        Destination::Output => archive::write(io::stdout().lock(), at_ms, collected.files()),
        Destination::File(path) => {
            let file = private_file::create(path, args.force)?;
            let is_regular = file.metadata()?.is_file();
            let written = archive::write(io::BufWriter::new(file), at_ms, collected.files());
            if written.is_err() && is_regular {
                drop(fs::remove_file(path));
            }
            written
        }
        Destination::Directory(path) => archive::write_directory(path, collected.files()),
    };
    match write() {
        // The reader closed the pipe, which is not an error for any output.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Success),
        written => written.map_err(|error| destination.unwritable(&error))?,
    }
    let manifest = &collected.manifest;
    print_stderr(&format!(
        "{}: {} of {} pods in {} files; {} missing, {} redacted (see manifest.json)",
        destination.name(),
        size_text(size),
        manifest.pods.len(),
        manifest.files.len() + 1,
        manifest.missing.len(),
        collected.redactions(),
    ));
    if collected.is_cut {
        print_stderr("incomplete: raise --size or --timeout, or select pods with --pod");
        return Ok(Exit::Problem);
    }
    Ok(Exit::Success)
}

fn destination(args: &Args, at_ms: u64) -> Result<Destination, Failure> {
    let is_terminal = io::stdout().is_terminal();
    match (&args.directory, &args.write) {
        (Some(path), _) => Ok(Destination::Directory(path.clone())),
        (None, Some(path)) if path == Path::new(STANDARD_OUTPUT) && is_terminal => {
            let text =
                "standard output is a terminal, and the archive is binary: use -w FILE or > FILE";
            Err(Failure::usage(text))
        }
        (None, Some(path)) if path == Path::new(STANDARD_OUTPUT) => Ok(Destination::Output),
        (None, Some(path)) => Ok(Destination::File(path.clone())),
        (None, None) if is_terminal => {
            let name = measure::file_name(None, at_ms);
            Ok(Destination::File(name.into()))
        }
        (None, None) => Ok(Destination::Output),
    }
}

impl Destination {
    fn name(&self) -> String {
        match self {
            Self::Output => "sysdump".to_owned(),
            Self::File(path) | Self::Directory(path) => path.display().to_string(),
        }
    }

    fn unwritable(&self, error: &io::Error) -> Failure {
        match self {
            Self::File(path) => private_file::unwritable(path, error),
            Self::Output | Self::Directory(_) => Failure::new(
                Exit::Problem,
                format!("cannot write {}: {error}", self.name()),
            ),
        }
    }
}
