//! The tables in the network namespaces of pods. One that a process is in has the table taken out; one that nobody is
//! in goes soon, and its table with it.

use usher_core::{
    base::id::{NetnsId, Pid},
    cleanup::{Found, Thing},
};
use usher_sys::{
    net::{
        netlink::Protocol,
        netns::{self, Netns},
        nft,
    },
    pods::proc::ProcRoot,
};

use super::{LOOK, of_host, unseen};
use crate::error_chain::chain;

/// Why a table could not be looked for or removed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Netns(#[from] netns::Error),
    #[error(transparent)]
    Table(#[from] nft::NftError),
}

/// The tables that there are, by one look at each network namespace but the host's.
pub(super) fn look(proc: &ProcRoot) -> Vec<Found> {
    let scan = match netns::scan(proc) {
        Ok(scan) => scan,
        Err(error) => return vec![unseen("network namespaces", &error)],
    };
    let host = of_host(proc);
    let mut found = Vec::new();
    let mut failed: Option<(usize, Error)> = None;
    for (id, pid) in scan.namespaces {
        if host.contains(&id) {
            continue;
        }
        match has_table(proc, id, pid) {
            Ok(false) => {}
            Ok(true) => found.push(Found::removable(Thing::Table {
                netns: id,
                pid,
                name: proc.name(pid).ok().flatten().unwrap_or_default(),
            })),
            Err(error) => {
                let (count, first) = failed.take().unwrap_or((0, error));
                failed = Some((count + 1, first));
            }
        }
    }
    // One line for all: where one cannot be looked at, none can.
    if let Some((count, first)) = failed {
        found.push(unseen(&format!("tables in {count} namespaces"), &first));
    }
    if scan.hidden > 0 {
        let what = format!("network namespaces of {} processes", scan.hidden);
        let why = "they may not be looked at";
        found.push(Found::stuck(Thing::Unseen(what), why, LOOK));
    }
    if scan.truncated {
        let what = "further network namespaces".to_owned();
        let why = "there are more than are looked at at once";
        let advice = "run this again when it has removed what it found";
        found.push(Found::stuck(Thing::Unseen(what), why, advice));
    }
    found
}

/// Deletes the table. One that has gone with its namespace is done.
pub(super) fn remove(proc: &ProcRoot, id: NetnsId, pid: Pid) -> Result<(), String> {
    let delete = || -> Result<(), Error> {
        if let Some(netns) = open(proc, id, pid)? {
            nft::delete_table(&netns.netlink(Protocol::Netfilter)?)?;
        }
        Ok(())
    };
    delete().map_err(|error| chain(&error))
}

fn has_table(proc: &ProcRoot, id: NetnsId, pid: Pid) -> Result<bool, Error> {
    match open(proc, id, pid)? {
        Some(netns) => Ok(nft::exists(&netns.netlink(Protocol::Netfilter)?)?),
        None => Ok(false),
    }
}

/// The namespace, by a process that was in it. None when that has ended, or is another one now: what remains in the
/// namespace is found by the look after the removal, under another process.
fn open(proc: &ProcRoot, id: NetnsId, pid: Pid) -> Result<Option<Netns>, Error> {
    match Netns::of_process(proc, pid) {
        Ok(netns) => Ok((netns.id() == id).then_some(netns)),
        Err(netns::Error::Open { source, .. }) if netns::has_ended(&source) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
