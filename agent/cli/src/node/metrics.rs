//! `usher metrics`: the agent's numbers without a Prometheus.

use hyper::{Method, body::Bytes};
use usher_core::{
    admin::Metrics,
    metric::sample::{self, Sample, number},
};
use usher_inspect::text::table::{Cell, Table, Tone};

use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report, SysdumpReport},
};

/// Show what the agent counts and measures, without a Prometheus
///
/// Each metric is explained in docs/metrics.md. Buckets of histograms, and
/// numbers that are 0, are left out of the table unless they are asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only series of which the name or a label contains this, such as
    /// usher_hold, errors or result="deadline"
    #[arg(value_name = "PART")]
    part: Option<String>,

    /// Also what is 0, and buckets of histograms
    #[arg(short, long)]
    all: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    let answer = async {
        let source = DataSource::open_quietly(global).await?;
        let metrics = source.answer(None, gather(&source)).await?;
        Ok::<_, Failure>((source.origin(), metrics))
    };
    match answer.await {
        Ok((from, metrics)) => Output::new(global).show(from, filtered(metrics, args)),
        Err(error) => error.report(),
    }
}

/// All that the agent counts and measures.
///
/// # Errors
/// When there is no agent.
pub(crate) async fn gather(source: &DataSource) -> Result<Metrics, Failure> {
    let agent = source.agent()?;
    let text = agent.text(Method::GET, "/v1/metrics", Bytes::new()).await?;
    Ok(Metrics {
        items: sample::parse(&String::from_utf8_lossy(&text)),
    })
}

impl SysdumpReport for Metrics {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "metrics";
}

fn filtered(mut metrics: Metrics, args: &Args) -> Metrics {
    let is_wanted = |sample: &Sample| {
        let part = args.part.as_deref();
        part.is_none_or(|part| sample.series().contains(part))
            && (args.all || (sample.value != 0.0 && !sample.name.ends_with("_bucket")))
    };
    metrics.items.retain(is_wanted);
    metrics
}

impl Report for Metrics {
    const KIND: &'static str = "Metrics";

    fn table(&self, _wide: bool) -> Table {
        let mut table = Table::new(["NAME", "LABELS", "VALUE"]);
        for sample in &self.items {
            let labels: Vec<String> = sample
                .labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let labels = Some(labels.join(",")).filter(|labels| !labels.is_empty());
            table.row([
                Cell::from(sample.name.clone()),
                Cell::or_dash(labels),
                number(sample.value).into(),
            ]);
        }
        if self.items.is_empty() {
            let none = "nothing of that name that is not 0 (--all shows all)";
            table.lead(Cell::new(none, Tone::Faint));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(part: Option<&str>, all: bool) -> Vec<String> {
        let text = "a_total 0\na_bucket{le=\"1\"} 2\nb{result=\"deadline\"} 3\nc 4\n";
        let metrics = Metrics {
            items: sample::parse(text),
        };
        let part = part.map(str::to_owned);
        let left = filtered(metrics, &Args { part, all }).items;
        left.into_iter().map(|sample| sample.name).collect()
    }

    #[test]
    fn parts_and_what_is_nothing() {
        assert_eq!(names(None, false), ["b", "c"]);
        assert_eq!(names(None, true).len(), 4);
        assert_eq!(names(Some("result=\"dead"), false), ["b"]);
        assert_eq!(names(Some("a_"), true), ["a_total", "a_bucket"]);
    }
}
