//! `usher rules`: the rules that hold a pod's connections, as the kernel has them.

mod read;
mod report;

use std::time::Duration;

use usher_core::admin::{Document, Origin, PlannedTable, RequestOptions};

use self::{read::Reading, report::Rules};
use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    operate::operator_request,
    output::{Output, Report, SysdumpReport},
    pod::pod_arg::reject_file,
    print_stderr,
};

/// How long a table may take to be mended.
const MENDING: Duration = Duration::from_secs(2);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(20);

/// Show the rules that hold a pod's connections, as the kernel has them
///
/// The table inet usher of the pod's network namespace, in nft's words, with
/// what it has counted and how long its ports stay shut. What others have there
/// (the mesh's redirection) is listed with its number of rules, as far as
/// nftables shows it: rules of iptables-legacy are elsewhere in the kernel, and
/// only that there are some can be said.
///
/// --diff compares it with what the agent wants there now, and exits with 1
/// where they differ; times of elements run and are not compared. --fix has the
/// agent make it right. Needs CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_NET_ADMIN.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pod: namespace/name, UID, container id, pid, IP or a unique part of
    /// its name
    pod: String,

    /// Compare it with what the agent wants there
    #[arg(long)]
    diff: bool,

    /// Have the agent make it right where it differs
    #[arg(long)]
    fix: bool,

    /// With --fix: only say what the agent would do
    #[arg(long, requires = "fix")]
    dry_run: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    match rules(args, global).await {
        Ok(exit) => exit,
        Err(error) => error.report(),
    }
}

/// The rules of a pod.
///
/// # Errors
/// When it is none or several, or its namespace cannot be read.
pub(crate) async fn gather(source: &DataSource, pod: &str) -> Result<Rules, Failure> {
    let target = source.node.find(pod).await?;
    Reading::open(&source.node, &target)?.rules()
}

impl SysdumpReport for Rules {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "rules";
}

async fn rules(args: &Args, global: &Global) -> Result<Exit, Failure> {
    if args.diff || args.fix {
        reject_file(global, "usher rules --diff")?;
    }
    let source = DataSource::open_quietly(global).await?;
    if source.origin() == Origin::File {
        let rules = source
            .answer(Some(&args.pod), gather(&source, &args.pod))
            .await?;
        return Ok(Output::new(global).show(Origin::File, rules));
    }
    let agent = if args.diff || args.fix {
        Some(source.agent()?)
    } else {
        None
    };
    let target = source.node.find(&args.pod).await?;
    for gap in &target.gaps {
        print_stderr(&usher_inspect::text::printable::clean(gap));
    }
    let reading = Reading::open(&source.node, &target)?;
    let mut rules = reading.rules()?;
    let origin = Origin::Node;
    let Some(agent) = agent else {
        return Ok(Output::new(global).show(origin, rules));
    };
    let path = format!("/v1/pods/{}/table", target.uid);
    let planned: Document<PlannedTable> = agent.get(&path).await?;
    let differs = rules.differ(&planned.data, &reading.table()?);
    if !differs || !args.fix {
        let shown = Output::new(global).show(origin, rules);
        return Ok(if differs { Exit::Problem } else { shown });
    }
    let desk = operator_request::OperatorClient {
        agent: agent.clone(),
        pod: target.pod.clone(),
    };
    let manner = RequestOptions {
        force: false,
        dry_run: args.dry_run,
    };
    let exit = operator_request::show(global, desk.give("mend", manner).await?);
    if exit != Exit::Success || args.dry_run {
        return Ok(exit);
    }
    let mended = async {
        loop {
            let planned: Document<PlannedTable> = agent.get(&path).await?;
            if !reading.rules()?.differ(&planned.data, &reading.table()?) {
                return Ok::<_, Failure>(());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    match tokio::time::timeout(MENDING, mended).await {
        Ok(mended) => mended.map(|()| Exit::Success),
        Err(_late) => {
            Ok(Failure::new(Exit::Problem, "it differs still; see the agent's log").report())
        }
    }
}
