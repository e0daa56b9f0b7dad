//! Files with other writers: the configuration, network configurations, the timeline.

use std::{str, time::Duration};

use usher_core::{
    cni::conflist::{self, Edit, Entry, Kind, State},
    decision::timeline::Timeline,
    pod::list,
    settings::config::{Config, origin},
};
use usher_inspect::explain;

/// A CNI configuration; usher's entry is added and removed.
pub(super) fn conflist(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    let entry = Entry::parse("{\"type\":\"usher-cni\"}").expect("an entry");
    let mut is_inserted = false;
    for kind in [Kind::Conf, Kind::ConfList] {
        let _state = conflist::check(text, kind, &entry);
        let _choice = conflist::choose(&[("10-a.conflist", text)], entry.plugin());
        let _removed = conflist::remove(text, entry.plugin());
        if let Ok(Edit::Text(edited)) = conflist::insert(text, kind, &entry) {
            is_inserted = true;
            let state = conflist::check(&edited, Kind::ConfList, &entry);
            assert!(matches!(state, State::Installed), "{state:?} in {edited}");
            let again = conflist::insert(&edited, Kind::ConfList, &entry);
            assert!(matches!(again, Ok(Edit::Unchanged)), "{again:?}");
            let removed = conflist::remove(&edited, entry.plugin());
            assert!(removed.is_ok(), "{removed:?} of {edited}");
        }
    }
    is_inserted
}

/// A configuration, with recipes of its own.
pub(super) fn config(bytes: &[u8]) -> bool {
    const LONGEST: Duration = Duration::from_secs(600);
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    let config = match Config::parse("config.yaml", text) {
        Ok(config) => config,
        Err(bad) => {
            // A carriage return ends a line of YAML as well.
            let lines = text.split(['\n', '\r']).count();
            assert!(bad.line <= lines as u64 + 1, "{bad}");
            assert!(bad.to_string().starts_with("config.yaml:"));
            return false;
        }
    };
    let defaults = &config.defaults;
    assert!(defaults.quit_delay <= LONGEST && defaults.drain <= LONGEST);
    assert!((Duration::from_secs(1)..=LONGEST).contains(&defaults.hold_deadline));
    assert!(!config.ladder.attempt.is_zero());
    assert!(!config.recipes.is_empty());
    let _settings = origin::settings(&config, "config.yaml", text);
    let list = list::parse(POD.as_bytes(), &config.reads()).expect("a list");
    for recipe in config.recipes.iter() {
        for stretch in recipe
            .quit_by_version()
            .iter()
            .chain(&recipe.drain_by_version())
        {
            assert!(
                stretch
                    .steps
                    .iter()
                    .all(|step| !step.step.act.by_default().to_string().is_empty())
            );
        }
        for pod in &list.pods {
            for container in &pod.containers {
                let _is_one = recipe.recognizes(pod, container);
            }
        }
    }
    true
}

/// A pod for the recipes.
const POD: &str = include_str!("../corpus/podlist/pod.json");

/// The timeline that an agent wrote, as the next one reads it.
pub(super) fn timeline(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    let mut timeline = Timeline::default();
    let read = text.lines().filter(|line| timeline.load(line).is_ok());
    let read = read.count();
    let mut again = Timeline::default();
    for entry in timeline.entries() {
        let line = entry.line();
        assert!(
            line.ends_with('\n') && line.lines().count() == 1,
            "{line:?}"
        );
        again.load(&line).expect("what was written can be read");
        let _time = explain::write_time(entry.at_ms);
    }
    let kept = timeline.entries().count();
    assert!(kept <= read && kept == again.entries().count());
    kept > 0
}
