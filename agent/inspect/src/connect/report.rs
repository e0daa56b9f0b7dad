//! The report of `usher connect`.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{
    conns::{How, Way},
    dns::{Resolution, time_text},
    text::table::{Cell, Table, Tone},
};

/// A connection of one pod to one destination: an attempt for each address, until one succeeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// `namespace/name`, or the UID.
    pub pod: String,
    pub uid: String,
    /// `HOST:PORT`.
    pub destination: String,
    /// How the name was resolved; None for an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    pub attempts: Vec<Attempt>,
    /// Data that may be missing, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// A connection to one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub address: SocketAddr,
    pub outcome: Outcome,
    /// The error of the system call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub time_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Way>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaction: Option<Reaction>,
}

/// The result of an attempt, with its text in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum Outcome {
    Connected,
    #[strum(serialize = "connection refused")]
    Refused,
    Timeout,
    Unreachable,
    /// A route or a rule of the pod forbids it.
    Prohibited,
    Failed,
}

/// What a sidecar does with a connection that it has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reaction {
    /// The sidecar closed the connection: the destination does not accept it, or a policy rejects it.
    Closed,
    /// The sidecar keeps the connection open.
    Open,
    /// The sidecar sent data, so the destination replied.
    Data,
}

impl Outcome {
    /// The meaning of the outcome, and where to look for the cause.
    const fn meaning(self) -> Option<&'static str> {
        match self {
            Self::Connected => None,
            Self::Refused => Some(
                "nothing listens on the port, a rule rejects the connection, or the pod's sidecar does not listen yet",
            ),
            Self::Timeout => Some(
                "no reply: check NetworkPolicies, firewalls, and that the address is in use (a Service without ready \
                 endpoints does not reply either)",
            ),
            Self::Unreachable => {
                Some("no route to the address: check the pod's routes with usher explain -o wide")
            }
            Self::Prohibited => Some(
                "a route or a rule of the pod forbids it: see usher explain -o wide and usher rules",
            ),
            Self::Failed => None,
        }
    }
}

impl Connection {
    /// The attempt that connected, or the first one whose failure is not the pod's lack of an address family.
    fn decisive(&self) -> Option<&Attempt> {
        let connected = self
            .attempts
            .last()
            .filter(|last| last.outcome == Outcome::Connected);
        let lacks =
            |attempt: &&Attempt| matches!(attempt.outcome, Outcome::Unreachable | Outcome::Failed);
        connected
            .or_else(|| self.attempts.iter().find(|attempt| !lacks(attempt)))
            .or_else(|| self.attempts.first())
    }

    /// Whether the destination, or a sidecar that keeps the connection, accepted it.
    pub fn is_connected(&self) -> bool {
        self.attempts.last().is_some_and(|attempt| {
            attempt.outcome == Outcome::Connected && attempt.reaction != Some(Reaction::Closed)
        })
    }

    /// The result as sentences, a line each.
    pub fn summary(&self) -> Vec<String> {
        let Self {
            pod, destination, ..
        } = self;
        let mut lines = Vec::new();
        if let Some(resolution) = &self.resolution {
            lines.push(resolution.summary());
        }
        let Some(attempt) = self.decisive() else {
            return lines;
        };
        let time = time_text(attempt.time_us);
        let at = attempt.address;
        match (attempt.outcome, attempt.reaction) {
            (Outcome::Connected, Some(Reaction::Closed)) => lines.push(format!(
                "{pod} cannot reach {destination}: the sidecar accepted the connection and closed it; the destination does not \
                 accept it, or a policy of the mesh rejects it: see the sidecar's log"
            )),
            (Outcome::Connected, Some(Reaction::Open)) => lines.push(format!(
                "{pod} is connected to the sidecar ({time}), which keeps the connection to {at} open; this alone does not \
                 show that {destination} accepts it"
            )),
            (Outcome::Connected, _) => lines.push(format!("{pod} can connect to {destination} ({at} in {time})")),
            (outcome, _) => {
                let meaning = outcome.meaning().map(|text| format!("; {text}"));
                let meaning = meaning.unwrap_or_default();
                lines.push(format!("{pod} cannot connect to {destination}: {} after {time}{meaning}", <&str>::from(outcome)));
            }
        }
        lines
    }

    pub fn table(&self, wide: bool) -> Table {
        let mut table = Table::new(["ADDRESS", "RESULT", "TIME", "VIA"]);
        let tone = if self.is_connected() {
            Tone::Good
        } else {
            Tone::Bad
        };
        for line in self.summary() {
            table.lead(Cell::new(line, tone));
        }
        for attempt in &self.attempts {
            table.row(attempt.cells(wide));
        }
        table
    }
}

impl Attempt {
    fn cells(&self, wide: bool) -> Vec<Cell> {
        let result = match (self.outcome, self.reaction) {
            (Outcome::Connected, Some(Reaction::Closed)) => {
                "accepted and closed by the sidecar".to_owned()
            }
            (Outcome::Connected, Some(Reaction::Open)) => "accepted by the sidecar".to_owned(),
            (Outcome::Failed, _) => self.error.clone().unwrap_or_default(),
            (outcome, _) => <&str>::from(outcome).to_owned(),
        };
        let is_good = self.outcome == Outcome::Connected && self.reaction != Some(Reaction::Closed);
        let tone = if is_good { Tone::Good } else { Tone::Bad };
        let via_tone = match self.via.as_ref().map(|way| way.how) {
            Some(How::Through | How::To) => Tone::Good,
            _ => Tone::Plain,
        };
        vec![
            self.address.to_string().into(),
            Cell::new(result, tone),
            time_text(self.time_us).into(),
            Cell::new(
                self.via
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |way| way.text(wide)),
                via_tone,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(outcome: Outcome, reaction: Option<Reaction>) -> Connection {
        Connection {
            pod: "shop/report".to_owned(),
            uid: "u".to_owned(),
            destination: "db:5432".to_owned(),
            resolution: None,
            attempts: vec![Attempt {
                address: "10.1.2.3:5432".parse().unwrap(),
                outcome,
                error: None,
                time_us: 1_400,
                via: None,
                reaction,
            }],
            gaps: Vec::new(),
        }
    }

    #[test]
    fn summary_has_the_cause_and_where_to_look() {
        for (outcome, reaction, is_connected, text) in [
            (
                Outcome::Connected,
                None,
                true,
                "shop/report can connect to db:5432 (10.1.2.3:5432 in 1.400ms)",
            ),
            (
                Outcome::Connected,
                Some(Reaction::Data),
                true,
                "shop/report can connect",
            ),
            (
                Outcome::Connected,
                Some(Reaction::Open),
                true,
                "shop/report is connected to the sidecar (1.400ms)",
            ),
            (
                Outcome::Connected,
                Some(Reaction::Closed),
                false,
                "shop/report cannot reach db:5432: the sidecar",
            ),
            (
                Outcome::Refused,
                None,
                false,
                "shop/report cannot connect to db:5432: connection refused after 1.400ms; nothing",
            ),
            (
                Outcome::Timeout,
                None,
                false,
                "shop/report cannot connect to db:5432: timeout after 1.400ms; no reply",
            ),
            (
                Outcome::Prohibited,
                None,
                false,
                "shop/report cannot connect to db:5432: prohibited after",
            ),
        ] {
            let connection = connection(outcome, reaction);
            assert_eq!(connection.is_connected(), is_connected);
            let summary = connection.summary();
            assert!(summary[0].starts_with(text), "{summary:?}");
        }
    }

    /// An IPv4-only pod cannot use the destination's IPv6 address. This does not explain why IPv4 failed.
    #[test]
    fn summary_ignores_an_address_family_that_the_pod_lacks() {
        use Outcome::{Connected, Failed, Refused, Timeout, Unreachable};
        for (outcomes, expected) in [
            (
                vec![Timeout, Unreachable],
                "cannot connect to db:5432: timeout",
            ),
            (
                vec![Refused, Failed],
                "cannot connect to db:5432: connection refused",
            ),
            (
                vec![Unreachable, Timeout],
                "cannot connect to db:5432: timeout",
            ),
            (
                vec![Failed, Unreachable],
                "cannot connect to db:5432: failed",
            ),
            (vec![Unreachable, Connected], "can connect to db:5432"),
        ] {
            let mut connection = connection(Timeout, None);
            let attempt = connection.attempts.remove(0);
            let attempts = outcomes.iter().map(|outcome| Attempt {
                outcome: *outcome,
                ..attempt.clone()
            });
            connection.attempts = attempts.collect();
            let summary = connection.summary();
            assert!(summary[0].contains(expected), "{outcomes:?}: {summary:?}");
        }
    }

    #[test]
    fn name_without_an_address_has_no_attempt() {
        let mut unresolved = connection(Outcome::Connected, None);
        unresolved.attempts.clear();
        assert!(!unresolved.is_connected());
        assert!(unresolved.summary().is_empty());
    }

    #[test]
    fn json_is_read_back() {
        let before = connection(Outcome::Connected, Some(Reaction::Closed));
        let text = serde_json::to_string(&before).unwrap();
        assert!(text.contains("\"reaction\":\"closed\""), "{text}");
        assert_eq!(serde_json::from_str::<Connection>(&text).unwrap(), before);
    }
}
