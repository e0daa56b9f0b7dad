//! Converts a parsed command line back to words, with values that can be replaced.
//!
//! `-n` completes the name of a pod, and `kubectl usher` replaces it by the full name before the agent parses the words.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, ArgMatches, Command, parser::ValueSource};

/// The value name of arguments that take a pod.
pub(crate) const POD: &str = "POD";
const UID: usize = 36;
/// Length of a whole container ID.
const CONTAINER_ID: usize = 64;
/// Length of the shortest part of a container ID that selects a pod.
#[cfg(feature = "kubectl")]
const ID_DIGITS: usize = 8;

/// One subcommand with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) subcommand: String,
    words: Vec<Word>,
}

/// A flag, or one value of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    id: String,
    /// `--name` or `-n`; None for a positional argument.
    flag: Option<String>,
    value: Option<OsString>,
    is_pod: bool,
}

impl CommandLine {
    /// The arguments that the user gave: defaults and environment variables are left out. None without a subcommand.
    pub(crate) fn new(command: &Command, matches: &ArgMatches) -> Option<Self> {
        let (name, of_subcommand) = matches.subcommand()?;
        let subcommand = command.find_subcommand(name)?;
        let words = [(command, matches), (subcommand, of_subcommand)]
            .into_iter()
            .flat_map(|(command, matches)| command.get_arguments().map(move |arg| (arg, matches)))
            .flat_map(|(arg, matches)| words(arg, matches))
            .collect();
        Some(Self {
            subcommand: name.to_owned(),
            words,
        })
    }

    /// The selectors of pods.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &str> {
        let pods = self.words.iter().filter(|word| word.is_pod);
        pods.filter_map(|word| word.value.as_deref()?.to_str())
    }

    /// Replaces the selectors of pods, in the order of [`Self::pods`].
    pub(crate) fn set_pods(&mut self, pods: Vec<String>) {
        let words = self.words.iter_mut().filter(|word| word.is_pod);
        for (word, pod) in words.zip(pods) {
            word.value = Some(pod.into());
        }
    }

    /// Adds the namespace to the names of pods.
    pub(crate) fn qualify(&mut self, namespace: &str) -> Result<(), String> {
        let pods: Result<Vec<String>, String> = self
            .pods()
            .map(|pod| qualified(pod, Some(namespace)))
            .collect();
        self.set_pods(pods?);
        Ok(())
    }

    /// The words after the program's name.
    pub(crate) fn into_words(self) -> Vec<OsString> {
        let (flags, positional): (Vec<Word>, Vec<Word>) =
            self.words.into_iter().partition(|word| word.flag.is_some());
        let end = (!positional.is_empty()).then(|| OsString::from("--"));
        [OsString::from(self.subcommand)]
            .into_iter()
            .chain(flags.into_iter().flat_map(flag))
            .chain(end)
            .chain(positional.into_iter().filter_map(|word| word.value))
            .collect()
    }
}

/// For `kubectl usher`.
#[cfg(feature = "kubectl")]
impl CommandLine {
    /// Adds the namespace to names without one. What may be a PID or the beginning of a container ID stays.
    pub(crate) fn qualify_names(&mut self, namespace: &str) {
        let qualify = |pod: &str| {
            let is_id = pod.bytes().all(|byte| byte.is_ascii_digit())
                || pod.len() >= ID_DIGITS && pod.bytes().all(|byte| byte.is_ascii_hexdigit());
            let other = pod.contains('/') || is_id;
            let namespace = Some(namespace).filter(|_| !other);
            qualified(pod, namespace).unwrap_or_else(|_| pod.to_owned())
        };
        let pods = self.pods().map(qualify).collect();
        self.set_pods(pods);
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.words.iter().any(|word| word.id == id)
    }

    pub(crate) fn value(&self, id: &str) -> Option<&OsStr> {
        let word = self.words.iter().find(|word| word.id == id)?;
        word.value.as_deref()
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.words.retain(|word| word.id != id);
    }

    /// Replaces all values of a flag by one.
    pub(crate) fn set(&mut self, id: &str, flag: &str, value: impl Into<OsString>) {
        self.replace(id, flag, Some(value.into()));
    }

    /// Sets a flag without a value.
    pub(crate) fn set_flag(&mut self, id: &str, flag: &str) {
        self.replace(id, flag, None);
    }

    fn replace(&mut self, id: &str, flag: &str, value: Option<OsString>) {
        self.remove(id);
        self.words.push(Word {
            id: id.to_owned(),
            flag: Some(flag.to_owned()),
            value,
            is_pod: false,
        });
    }
}

fn words(arg: &clap::Arg, matches: &ArgMatches) -> Vec<Word> {
    let id = arg.get_id().as_str();
    // The only IDs that clap does not know are --help and --version, which end the program.
    let source = matches
        .try_contains_id(id)
        .is_ok_and(|has| has)
        .then(|| matches.value_source(id));
    if source.flatten() != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    let flag = arg
        .get_long()
        .map(|long| format!("--{long}"))
        .or_else(|| arg.get_short().map(|short| format!("-{short}")));
    let names = arg.get_value_names().unwrap_or_default();
    let word = |value: Option<&OsStr>| Word {
        id: id.to_owned(),
        flag: flag.clone(),
        value: value.map(OsStr::to_owned),
        is_pod: names.iter().any(|name| name.as_str() == POD),
    };
    match arg.get_action() {
        ArgAction::Set | ArgAction::Append => {
            let values = matches.get_raw(id).into_iter().flatten();
            values.map(|value| word(Some(value))).collect()
        }
        _ => vec![word(None)],
    }
}

fn flag(word: Word) -> Vec<OsString> {
    let mut flag = OsString::from(word.flag.unwrap_or_default());
    match word.value {
        None => vec![flag],
        Some(value) if flag.to_string_lossy().starts_with("--") => {
            flag.push("=");
            flag.push(value);
            vec![flag]
        }
        Some(value) => vec![flag, value],
    }
}

/// A selector of a pod with the namespace, if it is a name without one.
pub(crate) fn qualified(pod: &str, namespace: Option<&str>) -> Result<String, String> {
    let Some(namespace) = namespace.filter(|_| !pod.contains("://")) else {
        return Ok(pod.to_owned());
    };
    let is_address = pod
        .trim_matches(['[', ']'])
        .parse::<std::net::IpAddr>()
        .is_ok();
    let is_uid = pod.len() == UID
        && pod
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_container =
        pod.len() == CONTAINER_ID && pod.bytes().all(|byte| byte.is_ascii_hexdigit());
    match pod.split_once('/') {
        Some((own, _name)) if own != namespace => {
            Err(format!("pod {pod:?} is not in the namespace {namespace:?}"))
        }
        Some(_) => Ok(pod.to_owned()),
        None if is_address || is_uid || is_container => Ok(pod.to_owned()),
        None => Ok(format!("{namespace}/{pod}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> CommandLine {
        let command = crate::command();
        let program = ["usher"];
        let words = program.iter().chain(words);
        let matches = command.clone().try_get_matches_from(words).unwrap();
        CommandLine::new(&command, &matches).unwrap()
    }

    #[test]
    fn given_words_are_passed_on() {
        let table: &[(&[&str], &[&str])] = &[
            (&["status"], &["status"]),
            (
                &["-o", "json", "pods", "-a"],
                &["pods", "--output=json", "--all"],
            ),
            (
                &["explain", "shop/a", "--color=never"],
                &["explain", "--color=never", "--", "shop/a"],
            ),
            (
                &["capture", "a", "-p80,443", "-w", "-"],
                &["capture", "--write=-", "--port=80", "--port=443", "--", "a"],
            ),
            (
                &[
                    "request",
                    "a",
                    "GET",
                    ":80/x?a=b",
                    "-iH",
                    "A: b",
                    "-d",
                    "-x",
                ],
                &[
                    "request",
                    "--header=A: b",
                    "--data=-x",
                    "--include",
                    "--",
                    "a",
                    "GET",
                    ":80/x?a=b",
                ],
            ),
            (&["quit", "a", "--wait"], &["quit", "--wait=1m", "--", "a"]),
            (
                &["sysdump", "--pod", "a", "--pod", "b"],
                &["sysdump", "--pod=a", "--pod=b"],
            ),
        ];
        for (given, expected) in table {
            // A value of -d that begins with a hyphen needs an equals sign.
            let given: Vec<&str> = given
                .iter()
                .map(|word| if *word == "-d" { "-d=-x" } else { word })
                .filter(|word| *word != "-x")
                .collect();
            let words = line(&given).into_words();
            assert_eq!(words, *expected, "{given:?}");
            // The agent parses the words to the same command line.
            let words: Vec<String> = words
                .into_iter()
                .map(|word| word.into_string().unwrap())
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let again = line(&words).into_words();
            assert_eq!(again, *expected, "{given:?}");
        }
    }

    #[test]
    fn pods_are_qualified() {
        const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let table = [
            ("report", Some("shop"), Ok("shop/report")),
            ("report", None, Ok("report")),
            ("shop/report", Some("shop"), Ok("shop/report")),
            ("bank/report", Some("shop"), Err(())),
            ("10.1.0.4", Some("shop"), Ok("10.1.0.4")),
            ("[fd00::4]", Some("shop"), Ok("[fd00::4]")),
            (
                "containerd://0123456789",
                Some("shop"),
                Ok("containerd://0123456789"),
            ),
            (
                "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11",
                Some("shop"),
                Ok("0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11"),
            ),
            (CONTAINER, Some("shop"), Ok(CONTAINER)),
            // A pod may have such a name.
            ("4711", Some("shop"), Ok("shop/4711")),
            ("deadbeef", Some("shop"), Ok("shop/deadbeef")),
        ];
        for (pod, namespace, expected) in table {
            let qualified = qualified(pod, namespace).map_err(drop);
            assert_eq!(
                qualified,
                expected.map(str::to_owned),
                "{pod} {namespace:?}"
            );
        }
        let mut dump = line(&["sysdump", "--pod", "a", "--pod=b"]);
        dump.qualify("shop").unwrap();
        assert_eq!(dump.pods().collect::<Vec<_>>(), ["shop/a", "shop/b"]);
    }

    #[cfg(feature = "kubectl")]
    #[test]
    fn only_names_are_qualified() {
        for (pod, expected) in [
            ("report", "shop/report"),
            ("bank/report", "bank/report"),
            ("4711", "4711"),
            ("deadbeef", "deadbeef"),
            ("deaf", "shop/deaf"),
            ("10.1.0.4", "10.1.0.4"),
            ("containerd://0123456789", "containerd://0123456789"),
            (
                "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11",
                "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11",
            ),
        ] {
            let mut release = line(&["release", pod]);
            release.qualify_names("shop");
            assert_eq!(release.pods().collect::<Vec<_>>(), [expected]);
        }
    }

    #[cfg(feature = "kubectl")]
    #[test]
    fn values_are_replaced() {
        let mut capture = line(&["capture", "a", "-w", "x.pcapng", "--force"]);
        assert_eq!(capture.value("write"), Some(OsStr::new("x.pcapng")));
        assert!(capture.has("force") && !capture.has("port"));
        capture.set("write", "--write", "-");
        capture.remove("force");
        assert_eq!(capture.into_words(), ["capture", "--write=-", "--", "a"]);
    }
}
