//! Documents that usher wrote and another program may have changed, and texts that are printed for people.

use std::sync::LazyLock;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use usher_core::{
    admin::{
        self, Document, Forecast, Log, OperatorReply, PlannedTable, Pods, Settings, Status,
        WatchLine,
    },
    hold::ruleset::{self, Ruleset},
    recipe::Reads,
    settings::config::Config,
};
use usher_inspect::{
    explain,
    sysdump::{Manifest, Redaction, measure, path, pod::reduce},
    text::printable,
};

static READS: LazyLock<Reads> = LazyLock::new(|| Config::default().reads());

/// Responses of the admin socket, or of a file from an untrusted source.
pub(super) fn admin(bytes: &[u8]) -> bool {
    let mut is_read = false;
    is_read |= again::<Document<Pods>>(bytes).is_some();
    is_read |= again::<Document<Forecast>>(bytes).is_some();
    is_read |= again::<Document<OperatorReply>>(bytes).is_some();
    is_read |= again::<Document<Log>>(bytes).is_some();
    is_read |= again::<Document<Settings>>(bytes).is_some();
    // These have numbers that JSON does not keep to the last bit.
    is_read |= written::<Document<Status>>(bytes).is_some();
    is_read |= written::<Document<admin::Timeline>>(bytes).is_some();
    is_read |= written::<Document<admin::Metrics>>(bytes).is_some();
    is_read |= written::<WatchLine>(bytes).is_some();
    if let Some(planned) = again::<Document<PlannedTable>>(bytes)
        && let Some(wanted) = planned.data.wanted
    {
        is_read = true;
        let rules = Ruleset::of(&wanted);
        assert!(ruleset::diff(&rules, &rules).is_empty());
        assert!(!rules.to_string().is_empty());
    }
    is_read
}

/// A parsed value is written so that it can be parsed.
fn written<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<(T, T)> {
    let read: T = serde_json::from_slice(bytes).ok()?;
    let text = serde_json::to_vec(&read).expect("what was read can be written");
    let again = serde_json::from_slice(&text).expect("and read");
    Some((read, again))
}

/// And the result is equal.
fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let (read, again) = written::<T>(bytes)?;
    assert_eq!(read, again);
    Some(read)
}

/// The file list of a sysdump from an untrusted source.
pub(super) fn manifest(bytes: &[u8]) -> bool {
    let Some(mut manifest) = again::<Manifest>(bytes) else {
        return false;
    };
    manifest.sort();
    let _name = measure::file_name(manifest.node.as_deref(), manifest.at_ms);
    let _time = (
        explain::write_time(manifest.at_ms),
        explain::clock(manifest.at_ms),
    );
    for pod in &manifest.pods {
        let uid = "7987997a-2c12-4655-9314-796855bf397c";
        let folder = path::folder(&pod.namespace, &pod.name, uid);
        let path = path::document(Some(&folder), "explain");
        assert!(path::is_inside(&path), "{path:?}");
        assert_eq!(path.split('/').count(), 3, "{path:?}");
        let is_harmless = |byte: u8| byte.is_ascii_graphic() && !b"\\:*?".contains(&byte);
        assert!(path.bytes().all(is_harmless) && path.len() <= 3 * 64 + 20);
    }
    for file in &manifest.files {
        let _known = manifest.file(&file.path).expect("it is listed");
        let _why = manifest.why_not(&file.path);
    }
    true
}

/// Texts and documents that go into a sysdump.
pub(super) fn redaction(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut first = Redaction::new(&READS);
    let once = first.text(&text).into_owned();
    let count: u64 = first.counts().values().sum();
    assert_eq!(once == *text, count == 0);
    assert!(once.len() as u64 <= text.len() as u64 + 10 * count);
    let mut second = Redaction::new(&READS);
    assert_eq!(second.text(&once), once, "twice is not once");
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        twice(&value, |value, redaction| redaction.document(value));
        twice(&value, reduce);
    }
    count > 0
}

fn twice(value: &Value, redact: impl Fn(&mut Value, &mut Redaction<'_>)) {
    let of = |mut value: Value| {
        redact(&mut value, &mut Redaction::new(&READS));
        value
    };
    let once = of(value.clone());
    assert_eq!(of(once.clone()), once, "twice is not once");
}

/// Texts of pods that go to a terminal.
pub(super) fn printable(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let clean = printable::clean(&text);
    assert!(is_clean(&clean) && !clean.contains('\n'), "{clean:?}");
    assert!(clean.len() <= text.len() * 10);
    assert_eq!(printable::clean(&clean), clean);
    assert!(printable::shortened(&text, 5).chars().count() <= 6);
    let document = printable::clean_document(&text);
    assert!(is_clean(&document.replace('\n', "")));
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        let written = serde_json::to_string(&value).expect("a value can be written");
        let shown = printable::clean_document(&written);
        // Not the first value: a number with many digits is rounded.
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        assert_eq!(read(&shown), read(&written));
    }
    !clean.is_empty()
}

fn is_clean(text: &str) -> bool {
    let reorders =
        |letter: char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !text
        .chars()
        .any(|letter| letter.is_control() || reorders(letter))
}
