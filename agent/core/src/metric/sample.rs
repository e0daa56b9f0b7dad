//! Parses the metrics that an agent serves: one number with its labels per line, in [Prometheus' text
//! format](https://prometheus.io/docs/instrumenting/exposition_formats/).
//!
//! The text is not trusted, because another process may listen on the agent's port: an invalid line is skipped, and the
//! number of samples is limited.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An agent has about 500 samples; more are not accepted.
const MOST: usize = 10_000;
/// The label of a histogram's buckets.
const BUCKET: &str = "le";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub name: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The number. JSON has no infinity, so a number that it cannot represent is a string.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    pub value: f64,
}

impl Sample {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// Name and labels, as in queries.
    pub fn series(&self) -> String {
        if self.labels.is_empty() {
            return self.name.clone();
        }
        let labels = self.labels.iter();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={value:?}"))
            .collect();
        format!("{}{{{}}}", self.name, labels.join(","))
    }
}

/// Parses all samples of a text. Names keep their order; the series of each name are sorted.
pub fn parse(text: &str) -> Vec<Sample> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let mut samples: Vec<Sample> = samples.filter_map(sample).take(MOST).collect();
    let mut places = BTreeMap::new();
    for sample in &samples {
        let next = places.len();
        places.entry(sample.name.clone()).or_insert(next);
    }
    // Buckets are numbers in the form of texts.
    let bucket = |sample: &Sample| sample.label(BUCKET).and_then(|text| text.parse().ok());
    samples.sort_by(|one, other| {
        let place = |sample: &Sample| places.get(&sample.name).copied();
        let buckets: (Option<f64>, Option<f64>) = (bucket(one), bucket(other));
        // A text may have series of one name with a bucket and without: they are kept apart, because the sort needs a
        // total order.
        place(one).cmp(&place(other)).then_with(|| match buckets {
            (Some(one), Some(other)) => one.total_cmp(&other),
            (None, None) => one.labels.cmp(&other.labels),
            (one, other) => one.is_some().cmp(&other.is_some()),
        })
    });
    samples
}

/// The sum of all samples of a name that have these labels, among others.
pub fn sum(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let is_it = |sample: &&Sample| {
        sample.name == name
            && labels
                .iter()
                .all(|(key, value)| sample.label(key) == Some(value))
    };
    samples
        .iter()
        .filter(is_it)
        .map(|sample| sample.value)
        // The standard library's sum of nothing is -0.
        .fold(0.0, |all, value| all + value)
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let is_name = |name: &str| {
        let part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | ':');
        !name.is_empty() && name.chars().all(part)
    };
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    // A timestamp may follow.
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    is_name(name).then(|| Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

/// The labels up to the brace, and the rest of the text.
fn labels(mut text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (key, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.insert(key.to_owned(), value);
        text = rest;
    }
}

/// A value up to its closing quote, and the rest of the text.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

fn write<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else {
        serializer.serialize_str(&number(*value))
    }
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }
    match Written::deserialize(deserializer)? {
        Written::Number(value) => Ok(value),
        Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

/// Formats a number for the text format, without a fraction where there is none.
pub fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The standard library panics where it finds that there is no order.
    #[test]
    fn series_with_and_without_buckets_have_an_order() {
        let line = |at: usize| match at % 3 {
            0 => format!("a{{b=\"{}\"}} 1\n", 97 - at % 97),
            1 => format!("a{{le=\"{}\",b=\"{}\"}} 1\n", at * 7 % 31, at * 5 % 13),
            _ => format!("a{{le=\"{}\"}} 1\n", at * 11 % 29),
        };
        let text: String = (0..300).map(line).collect();
        let samples = parse(&text);
        assert_eq!(samples.len(), 300);
        let buckets = samples.iter().map(|sample| sample.label(BUCKET));
        let numbers: Vec<f64> = buckets
            .flatten()
            .map(|text| text.parse().unwrap())
            .collect();
        assert!(numbers.is_sorted() && numbers.len() == 200);
    }

    #[test]
    fn samples_of_a_text() {
        let text = "# HELP usher_pods Pods.\n# TYPE usher_pods gauge\nusher_pods 3\n\
                    usher_mode{capability=\"quit\",mode=\"enforce\"} 1\n\
                    odd{a=\"x\\\"y\\\\z\\n,}\", b=\"\"} +Inf 1700000000\n\
                    no sample\n{a=\"b\"} 1\nhalf{a=\"b 1\nusher_mode{capability=\"hold\",mode=\"enforce\"} 0\n";
        let samples = parse(text);
        let series: Vec<(String, f64)> = samples
            .iter()
            .map(|sample| (sample.series(), sample.value))
            .collect();
        let expected = [
            ("usher_pods", 3.0),
            ("usher_mode{capability=\"hold\",mode=\"enforce\"}", 0.0),
            ("usher_mode{capability=\"quit\",mode=\"enforce\"}", 1.0),
            ("odd{a=\"x\\\"y\\\\z\\n,}\",b=\"\"}", f64::INFINITY),
        ];
        assert_eq!(
            series,
            expected.map(|(name, value)| (name.to_owned(), value))
        );
        assert_eq!(sum(&samples, "usher_mode", &[("mode", "enforce")]), 1.0);
        assert_eq!(sum(&samples, "usher_mode", &[("capability", "hold")]), 0.0);
        // People see it as it is written.
        assert_eq!(sum(&samples, "usher_starts", &[]).to_string(), "0");
    }

    #[test]
    fn order_does_not_depend_on_the_text() {
        let text = "b{x=\"2\"} 1\nb{x=\"1\"} 1\na_bucket{le=\"+Inf\"} 1\na_bucket{le=\"10\"} 1\na_bucket{le=\"2\"} 1\n";
        let series: Vec<String> = parse(text).iter().map(Sample::series).collect();
        let expected = [
            "b{x=\"1\"}",
            "b{x=\"2\"}",
            "a_bucket{le=\"2\"}",
            "a_bucket{le=\"10\"}",
            "a_bucket{le=\"+Inf\"}",
        ];
        assert_eq!(series, expected);
    }

    #[test]
    fn numbers_are_formatted() {
        for (value, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (0.25, "0.25"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn json_and_back() {
        for (value, written) in [(0.0, "0.0"), (2.5, "2.5"), (f64::INFINITY, "\"+Inf\"")] {
            let sample = Sample {
                name: "a".to_owned(),
                labels: BTreeMap::from([("b".to_owned(), "c".to_owned())]),
                value,
            };
            let text = serde_json::to_string(&sample).unwrap();
            assert!(text.ends_with(&format!(":{written}}}")), "{text}");
            assert_eq!(
                serde_json::from_str::<Sample>(&text).unwrap(),
                sample,
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,200}") {
            parse(&text);
            parse(&format!("a{{{text}"));
        }
    }
}
