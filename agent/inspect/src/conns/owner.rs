//! Finds the container that owns a socket.

use std::{collections::HashMap, net::SocketAddr};

use serde::{Deserialize, Serialize};
use usher_core::node::socket::{Protocol, Socket, State, plain};

use super::Input;

/// The owner of a socket, and how it is known. [`OwnerKind`] is the same without the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(name(OwnerKind), derive(Serialize, Deserialize))]
#[strum_discriminants(serde(rename_all = "lowercase"))]
pub enum Owner {
    /// A process of this container holds it.
    Process(usize),
    /// The socket was created in this container or by its listener. No process holds it: it is closed, waits to be
    /// accepted, or was just passed to another process.
    Container(usize),
    /// The socket is open outside of the pod's containers.
    Outside,
    /// The socket is open, perhaps in a process with unreadable file descriptors.
    Unseen,
    /// The socket is closed, and its owner is not known.
    None,
}

impl Owner {
    /// The index of the container, if there is one.
    pub fn container(self) -> Option<usize> {
        match self {
            Self::Process(place) | Self::Container(place) => Some(place),
            Self::Outside | Self::Unseen | Self::None => None,
        }
    }
}

/// The owner of each socket.
pub(super) fn owners(input: &Input) -> Vec<Owner> {
    let cgroups: HashMap<u64, usize> = input.cgroups.iter().copied().collect();
    let mut owners: Vec<Owner> = input
        .sockets
        .iter()
        .map(|socket| direct_owner(input, &cgroups, socket))
        .collect();
    let listeners = Listeners::new(&input.sockets);
    let first = owners.clone();
    for (place, socket) in input.sockets.iter().enumerate() {
        // A connection that is not accepted yet belongs to its listener.
        if owners[place] == Owner::None
            && waits_for_accept(socket)
            && let Some(container) =
                listeners.container(input, &first, socket.protocol, socket.local)
        {
            owners[place] = Owner::Container(container);
        }
    }
    owners
}

fn direct_owner(input: &Input, cgroups: &HashMap<u64, usize>, socket: &Socket) -> Owner {
    let exists = |place: &usize| *place < input.containers.len();
    let holder = input.holders(socket.inode).next();
    if let Some(place) = holder.map(|process| process.container).filter(exists) {
        return Owner::Process(place);
    }
    // The cgroup ID is zero on kernels that do not report it.
    let made_in = cgroups.get(&socket.cgroup).copied().filter(exists);
    match made_in.filter(|_| socket.cgroup != 0) {
        Some(place) => Owner::Container(place),
        None if socket.inode != 0 && input.is_blind => Owner::Unseen,
        None if socket.inode != 0 => Owner::Outside,
        None => Owner::None,
    }
}

fn waits_for_accept(socket: &Socket) -> bool {
    let begun = matches!(
        socket.state,
        State::SynReceived | State::Established | State::CloseWait
    );
    begun && socket.inode == 0
}

/// Listeners by protocol and port.
pub(super) struct Listeners(HashMap<(Protocol, u16), Vec<usize>>);

impl Listeners {
    pub(super) fn new(sockets: &[Socket]) -> Self {
        let mut ports: HashMap<_, Vec<usize>> = HashMap::new();
        for (place, socket) in sockets.iter().enumerate() {
            if socket.waits() {
                let port = (socket.protocol, socket.local.port());
                ports.entry(port).or_default().push(place);
            }
        }
        Self(ports)
    }

    /// Whether there is a listener on an address, so that a connection with this local end was accepted and not initiated.
    pub(super) fn has(&self, input: &Input, protocol: Protocol, address: SocketAddr) -> bool {
        self.at(input, protocol, plain(address)).next().is_some()
    }

    /// The container that listens on an address, if it is exactly one.
    pub(super) fn container(
        &self,
        input: &Input,
        owners: &[Owner],
        protocol: Protocol,
        address: SocketAddr,
    ) -> Option<usize> {
        let address = plain(address);
        let is_own = |place: &usize| plain(input.sockets[*place].local) == address;
        // The kernel prefers the listener on the exact address.
        let any_own = self
            .at(input, protocol, address)
            .any(|place| is_own(&place));
        let mut containers = self
            .at(input, protocol, address)
            .filter(|place| !any_own || is_own(place))
            .filter_map(|place| owners[place].container());
        let first = containers.next()?;
        containers.all(|other| other == first).then_some(first)
    }

    fn at<'a>(
        &'a self,
        input: &'a Input,
        protocol: Protocol,
        address: SocketAddr,
    ) -> impl Iterator<Item = usize> + 'a {
        self.0
            .get(&(protocol, address.port()))
            .into_iter()
            .flatten()
            .copied()
            .filter(move |place| input.sockets[*place].covers(address))
    }
}
