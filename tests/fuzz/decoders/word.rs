//! Words from people: on a command line, in an annotation, in a file.

use std::{str, time::Duration};

use usher_core::{
    admin::log_filter::{Directive, Wish},
    base::{
        duration,
        id::{ContainerId, PodUid, SandboxId},
    },
    pod::image,
    recipe::{Pattern, Version, Versions},
    settings::mode::Mode,
};
use usher_inspect::{
    capture::filter::Host,
    explain,
    http::{self, Header, Method, Url},
    pod_selector::{self, Candidate, Names},
    sysdump::measure,
};

/// One word a line. Patterns and ranges are applied to the last one.
pub(super) fn words(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    let last = text.lines().next_back().unwrap_or_default();
    let mut is_word = false;
    for word in text.lines() {
        if let Ok(time) = duration::parse(word) {
            is_word = true;
            assert!(time <= Duration::from_secs(24 * 60 * 60));
        }
        let version = word.parse::<Version>().ok();
        if let Ok(range) = word.parse::<Versions>() {
            assert!(range.is_limited());
            let _within = (range.contain(version), range.contain(last.parse().ok()));
        }
        if let Ok(pattern) = Pattern::try_from(word.to_owned()) {
            is_word = true;
            let literal = !word.contains('*');
            assert!(!literal || pattern.matches(word));
            assert!(!literal || pattern.matches(last) == (word == last));
            let _image = pattern.matches_image(last);
        }
        assert!(word.starts_with(image::repository(word)));
        assert!(image::tag(word).is_none_or(|tag| word.contains(tag)));
        let _version = image::version(word);
        if let Ok(uid) = PodUid::parse(word) {
            assert_eq!(uid.as_str(), word);
        }
        let _ids = (ContainerId::parse_url(word), SandboxId::parse(word));
        let _others = (word.parse::<Mode>(), word.parse::<Host>());
        let _size = measure::size(word).map(measure::size_text);
        let _time = measure::time(word).map(explain::write_time);
    }
    is_word
}

/// A log filter.
pub(super) fn directive(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    if let Ok(one) = text.parse::<Directive>() {
        assert_eq!(one.to_string().parse(), Ok(one));
    }
    let wish = serde_json::from_str(text).unwrap_or_else(|_no_json| Wish {
        directives: text.lines().map(str::to_owned).collect(),
        for_ms: 60_000,
    });
    let filter = wish.filter("info");
    let is_filter = filter.is_ok();
    match filter {
        Ok((filter, lasts)) => {
            assert!(filter.starts_with("info,") && filter.split(',').count() <= 33);
            let parts = filter.split(',');
            assert!(parts.clone().all(|part| part.parse::<Directive>().is_ok()));
            assert!(lasts >= Duration::from_secs(1));
        }
        Err(error) => assert!(error.to_string().len() < 4096),
    }
    is_filter
}

/// A request: its method, its address, and its headers, each on a line.
pub(super) fn http_request(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    // Lines end with a zero byte here, so that values can contain newlines.
    let mut parts = text.split('\0');
    let (method, url) = (parts.next(), parts.next());
    let method = method.and_then(|text| text.parse::<Method>().ok());
    let url = url.and_then(|text| text.parse::<Url>().ok());
    if let Some(url) = &url {
        assert_eq!(url.to_string().parse::<Url>().as_ref(), Ok(url));
        assert!(url.port() != 0 && url.path().starts_with('/'));
    }
    let headers: Vec<Header> = parts.filter_map(|text| text.parse().ok()).collect();
    let (Some(method), Some(url)) = (method, url) else {
        return false;
    };
    let request = http::request(&method, &url, &headers, Some(3));
    let request = String::from_utf8(request).expect("made of texts");
    let lines: Vec<&str> = request.split("\r\n").collect();
    // The first line, five usual ones, the given ones, and the final empty one.
    assert!(lines.len() <= 1 + 5 + headers.len() + 2, "{request:?}");
    assert!(request.ends_with("\r\n\r\n") && request.matches("\r\n\r\n").count() == 1);
    assert!(!lines.iter().any(|line| line.contains(['\r', '\n'])));
    true
}

/// The selection of a pod: the argument on the first line, then a pod a line.
pub(super) fn select(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    let mut lines = text.lines();
    let given = lines.next().unwrap_or_default();
    let candidate = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        Candidate {
            uid: words.next().unwrap_or_default(),
            name: words.next(),
            ips: words
                .next()
                .and_then(|word| word.parse().ok())
                .into_iter()
                .collect(),
            containers: words.next().into_iter().collect(),
            pids: words
                .next()
                .and_then(|word| word.parse().ok())
                .into_iter()
                .collect(),
        }
    };
    let pods: Vec<Candidate> = lines.map(candidate).collect();
    let selected = pod_selector::select(given, Names::Parts, &pods);
    if let Ok(place) = pod_selector::select(given, Names::Whole, &pods) {
        assert_eq!(selected, Ok(place));
    }
    let is_selected = selected.is_ok();
    match selected {
        Ok(place) => assert!(place < pods.len()),
        Err(error) => {
            let _words = error.to_string();
            // A complete name that only one pod has selects that pod.
            let named = pods.iter().filter(|pod| pod.name.as_deref() == Some(given));
            let ends = pods
                .iter()
                .filter_map(|pod| pod.name.as_deref()?.split_once('/'));
            assert!(named.count() != 1 || ends.filter(|(_, name)| *name == given).count() > 0);
        }
    }
    is_selected
}
