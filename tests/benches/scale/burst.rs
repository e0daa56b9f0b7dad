//! All apps of a full node exit at the same moment.

use std::time::Duration;

use usher_tests::record::{Limit, Record, Sample};
use usher_tests::synthetic::PodSpec;
use usher_tests::synthetic::clock::monotonic_ns;

use crate::crowd::{Crowd, latency};
use crate::place::Place;
use crate::{Effort, PODS};

/// The time for all apps of a burst to read their exit time.
const LEAD: Duration = Duration::from_millis(500);

pub(crate) fn measure(record: &mut Record, effort: &Effort) {
    let mut place = Place::new(PODS);
    let mut wrapped = Crowd::new(PODS, PodSpec::wrapped_job);
    let (mut agent, mut wrapper) = (Sample::default(), Sample::default());
    for round in 0..effort.bursts {
        place.crowd.refill();
        wrapped.refill();
        // What follows a burst would disturb the next one, so each comes first in half of the rounds.
        for is_agent in [round % 2 == 0, round % 2 != 0] {
            place.crowd.settle(&place.agent);
            if is_agent {
                burst(&mut place.crowd, &mut agent);
            } else {
                burst(&mut wrapped, &mut wrapper);
            }
        }
    }
    record.section(&format!("exit -> request, {PODS} exits at once"));
    record.times("agent", &agent);
    record.times("wrapper", &wrapper);
    let [agent_p99, wrapper_p99] = [&agent, &wrapper].map(|sample| sample.quantile_ms(0.99));
    record
        .limit("burst.p99", "p99, ms", agent_p99, Limit::AtMost(50.0))
        .against("wrapper", wrapper_p99);
    let ratio = agent.quantile_ms(0.50) / wrapper.quantile_ms(0.50);
    record.figure("p50, agent / wrapper", ratio);
}

fn burst(crowd: &mut Crowd, sample: &mut Sample) {
    let lead = u64::try_from(LEAD.as_nanos()).expect("half a second");
    let at_ns = monotonic_ns() + lead;
    for pod in &crowd.pods {
        pod.finish_at("app", 0, at_ns);
    }
    // A waiting thread would be woken by each report; there is none during the burst.
    std::thread::sleep(LEAD * 2);
    for pod in &crowd.pods {
        sample.add(latency(pod));
    }
    crowd.clear();
}
