//! What this process may do: the
//! [capabilities(7)](https://man7.org/linux/man-pages/man7/capabilities.7.html)
//! that are left when all others have been given up for good.

use std::io;

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
}

/// Capabilities could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A set could not be read or written.
    #[error("changing the {set} capabilities")]
    Set {
        /// Which.
        set: &'static str,
        /// Why.
        source: CapsError,
    },
    /// `PR_SET_NO_NEW_PRIVS` failed.
    #[error("prctl(PR_SET_NO_NEW_PRIVS)")]
    NoNewPrivileges(#[source] io::Error),
}

/// Gives up all capabilities but these, in all sets of the calling thread; for
/// a process that has one thread. One that the process does not have is none
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

impl Needed {
    fn capability(self) -> Capability {
        match self {
            Self::SysAdmin => Capability::CAP_SYS_ADMIN,
            Self::SysPtrace => Capability::CAP_SYS_PTRACE,
            Self::DacReadSearch => Capability::CAP_DAC_READ_SEARCH,
        }
    }
}

fn failed(set: &'static str) -> impl Fn(CapsError) -> Error {
    move |source| Error::Set { set, source }
}
