//! The settings of the installation.

use std::{ffi::OsString, path::PathBuf};

use serde_json::json;
use usher_core::cni::conflist::{self, Entry};
pub use usher_core::cni::protocol::PLUGIN;

use super::{binary::Binary, error, files};
use crate::cni_args::CniArgs;

/// Prefix of the names of the agent's own pods.
const OWN_PREFIX: &str = "usher-";

/// Why the flags are invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("--cni-conf-dir and --cni-bin-dir go together")]
    Half,
    #[error("--cni-conf {name:?} is not a file name with the extension .conf, .conflist or .json")]
    Name { name: String },
    #[error("the plugin's entry")]
    Entry(#[from] conflist::Error),
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub conf_dir: PathBuf,
    pub bin_dir: PathBuf,
    /// The binary in the agent's image.
    pub source: PathBuf,
    /// The configuration that gets the entry, without its extension. None for the first one that runtimes can use.
    pub stem: Option<String>,
    pub entry: Entry,
}

impl Settings {
    /// None if the agent does not install the plugin.
    pub fn from_args(args: &CniArgs) -> Result<Option<Self>, Error> {
        let is_given = |path: &OsString| !path.is_empty();
        match (is_given(&args.cni_conf_dir), is_given(&args.cni_bin_dir)) {
            (false, false) => return Ok(None),
            (true, true) => {}
            _ => return Err(Error::Half),
        }
        let name = args.cni_conf.as_deref().filter(|name| !name.is_empty());
        Ok(Some(Self {
            conf_dir: args.cni_conf_dir.clone().into(),
            bin_dir: args.cni_bin_dir.clone().into(),
            source: args.cni_binary.clone(),
            stem: name.map(stem).transpose()?,
            entry: entry(args)?,
        }))
    }

    /// Names and texts of the network configurations.
    pub fn files(&self) -> Result<Vec<(String, String)>, error::Error> {
        let files = files::list(&self.conf_dir)?;
        let pair = |file: &files::Conf| (file.name.clone(), file.text().into_owned());
        Ok(files.iter().map(pair).collect())
    }

    /// Whether the installed binary equals the source; None if no binary is installed.
    pub fn is_binary_current(&self) -> Result<Option<bool>, error::Error> {
        let mut binary = Binary::new(self.source.clone(), self.binary());
        if !binary.exists() {
            return Ok(None);
        }
        binary.is_current().map(Some)
    }

    /// The binary's path on the host.
    pub fn binary(&self) -> PathBuf {
        self.bin_dir.join(PLUGIN)
    }
}

/// The name of a configuration without its extension, because a `.conf` becomes a `.conflist`.
fn stem(name: &str) -> Result<String, Error> {
    let is_name = |stem: &&str| !stem.is_empty() && !name.contains('/');
    let parts = name.rsplit_once('.');
    let stem = parts.filter(|(_, extension)| ["conf", "conflist", "json"].contains(extension));
    match stem.map(|(stem, _)| stem).filter(is_name) {
        Some(stem) => Ok(stem.to_owned()),
        None => Err(Error::Name {
            name: name.to_owned(),
        }),
    }
}

fn entry(args: &CniArgs) -> Result<Entry, Error> {
    let given = args.cni_own_pod.clone().filter(|pod| !pod.is_empty());
    let in_namespace = |namespace: &String| format!("{namespace}/{OWN_PREFIX}");
    let own = given.or_else(|| args.pod_namespace.as_ref().map(in_namespace));
    let mut members = vec![
        ("type", json!(PLUGIN)),
        ("socket", json!(args.cni_socket)),
        ("logFile", json!(args.cni_log)),
    ];
    members.extend(own.map(|own| ("ownPod", json!(own))));
    // Not a `serde_json` map, because the file keeps this order of keys.
    let members = members
        .iter()
        .map(|(key, value)| format!("\"{key}\": {value}"))
        .collect::<Vec<_>>()
        .join(", ");
    Ok(Entry::parse(&format!("{{{members}}}"))?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use usher_core::cni::conflist::{Edit, Kind, insert};

    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[command(flatten)]
        cni: CniArgs,
    }

    fn settings(flags: &[&str]) -> Result<Option<Settings>, Error> {
        let flags = ["usher-agent"].iter().chain(flags);
        Settings::from_args(&Args::try_parse_from(flags).unwrap().cni)
    }

    #[test]
    fn nothing_unless_both_directories_are_given() {
        assert!(settings(&[]).unwrap().is_none());
        assert!(settings(&["--cni-conf-dir", "/c"]).is_err());
        let both = ["--cni-conf-dir", "/c", "--cni-bin-dir", "/b"];
        let given = settings(&both).unwrap().unwrap();
        assert_eq!(given.binary(), PathBuf::from("/b/usher-cni"));
        assert_eq!(given.stem, None);
    }

    #[test]
    fn entry_has_the_socket_and_the_agents_own_pods() {
        let both = ["--cni-conf-dir", "/c", "--cni-bin-dir", "/b"];
        let more = ["--cni-socket", "/s", "--pod-namespace", "u"];
        let given = settings(&[both, more].concat()).unwrap().unwrap();
        let conf = "{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"}]}";
        let Ok(Edit::Text(list)) = insert(conf, Kind::ConfList, &given.entry) else {
            panic!("the entry can be inserted");
        };
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let expected = json!({
            "type": "usher-cni", "socket": "/s", "logFile": "/run/usher/cni.log", "ownPod": "u/usher-",
        });
        assert_eq!(list["plugins"][1], expected);
    }

    #[test]
    fn name_with_either_extension() {
        assert_eq!(stem("10-a.b.conf").unwrap(), "10-a.b");
        assert_eq!(stem("10-a.conflist").unwrap(), "10-a");
        for name in ["a", ".conf", "a.yaml", "../a.conf", ""] {
            assert!(stem(name).is_err(), "{name}");
        }
    }
}
