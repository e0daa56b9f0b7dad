//! A change of one container, as observed in the kernel.

use crate::pod::exit_status::ExitStatus;

/// A change of one container.
///
/// The changes of one container arrive in the order of the variants; any but the first may be missing. They apply between
/// the appearance of the pod's cgroup and its removal; later ones are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerChange {
    Appeared,
    /// The init process was found. The mounts give the name; a sandbox has none.
    Started {
        name: Option<String>,
    },
    /// The mounts gave the name of a container that started without one.
    Named(String),
    /// The init process runs the image's program.
    Executed,
    /// No process appeared for longer than any start takes: the runtime hides them.
    Hidden,
    Exited,
    /// The init process exited before it ran the image's program, as far as is known.
    ///
    /// A runtime that restarts kills the containers that it had created but not started, and containers in creation
    /// exit without it. The kubelet starts such a container again under any restart policy
    /// ([ShouldContainerBeRestarted](https://github.com/kubernetes/kubernetes/blob/v1.33.0/pkg/kubelet/container/helpers.go)).
    NotStarted,
    /// The exit status of the init process.
    ExitStatus(ExitStatus),
    /// The kernel does not report the exit status: it is older than 6.15, or the process is not reaped.
    NoExitStatus,
    Gone,
}

impl ContainerChange {
    /// Whether the container has ended.
    pub(crate) const fn is_end(&self) -> bool {
        matches!(self, Self::Exited | Self::NotStarted | Self::Gone)
    }
}
