//! The reasons of Events.

use anyhow::Result;
use usher_core::kube_event::{Meaning, Reason};

use super::markdown::{code, table};

pub(super) fn reasons() -> Result<String> {
    let rows: Vec<_> = Reason::ALL.iter().map(|reason| row(*reason)).collect();
    let head = ["reason", "type", "on", "when", "what to do"];
    Ok(table(head, &rows))
}

fn row(reason: Reason) -> [String; 5] {
    let fields = reason.fields();
    let Meaning { when, remedy } = reason.meaning();
    [
        code(reason.into_str()),
        fields.event_type.into_str().to_owned(),
        fields.target.into_str().to_owned(),
        when.to_owned(),
        remedy.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use usher_core::kube_event::EventType;

    use super::*;

    #[test]
    fn every_warning_has_a_place_in_troubleshooting() {
        let path = crate::workspace::root().join("docs/events.md");
        let page = std::fs::read_to_string(path).unwrap();
        for reason in Reason::ALL {
            let name = reason.into_str();
            let warns = reason.fields().event_type == EventType::Warning;
            let found = page.lines().any(|line| {
                line.starts_with("### ") && line.split([' ', '`', ',']).any(|word| word == name)
            });
            assert!(found || !warns, "docs/events.md has no heading for {name}");
        }
    }
}
