//! Files of this machine: the output of `-w`, and the body of `--data @FILE`. The agent uses standard streams instead.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use usher_client::wall_clock;
use usher_inspect::sysdump::measure;

use super::{
    Code,
    exec::{Stdin, Streams},
};
use crate::{
    failure::Failure,
    global::{Exit, command_line::CommandLine},
    output::private_file,
};

/// The name that means a standard stream.
const STANDARD: &str = "-";

/// The targets of the standard streams.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Redirect {
    /// None for standard output.
    output: Option<PathBuf>,
    force: bool,
    input: Option<Input>,
    is_dump: bool,
}

/// The content of a file that a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// An archive, which is useless if it is incomplete.
    Sysdump,
    /// Any part of it is useful.
    Data,
}

#[derive(Debug, PartialEq, Eq)]
enum Input {
    /// Only its end matters: without it, the command would run on after the end of this program.
    Open,
    Stdin,
    File(PathBuf),
}

impl Redirect {
    /// Replaces the files of a command line by standard streams.
    pub(super) fn take(line: &mut CommandLine, is_terminal: bool) -> Result<Self, Failure> {
        let is_dump = line.subcommand == "sysdump";
        let mut redirect = Self {
            force: line.has("force") && line.has("write"),
            is_dump,
            ..Self::default()
        };
        let write = line.value("write").map(PathBuf::from);
        match write {
            Some(path) if path == Path::new(STANDARD) && is_terminal => {
                let text =
                    "standard output is a terminal, and the data is binary: use -w FILE or > FILE";
                return Err(Failure::usage(text));
            }
            Some(path) if path == Path::new(STANDARD) => {}
            Some(path) => redirect.output = Some(path),
            None if is_dump && is_terminal => redirect.output = Some(dump_name(None)),
            None => {}
        }
        if is_dump || line.has("write") {
            line.set("write", "--write", STANDARD);
            if redirect.force {
                line.remove("force");
            }
        }
        if line.subcommand == "watch" {
            line.set_flag("end_with_stdin", "--end-with-stdin");
            redirect.input = Some(Input::Open);
        }
        let data = line.value("data").and_then(|data| data.to_str());
        if let Some(name) = data.and_then(|data| data.strip_prefix('@')) {
            redirect.input = Some(match name {
                STANDARD => Input::Stdin,
                name => Input::File(name.into()),
            });
            line.set("data", "--data", format!("@{STANDARD}"));
        }
        Ok(redirect)
    }

    /// The file that the command writes, and what it contains.
    pub(super) fn file(&self) -> Option<(PathBuf, Content)> {
        let content = match self.is_dump {
            true => Content::Sysdump,
            false => Content::Data,
        };
        Some((self.output.clone()?, content))
    }

    pub(super) fn open(self) -> Result<Streams<'static>, Failure> {
        let stdin = match self.input {
            None => Stdin::None,
            Some(Input::Open) => Stdin::Open,
            Some(Input::Stdin) => Stdin::Data(Box::new(io::stdin())),
            Some(Input::File(path)) => {
                let unreadable =
                    |error| Failure::usage(format!("cannot read {}: {error}", path.display()));
                Stdin::Data(Box::new(File::open(&path).map_err(unreadable)?))
            }
        };
        let mut streams = Streams {
            stdin,
            stdout: Box::new(io::stdout()),
            stderr: Box::new(io::stderr()),
        };
        if let Some(path) = &self.output {
            streams.stdout = Box::new(create(path, self.force)?);
        }
        Ok(streams)
    }
}

pub(super) fn create(path: &Path, force: bool) -> Result<File, Failure> {
    private_file::create(path, force).map_err(|error| private_file::unwritable(path, &error))
}

/// Removes the file of a command that failed if it is useless: an incomplete sysdump, or an empty file. The next attempt
/// may not overwrite it. A special file stays.
pub(super) fn remove_useless(file: &Path, content: Content, ran: &Result<Code, Failure>) {
    let Some(found) = fs::symlink_metadata(file)
        .ok()
        .filter(fs::Metadata::is_file)
    else {
        return;
    };
    let code = ran.as_ref().ok().copied();
    let is_useless = match content {
        // An archive that a limit cut is complete.
        Content::Sysdump => ![Exit::Success, Exit::Problem]
            .map(|exit| Some(Code::from(exit)))
            .contains(&code),
        Content::Data => found.len() == 0 && code != Some(Code::from(Exit::Success)),
    };
    if is_useless {
        drop(fs::remove_file(file));
    }
}

/// The file of a sysdump in this directory.
pub(super) fn dump_name(node: Option<&str>) -> PathBuf {
    measure::file_name(node, wall_clock::now_ms()).into()
}

pub(super) fn words(line: CommandLine) -> Result<Vec<String>, Failure> {
    let words = line
        .into_words()
        .into_iter()
        .map(std::ffi::OsString::into_string);
    words
        .collect::<Result<_, _>>()
        .map_err(|word| Failure::usage(format!("not valid UTF-8: {}", word.display())))
}

#[cfg(test)]
mod tests {
    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    fn taken(words: &[&str], is_terminal: bool) -> (Result<Redirect, Failure>, Vec<String>) {
        let command = super::super::full_command();
        let program = ["kubectl-usher"];
        let matches = command
            .clone()
            .try_get_matches_from(program.iter().chain(words))
            .unwrap();
        let mut line = CommandLine::new(&command, &matches).unwrap();
        let redirect = Redirect::take(&mut line, is_terminal);
        (redirect, super::words(line).unwrap())
    }

    #[test]
    fn files_are_those_of_this_machine() {
        let file = |name: &str, force| Redirect {
            output: Some(name.into()),
            force,
            ..Redirect::default()
        };
        let dump = Redirect {
            is_dump: true,
            ..Redirect::default()
        };
        let watch = Redirect {
            input: Some(Input::Open),
            ..Redirect::default()
        };
        let table: [(&[&str], Redirect, &[&str]); 7] = [
            (&["status"], Redirect::default(), &["status"]),
            (
                &["capture", "a", "-w", "-"],
                Redirect::default(),
                &["capture", "--write=-", "--", "a"],
            ),
            (
                &["capture", "a", "-w", "a.pcapng", "--force"],
                file("a.pcapng", true),
                &["capture", "--write=-", "--", "a"],
            ),
            (&["sysdump"], dump, &["sysdump", "--write=-"]),
            (
                &["watch", "a"],
                watch,
                &["watch", "--end-with-stdin", "--", "a"],
            ),
            (
                &["quit", "a", "--force"],
                Redirect::default(),
                &["quit", "--force", "--", "a"],
            ),
            (
                &["request", "a", "POST", ":80", "-d", "@body.json"],
                Redirect {
                    input: Some(Input::File("body.json".into())),
                    ..Redirect::default()
                },
                &["request", "--data=@-", "--", "a", "POST", ":80"],
            ),
        ];
        for (given, expected, sent) in table {
            let (redirect, words) = taken(given, false);
            assert_eq!(redirect.unwrap(), expected, "{given:?}");
            assert_eq!(words, sent, "{given:?}");
        }
        let (refused, _) = taken(&["capture", "a", "-w", "-"], true);
        assert_eq!(refused.unwrap_err().exit, Exit::Usage);
        let (dump, _) = taken(&["sysdump"], true);
        let (name, content) = dump.unwrap().file().unwrap();
        assert_eq!(content, Content::Sysdump);
        let name = name.display().to_string();
        assert!(
            name.starts_with("usher-sysdump-") && name.ends_with(".tar.gz"),
            "{name}"
        );
    }

    #[test]
    fn existing_file_is_a_problem() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let failure = create(file.path(), false).unwrap_err();
        assert_eq!(failure.exit, Exit::Problem);
        assert!(failure.text.contains("--force"), "{failure:?}");
    }

    #[test]
    fn useless_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [file, pipe] = ["file", "pipe"].map(|name| folder.path().join(name));
        let lost = || Err(Failure::unavailable("lost the connection"));
        for (content, bytes, ran, stays) in [
            (Content::Sysdump, "cut", Ok(0), true),
            (Content::Sysdump, "cut", Ok(1), true),
            (Content::Sysdump, "cut", Ok(137), false),
            (Content::Sysdump, "cut", lost(), false),
            (Content::Data, "", Ok(0), true),
            // Refused: the pod has hostNetwork.
            (Content::Data, "", Ok(3), false),
            (Content::Data, "", lost(), false),
            (Content::Data, "packets", Ok(3), true),
            (Content::Data, "packets", lost(), true),
        ] {
            fs::write(&file, bytes).unwrap();
            remove_useless(&file, content, &ran);
            assert_eq!(file.exists(), stays, "{content:?} {bytes:?} {ran:?}");
        }
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for content in [Content::Sysdump, Content::Data] {
            remove_useless(&pipe, content, &lost());
        }
        assert!(pipe.exists());
    }
}
