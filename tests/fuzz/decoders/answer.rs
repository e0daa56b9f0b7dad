//! Responses of listeners in a pod or on the node.

use usher_core::metric::sample;
use usher_inspect::http::{Body, Head};

/// A response to `usher request`. The first byte selects a HEAD request, and how the rest is split.
pub(super) fn http(bytes: &[u8]) -> bool {
    let Some((how, bytes)) = bytes.split_first() else {
        return false;
    };
    let is_for_head = how & 1 == 1;
    let whole = read(bytes.chunks(bytes.len().max(1)), is_for_head);
    let parts = read(bytes.chunks(usize::from(how >> 1) + 1), is_for_head);
    assert_eq!(whole, parts, "it depends on how it comes");
    assert!(whole.heads.len() + whole.body.len() <= bytes.len());
    whole.ends.is_some_and(|(is_complete, _)| is_complete)
}

/// The printed part of a response.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    heads: Vec<u8>,
    body: Vec<u8>,
    /// Whether it is complete, or may end here.
    ends: Option<(bool, bool)>,
    error: Option<String>,
}

/// As the command reads it.
fn read<'a>(parts: impl Iterator<Item = &'a [u8]>, is_for_head: bool) -> Shown {
    let (mut shown, mut unread, mut body) = (Shown::default(), Vec::new(), None::<Body>);
    for part in parts {
        unread.extend_from_slice(part);
        while body.is_none() {
            match Head::read(&unread, is_for_head) {
                Err(error) => {
                    shown.error = Some(error.to_string());
                    return shown;
                }
                Ok(None) => break,
                Ok(Some(head)) => {
                    assert!(head.length > 0 && (100..1000).contains(&head.status));
                    shown.heads.extend(unread.drain(..head.length));
                    body = (!head.is_interim()).then(|| Body::new(head.framing));
                }
            }
        }
        if let Some(body) = &mut body {
            let read = body.read(&unread, |bytes| shown.body.extend_from_slice(bytes));
            if let Err(error) = read {
                shown.error = Some(error.to_string());
                return shown;
            }
            unread.clear();
        }
    }
    shown.ends = body.map(|body| (body.is_complete(), body.may_end()));
    shown
}

/// Metrics of the agent, or of another listener on its port.
pub(super) fn samples(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let samples = sample::parse(&text);
    assert!(samples.len() <= text.lines().count());
    for sample in &samples {
        assert!(sample.series().starts_with(&sample.name));
        let _sum = sample::sum(&samples, &sample.name, &[]);
        let _number = sample::number(sample.value);
    }
    !samples.is_empty()
}
