//! The reasons of Events.

use usher_core::kube_event::{Meaning, On, Reason};

use super::markdown::{code, table};

/// Every reason, and what to do about it.
pub(super) fn reasons() -> String {
    let rows: Vec<_> = Reason::ALL.iter().map(|reason| row(*reason)).collect();
    table(["reason", "type", "on", "when", "what to do"], &rows)
}

fn row(reason: Reason) -> [String; 5] {
    let Meaning {
        name,
        importance,
        on,
        when,
        cure,
        action: _,
    } = reason.meaning();
    let on = match on {
        On::Pod => "pod",
        On::Node => "Node",
        On::Both => "pod or Node",
    };
    [
        code(name),
        importance.as_str().to_owned(),
        on.to_owned(),
        when.to_owned(),
        cure.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warning_has_a_place_in_troubleshooting() {
        let path = crate::workspace::root().join("docs/events.md");
        let page = std::fs::read_to_string(path).unwrap();
        for reason in Reason::ALL {
            let name = reason.as_str();
            let warns = reason.importance().as_str() == "Warning";
            let found = page.lines().any(|line| {
                line.starts_with("### ") && line.split([' ', '`', ',']).any(|word| word == name)
            });
            assert!(found || !warns, "docs/events.md has no heading for {name}");
        }
    }
}
