//! Owners of sockets that no process holds.

use super::super::tests::*;

/// A connection that is not accepted yet belongs to its listener, if there is exactly one.
#[test]
fn unaccepted_connection_belongs_to_its_listener() {
    let of = Owner::Container;
    let none = Owner::None;
    let both = [(APP, "0.0.0.0:80"), (MESH, "127.0.0.1:80")];
    for (listeners, local, expected) in [
        // The listener on the exact address takes precedence.
        (&both[..], "127.0.0.1:80", of(MESH)),
        (&both, "pod:80", of(APP)),
        (&both, "pod:81", none),
        (&[(APP, "127.0.0.1:80")], "pod:80", none),
        // Several listeners may share a port.
        (&[(APP, "pod:80"), (APP, "pod:80")], "pod:80", of(APP)),
        (&[(APP, "pod:80"), (MESH, "pod:80")], "pod:80", none),
        // An IPv6 listener that accepts IPv4 too, and an IPv4 listener.
        (&[(APP, "[::]:80")], "[::ffff:10.1.2.3]:80", of(APP)),
        (&[(APP, "0.0.0.0:80")], "[2001:db8::1]:80", none),
    ] {
        let mut stage = Stage::new();
        let connection = stage.socket(None, State::Established, local, "10.9.9.9:4000");
        for (owner, address) in listeners {
            stage.listener(*owner, address);
        }
        assert_eq!(
            stage.owners()[connection],
            expected,
            "{local} of {listeners:?}"
        );
    }
}

/// The input is not a consistent snapshot: the container of a process or a cgroup may be missing.
#[test]
fn missing_container_owns_nothing() {
    let mut stage = Stage::new();
    let missing = stage.input.containers.len();
    stage.input.processes[0].container = missing;
    stage.input.cgroups = vec![(3000, missing)];
    let held = stage.connection(0, "pod:40000", "10.9.9.9:80");
    let made = stage.socket(None, State::FinWait1, "pod:40001", "10.9.9.9:80");
    stage.input.sockets[made].cgroup = 3000;
    let owners = stage.owners();
    assert_eq!(owners[held], Owner::Outside);
    assert_eq!(owners[made], Owner::None);
}
