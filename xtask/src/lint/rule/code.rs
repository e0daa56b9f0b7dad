//! What the agent's code does not do.

use super::{
    Finding,
    source::{Line, Source},
};

/// The folders of what runs on nodes.
const ON_NODES: [&str; 2] = ["agent", "cni-plugin"];
const HOLDER: &str = "agent/src/start/holder_process.rs";
const NAMESPACES: &str = "agent/sys/src/net/netns.rs";

/// The agent starts no other program: its image has none, and what a program prints is no interface. One module has it
/// start itself.
pub(super) fn processes(source: &Source) -> Vec<Finding> {
    if source.path == HOLDER {
        return Vec::new();
    }
    let starts = |code: &str| {
        code.contains("process::Command")
            || code.match_indices("Command::new(").any(|(at, _)| {
                !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
            })
    };
    find(source, starts, |line| {
        let message = "what runs on nodes starts no other program";
        Finding::error(&source.path, line, "process", message)
    })
}

/// A thread changes its namespace in one module, which is written for that.
pub(super) fn namespaces(source: &Source) -> Vec<Finding> {
    if source.path == NAMESPACES {
        return Vec::new();
    }
    let enters = |code: &str| code.contains("setns");
    find(source, enters, |line| {
        let message = format!("setns is for {NAMESPACES} only");
        Finding::error(&source.path, line, "setns", message)
    })
}

fn find(
    source: &Source,
    does: impl Fn(&str) -> bool,
    finding: impl Fn(usize) -> Finding,
) -> Vec<Finding> {
    if !source.is_rust() || !ON_NODES.iter().any(|folder| source.is_in(folder)) {
        return Vec::new();
    }
    source
        .lines()
        .filter(|line: &Line<'_>| !line.is_test && does(line.code()))
        .map(|line| finding(line.number))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_starts_no_programs_outside_its_tests() {
        let text = "use std::process::Command;\nfn a() {\n    Command::new(\"b\");\n}\n\
                    #[cfg(test)]\nmod tests {\n    use std::process::Command;\n}\n";
        let lines = |path: &str| -> Vec<usize> {
            let found = processes(&Source::new(path, text));
            found.iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("agent/src/a.rs"), [1, 3]);
        assert_eq!(lines("cni-plugin/src/a.rs"), [1, 3]);
        assert!(lines(HOLDER).is_empty());
        assert!(lines("xtask/src/a.rs").is_empty());
        assert!(lines("agent/tests/a.rs").is_empty());
        let other = Source::new("agent/src/a.rs", "MyCommand::new(1)\nArgs::command()");
        assert_eq!(processes(&other), []);
    }

    #[test]
    fn namespaces_change_in_one_module() {
        let text = "// setns\nuse nix::sched::setns;\n";
        let found = namespaces(&Source::new("agent/sys/src/pods/proc.rs", text));
        assert_eq!((found[0].line, found[0].rule), (2, "setns"));
        assert_eq!(found.len(), 1);
        assert_eq!(namespaces(&Source::new(NAMESPACES, text)), []);
    }
}
