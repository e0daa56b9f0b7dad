//! Orders and what is said to them, the table that is planned for a pod, and lines of what is decided.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    decision::timeline::Entry,
    engine::request::{Answer, Taken},
    hold::ruleset::{Door, Queue, Wanted},
};

/// What is said to an order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ordered {
    /// `namespace/name` of the pod, or its UID.
    pub pod: String,
    /// What was asked for: `quit`, `hold`, `release`, `rules --fix`.
    pub order: String,
    /// `taken`, `nothing` or `refused`.
    pub answer: String,
    /// It was only asked what would be done.
    pub dry_run: bool,
    /// What is done, or why nothing is.
    pub says: String,
    /// The word for a refusal, such as `app-runs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Whether `--force` would have it done.
    #[serde(default)]
    pub yields_to_force: bool,
    /// What was set aside for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub despite: Vec<String>,
    /// Sidecars that are shown out, the first ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Ports whose connections wait or waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
}

/// The first step with one sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The sidecar.
    pub container: String,
    /// What is done.
    pub step: String,
    /// The exit code that is known to come of it.
    pub exit_code: i32,
    /// What is to be known besides.
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

    /// What is said to an order about a pod.
    pub fn new(pod: &str, order: &str, dry_run: bool, answer: Answer) -> Self {
        let said = |answer: &str, says: String| Self {
            pod: pod.to_owned(),
            order: order.to_owned(),
            answer: answer.to_owned(),
            dry_run,
            says,
            ..Self::default()
        };
        match answer {
            Answer::Nothing(says) => said(Self::NOTHING, says),
            Answer::Refused(why) => Self {
                refusal: Some(why.as_str().to_owned()),
                yields_to_force: why.yields_to_force(),
                ..said(Self::REFUSED, why.to_string())
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
                    exit_code: step.code,
                    note: step.note,
                });
                Self {
                    despite,
                    steps: steps.collect(),
                    ports,
                    ..said(Self::TAKEN, says)
                }
            }
        }
    }
}

/// The table that is to be in a pod's network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTable {
    /// Whether one is to be there; else the rest is empty.
    pub wanted: bool,
    /// The ports at which connections wait, and for how many milliseconds yet.
    pub doors: Vec<(u16, u64)>,
    /// How DNS queries wait: `native` or `compat`; None where they do not.
    pub dns: Option<String>,
    /// Users whose connections pass.
    pub exempt_uids: Vec<u32>,
    /// Groups whose connections pass.
    pub exempt_gids: Vec<u32>,
    /// It only counts.
    pub count_only: bool,
}

impl PlannedTable {
    /// What is wanted.
    pub fn of(wanted: Option<&Wanted>) -> Self {
        let Some(wanted) = wanted else {
            return Self::default();
        };
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let doors = wanted.ports.iter();
        let queue = |queue| match queue {
            Queue::Native => "native".to_owned(),
            Queue::Compat => "compat".to_owned(),
        };
        Self {
            wanted: true,
            doors: doors.map(|door| (door.port, ms(door.timeout))).collect(),
            dns: wanted.dns.map(queue),
            exempt_uids: wanted.exempt_uids.clone(),
            exempt_gids: wanted.exempt_gids.clone(),
            count_only: wanted.count_only,
        }
    }

    /// The same, to make rules of; None where there are to be none.
    pub fn to_wanted(&self) -> Option<Wanted> {
        let doors = self.doors.iter().map(|(port, ms)| Door {
            port: *port,
            timeout: Duration::from_millis(*ms),
        });
        let wanted = Wanted {
            ports: doors.collect(),
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

/// One line of what is decided as it is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WatchLine {
    /// So many decisions were made that the reader did not read in time.
    Missed {
        /// How many.
        missed: u64,
    },
    /// A decision.
    Entry(Entry),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_comes_back_as_it_was() {
        for dns in [None, Some(Queue::Native), Some(Queue::Compat)] {
            let wanted = Wanted {
                ports: vec![Door {
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
