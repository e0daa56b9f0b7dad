//! What the test application writes, read again.

use std::{
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// One run of a container that asks the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppRun {
    pub main_at: SystemTime,
    /// When it had its answer or its refusal.
    pub answered_at: Option<SystemTime>,
    /// The HTTP status, or why there is none.
    pub answer: Result<u16, String>,
    /// Tries that did not become a connection.
    pub refused: u32,
    pub exit_code: u8,
}

/// The runs that have ended, by what they wrote.
pub(super) fn runs(logs: &[String]) -> Vec<AppRun> {
    logs.iter().filter_map(|log| run(log)).collect()
}

/// None while it runs.
pub(super) fn run(log: &str) -> Option<AppRun> {
    let line = |start: &str| log.lines().find(|line| line.starts_with(start));
    let (get, exit) = (line("app-get "), line("app-exit ")?);
    let answer = match get {
        None => Err(line("app-error ").unwrap_or("it asked nobody").to_owned()),
        Some(get) => match get.split_once(" error=") {
            Some((_, error)) => Err(error.to_owned()),
            None => field(get, "status").ok_or_else(|| get.to_owned()),
        },
    };
    Some(AppRun {
        main_at: time(line("app-start ")?)?,
        answered_at: get.and_then(time),
        answer,
        refused: get
            .and_then(|get| field(get, "refused"))
            .unwrap_or_default(),
        exit_code: field(exit, "code")?,
    })
}

fn field<T: FromStr>(line: &str, name: &str) -> Option<T> {
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn time(line: &str) -> Option<SystemTime> {
    Some(UNIX_EPOCH + Duration::from_nanos(field(line, "unix_ns")?))
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
    fn run_that_goes_on_is_no_run_yet() {
        let log = "app-start unix_ns=1000\napp-get unix_ns=3000 since_start_us=2 us=1 tries=2 refused=1 status=200\n";
        assert_eq!(run(log), None);
        let ended = format!("{log}app-exit unix_ns=4000 code=0\n");
        assert_eq!(run(&ended).unwrap().answer, Ok(200));
    }
}
