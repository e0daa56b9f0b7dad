//! `usher metrics`: the agent's metrics, without Prometheus.

use hyper::Method;
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

/// Show the agent's metrics, without Prometheus
///
/// docs/metrics.md explains each metric. By default, histogram buckets and series with the value 0 are left out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only series with this text in the name or a label, such as usher_hold, errors or result="deadline"
    part: Option<String>,

    /// Also list series with the value 0, and histogram buckets
    #[arg(short, long)]
    all: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let source = DataSource::open_quietly(global).await?;
    let metrics = source.answer(None, gather(&source)).await?;
    Output::new(global).show(source.origin(), filtered(metrics, args))?;
    Ok(Exit::Success)
}

pub(crate) async fn gather(source: &DataSource) -> Result<Metrics, Failure> {
    let agent = source.agent()?;
    let text = agent.text(Method::GET, "/v1/metrics").await?;
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
            let none = "no matching series with a value other than 0 (--all lists all series)";
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
    fn series_are_filtered_by_text_and_value() {
        assert_eq!(names(None, false), ["b", "c"]);
        assert_eq!(names(None, true).len(), 4);
        assert_eq!(names(Some("result=\"dead"), false), ["b"]);
        assert_eq!(names(Some("a_"), true), ["a_total", "a_bucket"]);
    }
}
