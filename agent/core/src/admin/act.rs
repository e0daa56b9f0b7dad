//! Replies to an operator's requests, the planned table of a pod, and the lines of `usher watch`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    decision::timeline::Entry,
    engine::request::{Answer, Taken},
    hold::ruleset::{HeldPort, Queue, Wanted},
};

/// The reply to an operator's request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ordered {
    /// `namespace/name` of the pod, or its UID.
    pub pod: String,
    /// The request: `quit`, `hold`, `release`, `rules --fix`.
    pub order: String,
    /// `taken`, `nothing` or `refused`.
    pub answer: String,
    pub dry_run: bool,
    /// What the agent does, or why it does nothing.
    pub says: String,
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

/// The first step with one sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub container: String,
    pub step: String,
    /// The exit code that this step is known to cause. None for unknown.
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Ordered {
    /// The answer of [`Answer::Refused`].
    pub const REFUSED: &'static str = "refused";
    /// The answer of [`Answer::Taken`].
    pub const TAKEN: &'static str = "taken";
    /// The answer of [`Answer::Nothing`].
    pub const NOTHING: &'static str = "nothing";

    /// The reply to a request about a pod.
    pub fn new(pod: &str, order: &str, dry_run: bool, answer: Answer) -> Self {
        let reply = |answer: &str, says: String| Self {
            pod: pod.to_owned(),
            order: order.to_owned(),
            answer: answer.to_owned(),
            dry_run,
            says,
            ..Self::default()
        };
        match answer {
            Answer::Nothing(says) => reply(Self::NOTHING, says),
            Answer::Refused(why) => Self {
                refusal: Some(why.as_str().to_owned()),
                yields_to_force: why.yields_to_force(),
                ..reply(Self::REFUSED, why.to_string())
            },
            Answer::Taken(Taken {
                says,
                despite,
                steps,
                ports,
            }) => {
                let steps = steps.into_iter().map(|step| Step {
                    container: step.container,
                    step: step.step,
                    exit_code: step.code.known(),
                    note: step.note,
                });
                Self {
                    despite,
                    steps: steps.collect(),
                    ports,
                    ..reply(Self::TAKEN, says)
                }
            }
        }
    }
}

/// The nftables table that a pod's network namespace should have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTable {
    /// Whether there should be one; otherwise the other fields are empty.
    pub wanted: bool,
    /// The held ports, with the remaining time in milliseconds.
    pub held_ports: Vec<(u16, u64)>,
    /// How DNS queries are held: `native` or `compat`; None where they are not.
    pub dns: Option<String>,
    /// Users that the hold exempts.
    pub exempt_uids: Vec<u32>,
    /// Groups that the hold exempts.
    pub exempt_gids: Vec<u32>,
    /// The rules only count.
    pub count_only: bool,
}

impl PlannedTable {
    pub fn of(wanted: Option<&Wanted>) -> Self {
        let Some(wanted) = wanted else {
            return Self::default();
        };
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let held_ports = wanted.ports.iter();
        let queue = |queue| match queue {
            Queue::Native => "native".to_owned(),
            Queue::Compat => "compat".to_owned(),
        };
        Self {
            wanted: true,
            held_ports: held_ports
                .map(|held_port| (held_port.port, ms(held_port.timeout)))
                .collect(),
            dns: wanted.dns.map(queue),
            exempt_uids: wanted.exempt_uids.clone(),
            exempt_gids: wanted.exempt_gids.clone(),
            count_only: wanted.count_only,
        }
    }

    /// The ruleset's input; None where there should be no table.
    pub fn to_wanted(&self) -> Option<Wanted> {
        let held_ports = self.held_ports.iter().map(|(port, ms)| HeldPort {
            port: *port,
            timeout: Duration::from_millis(*ms),
        });
        let wanted = Wanted {
            ports: held_ports.collect(),
            dns: self.dns.as_deref().map(|queue| match queue {
                "native" => Queue::Native,
                _ => Queue::Compat,
            }),
            exempt_uids: self.exempt_uids.clone(),
            exempt_gids: self.exempt_gids.clone(),
            count_only: self.count_only,
        };
        self.wanted.then_some(wanted)
    }
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
    use super::*;

    #[test]
    fn what_is_planned_comes_back_as_it_was() {
        for dns in [None, Some(Queue::Native), Some(Queue::Compat)] {
            let wanted = Wanted {
                ports: vec![HeldPort {
                    port: 15001,
                    timeout: Duration::from_millis(1500),
                }],
                dns,
                exempt_uids: vec![1337],
                exempt_gids: vec![7],
                count_only: dns.is_none(),
            };
            let text = serde_json::to_string(&PlannedTable::of(Some(&wanted))).unwrap();
            let back: PlannedTable = serde_json::from_str(&text).unwrap();
            assert_eq!(back.to_wanted(), Some(wanted));
        }
        assert_eq!(PlannedTable::of(None).to_wanted(), None);
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
    /// Also where there are reasons not to.
    pub force: bool,
    /// Only report what would be done.
    pub dry_run: bool,
}
