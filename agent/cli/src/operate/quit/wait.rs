//! Waits for the ends of sidecars, by what the agent says of them.

use std::{collections::BTreeSet, time::Duration};

use usher_core::{admin::WatchLine, decision::timeline::Detail};
use usher_inspect::text::printable::clean;

use crate::{
    failure::Failure, global::Exit, node::watch::lines::Lines,
    operate::operator_request::OperatorClient, print_stderr,
};

/// What is said of one pod from now on.
#[derive(Debug)]
pub(super) struct Ends {
    uid: String,
    lines: Lines,
}

impl Ends {
    pub(super) async fn open(desk: &OperatorClient) -> Result<Self, Failure> {
        Ok(Self {
            uid: desk.pod.uid.clone(),
            lines: Lines::of_agent(&desk.agent).await?,
        })
    }

    /// Waits until each of these has ended, or was given up.
    pub(super) async fn wait(self, containers: Vec<String>, time: Duration) -> Exit {
        let mut left: BTreeSet<String> = containers.into_iter().collect();
        let waited = tokio::time::timeout(time, self.until_none(&mut left)).await;
        let names: Vec<&str> = left.iter().map(String::as_str).collect();
        match waited {
            Ok(Ok(())) => Exit::Success,
            Ok(Err(failure)) => failure.report(),
            Err(_late) => {
                print_stderr(&format!(
                    "after {time:?} there still run: {}",
                    clean(&names.join(", "))
                ));
                Exit::Problem
            }
        }
    }

    async fn until_none(mut self, left: &mut BTreeSet<String>) -> Result<(), Failure> {
        while !left.is_empty() {
            let entry = match self.lines.next().await? {
                WatchLine::Entry(entry) => entry,
                WatchLine::Missed { missed } => {
                    return Err(Failure::unavailable(format!(
                        "missed {missed} decisions: look with usher explain"
                    )));
                }
            };
            let Some(container) = entry.container.filter(|_| entry.uid == self.uid) else {
                continue;
            };
            match entry.detail {
                Detail::SidecarEnded { .. } => drop(left.remove(&container)),
                Detail::GaveUp if left.contains(&container) => {
                    let text = format!("gave up on {container}: {}", entry.reason);
                    return Err(Failure::new(Exit::Problem, text));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
