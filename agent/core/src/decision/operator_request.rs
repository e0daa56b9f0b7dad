//! Requests of an operator, as the timeline records them.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Verb {
    Quit {
        /// Also if an app is running, or if it turns a succeeded pod into a failed one.
        force: bool,
    },
    /// Hold connections until the sidecars are ready.
    Hold,
    /// Release connections and starts now.
    Release,
    /// Restore the rules in the pod's network namespace.
    #[strum(serialize = "rules --fix")]
    Repair,
}

/// The peer of the admin socket that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    pub uid: u32,
    /// The process in the agent's pid namespace; 0 where it is not visible there.
    pub pid: i32,
}

/// A request that the agent accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedRequest {
    pub verb: Verb,
    pub requester: Requester,
    pub summary: String,
}

impl fmt::Display for Requester {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "uid {}, pid {}", self.uid, self.pid)
    }
}

impl fmt::Display for AcceptedRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forced = match self.verb {
            Verb::Quit { force: true } => " --force",
            _ => "",
        };
        write!(
            out,
            "{}{forced}, requested by {}: {}",
            self.verb.into_str(),
            self.requester,
            self.summary
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeline_has_verb_requester_and_summary() {
        for (verb, words) in [
            (Verb::Quit { force: false }, "quit"),
            (Verb::Quit { force: true }, "quit --force"),
            (Verb::Hold, "hold"),
            (Verb::Release, "release"),
            (Verb::Repair, "rules --fix"),
        ] {
            let request = AcceptedRequest {
                verb,
                requester: Requester { uid: 1000, pid: 7 },
                summary: "it is done".to_owned(),
            };
            let expected = format!("{words}, requested by uid 1000, pid 7: it is done");
            assert_eq!(request.to_string(), expected);
        }
    }
}
