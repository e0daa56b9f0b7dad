//! The last values of each Namespace, in memory and in the run directory.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use usher_client::{
    error_chain::chain,
    run_dir::{self, namespaces::Kept},
};
use usher_core::{metric::value::RunFile, settings::overrides::NamespaceValues};

use crate::telemetry::metrics::Metrics;

/// A further Namespace replaces the least recently used one.
const CAPACITY: usize = 1024;

#[derive(Debug)]
pub(super) struct Cache {
    run_dir: PathBuf,
    metrics: Arc<Metrics>,
    values: BTreeMap<String, Kept>,
    /// Counter value of each Namespace's last use.
    used: BTreeMap<String, u64>,
    uses: u64,
    /// Whether the run directory has the current values.
    is_saved: bool,
}

impl Cache {
    pub(super) fn load(run_dir: PathBuf, metrics: Arc<Metrics>) -> Self {
        let kept = run_dir::load(&run_dir, run_dir::NAMESPACES).unwrap_or_else(|error| {
            tracing::warn!(error = %chain(&error), "could not read the last values of Namespaces");
            run_dir::set_aside(&run_dir, run_dir::NAMESPACES);
            None
        });
        Self {
            run_dir,
            metrics,
            values: kept.unwrap_or_default(),
            used: BTreeMap::new(),
            uses: 0,
            is_saved: true,
        }
    }

    /// The last values of a Namespace; None if it was never read.
    pub(super) fn last_values(&mut self, name: &str) -> Option<NamespaceValues> {
        let values = self.values.get(name).cloned()?;
        self.note_use(name);
        Some(values.into())
    }

    /// Stores the values of a Namespace, and saves changed ones.
    pub(super) fn keep(&mut self, name: &str, values: Kept) -> NamespaceValues {
        self.note_use(name);
        let is_changed = self.values.get(name) != Some(&values);
        if is_changed {
            if !self.values.contains_key(name) && self.values.len() >= CAPACITY {
                self.evict();
            }
            self.values.insert(name.to_owned(), values.clone());
        }
        if is_changed || !self.is_saved {
            self.save();
        }
        values.into()
    }

    fn note_use(&mut self, name: &str) {
        self.uses += 1;
        self.used.insert(name.to_owned(), self.uses);
    }

    /// Removes the least recently used Namespace.
    fn evict(&mut self) {
        let used = |name: &String| self.used.get(name).copied().unwrap_or_default();
        let oldest = self.values.keys().min_by_key(|name| used(name)).cloned();
        if let Some(name) = oldest {
            self.values.remove(&name);
            self.used.remove(&name);
        }
    }

    fn save(&mut self) {
        let saved = run_dir::save(&self.run_dir, run_dir::NAMESPACES, &self.values);
        self.is_saved = saved.is_ok();
        if let Err(error) = saved {
            self.metrics.run_dir_errors.inc(&RunFile::Namespaces);
            tracing::warn!(
                error = %chain(&error),
                "could not save the annotations of a Namespace; a restart without API server would not know them"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use usher_client::run_dir::namespaces;

    use super::*;
    use crate::telemetry::metrics::Format;

    fn opted_out() -> Kept {
        Kept {
            annotations: [("usher.dev/quit".to_owned(), "false".to_owned())].into(),
            ..Kept::default()
        }
    }

    #[test]
    fn values_that_could_not_be_saved_are_saved_with_the_next_response() {
        let dir = tempfile::tempdir().unwrap();
        let metrics = Arc::new(Metrics::new());
        let mut cache = Cache::load(dir.path().to_owned(), Arc::clone(&metrics));
        let in_the_way = dir.path().join("namespaces.json.new");
        fs::create_dir(&in_the_way).unwrap();
        let values = cache.keep("shop", opted_out());
        assert_eq!(cache.last_values("shop"), Some(values.clone()));
        assert_eq!(namespaces::kept(dir.path()), BTreeMap::new());
        let counted = "usher_run_dir_errors_total{file=\"namespaces.json\"} 1";
        let text = metrics.text(Format::OpenMetrics);
        assert!(text.contains(counted), "{text}");
        fs::remove_dir(in_the_way).unwrap();
        cache.keep("shop", opted_out());
        assert_eq!(
            namespaces::kept(dir.path()),
            [("shop".to_owned(), values)].into()
        );
    }

    #[test]
    fn one_too_many_replaces_the_least_recently_used_one_only() {
        let dir = tempfile::tempdir().unwrap();
        let mut cache = Cache::load(dir.path().to_owned(), Arc::new(Metrics::new()));
        // As after a restart, when no Namespace has been used.
        cache.values = (0..CAPACITY)
            .map(|number| (format!("ns-{number}"), opted_out()))
            .collect();
        for number in (0..CAPACITY).filter(|number| *number != 7) {
            cache.last_values(&format!("ns-{number}")).unwrap();
        }
        cache.keep("one-more", opted_out());
        assert_eq!(cache.values.len(), CAPACITY);
        assert_eq!(cache.last_values("ns-7"), None);
        assert!(cache.last_values("ns-0").is_some());
        cache.keep("another", opted_out());
        assert_eq!(cache.last_values("ns-1"), None);
        assert!(cache.last_values("ns-0").is_some() && cache.last_values("one-more").is_some());
        assert!(cache.used.len() <= CAPACITY);
    }

    #[test]
    fn file_that_cannot_be_read_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        run_dir::save_text(dir.path(), run_dir::NAMESPACES, "{").unwrap();
        let mut cache = Cache::load(dir.path().to_owned(), Arc::new(Metrics::new()));
        assert_eq!(cache.last_values("shop"), None);
        cache.keep("shop", opted_out());
        assert_eq!(namespaces::kept(dir.path()).len(), 1);
        let aside = fs::read_to_string(dir.path().join("namespaces.json.unreadable"));
        assert_eq!(aside.unwrap(), "{");
    }

    #[test]
    fn values_that_an_earlier_agent_saved_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mut shop = opted_out();
        for number in 0..100 {
            let key = format!("usher.dev/a{number}");
            shop.annotations.insert(key, "x".repeat(1024));
        }
        let saved = BTreeMap::from([("shop", shop)]);
        run_dir::save(dir.path(), run_dir::NAMESPACES, &saved).unwrap();
        let mut cache = Cache::load(dir.path().to_owned(), Arc::new(Metrics::new()));
        assert_eq!(cache.last_values("shop"), Some(opted_out().into()));
    }
}
