//! The nodes of a cluster besides the first: they join it, and have no control plane.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Cluster, Member, create, require_root, state::Facts};
use crate::{
    node::{
        self, Node,
        address::Link,
        cable::{Cable, End},
    },
    programs::Programs,
    progress::Progress,
};

impl Cluster {
    /// Removes the node with the highest number, and its object. It joins anew with [`Self::up`].
    pub fn remove_last_node(&self) -> Result<()> {
        require_root()?;
        let _lock = self.first.state.lock()?;
        let last = self.workers()?.pop();
        let last = last.context("the first node has the control plane and stays")?;
        last.node.remove()?;
        last.state.remove()?;
        self.kubectl(&["delete", "node", last.name(), "--ignore-not-found"])
            .map(drop)
    }

    /// Every node, the first one first.
    pub fn members(&self) -> Result<Vec<Member>> {
        let mut members = vec![self.member(1)?];
        members.extend(self.workers()?);
        Ok(members)
    }

    /// The node with this number; the first is 1.
    pub fn member(&self, number: u8) -> Result<Member> {
        let dir = self.state_dir();
        match number {
            1 => Member::new(&self.config.name, 1, dir.to_owned()),
            _ => self
                .workers()?
                .into_iter()
                .find(|worker| worker.number == number)
                .with_context(|| format!("cluster {} has no node {number}", self.config.name)),
        }
    }

    pub(super) fn worker(&self, number: u8) -> Result<Member> {
        let dir = self.state_dir().join(format!("node-{number}"));
        Member::new(&self.config.name, number, dir)
    }

    /// The other nodes, by their directories.
    pub(super) fn workers(&self) -> Result<Vec<Member>> {
        let all = (2..=node::MOST).map(|number| self.worker(number));
        all.filter(|worker| {
            worker
                .as_ref()
                .map_or(true, |worker| worker.state.facts().is_some())
        })
        .collect()
    }

    /// Creates another node, or its missing parts.
    pub(super) fn up_worker(
        &self,
        worker: &Member,
        first: &Facts,
        programs: &Programs,
        archives: &[PathBuf],
        progress: &Progress,
    ) -> Result<()> {
        let facts = match worker.state.facts() {
            Some(facts) => facts,
            None => {
                let routes = Node::routes(Some(&self.first.node))?;
                let link = Link::choose(worker.name(), &routes)?;
                let facts = Facts { link, ..*first };
                worker.state.write_facts(&facts)?;
                facts
            }
        };
        if worker.node.init().is_none() {
            let pods = node::pod_range(worker.number);
            let cable = Cable {
                link: facts.link,
                end: End::First {
                    first: &self.first.node,
                    pods: &pods,
                },
            };
            create(worker, &facts, &cable, programs, progress)?;
        }
        self.write_settings(worker, programs, &facts)?;
        self.start_worker(worker, archives, progress)
    }
}
