//! The plugin's entry in the directory of network configurations: how it stands, and what is to be done.

use std::path::Path;

use usher_core::cni::conflist::{self, Edit, Kind, State, Why};

use super::{
    error::Error,
    files::Conf,
    settings::{PLUGIN, Settings},
    step::{self, Step},
};
use crate::error_chain::chain;

/// What the directory comes to.
#[derive(Debug)]
pub enum Situation {
    /// It is as it should be, in this file.
    Installed { name: String },
    /// It is not, and this puts it there.
    Absent { name: String, steps: Vec<Step> },
    /// This file cannot be used now, but somebody may be writing it.
    Unsettled { name: String },
    /// There is nothing that it could be in.
    Nowhere { why: String },
}

/// Looks at the files. `is_settled` says that nobody writes any more what cannot be read.
pub fn look(settings: &Settings, files: &[Conf], is_settled: bool) -> Result<Situation, Error> {
    let is_candidate = |file: &&Conf| {
        let stem = file.name.rsplit_once('.').map(|(stem, _)| stem);
        let stem = stem.map(|stem| stem.strip_suffix(".json").unwrap_or(stem));
        settings.stem.is_none() || settings.stem.as_deref() == stem
    };
    let candidates: Vec<_> = files.iter().filter(is_candidate).collect();
    let texts: Vec<_> = candidates.iter().map(|file| file.text()).collect();
    let pairs: Vec<_> = candidates
        .iter()
        .zip(&texts)
        .map(|(file, text)| (&file.name[..], &text[..]))
        .collect();
    let choice = conflist::choose(&pairs, PLUGIN);
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
    if let State::Installed = conflist::check(text, primary.kind, &settings.entry) {
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
    let steps = match primary.kind {
        Kind::ConfList => step::rewrite(&file.name, &file.bytes, new),
        Kind::Conf => as_list(settings, files, file, new)?,
    };
    Ok(Situation::Absent {
        name: file.name.clone(),
        steps,
    })
}

fn why(name: &str, why: &Why) -> String {
    match why {
        Why::Extension => format!("{name} has another extension"),
        Why::Ours => format!("{name} has no plugin but ours"),
        Why::Unusable(error) | Why::Unsupported(error) => format!("{name}: {}", chain(error)),
    }
}

/// A `.conf` becomes a `.conflist`, for runtimes look for a list in no other file; an `a.json` an `a.json.conflist`.
/// Either comes right after the old file, so one that somebody makes again counts at once.
///
/// A list of that name may be there already. It is ours to replace when it has our entry, or would be the same
/// without it: from an earlier time, or a crash before the `.conf` went.
fn as_list(
    settings: &Settings,
    files: &[Conf],
    file: &Conf,
    text: String,
) -> Result<Vec<Step>, Error> {
    let stem = file.name.strip_suffix(".conf").unwrap_or(&file.name);
    let list = format!("{stem}.conflist");
    if let Some(other) = files.iter().find(|other| other.name == list) {
        let there = other.text();
        let was_ours = match conflist::remove(&there, PLUGIN) {
            Ok(Edit::Unchanged) => {
                conflist::remove(&text, PLUGIN).ok() == Some(Edit::Text(there.into_owned()))
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

/// What takes the entry out of each file that has it, with the file's name.
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

/// Whether there is no entry in any file, as far as can be told.
///
/// # Errors
/// [`Error::StillNamed`] also where a file that cannot be read has the plugin's name in it.
pub fn require_gone(dir: &Path, files: &[Conf]) -> Result<(), Error> {
    let names = |file: &&Conf| match conflist::remove(&file.text(), PLUGIN) {
        Ok(edit) => edit != Edit::Unchanged,
        Err(_unreadable) => file.text().contains(PLUGIN),
    };
    match files.iter().find(names) {
        None => Ok(()),
        Some(file) => Err(Error::StillNamed {
            path: dir.join(&file.name),
        }),
    }
}
