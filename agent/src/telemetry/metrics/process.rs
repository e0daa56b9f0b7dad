//! The agent's own resource usage, read for each request of the metrics.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};
use usher_client::error_chain::chain;
use usher_core::metric::{Metric, process};
use usher_sys::process::usage::Usage;

use super::family::unit;
use crate::telemetry;

#[derive(Debug)]
pub(super) struct Own;

impl Collector for Own {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let dropped = ConstCounter::new(telemetry::dropped());
        write(&mut encoder, &process::LOG_LINES_DROPPED, &dropped)?;
        let usage = match Usage::own() {
            Ok(usage) => usage,
            Err(error) => {
                tracing::debug!(error = %chain(&error), "could not read the usage of the process; skipped its metrics");
                return Ok(());
            }
        };
        let cpu = ConstCounter::new(usage.cpu.as_secs_f64());
        write(&mut encoder, &process::CPU, &cpu)?;
        let mut gauge = |metric, value: f64| write(&mut encoder, metric, &ConstGauge::new(value));
        gauge(&process::RESIDENT, usage.resident as f64)?;
        gauge(&process::VIRTUAL, usage.virtual_size as f64)?;
        gauge(&process::OPEN_FDS, usage.open_fds as f64)?;
        let max_fds = usage.max_fds.map_or(f64::INFINITY, |most| most as f64);
        gauge(&process::MAX_FDS, max_fds)?;
        gauge(&process::START, usage.started.as_secs_f64())
    }
}

fn write(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    value: &impl EncodeMetric,
) -> fmt::Result {
    // With a full stop, as the registry adds to the help of other metrics.
    let help = format!("{}.", metric.meaning);
    let unit = unit(metric);
    let encoder =
        encoder.encode_descriptor(metric.stem(), &help, unit.as_ref(), value.metric_type())?;
    value.encode(encoder)
}
