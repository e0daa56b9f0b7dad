//! Whether a container that ended restarts.
//!
//! The rules are the kubelet's: the container's own restart rules in order, then its own policy, then the pod's
//! ([KEP-753](https://github.com/kubernetes/enhancements/issues/753),
//! [KEP-5307](https://github.com/kubernetes/enhancements/issues/5307),
//! [KEP-5532](https://github.com/kubernetes/enhancements/issues/5532)). The reason text of a status (Completed,
//! OOMKilled) and the pod's owner do not matter.

/// Restart policy of a pod or of one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, strum::Display, serde::Deserialize)]
pub enum RestartPolicy {
    /// Restarts after any exit code; the API's default.
    #[default]
    Always,
    /// Restarts after an exit code other than 0.
    OnFailure,
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartRule {
    pub codes: Vec<i32>,
    /// True for `In`: it applies to these codes; false for `NotIn`.
    pub within: bool,
    /// True where it restarts all containers of the pod, including finished ones (`RestartAllContainers`).
    pub whole_pod: bool,
}

impl RestartRule {
    pub fn applies(&self, code: i32) -> bool {
        self.codes.contains(&code) == self.within
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    EndedForGood,
    ComesBack,
    /// The exit code decides, and is not known yet.
    CodeDecides,
}

/// The rule that decides for a code: the first that applies to it.
pub(crate) fn rule_for(rules: &[RestartRule], code: i32) -> Option<&RestartRule> {
    rules.iter().find(|rule| rule.applies(code))
}

/// Evaluates an exit under a container's effective policy. `code` is None while it is unknown.
pub fn judge(policy: RestartPolicy, rules: &[RestartRule], code: Option<i32>) -> Verdict {
    let Some(code) = code else {
        return match policy {
            RestartPolicy::Always => Verdict::ComesBack,
            RestartPolicy::Never if rules.is_empty() => Verdict::EndedForGood,
            RestartPolicy::Never | RestartPolicy::OnFailure => Verdict::CodeDecides,
        };
    };
    match policy {
        _ if rule_for(rules, code).is_some() => Verdict::ComesBack,
        RestartPolicy::Always => Verdict::ComesBack,
        RestartPolicy::OnFailure if code != 0 => Verdict::ComesBack,
        RestartPolicy::OnFailure | RestartPolicy::Never => Verdict::EndedForGood,
    }
}

#[cfg(test)]
mod tests {
    use RestartPolicy::{Always, Never, OnFailure};
    use Verdict::{CodeDecides, ComesBack, EndedForGood};

    use super::*;

    #[test]
    fn table_without_rules() {
        for (policy, code, expected) in [
            (Never, None, EndedForGood),
            (Never, Some(0), EndedForGood),
            (Never, Some(3), EndedForGood),
            (OnFailure, None, CodeDecides),
            (OnFailure, Some(0), EndedForGood),
            (OnFailure, Some(137), ComesBack),
            (Always, None, ComesBack),
            (Always, Some(0), ComesBack),
        ] {
            assert_eq!(judge(policy, &[], code), expected, "{policy:?} {code:?}");
        }
    }

    #[test]
    fn table_with_rules() {
        let on = |codes: &[i32], within| {
            vec![RestartRule {
                codes: codes.to_vec(),
                within,
                whole_pod: false,
            }]
        };
        for (policy, rules, code, expected) in [
            (Never, on(&[42], true), None, CodeDecides),
            (Never, on(&[42], true), Some(42), ComesBack),
            (Never, on(&[42], true), Some(1), EndedForGood),
            (Never, on(&[0, 1], false), Some(2), ComesBack),
            (Never, on(&[0, 1], false), Some(1), EndedForGood),
            (OnFailure, on(&[0], true), Some(0), ComesBack),
            (OnFailure, on(&[42], true), Some(1), ComesBack),
        ] {
            let verdict = judge(policy, &rules, code);
            assert_eq!(verdict, expected, "{policy:?} {rules:?} {code:?}");
        }
    }
}
