//! Values of labels: types, so that nothing else can come to stand in a label.

use crate::{
    cni::protocol,
    decision::{self, Kind},
    hold::Opened,
    quit::outcome::Outcome,
    settings::mode::Mode,
    start::Why,
};

/// A label's value: one of few that are known beforehand.
pub trait Value {
    /// All of them.
    const NAMES: &'static [&'static str];

    /// This one.
    fn name(&self) -> &'static str;
}

/// Values that are nothing but their names.
macro_rules! values {
    ($(#[$doc:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $text:expr,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$what])* $variant,)+
        }

        impl Value for $name {
            const NAMES: &'static [&'static str] = &[$($text),+];

            fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

values! {
    /// What came of a Kubernetes Event.
    Told {
        /// It is in the API.
        Sent = "sent",
        /// The queue was full, or what it is about is gone.
        Dropped = "dropped",
        /// The API server did not take it.
        Failed = "failed",
    }
}

values! {
    /// The agent's version; there is one in each process.
    Version {
        /// This one's.
        Own = env!("CARGO_PKG_VERSION"),
    }
}

values! {
    /// What has a mode of its own.
    Capability {
        /// Sidecars are asked to quit.
        Quit = "quit",
        /// Connections and starts wait.
        Hold = "hold",
    }
}

values! {
    /// What came of a request for the kubelet's pods.
    Listed {
        /// The pods.
        Ok = "ok",
        /// It was not there, or the connection broke.
        Connect = "connect",
        /// It did not answer in time.
        Timeout = "timeout",
        /// Its certificate, or ours, cannot be used.
        Tls = "tls",
        /// The agent's own token cannot be read.
        Token = "token",
        /// It does not take the token.
        Unauthorized = "unauthorized",
        /// The agent has no right to the pods.
        Forbidden = "forbidden",
        /// Another status.
        ServerError = "server-error",
        /// An answer that cannot be read.
        Decode = "decode",
    }
}

values! {
    /// What came of a request for a Namespace.
    Asked {
        /// What it says.
        Ok = "ok",
        /// There is none.
        NotFound = "not-found",
        /// The agent has no right to it.
        Forbidden = "forbidden",
        /// No answer.
        Failed = "failed",
    }
}

values! {
    /// What came of a reading of the configuration file.
    Reading {
        /// It counts.
        Ok = "ok",
        /// It cannot be used.
        Rejected = "rejected",
    }
}

values! {
    /// A file of the run directory that is replaced as a whole.
    RunFile {
        /// The Node's annotations.
        NodeAnnotations = "node-annotations.json",
        /// What Namespaces say.
        Namespaces = "namespaces.json",
        /// The last good configuration.
        Config = "config.yaml",
    }
}

values! {
    /// What the CNI plugin was told about a sandbox.
    Announced {
        /// Its connections wait.
        Held = "held",
        /// Nothing waits in it.
        Open = "open",
        /// They were to wait and cannot.
        Failed = "failed",
        /// The message was none, or not the plugin's.
        Refused = "refused",
        /// There was no answer in time.
        Unanswered = "unanswered",
    }
}

values! {
    /// What of pods, containers or processes could not be looked at.
    Unseen {
        /// The kernel gives no inotify.
        InotifyInit = "inotify-init",
        /// Its news cannot be read.
        InotifyRead = "inotify-read",
        /// More happened than the kernel keeps; all was listed again.
        InotifyOverflow = "inotify-overflow",
        /// A directory cannot be watched.
        InotifyWatch = "inotify-watch",
        /// A directory of the cgroup tree cannot be listed.
        CgroupList = "cgroup-list",
        /// A cgroup does not tell its processes.
        CgroupProcs = "cgroup-procs",
        /// `/proc` does not tell what they are.
        Proc = "proc",
        /// An init process cannot be opened.
        Pidfd = "pidfd",
        /// A network namespace cannot be opened.
        Netns = "netns",
        /// A container showed no process.
        NoProcess = "no-process",
    }
}

impl From<protocol::Outcome> for Announced {
    fn from(outcome: protocol::Outcome) -> Self {
        match outcome {
            protocol::Outcome::Held => Self::Held,
            protocol::Outcome::Open => Self::Open,
            protocol::Outcome::Failed => Self::Failed,
        }
    }
}

impl Value for Mode {
    const NAMES: &'static [&'static str] = &["off", "observe", "enforce"];

    fn name(&self) -> &'static str {
        self.as_str()
    }
}

impl Value for Kind {
    const NAMES: &'static [&'static str] = &decision::NAMES;

    fn name(&self) -> &'static str {
        self.as_str()
    }
}

impl Value for Outcome {
    const NAMES: &'static [&'static str] = &[
        "accepted",
        "no-reply",
        "rejected",
        "refused",
        "timed-out",
        "signalled",
        "gone",
        "no-process",
        "failed",
    ];

    fn name(&self) -> &'static str {
        self.as_str()
    }
}

/// How the hold of a pod's connections ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldEnd {
    /// They were let go.
    Opened(Opened),
    /// They could not be made to wait.
    Failed,
}

impl Value for HoldEnd {
    const NAMES: &'static [&'static str] = &[
        "ready",
        "deadline",
        "sidecar-ended",
        "pod-ending",
        "not-wanted",
        "init-container",
        "operator",
        "failed",
    ];

    fn name(&self) -> &'static str {
        match self {
            Self::Opened(why) => why.as_str(),
            Self::Failed => "failed",
        }
    }
}

impl Value for Why {
    const NAMES: &'static [&'static str] = &[
        "ready",
        "deadline",
        "sidecar-ended",
        "pod-ending",
        "not-wanted",
        "init-container",
        "operator",
        "limit",
        "holder-ended",
        "container-ended",
    ];

    fn name(&self) -> &'static str {
        self.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed<V: Value>(all: &[V]) {
        let names: Vec<_> = all.iter().map(Value::name).collect();
        assert_eq!(names, V::NAMES);
    }

    #[test]
    fn types_of_other_modules_have_the_names_that_are_listed() {
        let opened = [
            Opened::Ready,
            Opened::Deadline,
            Opened::SidecarEnded,
            Opened::Ending,
            Opened::NotWanted,
            Opened::InitContainer,
            Opened::ByOperator,
        ];
        let ends = opened.map(HoldEnd::Opened).into_iter();
        listed(&ends.chain([HoldEnd::Failed]).collect::<Vec<_>>());
        let starts = opened.map(Why::Opened).into_iter();
        let others = [Why::Limit, Why::HolderEnded, Why::ContainerEnded];
        listed(&starts.chain(others).collect::<Vec<_>>());
        listed(&[Mode::Off, Mode::Observe, Mode::Enforce]);
        listed(&[
            Outcome::Accepted,
            Outcome::NoReply,
            Outcome::Rejected(500),
            Outcome::Refused,
            Outcome::TimedOut,
            Outcome::Signalled,
            Outcome::Gone,
            Outcome::NoProcess,
            Outcome::Failed(String::new()),
        ]);
    }
}
