//! `usher cleanup`: removes usher from this node.

use std::{path::PathBuf, time::Duration};

use usher_client::{
    cleanup::{self, Places},
    error_chain::chain,
    node_args::NodeArgs,
};
use usher_core::{
    base::duration,
    cleanup::{Cleaning, Report},
    cni::protocol::DEFAULT_LOG_FILE,
};
use usher_sys::pods::proc::ProcRoot;

use crate::{
    failure::Failure,
    global::{Exit, Global},
    output::stdout,
    stderr::print_stderr,
};

/// Directories of CNI configurations on the supported platforms.
const CONF_DIRS: [&str; 4] = [
    "/etc/cni/net.d",
    "/etc/kubernetes/cni/net.d",
    "/var/lib/rancher/k3s/agent/etc/cni/net.d",
    "/var/snap/microk8s/current/args/cni-network",
];
/// Directories of CNI plugins on the supported platforms.
const BIN_DIRS: [&str; 7] = [
    "/opt/cni/bin",
    "/var/lib/cni/bin",
    // GKE.
    "/home/kubernetes/bin",
    "/var/lib/rancher/k3s/data/cni",
    // Older releases of k3s.
    "/var/lib/rancher/k3s/data/current/bin",
    "/var/snap/microk8s/current/opt/cni/bin",
    // k3d.
    "/bin",
];

/// Remove usher from this node, with or without an agent
///
/// Removes the plugin's entry in the CNI configuration, the plugin, the table inet usher in the network namespaces of
/// all processes, and the run directory. Pods can be created and deleted at any time meanwhile. Run it as root, on the
/// node itself or in the agent's container.
///
/// Exits with 0 when nothing is left, with 1 when something is (each line gives the reason and the fix), with 2 for an
/// invalid command line, with 3 while an agent runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Report what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Remove it while an agent runs, which may install it again
    #[arg(long)]
    force: bool,

    /// Directory of CNI configurations; repeatable [default: the directories of the supported platforms]
    #[arg(
        long,
        env = "USHER_CNI_CONF_DIR",
        value_name = "DIR",
        hide_env_values = true
    )]
    cni_conf_dir: Vec<PathBuf>,

    /// Directory of CNI plugins; repeatable [default: the directories of the supported platforms]
    #[arg(
        long,
        env = "USHER_CNI_BIN_DIR",
        value_name = "DIR",
        hide_env_values = true
    )]
    cni_bin_dir: Vec<PathBuf>,

    /// Log file of the CNI plugin, if it is not in the run directory
    #[arg(long, env = "USHER_CNI_LOG", value_name = "FILE", default_value = DEFAULT_LOG_FILE)]
    cni_log: PathBuf,

    /// How long to keep the plugin after its entry was removed: pods that are
    /// being started or stopped may still call it
    #[arg(long, default_value = "5s", value_parser = duration::parse)]
    grace_period: Duration,
}

impl Args {
    fn places(&self, node: &NodeArgs) -> Places {
        Places {
            conf_dirs: given_or(&self.cni_conf_dir, &CONF_DIRS),
            bin_dirs: given_or(&self.cni_bin_dir, &BIN_DIRS),
            run_dir: node.run_dir.clone(),
            log: self.cni_log.clone(),
            proc: ProcRoot::new(&node.proc),
            grace_period: self.grace_period,
        }
    }
}

/// The directories of CNI configurations, from the environment or the defaults.
pub(crate) fn conf_dirs() -> Vec<PathBuf> {
    let given = std::env::var_os("USHER_CNI_CONF_DIR").map(PathBuf::from);
    given_or(given.as_slice(), &CONF_DIRS)
}

/// Ignores an empty path, which the agent's environment may have.
fn given_or(given: &[PathBuf], known: &[&str]) -> Vec<PathBuf> {
    let given: Vec<PathBuf> = given
        .iter()
        .filter(|path| !path.as_os_str().is_empty())
        .cloned()
        .collect();
    if given.is_empty() {
        known.iter().map(PathBuf::from).collect()
    } else {
        given
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let places = args.places(&global.node);
    if args.dry_run {
        let report = Cleaning::dry_run(cleanup::look(&places));
        return print(&report, "would be left");
    }
    match cleanup::agent_lives(&places) {
        Ok(true) if !args.force => {
            return Err(Failure::refused(
                "an agent runs on this node and would install everything again. Remove it first (helm uninstall \
                 usher, or kubectl delete daemonset usher), or keep it away from this node (nodeSelector or \
                 affinity of the chart). --force overrides this",
            ));
        }
        Ok(_) => {}
        Err(error) => print_stderr(&format!(
            "cannot check whether an agent runs: {}",
            chain(&error)
        )),
    }
    print(&cleanup::clean(&places), "is left")
}

/// Prints one line per item, and a summary.
fn print(report: &Report, left: &str) -> Result<Exit, Failure> {
    let mut lines: Vec<String> = report.lines.iter().map(ToString::to_string).collect();
    let count = report.left().count();
    if count > 0 {
        lines.push(format!("{count} of {} {left}", report.lines.len()));
    } else if report.lines.is_empty() {
        lines.push("usher is not installed on this node".to_owned());
    } else if left == "is left" {
        lines.push("usher was removed from this node".to_owned());
    }
    stdout::put(&format!("{}\n", lines.join("\n")))?;
    Ok(if count > 0 {
        Exit::Problem
    } else {
        Exit::Success
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_directories_unless_others_are_given() {
        let path = PathBuf::from;
        assert_eq!(given_or(&[], &CONF_DIRS).len(), CONF_DIRS.len());
        assert_eq!(given_or(&[path("")], &BIN_DIRS)[0], path("/opt/cni/bin"));
        let given = [path("/a"), path("/b")];
        assert_eq!(given_or(&given, &CONF_DIRS), given);
    }

    #[test]
    fn directories_of_every_platform_are_known() {
        let platforms = include_str!("../../../../deploy/chart/files/platforms.yaml");
        let mut count = 0;
        for line in platforms.lines() {
            let (known, path) = match line.trim().split_once(": ") {
                Some(("cniConfDir", path)) => (&CONF_DIRS[..], path),
                Some(("cniBinDir", path)) => (&BIN_DIRS[..], path),
                _ => continue,
            };
            count += 1;
            assert!(known.contains(&path), "{path}");
        }
        assert!(count > 2, "{platforms}");
        // The chart has this one only in a comment.
        assert!(BIN_DIRS.contains(&"/var/lib/rancher/k3s/data/current/bin"));
    }
}
