//! A real Prometheus inside the node, which scrapes listeners on the node's loopback.
//!
//! [`Server`] listens on the node's address, so it can be queried from outside. It ends on drop, and with the
//! node. [`Dashboard`] reads the queries that Grafana would send to it.

pub mod dashboard;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub use self::dashboard::{Dashboard, Panel, Query};
use crate::{Cluster, node::process::wait_until, programs, progress::tail};

const PORT: u16 = 9090;
const LIMIT: Duration = Duration::from_secs(60);
/// The retention, longer than any test takes.
const RETENTION: &str = "6h";

/// One series of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub labels: BTreeMap<String, String>,
    /// Seconds since 1970, and the value.
    pub points: Vec<(f64, f64)>,
}

/// A queried span of time.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Seconds since 1970.
    pub from: f64,
    pub to: f64,
    /// Seconds between two points.
    pub step: f64,
}

/// A running server, killed on drop.
#[derive(Debug)]
pub struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts a server in the node with this configuration, whose files are in `dir`, and waits until it responds.
    pub fn start(cluster: &Cluster, dir: &Path, config: &Value) -> Result<Self> {
        let address = cluster.address().context("the cluster is not up")?;
        let address = SocketAddr::from((address, PORT));
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        let (file, log) = (dir.join("prometheus.yml"), dir.join("prometheus.log"));
        // JSON is YAML.
        fs::write(&file, config.to_string())
            .with_context(|| format!("write {}", file.display()))?;
        let output = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        // nsenter stays outside the node's pid namespace: its child must end with it.
        let mut command = cluster.node_command("setpriv")?;
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(programs::prometheus()?.server)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.join("data").display()
            ))
            .arg(format!("--storage.tsdb.retention.time={RETENTION}"))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("share the log")?)
            .stderr(output);
        let process = command.spawn().context("start prometheus")?;
        let mut server = Self { process, address };
        let started = wait_until(LIMIT, "prometheus to be ready", || {
            let ended = server.process.try_wait()?;
            ensure!(ended.is_none(), "prometheus ended: {}", tail(&log));
            Ok(server.get("/-/ready").is_ok())
        });
        started.map(|()| server)
    }

    /// The value of an expression now, or at this time (seconds since 1970).
    pub fn query(&self, expression: &str, at: Option<f64>) -> Result<Vec<Series>> {
        let at = at.map_or(String::new(), |at| format!("&time={at}"));
        self.ask(&format!("query?query={}{at}", encoded(expression)))
    }

    /// The samples of an expression over a span of time.
    pub fn range(&self, expression: &str, span: Span) -> Result<Vec<Series>> {
        let Span { from, to, step } = span;
        let expression = encoded(expression);
        self.ask(&format!(
            "query_range?query={expression}&start={from}&end={to}&step={step}"
        ))
    }

    fn ask(&self, query: &str) -> Result<Vec<Series>> {
        let answer: Value = serde_json::from_str(&self.get(&format!("/api/v1/{query}"))?)?;
        ensure!(answer["status"] == "success", "{query}: {answer}");
        let result = answer["data"]["result"].as_array();
        Ok(result.into_iter().flatten().map(series).collect())
    }

    /// The body of a response, whatever its status: errors are JSON as well.
    fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        // The older protocol has no chunks and ends with the connection.
        let host = self.address;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let is_json = body.starts_with('{');
        let ok = head.split(' ').nth(1) == Some("200");
        ensure!(ok || is_json, "{path}: {head}");
        Ok(body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Either call fails only if it has exited already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn series(found: &Value) -> Series {
    let labels = found["metric"].as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let values = found["values"].as_array().into_iter().flatten();
    let points = values.chain(found.get("value")).filter_map(|point| {
        let value = point[1].as_str()?.parse().ok()?;
        Some((point[0].as_f64()?, value))
    });
    Series {
        labels: labels
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
        points: points.collect(),
    }
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'-' | b'.' => char::from(byte).into(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instant_and_range_results_are_series() {
        let labels = BTreeMap::from([("node".to_owned(), "a".to_owned())]);
        let range = json!({ "metric": { "node": "a" }, "values": [[1.5, "2"], [2.5, "NaN"]] });
        let read = series(&range);
        assert_eq!(read.labels, labels);
        assert_eq!(read.points[0], (1.5, 2.0));
        assert!(read.points[1].1.is_nan());
        let instant = series(&json!({ "metric": {}, "value": [3, "+Inf"] }));
        assert_eq!(instant.points, [(3.0, f64::INFINITY)]);
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encoded("a{b=\"c\"}[5m]"), "a%7Bb%3D%22c%22%7D%5B5m%5D");
    }
}
