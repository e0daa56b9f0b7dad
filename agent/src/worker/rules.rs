//! Checks the cost of the pod's own rules before the worker sends a packet in its namespace.
//!
//! A thread that is stuck in the kernel occupies a processor completely. The worker tolerates stuck threads, but a few
//! such pods would occupy all processors of a node.

use std::sync::{Mutex, PoisonError};

use usher_client::error_chain::chain;
use usher_core::worker::{MAX_EVALUATIONS, Trouble};
use usher_sys::net::{
    iptables,
    netlink::{Protocol, Socket},
    netns::Netns,
    nft::{self, Cost, NftError},
};

/// The last check of a namespace. Every change of nftables rules increments the generation.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Option<Cost>>);

impl Cache {
    /// Reads the rules of the namespace if they have changed since the last check. Unreadable rules count as cheap,
    /// because the worker tolerates stuck threads.
    ///
    /// Closing the returned socket may wait for changes of rules, so close it after the packet is sent.
    pub(super) fn check(&self, netns: &Netns) -> Result<Option<Socket>, Trouble> {
        let socket = match netns.netlink_here(Protocol::Netfilter) {
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
        // They have no generation: rules that are added later are left to the deadline.
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
