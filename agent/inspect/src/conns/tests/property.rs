//! Properties for any input.

use proptest::prelude::*;

use super::super::tests::*;

fn state() -> impl Strategy<Value = State> {
    prop::sample::select(State::ALL.to_vec())
}

/// Few addresses and ports, so that ends match.
fn end() -> impl Strategy<Value = String> {
    let address = prop::sample::select(vec!["pod", "127.0.0.1", "10.9.9.9", "0.0.0.0", "[::]"]);
    let port = prop::sample::select(vec![0, 80, 15001, 15006, 40000, 40001]);
    (address, port).prop_map(|(address, port)| format!("{address}:{port}"))
}

fn stage() -> impl Strategy<Value = Stage> {
    let owner = prop::sample::select(vec![None, Some(APP), Some(MESH)]);
    let socket = (owner, state(), end(), end(), any::<bool>(), 0..4_u64);
    prop::collection::vec(socket, 0..24).prop_map(|sockets| {
        let mut stage = Stage::new();
        for (owner, state, local, peer, is_udp, cgroup) in sockets {
            let place = stage.socket(owner, state, &local, &peer);
            let socket = &mut stage.input.sockets[place];
            if is_udp {
                socket.protocol = Protocol::Udp;
            }
            socket.cgroup = cgroup * 1000;
        }
        stage
    })
}

proptest! {
    #[test]
    fn every_socket_is_listed_or_counted(stage in stage()) {
        let listing = stage.shown(&Filter::default());
        let shown: usize = listing.states.values().sum();
        prop_assert_eq!(shown, listing.sockets.len());
        let all = shown + listing.over + listing.unbound;
        prop_assert_eq!(all, stage.input.sockets.len());
    }

    #[test]
    fn the_order_of_the_sockets_does_not_matter(stage in stage()) {
        let all = Filter { all: true, ..Filter::default() };
        let first = stage.shown(&all);
        let mut turned = stage;
        turned.input.sockets.reverse();
        let second = turned.shown(&all);
        // Only equal rows may change places.
        let keys = |listing: &Conns| -> Vec<String> {
            listing.sockets.iter().map(|row| format!("{} {:?}", row.local_text(), row.container)).collect()
        };
        prop_assert_eq!(keys(&first), keys(&second));
        prop_assert_eq!(first.states, second.states);
    }

    #[test]
    fn partial_input_has_no_direct_connections_without_a_known_end(stage in stage()) {
        let mut stage = stage;
        stage.input.is_partial = true;
        let before = stage.input.sockets.clone();
        for (place, socket) in before.iter().enumerate() {
            if stage.via(place) == Via::Direct {
                // The other end is known, and in an app container.
                let other = before.iter().any(|other| {
                    other.local == socket.peer || other.peer == socket.local
                });
                prop_assert!(other, "{socket:?}");
            }
        }
    }

    #[test]
    fn states_round_trip(text in "\\PC{0,40}") {
        if let Ok(state) = text.parse::<State>() {
            prop_assert_eq!(state.into_str().parse(), Ok(state));
        }
    }
}
