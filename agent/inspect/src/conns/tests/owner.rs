//! Whose a socket is that no process is seen to hold.

use super::super::tests::*;

/// A connection that nobody has accepted is its listener's, where that is one.
#[test]
fn what_waits_for_accept_is_whose_listener_it_came_to() {
    let of = Owner::Container;
    let nobody = Owner::Nobody;
    let both = [(APP, "0.0.0.0:80"), (MESH, "127.0.0.1:80")];
    for (listeners, local, expected) in [
        // Who listens at this very address comes first.
        (&both[..], "127.0.0.1:80", of(MESH)),
        (&both, "pod:80", of(APP)),
        (&both, "pod:81", nobody),
        (&[(APP, "127.0.0.1:80")], "pod:80", nobody),
        // Several may share a port.
        (&[(APP, "pod:80"), (APP, "pod:80")], "pod:80", of(APP)),
        (&[(APP, "pod:80"), (MESH, "pod:80")], "pod:80", nobody),
        // A listener of IPv6 that takes IPv4 as well, and one that does not.
        (&[(APP, "[::]:80")], "[::ffff:10.1.2.3]:80", of(APP)),
        (&[(APP, "0.0.0.0:80")], "[2001:db8::1]:80", nobody),
    ] {
        let mut stage = Stage::new();
        let came = stage.socket(None, State::Established, local, "10.9.9.9:4000");
        for (owner, address) in listeners {
            stage.listener(*owner, address);
        }
        assert_eq!(stage.owners()[came], expected, "{local} of {listeners:?}");
    }
}

/// What is seen is no picture of one moment: a container may be missing that a
/// process or a cgroup belongs to.
#[test]
fn a_container_that_is_not_there_owns_nothing() {
    let mut stage = Stage::new();
    let missing = stage.scene.containers.len();
    stage.scene.processes[0].container = missing;
    stage.scene.cgroups = vec![(3000, missing)];
    let held = stage.connection(0, "pod:40000", "10.9.9.9:80");
    let made = stage.socket(None, State::FinWait1, "pod:40001", "10.9.9.9:80");
    stage.scene.sockets[made].cgroup = 3000;
    let owners = stage.owners();
    assert_eq!(owners[held], Owner::Outside);
    assert_eq!(owners[made], Owner::Nobody);
}
