//! Where a value is on an axis, which values are marked there, and how they are written.

/// Fewest decades between the smallest and the largest time for which they are drawn on a scale of powers.
const DECADES: f64 = 1.3;

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// An axis for these values, all of them numbers.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone, unit: &str) -> Self {
        let highest = values.clone().fold(0.0, f64::max);
        let positive = values.filter(|value| *value > 0.0);
        let lowest = positive.fold(f64::INFINITY, f64::min);
        if unit == "s" && highest > 0.0 && (highest / lowest).log10() > DECADES {
            return Self::powers([lowest, highest].into_iter());
        }
        let step = step(highest, unit);
        let count = (highest / step).ceil().max(1.0);
        let high = count * step;
        // At most some ten, by the choice of the step.
        let ticks = (0..=count as u32).map(|number| f64::from(number) * step);
        Self {
            low: 0.0,
            high,
            is_log: false,
            ticks: ticks.collect(),
        }
    }

    /// An axis from a power of ten to another that has these values, all of them more than 0, between them.
    pub(super) fn powers(values: impl Iterator<Item = f64> + Clone) -> Self {
        let highest = values.clone().fold(f64::MIN_POSITIVE, f64::max);
        let lowest = values.fold(highest, f64::min);
        let (first, last) = (lowest.log10().floor(), highest.log10().ceil());
        // One value alone is at the beginning.
        let last = last.max(first + 1.0);
        let powers = (first as i32..=last as i32).map(|power| 10_f64.powi(power));
        Self {
            low: first,
            high: last,
            is_log: true,
            ticks: powers.collect(),
        }
    }

    /// Where a value is, from 0 at its beginning to 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.is_log { value.log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// Steps of 1, 2 or 5 times a power, four or five of them up to the highest value.
fn step(highest: f64, unit: &str) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let base: f64 = if unit == "bytes" { 1024.0 } else { 10.0 };
    let rough = highest / 4.0;
    let power = base.powf(rough.log(base).floor());
    let factors = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1024.0];
    let mut steps = factors.iter().map(|factor| factor * power);
    let found = steps.find(|step| *step >= rough * 0.8).unwrap_or(rough);
    // Half a node, or half a pod, is not a thing.
    if unit == "short" && highest >= 1.0 {
        found.max(1.0)
    } else {
        found
    }
}

/// A value with its unit.
pub(super) fn written(value: f64, unit: &str) -> String {
    match unit {
        _ if value == 0.0 => "0".to_owned(),
        "s" if value < 0.001 => format!("{} µs", short(value * 1e6)),
        "s" if value < 1.0 => format!("{} ms", short(value * 1e3)),
        "s" => format!("{} s", short(value)),
        "bytes" => format!("{} MiB", short(value / 1024.0 / 1024.0)),
        _ => short(value),
    }
}

/// What the unit is called beside the title.
pub(super) fn unit(name: &str) -> &str {
    match name {
        "cpm" => "per minute",
        _ => "",
    }
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_begin_at_nothing_and_hold_the_highest() {
        let axis = Axis::of([1.0, 8.0, 3.0].into_iter(), "cpm");
        assert_eq!(axis.ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert!((axis.place(4.0) - 0.5).abs() < 1e-9);
        let nothing = Axis::of([0.0].into_iter(), "short");
        assert_eq!(nothing.ticks, [0.0, 1.0]);
        let pods = Axis::of([2.0].into_iter(), "short");
        assert_eq!(pods.ticks, [0.0, 1.0, 2.0]);
    }

    #[test]
    fn times_of_several_decades_are_on_a_scale_of_powers() {
        let axis = Axis::of([0.002, 3.0].into_iter(), "s");
        let texts: Vec<_> = axis.ticks.iter().map(|tick| written(*tick, "s")).collect();
        assert_eq!(texts, ["1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        assert!((axis.place(0.1) - 0.5).abs() < 1e-9);
        // A time of nothing is at the bottom, not outside.
        assert!(axis.place(0.0).abs() < 1e-9);
    }

    #[test]
    fn values_are_written_shortly() {
        assert_eq!(written(0.000_25, "s"), "250 µs");
        assert_eq!(written(20.0 * 1024.0 * 1024.0, "bytes"), "20 MiB");
        assert_eq!(written(2.5, "cpm"), "2.5");
    }
}
