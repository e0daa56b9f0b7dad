//! The runtime's network configuration: which file counts, whether usher can stand in it, and whether it does.

use serde_json::Value;
use usher_core::cni::{
    conflist::{self, Entry, Kind, State, choose},
    protocol::PLUGIN,
};

use super::{Category, Check, Question};

const fn question(id: &'static str, title: &'static str, why: &'static str) -> Question {
    Question {
        id,
        category: Category::Network,
        title,
        why,
    }
}

const DIRECTORY: Question = question(
    "network-directory",
    "the network configurations can be read and written",
    "the CNI plugin cannot be put in place, so a pod is held from its first process on, and not before",
);
const PROGRAMS: Question = question(
    "network-programs",
    "the directory of CNI plugins can be written",
    "the CNI plugin cannot be put in place, so a pod is held from its first process on, and not before",
);
const FIRST: Question = question(
    "network-first-file",
    "the first configuration can be used",
    "runtimes use the first file by name; one that they cannot read takes the network of the node away",
);
const ENTRY: Question = question(
    "network-entry",
    "usher's plugin is last in it",
    "connections of a pod's first milliseconds are not held",
);

/// All of them.
pub const ALL: &[&Question] = &[&DIRECTORY, &PROGRAMS, &FIRST, &ENTRY];

/// Whether the plugin should be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The agent wants it: the Node's mode of hold is enforce.
    Yes,
    /// It does not.
    No,
    /// There is no agent that wants something.
    Unknown,
}

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// Where network configurations are.
    pub conf_dir: String,
    /// Their names and texts, or why they cannot be read.
    pub files: Result<Vec<(String, String)>, String>,
    /// Whether new ones can be made there.
    pub conf_writable: Result<(), String>,
    /// Where CNI plugins are.
    pub bin_dir: String,
    /// Whether new ones can be made there.
    pub bin_writable: Result<(), String>,
    /// The name without extension of the configuration to stand in, where one is given.
    pub stem: Option<String>,
    /// The entry as it should be.
    pub entry: Option<Entry>,
    /// Whether it should be there.
    pub wanted: Wanted,
}

/// Judges it; None where no CNI plugin is to be installed.
pub fn judge(found: Option<&Found>) -> Vec<Check> {
    let Some(found) = found else {
        let saw = "neither --cni-conf-dir nor --cni-bin-dir is given (chart: cni.enabled)";
        return ALL.iter().map(|one| one.skipped(saw)).collect();
    };
    let dir = &found.conf_dir;
    let files = match &found.files {
        Ok(files) => files,
        Err(error) => {
            let mend = format!(
                "name the runtime's directory: helm upgrade usher ... --set cni.confDir=DIR (grep conf_dir /etc/containerd/config.toml); it is looked for at {dir}"
            );
            let nothing = "there are no files to look at";
            return vec![
                DIRECTORY.failed(error, mend),
                programs(found),
                FIRST.skipped(nothing),
                ENTRY.skipped(nothing),
            ];
        }
    };
    let directory = match &found.conf_writable {
        Ok(()) => DIRECTORY.ok(dir),
        Err(error) => DIRECTORY.failed(format!("{dir}: {error}"), owner(dir)),
    };
    let (first, entry) = configuration(found, files);
    vec![directory, programs(found), first, entry]
}

fn programs(found: &Found) -> Check {
    let dir = &found.bin_dir;
    match &found.bin_writable {
        Ok(()) => PROGRAMS.ok(dir),
        Err(error) => PROGRAMS.failed(format!("{dir}: {error}"), owner(dir)),
    }
}

/// The agent has no right to write where others own a directory.
fn owner(dir: &str) -> String {
    format!(
        "on the node: chown root:root and chmod u+rwx what is mounted at {dir}, mounted without readOnly; or, where the directory is another, --set cni.confDir=DIR,cni.binDir=DIR"
    )
}

fn configuration(found: &Found, files: &[(String, String)]) -> (Check, Check) {
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .filter(|(name, _)| is_candidate(name, found.stem.as_deref()))
        .collect();
    let choice = choose(&files, PLUGIN);
    if let Some(stops) = choice.stops_containerd() {
        let saw = format!("{}: {}", stops.name, why(&stops.why));
        let mend = format!(
            "mend or remove {}/{} on the node: containerd has no network while it is there",
            found.conf_dir, stops.name
        );
        return (FIRST.failed(saw, mend), ENTRY.skipped("see above"));
    }
    let Some(primary) = choice.primary else {
        let saw = match (choice.skipped.last(), &found.stem) {
            (Some(last), _) => format!("{}: {}", last.name, why(&last.why)),
            (None, Some(stem)) => format!(
                "there is no {stem}.conflist or {stem}.conf in {}",
                found.conf_dir
            ),
            (None, None) => format!("there is no network configuration in {}", found.conf_dir),
        };
        let mend = "install the cluster's network first; where it writes another directory: --set cni.confDir=DIR";
        return (FIRST.failed(saw, mend), ENTRY.skipped("see above"));
    };
    let text = files
        .iter()
        .find(|(name, _)| *name == primary.name)
        .map_or("", |(_, text)| *text);
    let chain = chain(text);
    let saw = format!("{}: {}", primary.name, chain.join(", "));
    let first = if chain.first().is_some_and(|first| first == "multus") && found.stem.is_none() {
        FIRST.warning(
            saw,
            "name the pods' own configuration, which Multus calls: helm upgrade usher ... --set cni.conf=NAME.conflist",
        )
    } else {
        FIRST.ok(saw)
    };
    (first, entry(found, primary.name, primary.kind, text))
}

fn entry(found: &Found, name: &str, kind: Kind, text: &str) -> Check {
    let Some(wanted) = &found.entry else {
        return ENTRY.skipped("the settings of the entry cannot be used");
    };
    let soon = "the agent puts it right by itself; if it does not, kubectl logs -n usher ds/usher -c agent | grep 'CNI plugin'";
    match (conflist::check(text, kind, wanted), found.wanted) {
        (State::Installed, _) => ENTRY.ok(format!("in {name}")),
        (State::Absent, Wanted::Yes) => ENTRY.failed(format!("it is not in {name}"), soon),
        (State::Absent, Wanted::No) => ENTRY.skipped("not wanted: the Node does not enforce holds"),
        (State::Absent, Wanted::Unknown) => ENTRY.skipped(format!(
            "not in {name} yet: the agent puts it there when the Node enforces holds"
        )),
        (State::NotLast, _) => ENTRY.failed(
            format!("another plugin comes after it in {name}"),
            "kubectl rollout restart -n usher ds/usher: the agent moves it to the end",
        ),
        (State::Repeated { count }, _) => {
            ENTRY.failed(format!("it is {count} times in {name}"), soon)
        }
        // Made by an agent with other settings; one that runs has its own.
        (State::Stale, Wanted::Unknown) => ENTRY.ok(format!(
            "in {name}, with other settings than this process has"
        )),
        (State::Stale, _) => ENTRY.warning(format!("in {name}, with other settings"), soon),
        (State::Unusable(error), _) => ENTRY.failed(
            format!("{name}: {error}"),
            format!("mend {}/{name} on the node", found.conf_dir),
        ),
    }
}

fn why(why: &conflist::Why) -> String {
    match why {
        conflist::Why::Extension => "runtimes do not read files of that name".to_owned(),
        conflist::Why::Ours => "only usher's plugin is in it".to_owned(),
        conflist::Why::Unusable(error) | conflist::Why::Unsupported(error) => error.to_string(),
    }
}

fn is_candidate(name: &str, stem: Option<&str>) -> bool {
    let own = name.rsplit_once('.').map_or(name, |(own, _)| own);
    stem.is_none_or(|stem| own == stem)
}

/// The types of its plugins, one after the other.
fn chain(text: &str) -> Vec<String> {
    let parsed: Value = serde_json::from_str(text).unwrap_or_default();
    let kind = |plugin: &Value| plugin["type"].as_str().unwrap_or("?").to_owned();
    match parsed["plugins"].as_array() {
        Some(plugins) => plugins.iter().map(kind).collect(),
        None => vec![kind(&parsed)],
    }
}
