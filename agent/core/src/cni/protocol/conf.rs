//! What a runtime passes to the plugin on stdin: the list's version, the previous result, and the settings of usher's
//! entry.
//!
//! An invalid setting is logged and ignored, because the pod must start. Only a text that is not a JSON object is
//! refused, because it has no result to pass on.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Code, Failure, PodName, VERSIONS};
use crate::{
    base::duration,
    cni::json_span::{self, Member, Shape},
};

pub const DEFAULT_SOCKET: &str = "/run/usher/cni.sock";
/// The plugin's log of errors.
pub const DEFAULT_LOG_FILE: &str = "/run/usher/cni.log";
/// How long a pod waits for the agent.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The configuration of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conf<'a> {
    /// `cniVersion`; the newest supported one where it is absent.
    pub version: String,
    /// The result of the previous plugin, byte for byte as the runtime passes it.
    pub previous: Option<&'a str>,
    /// `socket`: where the agent listens.
    pub socket: PathBuf,
    /// `timeout`: the total time to wait for the agent.
    pub timeout: Duration,
    /// `logFile`: where to write; None for `""`.
    pub log_file: Option<PathBuf>,
    /// `ownPod`: the pods that never wait.
    pub own_pod: Option<OwnPod>,
    /// Errors in the settings.
    pub remarks: Vec<String>,
}

/// The agent's own pods, which are never held: the agent could not start if it waited for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPod {
    namespace: String,
    prefix: String,
}

impl OwnPod {
    /// Whether this is one of them.
    pub fn is(&self, pod: &PodName) -> bool {
        pod.namespace == self.namespace && pod.name.starts_with(&self.prefix)
    }
}

impl<'a> Conf<'a> {
    pub fn read(text: &'a str) -> Result<Self, Failure> {
        let refused = |details: String| Failure {
            code: Code::Decode,
            message: "network configuration cannot be read".to_owned(),
            details,
        };
        let at = json_span::value(text).map_err(|error| refused(error.to_string()))?;
        let found = json_span::shape(&text[at.clone()]);
        if found != Shape::Object {
            return Err(refused(format!("it is {found}, not an object")));
        }
        let members = json_span::members(text, &at).map_err(|error| refused(error.to_string()))?;
        Ok(Settings {
            text,
            members,
            remarks: Vec::new(),
        }
        .read())
    }
}

struct Settings<'a> {
    text: &'a str,
    members: Vec<Member>,
    remarks: Vec<String>,
}

impl<'a> Settings<'a> {
    fn read(mut self) -> Conf<'a> {
        let version = self.string("cniVersion");
        let newest = VERSIONS[VERSIONS.len() - 1];
        let previous = self.at("prevResult").map(|at| &self.text[at]);
        let socket = self.path("socket", DEFAULT_SOCKET);
        let log_file = match self.string("logFile").as_deref() {
            Some("") => None,
            _ => Some(self.path("logFile", DEFAULT_LOG_FILE)),
        };
        Conf {
            version: version.unwrap_or_else(|| newest.to_owned()),
            previous,
            socket,
            timeout: self.timeout(),
            log_file,
            own_pod: self.own_pod(),
            remarks: self.remarks,
        }
    }

    /// The value of a key; null counts as absent, as in Go.
    fn at(&self, key: &str) -> Option<Range<usize>> {
        let at = json_span::last(&self.members, key)?.value.clone();
        (json_span::shape(&self.text[at.clone()]) != Shape::Null).then_some(at)
    }

    fn string(&mut self, key: &str) -> Option<String> {
        let at = self.at(key)?;
        let read: Option<String> = serde_json::from_str(&self.text[at]).ok();
        if read.is_none() {
            self.remarks.push(format!("{key} is no string"));
        }
        read
    }

    fn path(&mut self, key: &str, default: &str) -> PathBuf {
        match self.string(key) {
            Some(path) if Path::new(&path).is_absolute() => path.into(),
            Some(path) => {
                self.remarks
                    .push(format!("{key} is no absolute path: {path:?}"));
                default.into()
            }
            None => default.into(),
        }
    }

    fn timeout(&mut self) -> Duration {
        let Some(text) = self.string("timeout") else {
            return DEFAULT_TIMEOUT;
        };
        match duration::parse_up_to(&text, LONGEST_TIMEOUT) {
            Ok(timeout) => timeout,
            Err(error) => {
                self.remarks.push(format!("timeout: {error}"));
                match error {
                    duration::NotADuration::TooLong { .. } => LONGEST_TIMEOUT,
                    duration::NotADuration::Form { .. } => DEFAULT_TIMEOUT,
                }
            }
        }
    }

    fn own_pod(&mut self) -> Option<OwnPod> {
        let text = self.string("ownPod")?;
        match text.split_once('/') {
            Some((namespace, prefix)) if !namespace.is_empty() && !prefix.is_empty() => {
                Some(OwnPod {
                    namespace: namespace.to_owned(),
                    prefix: prefix.to_owned(),
                })
            }
            _ => {
                let remark = format!("ownPod is no namespace/name-prefix: {text:?}");
                self.remarks.push(remark);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_defaults() {
        let conf = Conf::read("{\"type\":\"usher-cni\"}").unwrap();
        let expected = Conf {
            version: "1.1.0".to_owned(),
            previous: None,
            socket: DEFAULT_SOCKET.into(),
            timeout: DEFAULT_TIMEOUT,
            log_file: Some(DEFAULT_LOG_FILE.into()),
            own_pod: None,
            remarks: Vec::new(),
        };
        assert_eq!(conf, expected);
        let text = "{\"cniVersion\":\"0.4.0\",\"prevResult\": {\"a\" : 1e400} ,\"socket\":\"/s\",\"timeout\":\"2s\",\
                    \"logFile\":\"\",\"ownPod\":\"usher/usher-\"}\n";
        let conf = Conf::read(text).unwrap();
        let own_pod = OwnPod {
            namespace: "usher".to_owned(),
            prefix: "usher-".to_owned(),
        };
        let expected = Conf {
            version: "0.4.0".to_owned(),
            previous: Some("{\"a\" : 1e400}"),
            socket: "/s".into(),
            timeout: Duration::from_secs(2),
            log_file: None,
            own_pod: Some(own_pod),
            remarks: Vec::new(),
        };
        assert_eq!(conf, expected);
    }

    #[test]
    fn invalid_setting_only_logs_a_warning() {
        let cases = [
            ("\"socket\":1", "socket is no string"),
            ("\"socket\":\"s\"", "socket is no absolute path: \"s\""),
            ("\"logFile\":\"a\"", "logFile is no absolute path: \"a\""),
            ("\"timeout\":\"9s\"", "timeout: 9s is longer than 5s"),
            ("\"timeout\":500", "timeout is no string"),
            ("\"cniVersion\":1", "cniVersion is no string"),
            (
                "\"ownPod\":\"/a\"",
                "ownPod is no namespace/name-prefix: \"/a\"",
            ),
            (
                "\"ownPod\":\"a/\"",
                "ownPod is no namespace/name-prefix: \"a/\"",
            ),
        ];
        for (setting, expected) in cases {
            let text = format!("{{{setting},\"prevResult\":{{}}}}");
            let conf = Conf::read(&text).unwrap();
            assert_eq!(conf.remarks, [expected], "{setting}");
            assert_eq!(conf.previous, Some("{}"));
        }
        let text = "{\"timeout\":\"9s\"}";
        assert_eq!(Conf::read(text).unwrap().timeout, LONGEST_TIMEOUT);
    }

    #[test]
    fn non_objects_are_rejected() {
        for text in ["", "[]", "null", "{", "{} {}", "\u{feff}{}", "{\"a\":}"] {
            assert_eq!(Conf::read(text).unwrap_err().code, Code::Decode, "{text}");
        }
        assert_eq!(Conf::read("{\"prevResult\":null}").unwrap().previous, None);
    }

    #[test]
    fn own_pods() {
        let conf = Conf::read("{\"ownPod\":\"a/b-\"}").unwrap();
        let own = conf.own_pod.unwrap();
        let is = |namespace: &str, name: &str| {
            own.is(&PodName {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: None,
            })
        };
        assert!(is("a", "b-x2"));
        assert!(!is("a", "b"));
        assert!(!is("a2", "b-x2"));
    }
}
