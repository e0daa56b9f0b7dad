//! `usher pods`: lists the pods of this node.

use usher_core::admin::{ContainerState, Pod, PodState, Pods, Role};
use usher_inspect::text::table::{Cell, Table, Tone};

use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report, SysdumpReport},
};

/// List the pods of this node, their state, and the last decision about each
///
/// By default, only pods with a sidecar that usher recognizes are listed. Without an agent, the command reads the
/// node's processes and the kubelet's list, and evaluates them with the same code as the agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only pods with this text in namespace/name
    part: Option<String>,

    /// Also pods that usher does not manage
    #[arg(short, long)]
    all: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let source = DataSource::open(global).await?;
    let mut pods = source.pods().await?;
    pods.items.retain(|pod| {
        let part = args.part.as_ref();
        let namespace = global.namespace.as_ref();
        (args.all || part.is_some() || pod.state != PodState::NotApplicable)
            && part.is_none_or(|part| pod.display_name().contains(part))
            && namespace.is_none_or(|namespace| pod.namespace.as_ref() == Some(namespace))
    });
    Output::new(global).show(source.origin(), pods)?;
    Ok(Exit::Success)
}

impl SysdumpReport for Pods {
    const KIND: &'static str = "Pods";
    const NAME: &'static str = "pods";
}

impl Report for Pods {
    const KIND: &'static str = "Pods";

    fn table(&self, wide: bool) -> Table {
        let mut columns = vec!["POD", "STATE", "APPS", "SIDECARS", "DECISION", "REASON"];
        if wide {
            columns.extend(["UID", "HELD-PORTS", "QUARANTINE"]);
        }
        let mut table = Table::new(columns);
        for pod in &self.items {
            let ports = pod.held_ports.iter().map(ToString::to_string);
            let mut row = vec![
                pod.display_name().into(),
                Cell::new(pod.state.into_str(), tone(pod.state)),
                containers(pod, &[Role::App]),
                containers(pod, &[Role::Sidecar, Role::SelfEnding, Role::Native]),
                Cell::or_dash(pod.decision.clone()),
                Cell::or_dash(pod.reason.clone()),
            ];
            if wide {
                let ports = ports.collect::<Vec<_>>().join(",");
                row.extend([
                    pod.uid.clone().into(),
                    Cell::or_dash(Some(ports).filter(|ports| !ports.is_empty())),
                    Cell::or_dash(pod.quarantine.map(|reason| <&str>::from(reason).to_owned())),
                ]);
            }
            table.row(row);
        }
        if self.items.is_empty() {
            table.lead(Cell::new(
                "no pods with a recognized sidecar (--all lists the others)",
                Tone::Faint,
            ));
        }
        table
    }
}

const fn tone(state: PodState) -> Tone {
    match state {
        PodState::Unknown | PodState::Held | PodState::Finished => Tone::Warn,
        PodState::NotApplicable => Tone::Faint,
        PodState::Running => Tone::Plain,
        PodState::Done => Tone::Good,
    }
}

/// Container names with their states.
fn containers(pod: &Pod, roles: &[Role]) -> Cell {
    let of_role = pod
        .containers
        .iter()
        .filter(|found| roles.contains(&found.role));
    let shown: Vec<String> = of_role
        .map(|found| {
            let name = found.name.as_deref().unwrap_or("?");
            match (found.state, found.exit_code) {
                (ContainerState::Running, _) => name.to_owned(),
                (ContainerState::Exited, Some(code)) => format!("{name}(exit {code})"),
                (state, _) => format!("{name}({})", state.into_str()),
            }
        })
        .collect();
    Cell::or_dash(Some(shown.join(",")).filter(|shown| !shown.is_empty()))
}
