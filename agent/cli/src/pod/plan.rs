//! `usher plan`: what usher would do for a pod, and why.

mod show;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use usher_core::{admin::Forecast, base::time::Timestamp, settings::mode::Mode};
use usher_inspect::pod_selector::Names;

use super::pod_arg::{reject_file, resolve_pod};
use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report, SysdumpReport},
    stderr::print_stderr,
};

/// Show what usher would do for a pod, and why
///
/// For each sidecar: how it was recognized, and the steps that terminate it, each with its exit code, its duration and
/// its condition. For connections: the held ports, the condition that releases them, and the deadline. For both: what
/// prevents usher from acting now. The command changes nothing. Without an agent, the same code evaluates what the node
/// shows.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pod: namespace/name, UID, container ID, PID, IP address or a unique part of its name
    pod: String,

    /// Evaluate as if the node had this mode
    #[arg(long, value_parser = modes())]
    mode: Option<Mode>,
}

fn modes() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(["off", "observe", "enforce"])
        .try_map(|mode: String| mode.parse::<Mode>())
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    if args.mode.is_some() {
        reject_file(global, "usher plan --mode")?;
    }
    let source = DataSource::open(global).await?;
    let gathered = forecast(&source, &args.pod, args.mode);
    let plan = source.answer(Some(&args.pod), gathered).await?;
    Output::new(global).show(source.origin(), plan)?;
    Ok(Exit::Success)
}

/// The plan under the node's current modes.
pub(crate) async fn gather(source: &DataSource, pod: &str) -> Result<Forecast, Failure> {
    forecast(source, pod, None).await
}

impl SysdumpReport for Forecast {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "plan";
}

async fn forecast(
    source: &DataSource,
    given: &str,
    mode: Option<Mode>,
) -> Result<Forecast, Failure> {
    let Ok(agent) = source.agent() else {
        return of_node(source, given, mode).await;
    };
    let pod = resolve_pod(source, given, Names::Parts).await?;
    let path = match mode {
        Some(mode) => format!("/v1/pods/{}/plan/{mode}", pod.uid),
        None => format!("/v1/pods/{}/plan", pod.uid),
    };
    agent.get(&path).await
}

async fn of_node(
    source: &DataSource,
    given: &str,
    mode: Option<Mode>,
) -> Result<Forecast, Failure> {
    let survey = source.node.shared_survey().await?;
    for gap in &survey.gaps {
        print_stderr(&usher_inspect::text::printable::clean(gap));
    }
    let uid = survey.target(given, Names::Parts)?.uid;
    let forecast = survey.engine().forecast(Timestamp::default(), &uid, mode);
    forecast.ok_or_else(|| {
        Failure::unavailable(
            "no plan: the pod's spec is not known, because the kubelet does not list the pod",
        )
    })
}
