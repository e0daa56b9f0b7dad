//! `usher explain`: what a pod is, what happened in it, what is wrong with it, and what would change that.
//!
//! What is gathered (`gather`) and how it is shown (`page`) are apart: a diagnosis may come out of a file.

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

/// Explain a pod: what happened in it, what is wrong with it and its mesh, and what would change that
///
/// Puts together what the kubelet says of its containers, what the kernel shows
/// of its processes and sockets, and what usher decided. Each finding names
/// what it follows from and what to do; docs/explain.md has all of them. Of a
/// pod with which nothing is wrong it says so in one line, and the rest with
/// -o wide.
///
/// Exits with 0 when nothing is wrong, 1 when something is, 4 when it is not
/// exactly one pod, 5 when the kubelet does not answer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pod: namespace/name, UID, container id, pid, IP or a unique part of
    /// its name
    #[arg(value_name = "POD")]
    pod: String,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    show(&args.pod, global, |explanation| explanation).await
}

/// Looks at a pod and shows what `report` makes of it.
pub(crate) async fn show<T: Report>(
    pod: &str,
    global: &Global,
    report: impl FnOnce(Explanation) -> T,
) -> Exit {
    match look(pod, global).await {
        Ok((source, explanation)) => {
            let healthy = explanation.verdict.healthy;
            match Output::new(global).show(source.origin(), report(explanation)) {
                Exit::Success if !healthy => Exit::Problem,
                exit => exit,
            }
        }
        Err(error) => error.report(),
    }
}

async fn look(pod: &str, global: &Global) -> Result<(DataSource, Explanation), Failure> {
    let source = DataSource::open(global).await?;
    let explanation = source.answer(Some(pod), gather(&source, pod)).await?;
    Ok((source, explanation))
}

impl SysdumpReport for Explanation {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "explain";
}
