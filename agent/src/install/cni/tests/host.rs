//! A host's directories, and an installer for them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use tempfile::TempDir;
use tokio::sync::watch;
use usher_client::cleanup::{self, Places};
use usher_core::cni::conflist::{Choice, Edit, Kind, choose, insert};
use usher_sys::pods::proc::ProcRoot;

use crate::{
    args::Args,
    install::cni::{Installer, Settings, State},
    kubernetes::events::EventSender,
    telemetry::{metrics::Metrics, reporter::Reporter},
};

pub(super) const LIST: &str = "{\n  \"cniVersion\": \"1.0.0\",\n  \"name\": \"n\",\n  \"plugins\": [\n    \
                               {\"type\": \"bridge\", \"x\": 1.0}\n  ]\n}\n";
pub(super) const CONF: &str =
    "{\"cniVersion\": \"0.4.0\", \"name\": \"n\", \"type\": \"bridge\"}\n";
pub(super) const LIST_FILE: &str = "10-net.conflist";
pub(super) const CONF_FILE: &str = "10-net.conf";

pub(super) struct Host {
    dir: TempDir,
}

impl Host {
    /// A host with both directories and the plugin, but without a network configuration.
    pub(super) fn new() -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(host.conf_dir()).unwrap();
        host.create_bin_dir();
        host.provide("plugin 1");
        host
    }

    /// A host with one network configuration.
    pub(super) fn with(name: &str, text: &str) -> Self {
        let host = Self::new();
        host.write(name, text);
        host
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn conf_dir(&self) -> PathBuf {
        self.path("net.d")
    }

    /// Creates the directory with the runtime's own plugins.
    pub(super) fn create_bin_dir(&self) {
        fs::create_dir(self.bin_dir()).unwrap();
        for plugin in ["bridge", "ptp"] {
            fs::write(self.bin_dir().join(plugin), "not usher's").unwrap();
        }
    }

    pub(super) fn bin_dir(&self) -> PathBuf {
        self.path("bin")
    }

    /// Puts a plugin binary in the image.
    pub(super) fn provide(&self, bytes: &str) {
        fs::write(self.path("usher-cni"), bytes).unwrap();
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        replace(&self.conf_dir(), name, text);
    }

    pub(super) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.conf_dir().join(name)).unwrap()
    }

    pub(super) fn settings(&self, more: &[&str]) -> Settings {
        Settings::from_args(&self.args(more).cni).unwrap().unwrap()
    }

    pub(super) fn installer(&self) -> Installer {
        self.installer_with(&[]).0
    }

    pub(super) fn installer_with(&self, more: &[&str]) -> (Installer, watch::Sender<bool>) {
        let wanted = watch::Sender::new(true);
        let settings = self.settings(more);
        let receiver = wanted.subscribe();
        let installer = Installer::new(
            settings,
            receiver,
            None,
            Reporter::new(Arc::new(Metrics::new()), EventSender::disabled("node-1")),
            Arc::default(),
        );
        (installer, wanted)
    }

    /// Removes the plugin from the host. The error lists what remains.
    pub(super) fn uninstall(&self) -> Result<(), String> {
        let report = cleanup::clean(&Places {
            conf_dirs: vec![self.conf_dir()],
            bin_dirs: vec![self.bin_dir()],
            run_dir: self.path("run"),
            log: self.path("log"),
            // Has no processes.
            proc: ProcRoot::new(self.dir.path()),
            grace_period: Duration::ZERO,
        });
        match report.left().next() {
            Some(line) => Err(line.to_string()),
            None => Ok(()),
        }
    }

    fn args(&self, more: &[&str]) -> Args {
        let path = |name: &str| self.path(name).display().to_string();
        let dirs = [
            "--node-name".to_owned(),
            "n".to_owned(),
            format!("--cni-conf-dir={}", path("net.d")),
            format!("--cni-bin-dir={}", path("bin")),
            format!("--cni-binary={}", path("usher-cni")),
        ];
        let more = more.iter().map(|&flag| flag.to_owned());
        Args::parse_from(
            ["usher-agent".to_owned()]
                .into_iter()
                .chain(dirs)
                .chain(more),
        )
    }

    /// The expected text after the insertion of the entry.
    pub(super) fn inserted(&self, text: &str, kind: Kind) -> String {
        match insert(text, kind, &self.settings(&[]).entry).unwrap() {
            Edit::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    /// Name and text of all files in the directory of configurations.
    pub(super) fn files(&self) -> BTreeMap<String, String> {
        files(&self.conf_dir())
    }

    /// The name of the first file, as containerd chooses it. The file must be complete.
    pub(super) fn read_as_containerd(&self) -> Option<String> {
        let files = self.files();
        let pairs: Vec<_> = files
            .iter()
            .map(|(name, text)| (&name[..], &text[..]))
            .collect();
        let choice: Choice<'_> = choose(&pairs, "usher-cni");
        assert!(choice.stops_containerd().is_none(), "{choice:?}");
        choice.primary.map(|primary| primary.name.to_owned())
    }

    /// Asserts that a binary exists if an entry exists.
    pub(super) fn assert_callable(&self) {
        let is_named = self
            .files()
            .values()
            .any(|text| text.contains("\"usher-cni\""));
        assert!(
            !is_named || self.binary().is_some(),
            "an entry without a binary"
        );
    }

    /// The binary on the host.
    pub(super) fn binary(&self) -> Option<String> {
        let path = self.bin_dir().join("usher-cni");
        let mode = fs::metadata(&path).ok()?.mode();
        assert_eq!(mode & 0o7777, 0o755);
        Some(fs::read_to_string(path).unwrap())
    }

    /// The file's inode, which changes when the file is replaced.
    pub(super) fn inode(&self, name: &str) -> u64 {
        fs::metadata(self.conf_dir().join(name)).unwrap().ino()
    }

    pub(super) fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Replaces a file atomically.
pub(super) fn replace(dir: &Path, name: &str, text: &str) {
    let new = dir.join("other.tmp");
    fs::write(&new, text).unwrap();
    fs::rename(new, dir.join(name)).unwrap();
}

pub(super) fn files(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                text(&entry.path()),
            )
        })
        .collect()
}

/// Reconciles with increasing time until nothing is due.
pub(super) fn settle(installer: &mut Installer, mut now: Instant) -> Instant {
    for _ in 0..100 {
        match installer.reconcile(now) {
            None => return now,
            Some(next) => now = next,
        }
    }
    panic!("it does not come to rest: {:?}", installer.state);
}

pub(super) fn installed(name: &str) -> Option<State> {
    Some(State::Installed {
        name: name.to_owned(),
    })
}

pub(super) fn error(installer: &Installer) -> String {
    match &installer.state {
        Some(State::Failed { error, .. }) => error.clone(),
        other => panic!("{other:?}"),
    }
}

pub(super) const MINUTE: Duration = Duration::from_secs(60);
