use std::{
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use clap::Parser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use usher_core::metric::value::KubeletResult;

use super::*;
use crate::error_chain::chain;

const POD: &str = r#"{"metadata":{"namespace":"shop","name":"a","uid":"0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11"},
  "spec":{"containers":[]}}"#;

fn kubelet(bounds: Bounds, url: &str) -> (Kubelet, tempfile::NamedTempFile) {
    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        kubelet: KubeletArgs,
    }
    let token = tempfile::NamedTempFile::new().unwrap();
    let path = token.path().to_str().unwrap();
    let args = ["usher", "--kubelet", url, "--kubelet-token", path];
    let args = Args::try_parse_from(args).unwrap();
    let kubelet = Kubelet {
        bounds,
        ..Kubelet::new(&args.kubelet).unwrap()
    };
    (kubelet, token)
}

/// Lists the pods of a kubelet that sends a response with this body.
#[expect(clippy::result_large_err, reason = "a test that looks at the error")]
fn list(
    bounds: Bounds,
    body: impl FnOnce(&mut TcpStream) -> io::Result<()> + Send + 'static,
) -> Result<PodList, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (kubelet, _token) = kubelet(bounds, &url);
    let server = thread::spawn(move || {
        let (mut stream, _peer) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let head = lines
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty());
        // On a busy machine a client with a short limit closes the connection before its request.
        assert!([0, 3].contains(&head.count()));
        // The client may close the connection.
        drop(body(&mut stream));
        drop(stream.shutdown(std::net::Shutdown::Write));
        drop(io::copy(&mut stream, &mut io::sink()));
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let result = runtime.block_on(kubelet.pods(Selection::default()));
    server.join().unwrap();
    result
}

fn start(stream: &mut TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"items\":[")
}

#[test]
fn list_is_parsed_whatever_its_packets_are() {
    let list = list(BOUNDS, |stream| {
        start(stream)?;
        for byte in format!("{POD}]}}").bytes() {
            stream.write_all(&[byte])?;
        }
        Ok(())
    });
    assert_eq!(list.unwrap().pods[0].name, "a");
}

#[test]
fn incomplete_list_is_an_error() {
    let error = list(BOUNDS, |stream| {
        start(stream)?;
        stream.write_all(POD.as_bytes())
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), KubeletResult::Decode);
    assert!(chain(&error).contains("before the list does"), "{error:?}");
}

#[test]
fn endless_list_is_an_error() {
    let bounds = Bounds {
        bytes: 1024 * 1024,
        ..BOUNDS
    };
    let error = list(bounds, |stream| {
        start(stream)?;
        loop {
            stream.write_all(format!("{POD},").as_bytes())?;
        }
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), KubeletResult::Decode);
    let text = "is longer than 1048576 bytes";
    assert!(error.to_string().ends_with(text), "{error}");
}

#[test]
fn list_that_stalls_is_an_error() {
    let bounds = Bounds {
        stall: Duration::from_millis(50),
        ..BOUNDS
    };
    let error = list(bounds, |stream| {
        start(stream)?;
        io::copy(&mut stream.try_clone()?, &mut io::sink()).map(drop)
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), KubeletResult::Timeout);
    let text = "stopped sending its list of pods for 50ms";
    assert!(error.to_string().ends_with(text), "{error}");
}

#[test]
fn slow_list_is_an_error() {
    let bounds = Bounds {
        total: Duration::from_millis(50),
        ..BOUNDS
    };
    let error = list(bounds, |stream| {
        start(stream)?;
        loop {
            stream.write_all(b" ")?;
        }
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), KubeletResult::Timeout);
    let text = "took longer than 50ms";
    assert!(error.to_string().ends_with(text), "{error}");
}

#[test]
fn no_response_is_an_error() {
    let bounds = Bounds {
        response: Duration::from_millis(50),
        ..BOUNDS
    };
    let error = list(bounds, |stream| {
        io::copy(&mut stream.try_clone()?, &mut io::sink()).map(drop)
    });
    let text = "within 50ms";
    let error = error.unwrap_err();
    assert!(error.to_string().ends_with(text), "{error}");
}

/// The process runs again when the limit of the response has passed.
#[tokio::test]
async fn response_that_arrives_while_the_process_does_not_run_is_read() {
    let bounds = Bounds {
        response: Duration::from_millis(500),
        ..BOUNDS
    };
    let (kubelet, _token) = kubelet(bounds, "http://127.0.0.1:10250");
    let (ours, mut theirs) = tokio::io::duplex(4096);
    let exchange = kubelet.exchange(TokioIo::new(ours), "", Selection::default());
    tokio::pin!(exchange);
    let mut request = [0; 4096];
    tokio::select! {
        list = &mut exchange => unreachable!("{list:?}"),
        read = theirs.read(&mut request) => assert!(read.unwrap() > 0),
    }
    let response = b"HTTP/1.1 200 OK\r\n\r\n{\"items\":[]}";
    theirs.write_all(response).await.unwrap();
    drop(theirs);
    thread::sleep(bounds.response);
    // The runtime notes that the limit has passed.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(exchange.await.unwrap().pods.is_empty());
}
