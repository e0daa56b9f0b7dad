//! `usher explain`: diagnoses one pod.
//!
//! `gather` collects the explanation and `page` prints it, since an explanation may also come from a file.

mod certificates;
mod gather;
mod kernel;
mod page;

use usher_inspect::explain::Explanation;

pub(crate) use self::{gather::gather, page::Diagnosis};
use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report, SysdumpReport},
};

/// Explain what is wrong with a pod and its mesh, and how to fix it
///
/// Combines the kubelet's status of the containers, their processes and sockets in the kernel, and the decisions of
/// usher. Each problem comes with its evidence and the command that fixes it; usher help FINDING describes each of them. A
/// healthy pod takes one line; -o wide prints everything. Of a pod that is gone, the decisions of usher are printed, as
/// long as the node has them.
///
/// Exit codes: 0 for a healthy pod, 1 for a problem, 4 if the name does not
/// match exactly one pod, 5 if the kubelet does not reply.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pod: namespace/name, UID, container id, pid, IP or a unique part of its name
    pod: String,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    show(&args.pod, global, |explanation| explanation).await
}

pub(crate) async fn show<T: Report>(
    pod: &str,
    global: &Global,
    report: impl FnOnce(Explanation) -> T,
) -> Result<Exit, Failure> {
    let source = DataSource::open(global).await?;
    let explanation = source.answer(Some(pod), gather(&source, pod)).await?;
    let exit = if explanation.verdict.healthy {
        Exit::Success
    } else {
        Exit::Problem
    };
    Output::new(global).show(source.origin(), report(explanation))?;
    Ok(exit)
}

impl SysdumpReport for Explanation {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "explain";
}
