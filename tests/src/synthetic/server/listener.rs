//! The listening side of the servers' stand-ins: on loopback, one thread for each connection.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Accepts until `closing` is set; [`wake`] makes the thread check it.
pub(super) fn listen(
    closing: impl Fn() -> bool + Send + 'static,
    converse: impl Fn(&TcpStream) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let converse = Arc::new(converse);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            if closing() {
                return;
            }
            let converse = Arc::clone(&converse);
            std::thread::spawn(move || converse(&stream));
        }
    });
    address
}

/// Makes the accepting thread check whether to stop.
pub(super) fn wake(address: SocketAddr) {
    drop(TcpStream::connect(address));
}
