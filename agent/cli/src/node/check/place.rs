//! The directories and files of the node.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use usher_client::{
    cni_args::CniArgs,
    error_chain::chain,
    install::{entry, error::Error, files, settings::Settings},
};
use usher_core::{
    admin::Status,
    node::cgroup::is_kubepods,
    recipe,
    settings::{config::Config, mode::Mode},
};
use usher_inspect::check::{
    cni::{self, Wanted},
    node::{Bundles, Cgroups, Found, Layout},
};
use usher_sys::{net::feature_probe, oci::bundle, pods::cgroup};

use crate::data_source::node::Node;

/// Directories of network configurations and of CNI plugins, by platform. If two entries share the first directory, the
/// second entry is for GKE, or for old releases of k3s.
const CNI_DIRS: [(&str, &str); 5] = [
    ("/etc/cni/net.d", "/opt/cni/bin"),
    ("/etc/cni/net.d", "/home/kubernetes/bin"),
    (
        "/var/lib/rancher/k3s/agent/etc/cni/net.d",
        "/var/lib/rancher/k3s/data/cni",
    ),
    (
        "/var/lib/rancher/k3s/agent/etc/cni/net.d",
        "/var/lib/rancher/k3s/data/current/bin",
    ),
    (
        "/var/snap/microk8s/current/args/cni-network",
        "/var/snap/microk8s/current/opt/cni/bin",
    ),
];

/// The execute bits of user, group and others.
const EXECUTABLE: u32 = 0o111;

/// A file that only cgroups of version 2 have.
const UNIFIED: &str = "cgroup.controllers";

/// Cgroups, bundles, usher's own files.
pub(super) fn node(node: &Node) -> Found {
    let args = &node.args;
    Found {
        cgroups: cgroups(&args.cgroup_root),
        bundle_dir: args.bundle_dir.display().to_string(),
        bundles: bundles(&args.bundle_dir),
        run_dir: args.run_dir.display().to_string(),
        run_dir_writable: writable(feature_probe::creatable(&args.run_dir)),
        config: config(node),
        config_path: args.config.display().to_string(),
    }
}

fn cgroups(given: &Path) -> Result<Cgroups, String> {
    let root = cgroup::locate(given).map_err(|error| error.to_string())?;
    let entries = fs::read_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let kubepods = names.filter(|name| is_kubepods(name)).min();
    let pods = cgroup::walk(&root).map_err(|error| chain(&error))?.len();
    Ok(Cgroups {
        layout: if root.join(UNIFIED).exists() {
            Layout::Unified
        } else {
            Layout::Legacy
        },
        root: root.display().to_string(),
        kubepods,
        pods: u64::try_from(pods).unwrap_or(u64::MAX),
    })
}

fn bundles(dir: &Path) -> Bundles {
    if dir.as_os_str().is_empty() {
        return Bundles::Off;
    }
    match fs::read_dir(dir) {
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => Bundles::Absent,
        Err(error) => Bundles::Hidden(format!("{}: {error}", dir.display())),
        Ok(entries) => match bundle::visible(dir) {
            Ok(()) => Bundles::Seen(u64::try_from(entries.count()).unwrap_or(u64::MAX)),
            Err(why) => Bundles::Hidden(why),
        },
    }
}

fn config(node: &Node) -> Result<Option<usize>, String> {
    let Some(text) = node.config_text()? else {
        return Ok(None);
    };
    let name = node.args.config.display().to_string();
    let config = Config::parse(&name, &text).map_err(|bad| bad.to_string())?;
    let builtin = recipe::builtin();
    let own = config.recipes.iter().filter(|one| !builtin.contains(one));
    Ok(Some(own.count()))
}

/// Without flags, uses the directories of the platform: a node without an agent has no other source.
pub(super) fn given_or_known(given: &CniArgs) -> CniArgs {
    let mut args = given.clone();
    if args.cni_conf_dir.is_empty()
        && args.cni_bin_dir.is_empty()
        && let Some((conf, bin)) = known(&CNI_DIRS)
    {
        (args.cni_conf_dir, args.cni_bin_dir) = (conf.into(), bin.into());
    }
    args
}

/// The first platform with a directory of configurations, preferably with plugins, or else with a directory of plugins.
fn known<'a>(platforms: &[(&'a str, &'a str)]) -> Option<(&'a str, &'a str)> {
    let here = |(conf, _): &&(&str, &str)| Path::new(conf).is_dir();
    let here: Vec<&(&str, &str)> = platforms.iter().filter(here).collect();
    let with_plugins = here.iter().find(|(_, bin)| has_plugins(Path::new(bin)));
    let with_directory = || here.iter().find(|(_, bin)| Path::new(bin).is_dir());
    let chosen = with_plugins.or_else(with_directory).or(here.first());
    chosen.map(|found| **found)
}

fn has_plugins(bin: &Path) -> bool {
    let executable = |entry: fs::DirEntry| {
        // Plugins may be links to one program.
        let found = fs::metadata(entry.path());
        found.is_ok_and(|found| found.is_file() && found.mode() & EXECUTABLE != 0)
    };
    fs::read_dir(bin).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(executable)))
}

/// The network configurations; None if no plugin is to be installed.
pub(super) fn network(
    settings: Option<&Settings>,
    status: Option<&Status>,
    platform: Option<&'static str>,
) -> Option<cni::Found> {
    let settings = settings?;
    let (conf_dir, bin_dir) = (&settings.conf_dir, &settings.bin_dir);
    let files = match fs::read_dir(conf_dir) {
        Ok(_entries) => settings.files().map_err(|error| chain(&error)),
        Err(error) => Err(format!("{}: {error}", conf_dir.display())),
    };
    Some(cni::Found {
        files,
        conf_writable: writable(feature_probe::writable(conf_dir).map(|()| conf_dir.to_owned())),
        bin_writable: writable(feature_probe::writable(bin_dir).map(|()| bin_dir.to_owned())),
        conf_dir: conf_dir.display().to_string(),
        programs: names(bin_dir),
        platform,
        bin_dir: bin_dir.display().to_string(),
        stem: settings.stem.clone(),
        entry: Some(settings.entry.clone()),
        obstacle: obstacle(settings),
        wanted: status.map_or(Wanted::Unknown, |status| match status.modes.hold {
            Mode::Enforce if status.lacks.hold.is_none() && status.plugin.managed => Wanted::Yes,
            _ => Wanted::No,
        }),
    })
}

/// Why the agent cannot insert the entry. Missing plugins have a check of their own.
fn obstacle(settings: &Settings) -> Option<String> {
    let files = files::list(&settings.conf_dir);
    match files.and_then(|files| entry::look(settings, &files, true)) {
        Ok(_) | Err(Error::NoPlugins { .. }) => None,
        Err(error) => Some(chain(&error)),
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn writable(outcome: io::Result<PathBuf>) -> Result<(), String> {
    outcome.map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use usher_core::cni::protocol::{DEFAULT_LOG_FILE, DEFAULT_SOCKET};

    use super::*;

    #[test]
    fn plugins_distinguish_platforms_with_equal_configurations() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let [conf, one, two, other] = ["conf", "one", "two", "other"].map(path);
        let platforms = [(&conf[..], &one[..]), (&conf, &two), (&other, &one)];
        assert_eq!(known(&platforms), None);
        fs::create_dir(&conf).unwrap();
        assert_eq!(known(&platforms), Some((&conf[..], &one[..])));
        fs::create_dir(&two).unwrap();
        assert_eq!(known(&platforms), Some((&conf[..], &two[..])));
        // The directory has no executable file.
        fs::create_dir(&one).unwrap();
        fs::write(folder.path().join("one/README"), "").unwrap();
        let plugin = folder.path().join("two/bridge");
        fs::write(&plugin, "").unwrap();
        assert_eq!(known(&platforms), Some((&conf[..], &one[..])));
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(known(&platforms), Some((&conf[..], &two[..])));
        fs::create_dir(&other).unwrap();
        assert_eq!(known(&platforms), Some((&conf[..], &two[..])));
    }

    /// The agent refuses what these files need.
    #[test]
    fn obstacles_of_the_installation_are_found() {
        const CONF: &str = r#"{"cniVersion":"1.0.0","name":"n","type":"bridge"}"#;
        const LIST: &str = r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}"#;
        let folder = tempfile::tempdir().unwrap();
        let [conf, bin] = ["conf", "bin"].map(|name| folder.path().join(name));
        for dir in [&conf, &bin] {
            fs::create_dir(dir).unwrap();
        }
        let args = CniArgs {
            cni_conf_dir: conf.clone().into(),
            cni_bin_dir: bin.clone().into(),
            cni_binary: "/usher-cni".into(),
            cni_conf: None,
            cni_socket: DEFAULT_SOCKET.into(),
            cni_log: DEFAULT_LOG_FILE.into(),
            cni_own_pod: None,
            pod_namespace: None,
        };
        let settings = Settings::from_args(&args).unwrap().unwrap();
        let found = || network(Some(&settings), None, None).unwrap().obstacle;
        fs::write(conf.join("10-net.conf"), CONF).unwrap();
        assert_eq!(found(), None, "the missing plugin has another check");
        fs::write(bin.join("bridge"), "").unwrap();
        assert_eq!(found(), None);
        fs::write(conf.join("10-net.conflist"), LIST.replace("bridge", "ptp")).unwrap();
        let occupied = found().unwrap();
        assert!(occupied.contains("10-net.conflist"), "{occupied}");
        fs::remove_file(conf.join("10-net.conflist")).unwrap();
        let mut bytes = CONF.as_bytes().to_owned();
        let at = bytes.iter().position(|byte| *byte == b'b').unwrap();
        bytes[at] = 0xff;
        fs::write(conf.join("10-net.conf"), bytes).unwrap();
        let not_text = found().unwrap();
        assert!(not_text.contains("is not UTF-8"), "{not_text}");
        fs::write(conf.join("10-net.conf"), CONF).unwrap();
        symlink("/nonexistent/own.conflist", conf.join("05-own.conflist")).unwrap();
        let hidden = found().unwrap();
        assert!(hidden.contains("05-own.conflist"), "{hidden}");
    }

    #[test]
    fn gke_is_a_platform() {
        let gke = ("/etc/cni/net.d", "/home/kubernetes/bin");
        assert!(CNI_DIRS.contains(&gke));
    }
}
