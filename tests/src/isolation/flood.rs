//! Clients that open connections as fast as possible, and keep the newest.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::synthetic::clock::eventually;

/// Connections that each client keeps open.
const KEPT: usize = 1000;

#[derive(Debug, Default)]
pub struct Flood {
    connections: AtomicUsize,
    is_stopped: AtomicBool,
}

impl Flood {
    /// One client, until the flood is stopped. The function opens a connection if it can.
    pub fn run(&self, connect: impl Fn() -> Option<TcpStream>) {
        let mut kept = VecDeque::new();
        while !self.is_stopped.load(Ordering::Relaxed) {
            kept.extend(connect());
            self.connections.fetch_add(1, Ordering::Relaxed);
            if kept.len() > KEPT {
                kept.pop_front();
            }
        }
    }

    /// Waits until it has opened another connection.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn wait(&self) {
        let connections = || self.connections.load(Ordering::Relaxed);
        let before = connections();
        eventually("the flood", || connections() > before);
    }

    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}
