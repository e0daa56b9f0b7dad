//! Replies to an operator's requests, the planned table of a pod, and the lines of `usher watch`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    decision::timeline::Entry,
    engine::request::{Answer, Step, Taken},
    hold::ruleset::Wanted,
};

/// How long an operator's request waits until a change of the pod's hold is over. Clients must wait longer.
pub const LONGEST_BUSY: Duration = Duration::from_secs(5);

/// The reply to an operator's request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorReply {
    /// `namespace/name` of the pod, or its UID.
    pub pod: String,
    /// The request: `quit`, `hold`, `release`, `rules --fix`.
    pub request: String,
    /// `taken`, `nothing` or `refused`.
    pub answer: String,
    pub dry_run: bool,
    /// What the agent does, or why it does nothing.
    pub message: String,
    /// The kind of refusal, such as `app-runs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Whether `--force` overrides the refusal.
    #[serde(default)]
    pub yields_to_force: bool,
    /// What the request overrides, such as the mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub despite: Vec<String>,
    /// The sidecars that are terminated, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
}

impl OperatorReply {
    pub const REFUSED: &'static str = "refused";
    pub const TAKEN: &'static str = "taken";
    pub const NOTHING: &'static str = "nothing";

    pub fn new(pod: &str, request: &str, dry_run: bool, answer: Answer) -> Self {
        let reply = |answer: &str, message: String| Self {
            pod: pod.to_owned(),
            request: request.to_owned(),
            answer: answer.to_owned(),
            dry_run,
            message,
            ..Self::default()
        };
        match answer {
            Answer::Nothing(message) => reply(Self::NOTHING, message),
            Answer::Refused(why) => Self {
                refusal: Some(why.into_str().to_owned()),
                yields_to_force: why.yields_to_force(),
                ..reply(Self::REFUSED, why.to_string())
            },
            Answer::Taken(Taken {
                message,
                despite,
                steps,
                ports,
            }) => Self {
                despite,
                steps,
                ports,
                ..reply(Self::TAKEN, message)
            },
        }
    }
}

/// The nftables table that a pod's network namespace should have, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTable {
    pub wanted: Option<Wanted>,
}

/// One line of `usher watch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WatchLine {
    /// The reader was too slow, and this many decisions were dropped.
    Missed {
        missed: u64,
    },
    Entry(Entry),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hold::ruleset::{HeldPort, Queue};

    #[test]
    fn planned_table_is_read_as_it_was_written() {
        for dns in [None, Some(Queue::Native), Some(Queue::Compat)] {
            let planned = PlannedTable {
                wanted: Some(Wanted {
                    ports: vec![HeldPort {
                        port: 15001,
                        timeout: Duration::from_millis(1500),
                    }],
                    dns,
                    exempt_uids: vec![1337],
                    exempt_gids: vec![7],
                    count_only: dns.is_none(),
                }),
            };
            let text = serde_json::to_string(&planned).unwrap();
            assert_eq!(
                serde_json::from_str::<PlannedTable>(&text).unwrap(),
                planned
            );
        }
    }

    #[test]
    fn a_line_is_an_entry_or_a_gap() {
        let line: WatchLine = serde_json::from_str(r#"{"missed":3}"#).unwrap();
        assert_eq!(line, WatchLine::Missed { missed: 3 });
        let line = r#"{"at_ms":1,"uid":"u","pod":"a/b","decision":"waiting","reason":"r"}"#;
        let entry: WatchLine = serde_json::from_str(line).unwrap();
        assert!(matches!(entry, WatchLine::Entry(_)));
    }
}

/// How an operator's request is carried out.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestOptions {
    /// Act despite the reasons against it.
    pub force: bool,
    /// Only report what would be done.
    pub dry_run: bool,
}
