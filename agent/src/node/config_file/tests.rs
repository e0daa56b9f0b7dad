use tempfile::TempDir;

use super::*;
use crate::{
    kubernetes::events::EventSender,
    telemetry::metrics::{Format, Metrics},
};

const EXCLUDED: &str = "excludedNamespaces: [left]\n";
const INVALID: &str = "excludedNamespaces: [\n";

fn config_file(dir: &TempDir) -> ConfigFile {
    let reporter = Reporter::new(Arc::new(Metrics::new()), EventSender::disabled("node-1"));
    ConfigFile::new(path(dir), dir.path().join("run"), reporter)
}

fn path(dir: &TempDir) -> PathBuf {
    dir.path().join("config.yaml")
}

fn write(dir: &TempDir, text: &str) {
    fs::write(path(dir), text).unwrap();
}

fn saved(dir: &TempDir) -> Option<String> {
    run_dir::load_text(&dir.path().join("run"), run_dir::CONFIG).unwrap()
}

fn excludes(config: &Config) -> bool {
    config.excluded_namespaces.contains("left")
}

#[test]
fn invalid_file_that_is_deleted_after_a_restart_keeps_the_last_good_one() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, EXCLUDED);
    assert!(excludes(&config_file(&dir).load().config));
    write(&dir, INVALID);
    let mut restarted = config_file(&dir);
    assert!(excludes(&restarted.load().config));
    fs::remove_file(path(&dir)).unwrap();
    assert!(restarted.read().is_none());
    assert_eq!(saved(&dir).as_deref(), Some(EXCLUDED));
    // An empty file sets the defaults.
    write(&dir, "");
    assert!(!excludes(&restarted.read().unwrap()));
}

#[test]
fn invalid_file_that_is_deleted_does_not_end_the_observation() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, INVALID);
    let mut file = config_file(&dir);
    assert!(!file.load().trusted);
    fs::remove_file(path(&dir)).unwrap();
    assert!(file.read().is_none());
    write(&dir, "");
    assert!(file.read().is_some());
}

#[test]
fn same_text_after_a_failed_read_clears_the_error() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, EXCLUDED);
    let mut file = config_file(&dir);
    assert!(file.load().trusted && !file.is_retried);
    let metrics = Arc::clone(&file.reporter.metrics);
    fs::remove_file(path(&dir)).unwrap();
    fs::create_dir(path(&dir)).unwrap();
    for _ in 0..2 {
        assert!(file.read().is_none() && file.is_retried);
        assert_eq!(metrics.config_valid.get(), 0);
    }
    let rejected = "usher_config_reloads_total{result=\"rejected\"} 1";
    let text = metrics.text(Format::OpenMetrics);
    assert!(text.contains(rejected), "{text}");
    fs::remove_dir(path(&dir)).unwrap();
    write(&dir, EXCLUDED);
    assert!(excludes(&file.read().unwrap()) && !file.is_retried);
    assert_eq!(metrics.config_valid.get(), 1);
}
