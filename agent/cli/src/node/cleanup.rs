//! `usher cleanup`: takes everything of usher off this node.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use usher_client::{
    cleanup::{self, Places},
    error_chain::chain,
};
use usher_core::{
    base::duration,
    cleanup::{Cleaning, Report},
    cni::protocol::DEFAULT_LOG_FILE,
};
use usher_sys::pods::proc::ProcRoot;

use crate::{output::stdout, print_stderr};

/// Where runtimes have their network configurations, on the platforms that usher knows.
const CONF_DIRS: [&str; 4] = [
    "/etc/cni/net.d",
    "/etc/kubernetes/cni/net.d",
    "/var/lib/rancher/k3s/agent/etc/cni/net.d",
    "/var/snap/microk8s/current/args/cni-network",
];
/// And their CNI plugins.
const BIN_DIRS: [&str; 6] = [
    "/opt/cni/bin",
    "/var/lib/cni/bin",
    // GKE's.
    "/home/kubernetes/bin",
    "/var/lib/rancher/k3s/data/cni",
    // Those of its old releases.
    "/var/lib/rancher/k3s/data/current/bin",
    "/var/snap/microk8s/current/opt/cni/bin",
];

/// Something is left.
const LEFT: u8 = 1;
/// An agent runs.
const REFUSED: u8 = 3;

/// Take everything of usher off this node, also when the agent is long gone
///
/// Removes the plugin's entry from the network configuration, the plugin,
/// usher's table from the network namespaces of all processes, and the run
/// directory with its files. Pods can be made and removed at every moment.
/// To be run as root, on the node itself or in the agent's container.
///
/// Exits with 0 when nothing is left, 1 when something is (each line says why,
/// and what to do), 2 for a wrong command line, 3 when an agent runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only say what is there
    #[arg(long)]
    dry_run: bool,

    /// Remove it although an agent runs, which may put it back
    #[arg(long)]
    force: bool,

    /// Network configurations; may be given several times [default: where the
    /// platforms that usher knows have them]
    #[arg(
        long,
        env = "USHER_CNI_CONF_DIR",
        value_name = "DIR",
        hide_env_values = true
    )]
    cni_conf_dir: Vec<PathBuf>,

    /// CNI plugins; may be given several times [default: where the platforms
    /// that usher knows have them]
    #[arg(
        long,
        env = "USHER_CNI_BIN_DIR",
        value_name = "DIR",
        hide_env_values = true
    )]
    cni_bin_dir: Vec<PathBuf>,

    /// The agent's run directory
    #[arg(
        long,
        env = "USHER_RUN_DIR",
        value_name = "DIR",
        default_value = "/run/usher"
    )]
    run_dir: PathBuf,

    /// The plugin's log, where it is not in the run directory
    #[arg(long, env = "USHER_CNI_LOG", value_name = "FILE", default_value = DEFAULT_LOG_FILE)]
    cni_log: PathBuf,

    /// Where procfs shows the processes of the host
    #[arg(long, env = "USHER_PROC", value_name = "DIR", default_value = "/proc")]
    proc: PathBuf,

    /// How long the plugin stays behind its entry: pods that are being started
    /// or ended may call it yet
    #[arg(long, default_value = "5s", value_parser = duration::parse)]
    linger: Duration,
}

impl Args {
    fn places(&self) -> Places {
        Places {
            conf_dirs: given_or(&self.cni_conf_dir, &CONF_DIRS),
            bin_dirs: given_or(&self.cni_bin_dir, &BIN_DIRS),
            run_dir: self.run_dir.clone(),
            log: self.cni_log.clone(),
            proc: ProcRoot::new(&self.proc),
            linger: self.linger,
        }
    }
}

/// The same places, for who only looks: those of the environment, or the known ones.
pub(crate) fn conf_dirs() -> Vec<PathBuf> {
    let given = std::env::var_os("USHER_CNI_CONF_DIR").map(PathBuf::from);
    given_or(given.as_slice(), &CONF_DIRS)
}

/// An empty one, as it may be in the agent's environment, is none.
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

pub(crate) fn run(args: &Args) -> ExitCode {
    let places = args.places();
    if args.dry_run {
        let report = Cleaning::dry_run(cleanup::look(&places));
        return tell(&report, "would be left");
    }
    match cleanup::agent_lives(&places) {
        Ok(true) if !args.force => {
            print_stderr(
                "an agent runs on this node and would put everything back. Take it away first \
                 (helm uninstall usher, or kubectl delete daemonset usher), or have this node left \
                 alone: kubectl annotate node NODE usher.dev/mode=off. --force does it all the same",
            );
            return ExitCode::from(REFUSED);
        }
        Ok(_) => {}
        Err(error) => print_stderr(&format!(
            "cannot tell whether an agent runs: {}",
            chain(&error)
        )),
    }
    tell(&cleanup::clean(&places), "is left")
}

/// A line for each thing, and one that sums up.
fn tell(report: &Report, left: &str) -> ExitCode {
    let mut lines: Vec<String> = report.lines.iter().map(ToString::to_string).collect();
    let count = report.left().count();
    if count > 0 {
        lines.push(format!("{count} of {} {left}", report.lines.len()));
    } else if report.lines.is_empty() {
        lines.push("nothing of usher is on this node".to_owned());
    } else if left == "is left" {
        lines.push("nothing of usher is left on this node".to_owned());
    }
    match stdout::put(&format!("{}\n", lines.join("\n"))) {
        Err(error) => error.report().into(),
        Ok(()) if count > 0 => ExitCode::from(LEFT),
        Ok(()) => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_places_unless_others_are_given() {
        let path = PathBuf::from;
        assert_eq!(given_or(&[], &CONF_DIRS).len(), CONF_DIRS.len());
        assert_eq!(given_or(&[path("")], &BIN_DIRS)[0], path("/opt/cni/bin"));
        let given = [path("/a"), path("/b")];
        assert_eq!(given_or(&given, &CONF_DIRS), given);
    }

    #[test]
    fn the_places_of_every_platform_are_known() {
        let platforms = include_str!("../../../../deploy/chart/files/platforms.yaml");
        let mut told = 0;
        for line in platforms.lines() {
            let (known, path) = match line.trim().split_once(": ") {
                Some(("cniConfDir", path)) => (&CONF_DIRS[..], path),
                Some(("cniBinDir", path)) => (&BIN_DIRS[..], path),
                _ => continue,
            };
            told += 1;
            assert!(known.contains(&path), "{path}");
        }
        assert!(told > 2, "{platforms}");
        // What the chart only has in a comment.
        assert!(BIN_DIRS.contains(&"/var/lib/rancher/k3s/data/current/bin"));
    }
}
