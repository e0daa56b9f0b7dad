//! Checks how many rules of its own a pod's namespace evaluates for one packet, before the worker sends one there.
//!
//! A thread that is stuck in the kernel takes a processor that no other thread gets. The worker contains that, but a node
//! has few processors, and a few such pods would take them all.

use std::sync::{Mutex, PoisonError};

use usher_client::error_chain::chain;
use usher_core::worker::{MAX_EVALUATIONS, Trouble};
use usher_sys::net::{
    iptables,
    netlink::{Protocol, Socket},
    netns::Netns,
    nft::{self, Cost, NftError},
};

/// The last check of a namespace. Every change of its rules makes another generation.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Option<Cost>>);

impl Cache {
    /// Reads the rules of the namespace where they have changed since the last check. Rules that cannot be read count as
    /// cheap: the worker is made to be stuck.
    ///
    /// To close the socket that is returned may wait for changes of rules. Do that when the packet is sent.
    pub(super) fn check(&self, netns: &Netns) -> Result<Option<Socket>, Trouble> {
        let socket = match netns.netlink(Protocol::Netfilter) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!(error = %chain(&error), "could not open a socket to read rules");
                return Ok(None);
            }
        };
        match self.cost(netns, &socket) {
            Ok(cost) if cost.evaluations > MAX_EVALUATIONS => Err(Trouble::CostlyRules),
            Ok(_cheap) => Ok(Some(socket)),
            Err(error) => {
                tracing::debug!(error = %chain(&error), "could not read the rules of a namespace");
                Ok(Some(socket))
            }
        }
    }

    fn cost(&self, netns: &Netns, socket: &Socket) -> Result<Cost, NftError> {
        let generation = nft::generation(socket)?;
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.filter(|known| known.generation == generation) {
            return Ok(known);
        }
        let mut cost = nft::cost(socket)?;
        // They have no generation: what is added after this check is for the deadline.
        match iptables::evaluations(netns) {
            Ok(legacy) => cost.evaluations = cost.evaluations.saturating_add(legacy),
            Err(error) => {
                tracing::debug!(error = %chain(&error), "could not read the rules of iptables-legacy");
            }
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(cost);
        Ok(cost)
    }
}
