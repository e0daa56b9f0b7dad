//! Reads the agent's metrics: one HTTP request, and sums of samples in
//! Prometheus' text format.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);
/// What the samples of a metric have after its name.
const SUFFIXES: [&str; 5] = ["", "_total", "_count", "_sum", "_bucket"];

/// The body of a successful response.
pub(super) fn get(address: SocketAddr, path: &str) -> String {
    let (status, body) = ask(address, path);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// The status and the body of a response.
pub(super) fn ask(address: SocketAddr, path: &str) -> (u16, String) {
    // The agent closes a connection without a request after a second.
    let mut tries = (0..3).filter_map(|_try| try_ask(address, path));
    tries.next().expect("the agent answers")
}

fn try_ask(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).expect("the agent serves HTTP");
    let timeout = stream.set_read_timeout(Some(TIMEOUT));
    timeout.expect("the timeout is not zero");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    let status = status.and_then(|digits| digits.parse().ok());
    Some((status.expect("a status"), body.to_owned()))
}

/// The sum of the samples of this name with labels that contain this text; 0 without such samples.
///
/// # Panics
///
/// If there is no metric of this name.
pub(super) fn sum(text: &str, name: &str, labels: &str) -> f64 {
    assert!(is_known(text, name), "no metric {name}");
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (found, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.split_once("} ")?,
            None => ("", rest.strip_prefix(' ')?),
        };
        found.contains(labels).then(|| value.trim().parse::<f64>())
    });
    samples.filter_map(Result::ok).sum()
}

/// Whether a metric of this name has a type, which it has without samples as well.
fn is_known(text: &str, name: &str) -> bool {
    let mut types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.any(|family| {
        let family = family.split(' ').next().unwrap_or_default();
        name.strip_prefix(family)
            .is_some_and(|suffix| SUFFIXES.contains(&suffix))
    })
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn samples() {
        let text = "# TYPE a counter\na_total{k=\"x\",l=\"y\"} 2\na_total{k=\"z\"} 3\n# TYPE b gauge\nb 4\n";
        assert!((sum(text, "a_total", "") - 5.0).abs() < f64::EPSILON);
        assert!((sum(text, "a_total", "k=\"z\"") - 3.0).abs() < f64::EPSILON);
        assert!((sum(text, "b", "") - 4.0).abs() < f64::EPSILON);
        assert!(sum(text, "a", "").abs() < f64::EPSILON);
    }

    #[test]
    #[should_panic(expected = "no metric ab")]
    fn unknown_metric() {
        sum("# TYPE a counter\na_total 2\n", "ab", "");
    }
}
