//! The report of `usher conns`: the JSON document, and the table.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize};
use usher_core::node::socket::{Protocol, State, plain};

use super::{Filter, How, OwnerKind, Row, Way, filter::Hidden};
use crate::text::table::{Cell, Table, Tone};

/// The sockets of one pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conns {
    /// `namespace/name`, or the UID.
    pub pod: String,
    pub uid: String,
    /// Whether the pod uses the node's network namespace. If so, only sockets that are certainly the pod's are listed.
    #[serde(default)]
    pub host_network: bool,
    pub containers: Vec<String>,
    pub sockets: Vec<Row>,
    /// Number of listed sockets by state.
    pub states: BTreeMap<State, usize>,
    /// Number of closed connections that are not listed.
    #[serde(default)]
    pub over: usize,
    /// Number of sockets without an address that are not listed.
    #[serde(default)]
    pub unbound: usize,
    /// Number of sockets that belong to no container of the pod, or to an unknown one.
    pub unattributed: usize,
    /// Data that may be missing, with the reason.
    #[serde(default)]
    pub gaps: Vec<String>,
}

impl Conns {
    #[must_use]
    pub fn filtered(mut self, filter: &Filter) -> Self {
        let (mut over, mut unbound) = (0, 0);
        self.sockets.retain(|row| {
            let hidden = filter.hides(row);
            match hidden {
                Some(Hidden::Closed) => over += 1,
                Some(Hidden::Unbound) => unbound += 1,
                Some(Hidden::Filtered) | None => {}
            }
            hidden.is_none()
        });
        (self.over, self.unbound) = (over, unbound);
        self.count();
        self
    }

    /// The path of a TCP connection with these ends that a process outside of the pod made in its network namespace. Its other
    /// end is a socket here if a sidecar accepted it, or another container.
    pub fn path_of(&self, local: SocketAddr, peer: SocketAddr) -> Way {
        let (local, peer) = (plain(local), plain(peer));
        let other = self
            .sockets
            .iter()
            .find(|row| row.protocol == Protocol::Tcp && row.peer.map(plain) == Some(local));
        let way = |how| Way {
            how,
            container: None,
            port: None,
            why: None,
        };
        match other {
            Some(other) => Way {
                container: other.container.clone(),
                port: Some(other.local.port()),
                ..way(if plain(other.local) == peer {
                    How::To
                } else {
                    How::Through
                })
            },
            None if self.gaps.is_empty() && !peer.ip().is_loopback() => way(How::Direct),
            None => Way {
                why: Some("its other end is not among the sockets that were read".into()),
                ..way(How::Unknown)
            },
        }
    }

    pub fn count(&mut self) {
        self.states.clear();
        self.unattributed = 0;
        for row in &self.sockets {
            *self.states.entry(row.state).or_default() += 1;
            let is_open = !matches!(row.state, State::TimeWait);
            let has_no_owner = !matches!(row.owner, OwnerKind::Process | OwnerKind::Container);
            self.unattributed += usize::from(is_open && has_no_owner);
        }
    }

    /// Remarks about the table, one line each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.host_network {
            remarks.push(
                "the pod uses the node's network: only sockets that its processes hold, or that were created in its \
                 containers, are listed"
                    .to_owned(),
            );
        }
        if self.over > 0 {
            let count = self.over;
            remarks.push(format!("{count} sockets in TIME-WAIT not listed (--all)"));
        }
        if self.unbound > 0 {
            let count = self.unbound;
            remarks.push(format!(
                "{count} sockets without an address not listed (--all)"
            ));
        }
        if self.unattributed > 0 {
            let count = self.unattributed;
            remarks.push(format!(
                "{count} sockets belong to no container of the pod: they are closed, or held by a process outside of the pod"
            ));
        }
        remarks.extend(self.gaps.iter().cloned());
        remarks
    }

    pub fn table(&self, wide: bool) -> Table {
        let mut columns = vec![
            "PROTO",
            "STATE",
            "RECV-Q",
            "SEND-Q",
            "LOCAL",
            "PEER",
            "CONTAINER",
            "PROCESS",
            "VIA",
        ];
        if wide {
            columns.extend(["UID", "INODE", "RETRANS", "RTT", "DROPS", "TIMER"]);
        }
        let mut table = Table::new(columns);
        for row in &self.sockets {
            table.row(cells(row, wide));
        }
        if self.sockets.is_empty() {
            let pod = &self.pod;
            table.lead(Cell::new(
                format!("no matching sockets in {pod}"),
                Tone::Faint,
            ));
        }
        table
    }
}

fn cells(row: &Row, wide: bool) -> Vec<Cell> {
    let (receive, send) = match row.backlog {
        Some(queue) => (
            Cell::new(
                format!("{}/{}", queue.length, queue.max),
                // The kernel drops new connections when the accept queue is full.
                if queue.length > queue.max {
                    Tone::Bad
                } else {
                    Tone::Plain
                },
            ),
            Cell::or_dash(None::<String>),
        ),
        None => (
            row.receive_queue.to_string().into(),
            row.send_queue.to_string().into(),
        ),
    };
    let tone = match row.via.as_ref().map(|way| way.how) {
        Some(How::Through | How::From) => Tone::Good,
        Some(How::Unknown) | None => Tone::Faint,
        Some(_) => Tone::Plain,
    };
    let mut cells = vec![
        row.protocol.into_str().into(),
        row.state.into_str().into(),
        receive,
        send,
        row.local_text().into(),
        row.peer_text().into(),
        Cell::or_dash(row.container.clone()),
        row.process_text().into(),
        Cell::new(row.via_text(wide), tone),
    ];
    if wide {
        let retransmits = match (row.retransmits, row.all_retransmits) {
            (now, Some(all)) => format!("{now}/{all}"),
            (now, None) => now.to_string(),
        };
        let timer = row.timer.map(|timer| {
            let seconds = timer.left_ms / 1000;
            let tenths = timer.left_ms % 1000 / 100;
            format!("{} {seconds}.{tenths}s", timer.kind.into_str())
        });
        let rtt = row
            .rtt_us
            .map(|micros| format!("{}.{:03}ms", micros / 1000, micros % 1000));
        cells.extend([
            row.uid.to_string().into(),
            row.inode.to_string().into(),
            retransmits.into(),
            Cell::or_dash(rtt),
            Cell::or_dash(row.drops.map(|count| count.to_string())),
            Cell::or_dash(timer),
        ]);
    }
    cells
}
