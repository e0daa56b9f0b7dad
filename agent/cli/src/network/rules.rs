//! `usher rules`: the nftables rules that hold a pod's connections.

mod read;
mod report;

use std::time::Duration;

use usher_core::admin::{Origin, PlannedTable, RequestOptions};
use usher_inspect::{check::command, pod_selector::Names};

use self::{read::Reading, report::Rules};
use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    operate::operator_request,
    output::{Output, Report, SysdumpReport},
    pod::pod_arg::reject_file,
    stderr::print_stderr,
};

/// How long the agent may take to repair the table.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which the table is compared meanwhile.
const REPAIR_POLL: Duration = Duration::from_millis(20);

/// Print, compare or repair the nftables rules that hold a pod's connections
///
/// Prints the table inet usher of the pod's network namespace in nft syntax, with its counters and the time until its
/// ports are released. Tables of other programs, such as the mesh's redirection, are listed with their number of rules.
/// nftables does not show rules of iptables-legacy; the command reports only that such tables exist.
///
/// --diff compares the table with the one that the agent wants, and exits with
/// 1 if they differ; the remaining time of elements is not compared. --fix
/// requests that the agent repairs the table. Needs CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_NET_ADMIN.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pod: namespace/name, UID, container ID, PID, IP address or a unique part of its name
    pod: String,

    /// Compare the table with the one that the agent wants
    #[arg(long)]
    diff: bool,

    /// Repair the table if it differs; the agent does it
    #[arg(long)]
    fix: bool,

    /// With --fix: report what the agent would do, and change nothing
    #[arg(long, requires = "fix")]
    dry_run: bool,
}

pub(crate) async fn gather(source: &DataSource, pod: &str) -> Result<Rules, Failure> {
    let target = source.node.find(pod, Names::Parts).await?;
    Reading::open(&source.node, &target)?.rules()
}

impl SysdumpReport for Rules {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "rules";
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    if args.diff || args.fix {
        reject_file(global, "usher rules --diff")?;
    }
    let source = DataSource::open_quietly(global).await?;
    if source.origin() == Origin::File {
        let rules = source
            .answer(Some(&args.pod), gather(&source, &args.pod))
            .await?;
        Output::new(global).show(Origin::File, rules)?;
        return Ok(Exit::Success);
    }
    let agent = if args.diff || args.fix {
        Some(source.agent()?)
    } else {
        None
    };
    let names = match args.fix {
        true => Names::Whole,
        false => Names::Parts,
    };
    let target = source.node.find(&args.pod, names).await?;
    for gap in &target.gaps {
        print_stderr(&usher_inspect::text::printable::clean(gap));
    }
    let reading = Reading::open(&source.node, &target)?;
    let mut rules = reading.rules()?;
    let origin = Origin::Node;
    let Some(agent) = agent else {
        Output::new(global).show(origin, rules)?;
        return Ok(Exit::Success);
    };
    let path = format!("/v1/pods/{}/table", target.uid);
    let planned: PlannedTable = agent.get(&path).await?;
    let differs = rules.differ(&planned, &reading.table()?);
    if !differs || !args.fix {
        Output::new(global).show(origin, rules)?;
        return Ok(if differs {
            Exit::Problem
        } else {
            Exit::Success
        });
    }
    let client = operator_request::OperatorClient {
        agent: agent.clone(),
        pod: target.pod.clone(),
    };
    let options = RequestOptions {
        force: false,
        dry_run: args.dry_run,
    };
    operator_request::show(global, client.send("repair", options).await?)?;
    if args.dry_run {
        return Ok(Exit::Success);
    }
    let repaired = async {
        loop {
            let planned: PlannedTable = agent.get(&path).await?;
            if !reading.rules()?.differ(&planned, &reading.table()?) {
                return Ok::<_, Failure>(());
            }
            tokio::time::sleep(REPAIR_POLL).await;
        }
    };
    match tokio::time::timeout(REPAIR_TIMEOUT, repaired).await {
        Ok(repaired) => repaired.map(|()| Exit::Success),
        Err(_elapsed) => Err(Failure::new(
            Exit::Problem,
            format!(
                "the table still differs; see the agent's log: {}",
                command::logs("")
            ),
        )),
    }
}
