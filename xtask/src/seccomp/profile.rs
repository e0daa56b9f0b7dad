//! A profile as containerd reads it
//! ([OCI runtime spec, seccomp](https://github.com/opencontainers/runtime-spec/blob/v1.1.0/config-linux.md#seccomp)).

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::calls::{ELSEWHERE, KEPT, NEVER, RUNTIME};

const ALLOW: &str = "SCMP_ACT_ALLOW";
/// EPERM, which says "forbidden" and not "this kernel has it not".
const REFUSE: &str = "SCMP_ACT_ERRNO";
const ARCHITECTURES: [&str; 2] = ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"];
/// Its flags lie in memory, where no filter sees them; libraries take `clone` where it is not there.
const CLONE3: &str = "clone3";
const ENOSYS: u32 = 38;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Profile {
    default_action: String,
    architectures: Vec<String>,
    syscalls: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    names: Vec<String>,
    action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errno_ret: Option<u32>,
}

impl Profile {
    /// All that was seen, what the same is called on other processors, and what is kept without having been seen.
    pub(super) fn of(seen: BTreeSet<String>) -> Result<Self> {
        let kept = KEPT.iter().chain(RUNTIME).map(|name| (*name).to_owned());
        let mut names: BTreeSet<String> = seen.into_iter().chain(kept).collect();
        names.remove(CLONE3);
        let elsewhere = ELSEWHERE.iter().filter(|(here, _)| names.contains(*here));
        let elsewhere: Vec<String> = elsewhere.map(|(_, there)| (*there).to_owned()).collect();
        names.extend(elsewhere);
        if let Some(name) = NEVER.iter().find(|name| names.contains(**name)) {
            bail!("{name} is a system call that no profile of usher may allow");
        }
        let rule = |names: Vec<String>, action: &str, errno_ret| Rule {
            names,
            action: action.to_owned(),
            errno_ret,
        };
        Ok(Self {
            default_action: REFUSE.to_owned(),
            architectures: ARCHITECTURES.map(str::to_owned).into(),
            syscalls: vec![
                rule(names.into_iter().collect(), ALLOW, None),
                rule(vec![CLONE3.to_owned()], REFUSE, Some(ENOSYS)),
            ],
        })
    }

    pub(super) fn allowed(&self) -> BTreeSet<String> {
        let rules = self.syscalls.iter().filter(|rule| rule.action == ALLOW);
        rules.flat_map(|rule| rule.names.clone()).collect()
    }

    pub(super) fn text(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self).context("write the profile")?;
        Ok(text + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Result<Profile> {
        Profile::of(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn names_of_other_processors_are_there_and_all_are_in_order() {
        let profile = of(&["epoll_wait", "socket", CLONE3]).unwrap();
        let names = &profile.syscalls[0].names;
        assert!(names.is_sorted());
        for name in ["epoll_wait", "epoll_pwait", "socket", "exit_group"] {
            assert!(names.contains(&name.to_owned()), "{name}");
        }
        assert!(!names.contains(&CLONE3.to_owned()));
        let text = profile.text().unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
    }

    #[test]
    fn what_is_never_allowed_is_an_error() {
        for name in ["ptrace", "bpf", "mount", "init_module", "open_by_handle_at"] {
            let error = of(&[name]).unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
