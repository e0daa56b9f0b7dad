//! Waits until sidecars have exited, as the agent reports it.

use std::{collections::BTreeSet, time::Duration};

use usher_core::{admin::WatchLine, decision::timeline::Detail};

use crate::{
    failure::Failure, global::Exit, node::watch::lines::Lines,
    operate::operator_request::OperatorClient,
};

/// The decisions about one pod from now on.
#[derive(Debug)]
pub(super) struct Exits {
    uid: String,
    lines: Lines,
}

impl Exits {
    pub(super) async fn open(client: &OperatorClient) -> Result<Self, Failure> {
        Ok(Self {
            uid: client.pod.uid.clone(),
            lines: Lines::of_agent(&client.agent).await?,
        })
    }

    /// Waits until each container has exited, or the agent gave up on one.
    pub(super) async fn wait(
        self,
        containers: Vec<String>,
        time: Duration,
    ) -> Result<Exit, Failure> {
        let mut left: BTreeSet<String> = containers.into_iter().collect();
        let waited = tokio::time::timeout(time, self.until_none(&mut left)).await;
        let names: Vec<&str> = left.iter().map(String::as_str).collect();
        match waited {
            Ok(ended) => ended.map(|()| Exit::Success),
            Err(_elapsed) => {
                let text = format!("still running after {time:?}: {}", names.join(", "));
                Err(Failure::new(Exit::Problem, text))
            }
        }
    }

    async fn until_none(mut self, left: &mut BTreeSet<String>) -> Result<(), Failure> {
        while !left.is_empty() {
            let entry = match self.lines.next().await? {
                WatchLine::Entry(entry) => entry,
                WatchLine::Missed { missed } => {
                    return Err(Failure::unavailable(format!(
                        "missed {missed} decisions; run usher explain to see the state of the pod"
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
