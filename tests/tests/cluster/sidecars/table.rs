//! The durations of the sidecars, printed for the user of the tests.

use std::{
    fmt,
    io::{self, Write},
    time::Duration,
};

const HEAD: &str = "\nReal sidecars on a real node, one Job after the other. Milliseconds from the app's end: request accepted and sidecar\n\
                    ended are the agent's own record, from the moment when it observed the end; Job Complete is what a watch of the API reported,\n\
                    from the app's last act, and is Kubernetes' own time but for what the two before add.\n\n";

/// One Job that became Complete.
pub(super) struct Row {
    pub(super) sidecar: &'static str,
    pub(super) policy: &'static str,
    pub(super) step: &'static str,
    pub(super) accepted_ms: f64,
    pub(super) ended_ms: f64,
    pub(super) complete: Duration,
    pub(super) exit_code: i64,
    pub(super) phase: String,
}

#[derive(Default)]
pub(super) struct Table(Vec<Row>);

impl Table {
    pub(super) fn add(&mut self, row: Row) {
        self.0.push(row);
    }
}

/// Prints the table even if a later Job fails.
impl Drop for Table {
    fn drop(&mut self) {
        // Past the test harness, which prints captured output of failed tests only. A write error does not matter.
        io::stderr().write_all(self.to_string().as_bytes()).ok();
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        writeln!(
            f,
            "{:<37} {:<9} {:<24} {:>8} {:>6} {:>8} {:>4} pod",
            "sidecar", "policy", "step", "accepted", "ended", "Complete", "exit"
        )?;
        for row in &self.0 {
            writeln!(
                f,
                "{:<37} {:<9} {:<24} {:>8.1} {:>6.1} {:>8.0} {:>4} {}",
                row.sidecar,
                row.policy,
                row.step,
                row.accepted_ms,
                row.ended_ms,
                row.complete.as_secs_f64() * 1e3,
                row.exit_code,
                row.phase
            )?;
        }
        writeln!(f)
    }
}
