//! What this process may do: the
//! [capabilities(7)](https://man7.org/linux/man-pages/man7/capabilities.7.html)
//! that are left when all others have been given up for good.

use std::{collections::BTreeSet, io};

use caps::{CapSet, Capability, CapsHashSet, errors::CapsError};
use nix::{errno::Errno, sys::prctl};

/// A capability that a part of usher needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// `CAP_SYS_ADMIN`: fanotify.
    SysAdmin,
    /// `CAP_SYS_PTRACE`: `/proc` of others.
    SysPtrace,
    /// `CAP_DAC_READ_SEARCH`: files that their owner keeps to himself.
    DacReadSearch,
    /// `CAP_NET_ADMIN`: tables, and what waits at them.
    NetAdmin,
    /// `CAP_NET_RAW`: packets made by hand.
    NetRaw,
    /// `CAP_KILL`: signals to processes of others.
    Kill,
    /// `CAP_SYS_NICE`: to run before others.
    SysNice,
}

/// Capabilities could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A set could not be read or written.
    #[error("reading or changing the {set} capabilities")]
    Set {
        /// Which.
        set: &'static str,
        /// Why.
        source: CapsError,
    },
    /// `PR_SET_NO_NEW_PRIVS` failed.
    #[error("prctl(PR_SET_NO_NEW_PRIVS)")]
    NoNewPrivileges(#[source] io::Error),
    /// `PR_SET_DUMPABLE` failed.
    #[error("prctl(PR_SET_DUMPABLE)")]
    Dumpable(#[source] io::Error),
}

/// Gives up all capabilities but these, in all sets of the calling thread and
/// of those that it makes from then on. One that it does not have is none
/// afterwards either.
///
/// No program that is executed later has more (`no_new_privs`). That holds
/// also where the bounding set stays as it is, which needs `CAP_SETPCAP` to be
/// changed; a container's is what its pod was given.
///
/// # Errors
/// [`Error`]; what was given up until then stays so.
pub fn keep_only(needed: &[Needed]) -> Result<(), Error> {
    let wanted: CapsHashSet = needed.iter().copied().map(Needed::capability).collect();
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
    // The ambient set cannot be more than the inheritable one, and shrinks with
    // it. The effective one has to be smaller before the permitted one is.
    caps::clear(None, CapSet::Inheritable).map_err(failed("inheritable"))?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed("effective"))?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed("permitted"))
}

/// Nobody but who may look at every process looks into this one's memory, and no
/// core of it is written
/// ([PR_SET_DUMPABLE](https://man7.org/linux/man-pages/man2/PR_SET_DUMPABLE.2const.html)).
///
/// # Errors
/// [`Error::Dumpable`].
pub fn conceal() -> Result<(), Error> {
    prctl::set_dumpable(false).map_err(|errno: Errno| Error::Dumpable(errno.into()))
}

/// What this thread may do now, as Kubernetes writes it: `NET_ADMIN`.
///
/// # Errors
/// [`Error::Set`].
pub fn effective() -> Result<BTreeSet<String>, Error> {
    let set = caps::read(None, CapSet::Effective).map_err(failed("effective"))?;
    let name = |capability: &Capability| {
        let name = capability.to_string();
        name.strip_prefix("CAP_").unwrap_or(&name).to_owned()
    };
    Ok(set.iter().map(name).collect())
}

impl Needed {
    fn capability(self) -> Capability {
        match self {
            Self::SysAdmin => Capability::CAP_SYS_ADMIN,
            Self::SysPtrace => Capability::CAP_SYS_PTRACE,
            Self::DacReadSearch => Capability::CAP_DAC_READ_SEARCH,
            Self::NetAdmin => Capability::CAP_NET_ADMIN,
            Self::NetRaw => Capability::CAP_NET_RAW,
            Self::Kill => Capability::CAP_KILL,
            Self::SysNice => Capability::CAP_SYS_NICE,
        }
    }
}

fn failed(set: &'static str) -> impl Fn(CapsError) -> Error {
    move |source| Error::Set { set, source }
}
