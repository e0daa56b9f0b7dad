//! The command line of a process that opens a container's runtime state.
//!
//! containerd's shim and CRI-O's conmon run `runc --root DIR --log FILE --log-format json kill ID 15`; crun and youki
//! have the same command. Images choose the signal (`STOPSIGNAL`), and runtimes pass it as a number or as a name.

use crate::base::id::ContainerId;

/// Limit of a command line. A longer one is not judged, so its command continues.
pub const LONGEST_COMMAND: usize = 4096;

const KILL: u8 = 9;
const GREATEST_SIGNAL: u8 = 64;
/// Names without `SIG` of the signals that a runtime can send to stop a container, except `KILL`.
const NAMES: [&str; 30] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "IOT", "BUS", "FPE", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "PWR", "SYS",
];

/// The container to which a runtime's command sends a signal other than `SIGKILL`; None for any other command.
///
/// The command line has the form of `/proc/PID/cmdline`.
pub fn stopped_container(command_line: &[u8]) -> Option<ContainerId> {
    if command_line.len() >= LONGEST_COMMAND {
        return None;
    }
    let text = str::from_utf8(command_line).ok()?;
    let mut words = text.split_terminator('\0').skip(1);
    words.find(|word| *word == "kill")?;
    let mut operands = Vec::new();
    for word in words {
        match word {
            // Every process of the container: the runtime cleans up.
            "-a" | "--all" | "-r" | "--regex" => return None,
            "--" => {}
            operand if operand.starts_with('-') => {}
            operand => operands.push(operand),
        }
    }
    let (id, signal) = match operands.as_slice() {
        [id] => (id, "TERM"),
        [id, signal] => (id, *signal),
        _ => return None,
    };
    let container = ContainerId::parse(id).ok()?;
    is_stop_signal(signal).then_some(container)
}

fn is_stop_signal(text: &str) -> bool {
    if let Ok(number) = text.parse::<u8>() {
        return (1..=GREATEST_SIGNAL).contains(&number) && number != KILL;
    }
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    NAMES.contains(&name) || name.starts_with("RTMIN") || name.starts_with("RTMAX")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(text: &str) -> Vec<u8> {
        let words = text.split(' ').filter(|word| !word.is_empty());
        words
            .flat_map(|word| [word.as_bytes(), b"\0"].concat())
            .collect()
    }

    fn id() -> String {
        "c0".repeat(32)
    }

    fn is_stop(text: &str) -> bool {
        let id = id();
        let container = stopped_container(&line(&text.replace("ID", &id)));
        if let Some(container) = &container {
            assert_eq!(container.as_str(), id);
        }
        container.is_some()
    }

    #[test]
    fn stop_commands() {
        let shim = "runc --root /run/containerd/runc/k8s.io --log /run/x/log.json --log-format json kill ID 15";
        assert!(is_stop(shim));
        for signal in [
            "15",
            "TERM",
            "SIGTERM",
            "sigterm",
            "SIGQUIT",
            "3",
            "28",
            "WINCH",
            "SIGRTMIN+3",
            "37",
            "",
        ] {
            assert!(is_stop(&format!("runc kill ID {signal}")), "{signal}");
            assert!(
                is_stop(&format!("/usr/bin/crun --root=/run/crun kill ID {signal}")),
                "{signal}"
            );
        }
    }

    #[test]
    fn other_commands() {
        for text in [
            "runc kill ID 9",
            "runc kill ID KILL",
            "runc kill ID SIGKILL",
            "runc kill ID sigkill",
            "runc kill ID 0",
            "runc kill ID 65",
            "runc kill ID 1500",
            "runc kill ID NONE",
            "runc kill --all ID 15",
            "runc kill -a ID 9",
            "runc kill ID 15 more",
            "runc kill short 15",
            "runc kill",
            "runc state ID",
            "runc init",
            "runc exec --process /tmp/p ID",
            "runc delete --force ID",
            "kill ID 15",
            "",
        ] {
            assert!(!is_stop(text), "{text}");
        }
        let long = format!("runc --log {} kill ID 15", "x".repeat(LONGEST_COMMAND));
        assert!(!is_stop(&long));
        assert!(stopped_container(b"runc\0kill\0\xff\0").is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            stopped_container(&bytes);
        }

        /// SIGKILL is never held, however the runtime writes it.
        #[test]
        fn sigkill_is_never_held(
            flags in prop::collection::vec("--[a-z]{1,8}(=[a-z/]{1,8})?", 0..4),
            kill in prop::sample::select(vec!["9", "KILL", "SIGKILL", "kill", "Sigkill", "09"]),
        ) {
            let text = format!("runc {} kill ID {kill}", flags.join(" "));
            prop_assert!(!is_stop(&text), "{}", text);
        }
    }
}
