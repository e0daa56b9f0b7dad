use std::{
    future::poll_fn,
    io::{Read, Write},
    net::TcpListener,
    sync::mpsc,
    task::Poll,
    thread,
};

use tokio::{sync::oneshot, time::sleep};

use super::*;

const LIMIT: Duration = Duration::from_millis(20);

/// The future is polled only once, as it is by a thread that runs again after the time limit.
#[tokio::test]
async fn response_that_arrives_while_the_thread_does_not_run_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (request_received, mut is_sent) = oneshot::channel();
    let (respond, may_respond) = mpsc::channel();
    let (responded, is_there) = mpsc::channel();
    let server = thread::spawn(move || {
        let (mut stream, _peer) = listener.accept().unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).unwrap() > 0);
        request_received.send(()).unwrap();
        let () = may_respond.recv().unwrap();
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(response).unwrap();
        responded.send(()).unwrap();
        // The connection stays open.
        drop(stream.read(&mut request));
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let message = hyper::Request::get("/").body(Empty::new()).unwrap();
    let exchange = exchange(stream, message, http::status);
    tokio::pin!(exchange);
    tokio::select! {
        status = &mut exchange => unreachable!("{status:?}"),
        sent = &mut is_sent => sent.unwrap(),
    }
    respond.send(()).unwrap();
    is_there.recv().unwrap();
    // The runtime notes that there is something to read.
    sleep(LIMIT).await;
    let polled = poll_fn(|context| Poll::Ready(exchange.as_mut().poll(context))).await;
    assert!(matches!(polled, Poll::Ready(Ok(status)) if status.is_success()));
    server.join().unwrap();
}
