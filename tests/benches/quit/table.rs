//! The report: what was measured, what is allowed, and whether it was kept.

use crate::sample::Sample;

/// A budget.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    None,
}

/// Lines to print, and whether every budget was kept.
#[derive(Debug, Default)]
pub(crate) struct Table {
    lines: Vec<String>,
    broken: usize,
}

impl Table {
    pub(crate) fn section(&mut self, title: &str) {
        self.lines.push(String::new());
        self.lines.push(title.to_owned());
    }

    /// Quantiles of a sample.
    pub(crate) fn times(&mut self, what: &str, sample: &Sample) {
        self.lines.push(format!(
            "  {what:<30} p50 {:>8.3}   p99 {:>8.3}   max {:>8.3} ms   n {}",
            sample.quantile_ms(0.50),
            sample.quantile_ms(0.99),
            sample.quantile_ms(1.0),
            sample.len(),
        ));
    }

    /// A figure and its budget.
    pub(crate) fn limit(&mut self, what: &str, value: f64, limit: Limit) {
        let verdict = match limit {
            Limit::None => String::new(),
            Limit::AtMost(most) if value <= most => format!("budget {most:>6}   pass"),
            Limit::AtMost(most) => {
                self.broken += 1;
                format!("budget {most:>6}   FAIL")
            }
        };
        let line = format!("  {what:<30}     {value:>8.3}   {verdict}");
        self.lines.push(line.trim_end().to_owned());
    }

    pub(crate) fn print(&self) {
        for line in &self.lines {
            println!("{line}");
        }
        println!("\n{} budgets broken", self.broken);
    }

    pub(crate) const fn kept(&self) -> bool {
        self.broken == 0
    }
}
