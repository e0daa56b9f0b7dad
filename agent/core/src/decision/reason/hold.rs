//! Texts about holds of connections.

use std::{fmt, time::Duration};

use super::start;
use crate::{
    base::duration::{elapsed, setting},
    hold::{MAX_HELD_PORTS, Released, Tally},
    start::Start,
};

pub(super) fn armed(
    out: &mut fmt::Formatter<'_>,
    ports: &[(String, u16)],
    deadline: Duration,
    without_dns: bool,
    omitted_ports: usize,
    starts: &[Start],
) -> fmt::Result {
    let ports: Vec<String> = ports
        .iter()
        .map(|(sidecar, port)| format!("{sidecar} :{port}"))
        .collect();
    // A long list of ports is cut in the timeline.
    if let Some(text) = omitted_ports_text(omitted_ports) {
        write!(out, "{text}; ")?;
    }
    write!(
        out,
        "connections to {} are held, for at most {}",
        ports.join(", "),
        setting(deadline)
    )?;
    if !starts.is_empty() {
        let starts: Vec<String> = starts.iter().map(start::planned).collect();
        write!(out, "; so are the starts of {}", starts.join(", "))?;
    }
    if without_dns {
        out.write_str("; DNS queries are not: the node's kernel has neither queue nor NFQUEUE")?;
    }
    Ok(())
}

/// The held ports beyond the limit of a pod, if there are any.
pub(crate) fn omitted_ports_text(ports: usize) -> Option<String> {
    (ports > 0).then(|| {
        format!("{ports} ports are not held, because usher holds at most {MAX_HELD_PORTS} ports of a pod")
    })
}

pub(super) fn adopted(out: &mut fmt::Formatter<'_>, ports: &[u16]) -> fmt::Result {
    if ports.is_empty() {
        return out.write_str(
            "an earlier agent held connections; its deadline passed before this agent started, and they are released",
        );
    }
    let ports: Vec<String> = ports.iter().map(|port| format!(":{port}")).collect();
    write!(
        out,
        "an earlier agent holds connections to {}; they stay held as long as the pod requests it",
        ports.join(", ")
    )
}

pub(super) fn released(
    out: &mut fmt::Formatter<'_>,
    why: Released,
    held: Duration,
    adopted: bool,
    tally: Tally,
) -> fmt::Result {
    let begin = if adopted {
        "this agent adopted the hold"
    } else {
        "the hold began"
    };
    write!(out, "{why}, {} after {begin}; ", elapsed(held))?;
    let longest = elapsed(tally.longest);
    match tally.connections {
        0 => out.write_str("no connection had waited"),
        1 => write!(out, "1 connection had waited, {longest}"),
        many => write!(out, "{many} connections had waited, the longest {longest}"),
    }?;
    match tally.lost {
        0 => Ok(()),
        lost => write!(out, "; {lost} more continue with their next retransmission"),
    }
}

pub(super) fn would_hold(
    out: &mut fmt::Formatter<'_>,
    why: Released,
    held: Duration,
    tally: Tally,
    starts: &[(String, Duration)],
) -> fmt::Result {
    write!(
        out,
        "observe mode: nothing is held; {} {} after the pod could be held, and until then ",
        match why {
            Released::Ready => "the sidecar was ready",
            Released::ProbeFailed => {
                "the sidecar listened, but its readiness probe had not succeeded within 2 s,"
            }
            _ => "a hold would have ended",
        },
        elapsed(held)
    )?;
    let longest = elapsed(tally.longest);
    match tally.connections {
        0 => out.write_str("no connection came"),
        1 => write!(out, "1 connection was refused, {longest} before"),
        many => write!(
            out,
            "{many} connections were refused, the first {longest} before"
        ),
    }?;
    for (name, held) in starts {
        write!(
            out,
            "; the start of {name} would have been held for {}",
            elapsed(*held)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sidecar_was_ready_only_where_a_probe_succeeded() {
        let cases = [
            (Released::Ready, "the sidecar was ready 300 ms after"),
            (
                Released::ProbeFailed,
                "the sidecar listened, but its readiness probe had not succeeded within 2 s, 300 ms after",
            ),
            (Released::Deadline, "a hold would have ended 300 ms after"),
            (Released::Ending, "a hold would have ended 300 ms after"),
        ];
        for (why, expected) in cases {
            let kind = crate::decision::Kind::WouldHold {
                why,
                held: Duration::from_millis(300),
                tally: Tally::default(),
                starts: Vec::new(),
            };
            let reason = kind.reason().to_string();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
