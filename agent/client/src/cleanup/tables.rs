//! Tables in the network namespaces of pods. The cleanup deletes the tables of namespaces that have a process. The
//! kernel removes a namespace without a process, with its table.

use usher_core::{
    base::id::{NetnsId, Pid},
    cleanup::{Found, Item},
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

/// Why a table could not be found or deleted.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Netns(#[from] netns::Error),
    #[error(transparent)]
    Table(#[from] nft::NftError),
}

/// Finds the tables in all network namespaces except the host's.
pub fn look(proc: &ProcRoot) -> Vec<Found> {
    let scan = match netns::scan(proc) {
        Ok(scan) => scan,
        Err(error) => return vec![unseen("network namespaces", &error)],
    };
    let host = of_host(proc);
    let mut found = Vec::new();
    let mut failed: Option<(usize, Error)> = None;
    for (id, pid) in scan.namespaces {
        if host == Some(id) {
            continue;
        }
        match has_table(proc, id, pid) {
            Ok(false) => {}
            Ok(true) => found.push(Found::removable(Item::Table {
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
    // One line for all, because they fail for the same reason.
    if let Some((count, first)) = failed {
        found.push(unseen(&format!("tables in {count} namespaces"), &first));
    }
    if scan.hidden > 0 {
        let what = format!("network namespaces of {} processes", scan.hidden);
        let why = "usher may not read them";
        found.push(Found::stuck(Item::Unreadable(what), why, LOOK));
    }
    if scan.truncated {
        let what = "further network namespaces".to_owned();
        let why = "there are more than one run reads";
        let advice = "run this again when it has removed what it found";
        found.push(Found::stuck(Item::Unreadable(what), why, advice));
    }
    found
}

/// Succeeds if the table has been removed with its namespace.
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

/// Opens the namespace by a process that was in it. None if the process has exited or its pid has been reused. The look
/// after the cleanup finds the remaining table by another process.
fn open(proc: &ProcRoot, id: NetnsId, pid: Pid) -> Result<Option<Netns>, Error> {
    match Netns::of_process(proc, pid) {
        Ok(netns) => Ok((netns.id() == id).then_some(netns)),
        Err(netns::Error::Open { source, .. }) if netns::has_ended(&source) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
