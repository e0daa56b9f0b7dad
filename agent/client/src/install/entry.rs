//! The plugin's entry in the directory of network configurations: its state, and the steps that insert or remove it.

use std::{fs, path::Path};

use usher_core::cni::conflist::{self, Edit, Kind, State, Why};

use super::{
    error::Error,
    files::{self, Conf},
    settings::{PLUGIN, Settings},
    step::{self, Step},
};
use crate::error_chain::chain;

/// The state of the directory.
#[derive(Debug)]
pub enum Situation {
    /// This file has the entry.
    Installed { name: String },
    /// This file has the entry, which is up to date, and another plugin follows it. These steps move it to the end.
    NotLast { name: String, steps: Vec<Step> },
    /// These steps insert the entry, or correct it.
    Absent { name: String, steps: Vec<Step> },
    /// This file is invalid, possibly because another process is writing it.
    Unsettled { name: String },
    /// No file can have the entry.
    Nowhere { why: String },
}

/// Finds the state of the directory. `is_settled` means that no process is writing an invalid file.
pub fn look(settings: &Settings, files: &[Conf], is_settled: bool) -> Result<Situation, Error> {
    let candidates: Vec<_> = files
        .iter()
        .filter(|file| conflist::has_stem(&file.name, settings.stem.as_deref()))
        .collect();
    let texts: Vec<_> = candidates.iter().map(|file| file.text()).collect();
    let pairs: Vec<_> = candidates
        .iter()
        .zip(&texts)
        .map(|(file, text)| (&file.name[..], &text[..]))
        .collect();
    let choice = conflist::choose(&pairs, PLUGIN);
    require_no_hidden_link(settings, choice.primary.map(|primary| primary.name))?;
    if let Some(stopping) = choice.stops_containerd().filter(|_| !is_settled) {
        return Ok(Situation::Unsettled {
            name: stopping.name.to_owned(),
        });
    }
    let Some(primary) = choice.primary else {
        let why = choice
            .skipped
            .iter()
            .map(|skipped| why(skipped.name, &skipped.why));
        let why = why.collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() {
            "no network configuration".to_owned()
        } else {
            why
        };
        return Ok(Situation::Nowhere { why });
    };
    let Some(file) = candidates.iter().find(|file| file.name == primary.name) else {
        return Ok(Situation::Nowhere {
            why: "no network configuration".to_owned(),
        });
    };
    let text = file.exact(&settings.conf_dir)?;
    let state = conflist::check(text, primary.kind, &settings.entry);
    if let State::Installed = state {
        return Ok(Situation::Installed {
            name: file.name.clone(),
        });
    }
    let edit = conflist::insert(text, primary.kind, &settings.entry);
    let edit = edit.map_err(|source| Error::Conf {
        path: settings.conf_dir.join(&file.name),
        source,
    })?;
    let Edit::Text(new) = edit else {
        return Ok(Situation::Installed {
            name: file.name.clone(),
        });
    };
    if let State::NotLast { is_current: true } = state {
        return Ok(Situation::NotLast {
            name: file.name.clone(),
            steps: step::rewrite(&file.name, &file.bytes, new),
        });
    }
    has_plugins_of(settings, &file.name, text)?;
    let steps = match primary.kind {
        Kind::ConfList => step::rewrite(&file.name, &file.bytes, new),
        Kind::Conf => as_list(settings, files, file, new)?,
    };
    Ok(Situation::Absent {
        name: file.name.clone(),
        steps,
    })
}

/// Whether the primary file has the entry, even one that is not up to date.
pub fn is_present(settings: &Settings, files: &[Conf]) -> bool {
    match look(settings, files, true) {
        Ok(Situation::Installed { .. } | Situation::NotLast { .. }) => true,
        Ok(Situation::Absent { name, .. }) => {
            let primary = files.iter().find(|file| file.name == name);
            primary.is_some_and(|file| matches!(mention(file), Some(Mention::Entry)))
        }
        Ok(Situation::Unsettled { .. } | Situation::Nowhere { .. }) | Err(_) => false,
    }
}

/// Refuses a link to a path that this process cannot see: on the host, the runtime may follow the link, and then it does
/// not use the primary configuration, which sorts after the link.
fn require_no_hidden_link(settings: &Settings, primary: Option<&str>) -> Result<(), Error> {
    let mut links = files::hidden_links(&settings.conf_dir)?;
    links.retain(|name| conflist::has_stem(name, settings.stem.as_deref()));
    let Some(first) = links.into_iter().min() else {
        return Ok(());
    };
    if primary.is_some_and(|primary| primary < &first[..]) {
        return Ok(());
    }
    let path = settings.conf_dir.join(first);
    let target = fs::read_link(&path).map_err(Error::io("reading the link", &path))?;
    Err(Error::HiddenLink { path, target })
}

/// A runtime that does not find a plugin of its list starts no pod. So the entry is inserted only if the binary's
/// directory has another plugin of the list.
fn has_plugins_of(settings: &Settings, conf: &str, text: &str) -> Result<(), Error> {
    let mut types = conflist::types(text);
    types.retain(|name| name != PLUGIN && !name.contains('/'));
    // Does not follow links: a link's target is a path of the host, which this process may not have.
    let is_there = |name: &String| settings.bin_dir.join(name).symlink_metadata().is_ok();
    if types.is_empty() || types.iter().any(is_there) {
        return Ok(());
    }
    Err(Error::NoPlugins {
        dir: settings.bin_dir.clone(),
        conf: settings.conf_dir.join(conf),
        types: types.join(", "),
    })
}

fn why(name: &str, why: &Why) -> String {
    match why {
        Why::Extension => format!("{name} has another extension"),
        Why::Ours => format!("{name} has no plugin but usher-cni"),
        Why::Unusable(error) | Why::Unsupported(error) => format!("{name}: {}", chain(error)),
    }
}

/// A `.conf` becomes a `.conflist`, and an `a.json` becomes an `a.json.conflist`, because runtimes read lists only from
/// such files. The new name sorts right after the old one, so an old file that is created again takes effect at once.
///
/// A list of that name may exist. usher may replace it if it has the entry, or would be equal without the entry: then
/// it remains from an earlier agent, or from a crash before the removal of the `.conf`.
fn as_list(
    settings: &Settings,
    files: &[Conf],
    file: &Conf,
    text: String,
) -> Result<Vec<Step>, Error> {
    let stem = file.name.strip_suffix(".conf").unwrap_or(&file.name);
    let list = format!("{stem}.conflist");
    if let Some(other) = files.iter().find(|other| other.name == list) {
        let existing = other.text();
        let was_ours = match conflist::remove(&existing, PLUGIN) {
            Ok(Edit::Unchanged) => {
                conflist::remove(&text, PLUGIN).ok() == Some(Edit::Text(existing.into_owned()))
            }
            Ok(_) => true,
            Err(_unreadable) => false,
        };
        if !was_ours {
            return Err(Error::Occupied {
                path: settings.conf_dir.join(list),
                made_of: file.name.clone(),
            });
        }
    }
    Ok(step::become_another(&file.name, &file.bytes, list, text))
}

/// The files that have the entry, and the steps that remove it from each.
pub fn removal(files: &[Conf]) -> Vec<(String, Vec<Step>)> {
    let change = |file: &Conf| {
        let text = std::str::from_utf8(&file.bytes).ok()?;
        let steps = match conflist::remove(text, PLUGIN).ok()? {
            Edit::Text(text) => step::rewrite(&file.name, &file.bytes, text),
            Edit::NothingLeft => step::withdraw(&file.name, &file.bytes),
            Edit::Unchanged => return None,
        };
        Some((file.name.clone(), steps))
    };
    files.iter().filter_map(change).collect()
}

/// How a file names the plugin.
#[derive(Debug)]
pub enum Mention {
    /// It has the entry.
    Entry,
    /// The configuration of another plugin contains the plugin, as a copy that Multus makes of the entry.
    Nested,
    /// It is invalid and contains the plugin's name.
    Invalid(conflist::Error),
}

/// How this file names the plugin; None if it does not.
pub fn mention(file: &Conf) -> Option<Mention> {
    let text = file.text();
    match conflist::remove(&text, PLUGIN) {
        Ok(Edit::Unchanged) => conflist::contains(&text, PLUGIN).then_some(Mention::Nested),
        Ok(_) => Some(Mention::Entry),
        Err(error) => text.contains(PLUGIN).then_some(Mention::Invalid(error)),
    }
}

/// Whether the entry may be in this file: it has the entry, or is invalid and contains the plugin's name.
pub fn may_have_entry(file: &Conf) -> bool {
    matches!(mention(file), Some(Mention::Entry | Mention::Invalid(_)))
}

/// Checks that no file names the plugin, so that its binary can be removed.
///
/// # Errors
/// [`Error::StillNamed`]
pub fn require_gone(dir: &Path, files: &[Conf]) -> Result<(), Error> {
    require_none(dir, files, |file| mention(file).is_some())
}

/// Checks that no file has the entry. A copy in the configuration of another plugin is allowed: the binary must stay.
///
/// # Errors
/// [`Error::StillNamed`]
pub fn require_no_entry(dir: &Path, files: &[Conf]) -> Result<(), Error> {
    require_none(dir, files, may_have_entry)
}

fn require_none(dir: &Path, files: &[Conf], names: fn(&Conf) -> bool) -> Result<(), Error> {
    match files.iter().find(|file| names(file)) {
        None => Ok(()),
        Some(file) => Err(Error::StillNamed {
            path: dir.join(&file.name),
        }),
    }
}
