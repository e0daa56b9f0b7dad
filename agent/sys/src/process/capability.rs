//! The [capabilities(7)](https://man7.org/linux/man-pages/man7/capabilities.7.html) of this process, and their
//! permanent reduction to the needed ones.

use std::{collections::BTreeSet, io};

pub use caps::Capability;
use caps::{CapSet, CapsHashSet, errors::CapsError};
use nix::{errno::Errno, sys::prctl};

/// Capabilities could not be dropped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading or changing the {set} capabilities")]
    Set {
        set: &'static str,
        source: CapsError,
    },
    #[error("prctl(PR_SET_NO_NEW_PRIVS)")]
    NoNewPrivileges(#[source] io::Error),
    #[error("prctl(PR_SET_DUMPABLE)")]
    Dumpable(#[source] io::Error),
}

/// Drops all capabilities except these, in all sets of the calling thread and of threads that it starts later. A needed
/// capability that the thread lacks is not added.
///
/// Programs that are executed later have no more capabilities (`no_new_privs`), although the bounding set may be
/// unchanged: a change of it needs `CAP_SETPCAP`, and in a container the pod's spec sets it.
///
/// # Errors
/// [`Error`]; capabilities that were already dropped stay dropped.
pub fn keep_only(needed: &[Capability]) -> Result<(), Error> {
    let wanted: CapsHashSet = needed.iter().copied().collect();
    let had = caps::read(None, CapSet::Permitted).map_err(failed("permitted"))?;
    let kept: CapsHashSet = wanted.intersection(&had).copied().collect();
    prctl::set_no_new_privs().map_err(|errno: Errno| Error::NoNewPrivileges(errno.into()))?;
    let may_bound = caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP);
    if may_bound.map_err(failed("effective"))? {
        let bounds = caps::read(None, CapSet::Bounding).map_err(failed("bounding"))?;
        for capability in bounds.difference(&kept) {
            caps::drop(None, CapSet::Bounding, *capability).map_err(failed("bounding"))?;
        }
    }
    // The kernel keeps the ambient set within the inheritable set. The effective set must shrink before the permitted
    // set.
    caps::clear(None, CapSet::Inheritable).map_err(failed("inheritable"))?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed("effective"))?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed("permitted"))
}

/// Makes this process non-dumpable. Then only a process that may trace all others can read its memory, and the kernel
/// writes no core dump of it ([PR_SET_DUMPABLE](https://man7.org/linux/man-pages/man2/PR_SET_DUMPABLE.2const.html)).
pub fn conceal() -> Result<(), Error> {
    prctl::set_dumpable(false).map_err(|errno: Errno| Error::Dumpable(errno.into()))
}

/// The effective capabilities of this thread in Kubernetes' notation: `NET_ADMIN`.
pub fn effective() -> Result<BTreeSet<String>, Error> {
    let set = caps::read(None, CapSet::Effective).map_err(failed("effective"))?;
    let name = |capability: &Capability| {
        let name = capability.to_string();
        name.strip_prefix("CAP_").unwrap_or(&name).to_owned()
    };
    Ok(set.iter().map(name).collect())
}

fn failed(set: &'static str) -> impl Fn(CapsError) -> Error {
    move |source| Error::Set { set, source }
}
