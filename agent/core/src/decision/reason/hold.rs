//! Why connections wait, or do not, in words.

use std::time::Duration;

use crate::{
    hold::{Failed, NotHeld, Opened, Tally},
    settings::annotation,
    start::Start,
};

/// Times as people read them: whole milliseconds, below 10 ms with a decimal.
pub(super) fn time(time: Duration) -> String {
    if time < Duration::from_millis(10) {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    } else if time < Duration::from_secs(10) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

pub(super) fn not_held(why: &NotHeld) -> String {
    match why {
        NotHeld::Off => "the Node's annotation switches holding off".to_owned(),
        NotHeld::Kernel { lacks } => format!("the node's kernel cannot hold connections: {lacks}"),
        NotHeld::ExcludedNamespace => "the configuration excludes its namespace".to_owned(),
        NotHeld::HostNetwork => "its network namespace is the node's".to_owned(),
        NotHeld::NativeOnly { names } => format!(
            "its sidecars are native ones, which are ready before the apps start: {}",
            names.join(", ")
        ),
        NotHeld::NoSidecar => format!(
            "no recipe recognises a sidecar in it; annotation {} declares ports of one",
            annotation::HOLD_PORTS
        ),
        NotHeld::NoDoor => format!(
            "no recipe knows a port of its sidecars that apps connect to; annotation {} declares some",
            annotation::HOLD_PORTS
        ),
        NotHeld::NoApp => "it has sidecars only, and no app that could connect".to_owned(),
        NotHeld::OptedOut => format!(
            "{} says \"false\" on the pod or its Namespace, or the configuration does",
            annotation::HOLD
        ),
        NotHeld::Late => "its apps had started before usher did".to_owned(),
        NotHeld::Ending => "it is being deleted, or its apps have ended".to_owned(),
    }
}

pub(super) fn failed(failed: &Failed) -> String {
    match failed {
        Failed::Arm(error) => {
            format!("connections cannot be made to wait, they go and may be refused: {error}")
        }
        Failed::Gate => "who had connections wait ended; they go and may be refused".to_owned(),
        Failed::Open(error) => format!(
            "connections cannot be let go, they wait until the kernel opens the doors at the deadline: {error}"
        ),
    }
}

pub(super) fn armed(
    doors: &[(String, u16)],
    deadline: Duration,
    without_dns: bool,
    starts: &[Start],
) -> String {
    let doors = doors.iter().map(|(name, port)| format!("{name} :{port}"));
    let doors: Vec<String> = doors.collect();
    let dns = if without_dns {
        "; DNS queries do not wait: the node's kernel has neither queue nor NFQUEUE"
    } else {
        ""
    };
    let starts: Vec<String> = starts.iter().map(super::start::planned).collect();
    let starts = if starts.is_empty() {
        String::new()
    } else {
        format!("; so do the starts of {}", starts.join(", "))
    };
    format!(
        "connections wait for {}, for at most {deadline:?}{starts}{dns}",
        doors.join(", ")
    )
}

pub(super) fn why(why: Opened) -> &'static str {
    match why {
        Opened::Ready => "the sidecar is ready",
        Opened::Deadline => {
            "the deadline has come and the sidecar is not ready: connections go and may be refused"
        }
        Opened::SidecarEnded => "the sidecar ended and is not started again",
        Opened::Ending => "it is being deleted, or its apps have ended",
        Opened::NotWanted => "mode, annotations or configuration do not want it any more",
        Opened::InitContainer => "an init container runs, which the sidecar waits for",
        Opened::ByOperator => "an operator released it",
    }
}

pub(super) fn opened(why: Opened, shut: Duration, adopted: bool, tally: Tally) -> String {
    let what = self::why(why);
    let Tally {
        connections,
        longest,
        lost,
        ..
    } = tally;
    let waited = match connections {
        0 => "no connection had waited".to_owned(),
        1 => format!("1 connection had waited, {}", time(longest)),
        many => format!("{many} connections had waited, the first {}", time(longest)),
    };
    let lost = match lost {
        0 => String::new(),
        lost => format!("; {lost} more go on with their next retransmission"),
    };
    let begin = if adopted {
        "this agent found it"
    } else {
        "it was armed"
    };
    format!("{what}, {} after {begin}; {waited}{lost}", time(shut))
}

pub(super) fn would_hold(shut: Duration, tally: Tally, starts: &[(String, Duration)]) -> String {
    let Tally {
        connections,
        longest,
        ..
    } = tally;
    let refused = match connections {
        0 => "no connection came".to_owned(),
        1 => format!("1 connection was refused, {} before", time(longest)),
        many => format!(
            "{many} connections were refused, the first {} before",
            time(longest)
        ),
    };
    let starts = starts.iter().map(|(name, held)| {
        format!(
            "; the start of {name} would have been held for {}",
            time(*held)
        )
    });
    let starts: String = starts.collect();
    format!(
        "observe mode: nothing is held; until the sidecar was ready, {} after its pod could be held, {refused}{starts}",
        time(shut)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (micros, text) in [
            (0, "0.0 ms"),
            (1_480, "1.5 ms"),
            (9_900, "9.9 ms"),
            (10_000, "10 ms"),
            (812_900, "812 ms"),
            (9_999_999, "9999 ms"),
            (10_000_000, "10.0 s"),
            (75_250_000, "75.2 s"),
        ] {
            assert_eq!(time(Duration::from_micros(micros)), text);
        }
    }
}
