//! The output of the test application, from the log files of its containers.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Stdio},
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::Cluster;

/// One completed run of a container of the test application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppRun {
    /// The time of its first instruction.
    pub main_at: SystemTime,
    /// The result of its datagram, if it sent one.
    pub echo: Option<Result<(), String>>,
    /// The start of the last attempt without a 200, if there were several.
    pub unready_at: Option<SystemTime>,
    /// The time of its response or its refusal.
    pub answered_at: Option<SystemTime>,
    /// The HTTP status, or the reason that there is none.
    pub answer: Result<u16, String>,
    /// The number of refused attempts.
    pub refused: u32,
    pub exit_code: u8,
    /// The time of its last act.
    pub exited_at: SystemTime,
}

/// The first completed run of a container that connects once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    pub main_at: SystemTime,
    /// Whether its only attempt succeeded.
    pub succeeded: bool,
}

/// The requests of an application that works on after its stop signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    pub sent: u32,
    pub failed: u32,
    /// Of the first failure.
    pub error: Option<String>,
}

/// None before it has sent the last one.
pub fn calls(log: &str) -> Option<Calls> {
    let line = last_line(log, "app-calls ")?;
    Some(Calls {
        sent: field(line, "calls")?,
        failed: field(line, "failed")?,
        error: line
            .split_once(" error=")
            .map(|(_, error)| error.to_owned()),
    })
}

/// A value in the last line of a log that starts with this word.
pub fn last_value<T: FromStr>(log: &str, word: &str, name: &str) -> Option<T> {
    field(last_line(log, &format!("{word} "))?, name)
}

/// The output of a container until its end, by `kubectl logs --follow`: it outlives the log files of a deleted pod.
#[derive(Debug)]
pub struct Follow(Child);

impl Follow {
    /// Begins with the first line of the container's current run.
    pub fn begin(cluster: &Cluster, namespace: &str, pod: &str, container: &str) -> Result<Self> {
        let follow = ["-n", namespace, "logs", "--follow", pod, "-c", container];
        let mut kubectl = cluster.kubectl_command();
        let child = kubectl.args(follow).stdout(Stdio::piped()).spawn();
        child.map(Self).context("start kubectl logs")
    }

    /// Waits for the end of the container.
    pub fn end(self) -> Result<String> {
        let output = self.0.wait_with_output().context("read kubectl logs")?;
        String::from_utf8(output.stdout).context("the log is not UTF-8")
    }
}

/// None while it runs.
pub fn connected(cluster: &Cluster, pod: &Value, container: &str) -> Result<Option<Connected>> {
    let texts = texts(cluster, pod, container)?;
    let read = |text: &String| {
        line(text, "app-exit ")?;
        Some(Connected {
            main_at: time(line(text, "app-start ")?, "unix_ns")?,
            succeeded: !line(text, "app-connect ")?.contains(" error="),
        })
    };
    Ok(texts.first().and_then(read))
}

/// The completed runs of a container, in order.
pub fn runs(cluster: &Cluster, pod: &Value, container: &str) -> Result<Vec<AppRun>> {
    let texts = texts(cluster, pod, container)?;
    Ok(texts.iter().filter_map(|text| run(text)).collect())
}

/// The time of the first instruction of each run of a container, including a current one.
pub fn first_instructions(
    cluster: &Cluster,
    pod: &Value,
    container: &str,
) -> Result<Vec<SystemTime>> {
    let texts = texts(cluster, pod, container)?;
    let first = |text: &String| time(line(text, "app-start ")?, "unix_ns");
    Ok(texts.iter().filter_map(first).collect())
}

/// The time at which the first run of a container listened on its port.
pub fn listened_at(cluster: &Cluster, pod: &Value, container: &str) -> Result<Option<SystemTime>> {
    let texts = texts(cluster, pod, container)?;
    let first = texts.first();
    Ok(first.and_then(|text| time(line(text, "app-listen ")?, "unix_ns")))
}

/// None while it runs.
pub(crate) fn run(log: &str) -> Option<AppRun> {
    let (get, exit) = (line(log, "app-get "), line(log, "app-exit ")?);
    let echo = line(log, "app-echo ").map(|echo| match echo.split_once(" error=") {
        Some((_, error)) => Err(error.to_owned()),
        None => Ok(()),
    });
    let answer = match get {
        None => Err(line(log, "app-error ")
            .unwrap_or("no request was sent")
            .to_owned()),
        Some(get) => match get.split_once(" error=") {
            Some((_, error)) => Err(error.to_owned()),
            None => field(get, "status").ok_or_else(|| get.to_owned()),
        },
    };
    Some(AppRun {
        main_at: time(line(log, "app-start ")?, "unix_ns")?,
        echo,
        unready_at: get.and_then(|get| time(get, "unready_ns")),
        answered_at: get.and_then(|get| time(get, "unix_ns")),
        answer,
        refused: get
            .and_then(|get| field(get, "refused"))
            .unwrap_or_default(),
        exit_code: field(exit, "code")?,
        exited_at: time(exit, "unix_ns")?,
    })
}

/// The output of every run of a container of a pod, in order.
fn texts(cluster: &Cluster, pod: &Value, container: &str) -> Result<Vec<String>> {
    let of = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let root = cluster.node_root().context("the node is down")?;
    let folder = format!("{}_{}_{}", of("namespace"), of("name"), of("uid"));
    let folder = root.join("var/log/pods").join(folder).join(container);
    let Ok(files) = fs::read_dir(&folder) else {
        return Ok(Vec::new()); // it has not started
    };
    let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    files.sort();
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        // Time, stream and a tag precede the output.
        let lines = text.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    };
    files.iter().map(read).collect()
}

fn line<'log>(log: &'log str, start: &str) -> Option<&'log str> {
    log.lines().find(|line| line.starts_with(start))
}

fn last_line<'log>(log: &'log str, start: &str) -> Option<&'log str> {
    log.lines().rfind(|line| line.starts_with(start))
}

fn field<T: FromStr>(line: &str, name: &str) -> Option<T> {
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn time(line: &str, name: &str) -> Option<SystemTime> {
    let ns = field(line, name).filter(|ns| *ns != 0)?;
    Some(UNIX_EPOCH + Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_run_is_read() {
        let log = "app-start unix_ns=1000\n\
                   app-get unix_ns=3000 since_start_us=2 us=1 tries=1 refused=1 error=Connection refused (os error 111)\n\
                   app-exit unix_ns=4000 code=1\n";
        let run = run(log).unwrap();
        assert_eq!(run.answer, Err("Connection refused (os error 111)".into()));
        assert_eq!((run.refused, run.exit_code), (1, 1));
        let took = run.answered_at.unwrap().duration_since(run.main_at);
        assert_eq!(took.unwrap(), Duration::from_nanos(2000));
    }

    #[test]
    fn echo_is_separate_from_the_answer() {
        let log = "app-start unix_ns=1000 monotonic_ns=7\n\
                   app-echo unix_ns=1500 us=5000000 error=Resource temporarily unavailable (os error 11)\n\
                   app-get unix_ns=3000 since_start_us=2 us=1 tries=2 refused=1 unready_ns=2000 status=200\n\
                   app-exit unix_ns=4000 code=1\n";
        let run = run(log).unwrap();
        assert!(run.echo.unwrap().unwrap_err().contains("os error 11"));
        assert_eq!(run.answer, Ok(200));
        assert_eq!(
            run.unready_at,
            Some(UNIX_EPOCH + Duration::from_nanos(2000))
        );
    }

    #[test]
    fn calls_and_the_first_failure_are_read() {
        let log = "app-term unix_ns=1000\napp-calls unix_ns=2000 calls=98 failed=2 error=Connection refused (os error 111)\n";
        let refused = Calls {
            sent: 98,
            failed: 2,
            error: Some("Connection refused (os error 111)".into()),
        };
        assert_eq!(calls(log), Some(refused));
        assert_eq!(last_value(log, "app-term", "unix_ns"), Some(1000));
        assert_eq!(calls("app-term unix_ns=1000\n"), None);
        let succeeded = calls("app-calls unix_ns=2000 calls=98 failed=0\n").unwrap();
        assert_eq!((succeeded.failed, succeeded.error), (0, None));
    }

    #[test]
    fn unfinished_run_is_ignored() {
        let log = "app-start unix_ns=1000\napp-get unix_ns=3000 since_start_us=2 us=1 tries=2 refused=1 status=200\n";
        assert_eq!(run(log), None);
        let ended = format!("{log}app-exit unix_ns=4000 code=0\n");
        assert_eq!(run(&ended).unwrap().answer, Ok(200));
    }
}
