//! `usher rules`: the rules that hold a pod's connections, as the kernel has them.

mod read;
mod report;

use std::time::Duration;

use usher_core::admin::{Document, Origin, PlannedTable, RequestOptions};

use self::{read::Reading, report::Rules};
use super::{operator_request, pod_arg::of_this_node};
use crate::{
    complain,
    failure::Failure,
    global::{Exit, Global},
    node::sysdump::Kept,
    output::{Output, Report},
    source::Source,
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
        Err(error) => error.told(),
    }
}

/// The rules of a pod.
///
/// # Errors
/// When it is none or several, or its namespace cannot be read.
pub(crate) async fn gather(source: &Source, pod: &str) -> Result<Rules, Failure> {
    let target = source.node.find(pod).await?;
    Reading::open(&source.node, &target)?.rules()
}

impl Kept for Rules {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "rules";
}

async fn rules(args: &Args, global: &Global) -> Result<Exit, Failure> {
    if args.diff || args.fix {
        of_this_node(global, "usher rules --diff")?;
    }
    let source = Source::quiet(global).await?;
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
        complain(&usher_inspect::text::printable::clean(gap));
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
        return Ok(if differs { Exit::Wrong } else { shown });
    }
    let desk = operator_request::Desk {
        agent: agent.clone(),
        pod: target.pod.clone(),
    };
    let manner = RequestOptions {
        force: false,
        dry_run: args.dry_run,
    };
    let exit = operator_request::show(global, desk.give("mend", manner).await?);
    if exit != Exit::Fine || args.dry_run {
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
        Ok(mended) => mended.map(|()| Exit::Fine),
        Err(_late) => Ok(Failure::new(Exit::Wrong, "it differs still; see the agent's log").told()),
    }
}
