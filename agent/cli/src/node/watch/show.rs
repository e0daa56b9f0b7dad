//! One decision, one line.

use usher_core::{
    admin::WatchLine,
    decision::timeline::{Detail, Entry},
};
use usher_inspect::text::{
    printable::{clean, clean_document, yaml},
    table::{Cell, Tone},
};

use crate::{
    global::{Format, Global},
    output::Output,
};

const MS_OF_A_DAY: u64 = 24 * 60 * 60 * 1000;

/// How lines are drawn.
#[derive(Debug)]
pub(super) struct Show {
    output: Output,
    format: Format,
    headers: bool,
}

impl Show {
    pub(super) fn new(global: &Global) -> Self {
        Self {
            output: Output::new(global),
            format: global.output,
            headers: !global.no_headers,
        }
    }

    /// Whether gaps are printed as lines too.
    pub(super) const fn tells_gaps(&self) -> bool {
        matches!(self.format, Format::Json | Format::Yaml)
    }

    pub(super) fn headers(&self) -> String {
        match self.format {
            Format::Table | Format::Wide if self.headers => {
                let uid = if self.format == Format::Wide {
                    "UID"
                } else {
                    ""
                };
                columns("TIME", uid, "POD", "CONTAINER", "DECISION", "REASON")
            }
            _ => String::new(),
        }
    }

    pub(super) fn line(&self, line: &WatchLine) -> String {
        match (self.format, line) {
            (Format::Json, line) => {
                // A line has only texts and numbers, which always serialize.
                let text = serde_json::to_string(line).unwrap_or_default();
                format!("{}\n", clean_document(&text))
            }
            (Format::Yaml, line) => {
                format!("---\n{}", yaml::write(line).unwrap_or_default())
            }
            (Format::Table | Format::Wide, WatchLine::Missed { missed }) => {
                format!("... {missed} missed\n")
            }
            (format, WatchLine::Entry(entry)) => {
                let uid = if format == Format::Wide {
                    entry.uid.as_str()
                } else {
                    ""
                };
                let text = columns(
                    &time(entry.at_ms),
                    uid,
                    &entry.pod,
                    entry.container.as_deref().unwrap_or("-"),
                    entry.detail.name(),
                    &reason(entry),
                );
                let cell = Cell::new(text.trim_end(), tone(&entry.detail));
                format!("{}\n", self.output.paint(&cell))
            }
        }
    }
}

fn columns(
    time: &str,
    uid: &str,
    pod: &str,
    container: &str,
    decision: &str,
    reason: &str,
) -> String {
    let (pod, container) = (clean(pod), clean(container));
    let uid = match uid {
        "" => String::new(),
        uid => format!("{:<36}  ", clean(uid)),
    };
    format!(
        "{time:<12}  {uid}{pod:<32}  {container:<14}  {decision:<15}  {}\n",
        clean(reason)
    )
}

fn reason(entry: &Entry) -> String {
    match entry.since_exit_ms {
        Some(ms) => format!("{} [{ms:.1} ms after the last app's end]", entry.reason),
        None => entry.reason.clone(),
    }
}

/// The time of the day, in UTC as in the log.
fn time(at_ms: u64) -> String {
    let ms = at_ms % MS_OF_A_DAY;
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{ms:03}", seconds % 60)
}

fn tone(detail: &Detail) -> Tone {
    match detail {
        Detail::GaveUp
        | Detail::StepFailed
        | Detail::HoldFailed
        | Detail::Quarantined
        | Detail::RuntimeUnsupported => Tone::Bad,
        Detail::HoldExtended { .. }
        | Detail::InvalidAnnotation
        | Detail::Skipped
        | Detail::StartMissed
        | Detail::StartNotHeld
        | Detail::LingerUnsupported
        | Detail::LingerKilled
        | Detail::LingerDrainFailed
        | Detail::PreStopUnsupported
        | Detail::WouldLinger { .. }
        | Detail::WouldPreStop { .. }
        | Detail::WouldQuit
        | Detail::WouldQuitOnDeletion
        | Detail::WouldHold { .. } => Tone::Warn,
        Detail::QuitAccepted { .. }
        | Detail::SidecarEnded { .. }
        | Detail::HoldReleased { .. }
        | Detail::StartReleased { .. }
        | Detail::LingerReleased { .. }
        | Detail::PreStopReleased { .. } => Tone::Good,
        Detail::OperatorRequest => Tone::Strong,
        Detail::NotApplicable | Detail::Waiting | Detail::NotHeld | Detail::LeftToKubelet => {
            Tone::Faint
        }
        Detail::VersionReported
        | Detail::PodFinished
        | Detail::QuitOnDeletion
        | Detail::DrainAccepted { .. }
        | Detail::HoldArmed { .. }
        | Detail::HoldAdopted { .. }
        | Detail::StartHeld { .. }
        | Detail::LingerHeld
        | Detail::LingerDrained
        | Detail::PreStopHeld
        | Detail::Unknown { .. } => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_day() {
        assert_eq!(time(0), "00:00:00.000");
        assert_eq!(time(MS_OF_A_DAY * 20_000 + 3_723_004), "01:02:03.004");
    }

    #[test]
    fn hostile_names_have_no_effect() {
        let text = columns("t", "", "a/\x1b[2J", "\u{202e}c", "waiting", "\nx");
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        assert!(
            !text.contains('\x1b') && !text.contains('\u{202e}'),
            "{text:?}"
        );
    }
}
