//! `usher plan`: what usher would do with a pod, and why.

mod show;

use clap::ValueEnum;
use usher_core::{
    admin::{Document, Forecast, Origin},
    base::{id::PodUid, time::Timestamp},
    settings::mode,
};

use super::pod_arg::{reject_file, resolve_pod, select_pod};
use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report, SysdumpReport},
    print_stderr,
};

/// Show what usher would do with a pod, and why
///
/// For each sidecar: what it was recognised by, the steps that show it out in
/// their order, the exit code and the time that are known of each, and the
/// condition by which each is there. For connections: the ports at which they
/// wait, what opens them, and the deadline. For both: what keeps usher from it
/// now. Nothing is done. Without an agent the same core judges what the node
/// shows.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pod: namespace/name, UID, container id, pid, IP or a unique part of
    /// its name
    pod: String,

    /// What would be done if the node had this mode
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<Mode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Off,
    Observe,
    Enforce,
}

impl From<Mode> for mode::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Off => Self::Off,
            Mode::Observe => Self::Observe,
            Mode::Enforce => Self::Enforce,
        }
    }
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    match plan(args, global).await {
        Ok((from, plan)) => Output::new(global).show(from, plan),
        Err(error) => error.report(),
    }
}

async fn plan(args: &Args, global: &Global) -> Result<(Origin, Forecast), Failure> {
    if args.mode.is_some() {
        reject_file(global, "usher plan --mode")?;
    }
    let source = DataSource::open(global).await?;
    let mode = args.mode.map(mode::Mode::from);
    let gathered = forecast(&source, &args.pod, mode);
    let plan = source.answer(Some(&args.pod), gathered).await?;
    Ok((source.origin(), plan))
}

/// What would be done with the modes that count.
///
/// # Errors
/// When the pod is none or several, or nothing is known of it.
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
    mode: Option<mode::Mode>,
) -> Result<Forecast, Failure> {
    let Ok(agent) = source.agent() else {
        return of_node(source, given, mode).await;
    };
    let pod = resolve_pod(source, given).await?;
    let path = match mode {
        Some(mode) => format!("/v1/pods/{}/plan/{mode}", pod.uid),
        None => format!("/v1/pods/{}/plan", pod.uid),
    };
    let plan: Document<Forecast> = agent.get(&path).await?;
    Ok(plan.data)
}

async fn of_node(
    source: &DataSource,
    given: &str,
    mode: Option<mode::Mode>,
) -> Result<Forecast, Failure> {
    let survey = source.node.shared_survey().await?;
    for gap in &survey.gaps {
        print_stderr(&usher_inspect::text::printable::clean(gap));
    }
    let place = match select_pod(given, &survey.pods) {
        Ok(place) => survey.pods.get(place).map(|pod| pod.uid.clone()),
        // By an address, perhaps.
        Err(error) => match source.node.find(given).await {
            Ok(target) => Some(target.uid.to_string()),
            Err(_same) => return Err(error.into()),
        },
    };
    let uid = place.and_then(|uid| PodUid::parse(&uid).ok());
    let forecast = uid.and_then(|uid| survey.engine().forecast(Timestamp::default(), &uid, mode));
    forecast.ok_or_else(|| {
        Failure::unavailable(
            "what would be done follows from the pod's spec, which the kubelet has not told",
        )
    })
}
