//! The runtime's network configuration: the file that applies, and usher's plugin in it.

use std::collections::BTreeSet;

use usher_core::{
    cni::{
        conflist::{self, Entry, Kind, State, choose},
        protocol::PLUGIN,
    },
    node::platform,
};

use super::{Check, Question, command};

questions! {
    Cni {
        DIRECTORY = "cni-conf-dir",
            "the network configurations can be read and written",
            "the CNI plugin cannot be installed, so usher holds a pod from its first process on, and not before";
        PROGRAMS = "cni-bin-dir",
            "the directory of CNI plugins can be written",
            "the CNI plugin cannot be installed, so usher holds a pod from its first process on, and not before";
        FIRST = "cni-first-file",
            "the first network configuration is valid",
            "runtimes use the first file by name; an invalid one leaves the node without network";
        ENTRY = "cni-entry",
            "usher's plugin is the last one in it",
            "connections in the first milliseconds of a pod are not held";
    }
}

/// Whether the agent installs the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The Node's mode of hold is enforce.
    Yes,
    No,
    Unknown,
}

/// The facts about the network configuration.
#[derive(Debug)]
pub struct Found {
    /// The directory of network configurations.
    pub conf_dir: String,
    pub files: Result<Vec<(String, String)>, String>,
    pub conf_writable: Result<(), String>,
    /// The directory of CNI plugins.
    pub bin_dir: String,
    pub bin_writable: Result<(), String>,
    /// Names of the files in `bin_dir`.
    pub programs: BTreeSet<String>,
    /// The chart's preset for this node.
    pub platform: Option<&'static str>,
    /// The configured name of the network configuration, without extension.
    pub stem: Option<String>,
    pub entry: Option<Entry>,
    /// Why the agent cannot insert the entry, except for missing plugins.
    pub obstacle: Option<String>,
    pub wanted: Wanted,
}

/// Judges the facts; None if no CNI plugin is to be installed.
pub fn judge(found: Option<&Found>) -> Vec<Check> {
    let Some(found) = found else {
        let message = "neither --cni-conf-dir nor --cni-bin-dir is given (chart: cni.enabled)";
        return ALL.iter().map(|one| one.skipped(message)).collect();
    };
    let dir = &found.conf_dir;
    let files = match &found.files {
        Ok(files) => files,
        Err(error) => {
            let fix = format!(
                "set the runtime's directory, which is now {dir} (grep conf_dir /etc/containerd/config.toml); {}",
                platform::remedy(found.platform)
            );
            let nothing = "no files";
            return vec![
                DIRECTORY.failed(error, fix),
                programs(found, &[]),
                FIRST.skipped(nothing),
                ENTRY.skipped(nothing),
            ];
        }
    };
    let directory = match &found.conf_writable {
        Ok(()) => DIRECTORY.ok(dir),
        Err(error) => DIRECTORY.failed(format!("{dir}: {error}"), owner(dir)),
    };
    let (first, entry, chain) = configuration(found, files);
    vec![directory, programs(found, &chain), first, entry]
}

/// Judges `chain`, the plugins that the runtime calls.
fn programs(found: &Found, chain: &[String]) -> Check {
    let dir = &found.bin_dir;
    let is_foreign = |name: &&String| *name != PLUGIN;
    let is_elsewhere = chain.iter().any(|name| name != PLUGIN)
        && !chain
            .iter()
            .filter(is_foreign)
            .any(|name| found.programs.contains(name));
    match &found.bin_writable {
        Ok(()) if is_elsewhere => PROGRAMS.failed(
            format!(
                "{dir} has none of {}, so the runtime has its plugins elsewhere",
                chain.join(", ")
            ),
            platform::remedy(found.platform),
        ),
        Ok(()) => PROGRAMS.ok(dir),
        Err(error) => PROGRAMS.failed(format!("{dir}: {error}"), owner(dir)),
    }
}

/// The fix for a directory of another user: the agent has no capability to write there.
fn owner(dir: &str) -> String {
    format!(
        "on the node: chown root:root and chmod u+rwx the directory that is mounted at {dir}, mounted without readOnly; for another directory: --set cni.confDir=DIR,cni.binDir=DIR"
    )
}

/// Judges the first file and usher's entry in it; returns the plugins that the file names too.
fn configuration(found: &Found, files: &[(String, String)]) -> (Check, Check, Vec<String>) {
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .filter(|(name, _)| conflist::has_stem(name, found.stem.as_deref()))
        .collect();
    let choice = choose(&files, PLUGIN);
    if let Some(stops) = choice.stops_containerd() {
        let message = format!("{}: {}", stops.name, why(&stops.why));
        let fix = format!(
            "fix or remove {}/{} on the node: until then containerd has no network",
            found.conf_dir, stops.name
        );
        return (
            FIRST.failed(message, fix),
            ENTRY.skipped("see above"),
            Vec::new(),
        );
    }
    let Some(primary) = choice.primary else {
        let message = match (choice.skipped.last(), &found.stem) {
            (Some(last), _) => format!("{}: {}", last.name, why(&last.why)),
            (None, Some(stem)) => format!(
                "there is no {stem}.conflist, {stem}.conf or {stem}.json in {}",
                found.conf_dir
            ),
            (None, None) => format!("there is no network configuration in {}", found.conf_dir),
        };
        let fix = format!(
            "install the cluster's network first; if it uses another directory: {}",
            platform::remedy(found.platform)
        );
        return (
            FIRST.failed(message, fix),
            blocked(found).unwrap_or_else(|| ENTRY.skipped("see above")),
            Vec::new(),
        );
    };
    let text = files
        .iter()
        .find(|(name, _)| *name == primary.name)
        .map_or("", |(_, text)| *text);
    let chain = conflist::types(text);
    let message = format!("{}: {}", primary.name, chain.join(", "));
    let first = if chain.first().is_some_and(|first| first == "multus") && found.stem.is_none() {
        FIRST.warning(
            message,
            "set the configuration that Multus calls for pods: helm upgrade usher ... --set cni.conf=NAME.conflist",
        )
    } else {
        FIRST.ok(message)
    };
    let entry = entry(found, primary.name, primary.kind, text);
    (first, entry, chain)
}

fn entry(found: &Found, name: &str, kind: Kind, text: &str) -> Check {
    let Some(wanted) = &found.entry else {
        return ENTRY.skipped("the settings of the entry cannot be used");
    };
    let logs = command::logs(" | grep 'CNI plugin'");
    let soon = format!("the agent repairs it; if it does not: {logs}");
    let state = conflist::check(text, kind, wanted);
    if let (Some(blocked), false) = (blocked(found), matches!(state, State::Unusable(_))) {
        return blocked;
    }
    match (state, found.wanted) {
        (State::Installed, _) => ENTRY.ok(format!("in {name}")),
        (State::Absent, Wanted::Yes) => ENTRY.failed(format!("not in {name}"), soon),
        (State::Absent, Wanted::No) => ENTRY.skipped("not needed: the Node does not enforce hold"),
        (State::Absent, Wanted::Unknown) => ENTRY.skipped(format!(
            "not in {name} yet: the agent adds it when the Node enforces hold"
        )),
        (State::NotLast { .. }, _) => ENTRY.warning(
            format!("another plugin follows it in {name}"),
            format!(
                "none is needed if that plugin keeps itself at the end, as linkerd-cni does; otherwise: {}",
                command::restart()
            ),
        ),
        (State::Repeated { count }, _) => ENTRY.failed(format!("{count} times in {name}"), soon),
        // An agent with other settings wrote this entry.
        (State::Stale, Wanted::Unknown) => {
            ENTRY.ok(format!("in {name}, with other settings than this process"))
        }
        (State::Stale, _) => ENTRY.warning(format!("in {name}, with other settings"), soon),
        (State::Unusable(error), _) => ENTRY.failed(
            format!("{name}: {error}"),
            format!("fix {}/{name} on the node", found.conf_dir),
        ),
    }
}

/// The failure if the agent cannot insert the entry.
fn blocked(found: &Found) -> Option<Check> {
    let obstacle = found.obstacle.as_ref();
    let obstacle = obstacle.filter(|_| found.wanted != Wanted::No)?;
    let fix = format!(
        "correct that in {} on the node; then the agent installs the plugin",
        found.conf_dir
    );
    Some(ENTRY.failed(obstacle, fix))
}

fn why(why: &conflist::Why) -> String {
    match why {
        conflist::Why::Extension => "runtimes read no file with that name".to_owned(),
        conflist::Why::Ours => "only usher's plugin is in it".to_owned(),
        conflist::Why::Unusable(error) | conflist::Why::Unsupported(error) => error.to_string(),
    }
}
