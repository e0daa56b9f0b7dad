//! The sockets that each filter selects.

use super::super::tests::*;

/// A pod with every kind of socket once or twice, each with a different port.
fn stage() -> Stage {
    let mut stage = Stage::new();
    stage.listener(MESH, "127.0.0.1:15001");
    stage.listener(APP, "[::]:8080");
    stage.connection(APP, "pod:40000", "10.9.9.9:80");
    stage.socket(None, State::TimeWait, "pod:40001", "10.9.9.9:80");
    stage.socket(Some(APP), State::Unconnected, "0.0.0.0:0", "0.0.0.0:0");
    stage.socket(Some(APP), State::Unconnected, "pod:7000", "0.0.0.0:0");
    let datagrams = [
        stage.socket(Some(APP), State::Unconnected, "pod:5353", "0.0.0.0:0"),
        stage.connection(APP, "pod:40002", "10.96.0.10:53"),
        // UDP can be connected to port 0.
        stage.connection(APP, "pod:40003", "10.9.9.9:0"),
    ];
    for place in datagrams {
        stage.input.sockets[place].protocol = Protocol::Udp;
    }
    stage
}

fn ports(filter: &Filter) -> Vec<u16> {
    let conns = stage().shown(filter);
    let mut ports: Vec<u16> = conns.sockets.iter().map(|row| row.local.port()).collect();
    ports.sort_unstable();
    ports
}

#[test]
fn default_all_and_listening() {
    let plain = Filter::default;
    let (all, listening) = (true, true);
    let default = [5353, 7000, 8080, 15001, 40000, 40002, 40003];
    let everything = [0, 5353, 7000, 8080, 15001, 40000, 40001, 40002, 40003];
    assert_eq!(ports(&plain()), default);
    assert_eq!(ports(&Filter { all, ..plain() }), everything);
    assert_eq!(
        ports(&Filter {
            listening,
            ..plain()
        }),
        [5353, 8080, 15001]
    );
}

#[test]
fn requested_states_ports_and_protocols() {
    let plain = Filter::default;
    for (state, expected) in [
        (State::TimeWait, vec![40001]),
        (State::Unconnected, vec![0, 5353, 7000]),
        (State::SynSent, vec![]),
    ] {
        let states = vec![state];
        assert_eq!(ports(&Filter { states, ..plain() }), expected, "{state}");
    }
    // The port matches at either end.
    let wanted = |ports: &[u16]| Filter {
        ports: ports.to_vec(),
        ..plain()
    };
    assert_eq!(ports(&wanted(&[80])), [40000]);
    assert_eq!(ports(&wanted(&[40000, 8080, 81])), [8080, 40000]);
    let protocols = vec![Protocol::Udp];
    let datagrams = Filter {
        protocols,
        ..plain()
    };
    assert_eq!(ports(&datagrams), [5353, 40002, 40003]);
}

#[test]
fn requested_containers() {
    for (name, expected) in [
        ("app", vec![5353, 7000, 8080, 40000, 40002, 40003]),
        ("istio-proxy", vec![15001]),
        ("ap", vec![]),
    ] {
        let filter = Filter {
            containers: vec![name.to_owned()],
            ..Filter::default()
        };
        assert_eq!(ports(&filter), expected, "{name}");
    }
}
