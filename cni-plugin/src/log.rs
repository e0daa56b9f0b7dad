//! Logs each problem in one line: on stderr, which not every runtime records, and in a file of bounded size.
//!
//! Logging must not fail a pod, so no function of [`Log`] returns an error.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use nix::fcntl::OFlag;
use usher_core::cni::protocol::Conf;

/// A longer file is renamed to `<name>.1`, so there are at most two files of this length.
const LONGEST_FILE: u64 = 1024 * 1024;
/// A longer line is truncated.
const LONGEST_LINE: usize = 2048;

#[derive(Debug)]
pub(crate) struct Log<'a> {
    file: Option<&'a Path>,
}

impl<'a> Log<'a> {
    pub(crate) fn of(conf: &'a Conf<'_>) -> Self {
        Self {
            file: conf.log_file.as_deref(),
        }
    }

    /// Writes a line to stderr and the file.
    pub(crate) fn write(&self, text: &str) {
        let line = line(SystemTime::now(), text);
        // Fails if the runtime has closed stderr.
        drop(io::stderr().write_all(line.as_bytes()));
        if let Some(file) = self.file {
            drop(append(file, &line));
        }
    }
}

fn line(now: SystemTime, text: &str) -> String {
    let plain = |character: char| {
        if character.is_control() {
            ' '
        } else {
            character
        }
    };
    let text: String = text.chars().map(plain).take(LONGEST_LINE).collect();
    let now = humantime::format_rfc3339_millis(now);
    format!("{now} usher-cni[{}]: {text}\n", std::process::id())
}

/// The log is in the agent's directory, which does not exist before the first agent after a boot. Both are for root only, as
/// the agent creates them.
fn append(path: &Path, line: &str) -> io::Result<()> {
    match append_existing(path, line) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                DirBuilder::new().mode(0o700).create(parent)?;
            }
            append_existing(path, line)
        }
        written => written,
    }
}

/// Several plugins may write at once. A line is one write at the end of the file. If two plugins rename the file at the
/// same time, only lines are lost.
fn append_existing(path: &Path, line: &str) -> io::Result<()> {
    let mut file = open(path)?;
    if file.metadata()?.len() + line.len() as u64 > LONGEST_FILE {
        fs::rename(path, rotated(path))?;
        file = open(path)?;
    }
    file.write_all(line.as_bytes())
}

/// Rejects links, and pipes, which may block.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = OpenOptions::new();
    let file = options
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits())
        .open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::ErrorKind::InvalidInput.into())
}

fn rotated(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn line_is_one_line() {
        let written = line(SystemTime::UNIX_EPOCH, "a\nb\u{1b}[31mc\r");
        let expected = format!(
            "1970-01-01T00:00:00.000Z usher-cni[{}]: a b [31mc \n",
            std::process::id()
        );
        assert_eq!(written, expected);
        assert!(line(SystemTime::UNIX_EPOCH, &"ä".repeat(100_000)).len() < 2 * LONGEST_LINE + 80);
    }

    #[test]
    fn file_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let line = format!("{}\n", "x".repeat(99_999));
        for _ in 0..35 {
            append(&path, &line).unwrap();
        }
        let length = |path: &Path| fs::metadata(path).unwrap().len();
        assert_eq!(length(&rotated(&path)), 1_000_000);
        assert_eq!(length(&path), 500_000);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn directory_is_created_before_the_first_agent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("usher/a.log");
        for lines in 1..=2 {
            append(&path, "a\n").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), lines);
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn links_directories_and_pipes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        symlink(&target, &link).unwrap();
        assert!(append(&link, "a\n").is_err());
        assert!(!target.exists());
        assert!(append(dir.path(), "a\n").is_err());
        assert!(append(&dir.path().join("none/none/a.log"), "a\n").is_err());
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(append(&pipe, "a\n").is_err());
    }
}
