//! Commands for the agent of one node, for fixes, with a comment for the shell. `ds/usher` would be the agent of any node.

/// Replaced in the commands by the name of the agent's pod.
const POD: &str = "POD: kubectl get pods -n usher -o wide --field-selector spec.nodeName=NODE";

/// The command that runs `usher` in the agent's container.
pub(super) fn exec(words: &str) -> String {
    format!("kubectl exec -n usher POD -- usher {words}  # {POD}")
}

/// The command for the agent's log; `filter` is empty or a pipe.
pub fn logs(filter: &str) -> String {
    format!("kubectl logs -n usher -c agent POD{filter}  # {POD}")
}

/// The command that restarts the agent.
pub(super) fn restart() -> String {
    format!("kubectl delete pod -n usher POD  # {POD}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_for_one_node() {
        for command in [exec("check"), logs(" | grep worker"), restart()] {
            assert!(command.contains("spec.nodeName=NODE"), "{command}");
            assert!(!command.contains("ds/"), "{command}");
        }
        assert!(
            logs(" | grep worker")
                .starts_with("kubectl logs -n usher -c agent POD | grep worker  # ")
        );
    }
}
