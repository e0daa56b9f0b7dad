//! After a crash between any two steps, runtimes can use the files, and the next agent continues.

use std::time::Instant;

use usher_client::install::{
    entry::{self, Situation},
    files,
    step::Step,
};

use super::host::*;

/// The steps that insert the entry.
fn insertion(host: &Host) -> Vec<Step> {
    let files = files::list(&host.conf_dir()).unwrap();
    match entry::look(&host.settings(&[]), &files, false).unwrap() {
        Situation::Absent { steps, .. } => steps,
        other => panic!("{other:?}"),
    }
}

/// The steps that remove the entry from the only file.
fn removal(host: &Host) -> Vec<Step> {
    let mut changes = entry::removal(&files::list(&host.conf_dir()).unwrap());
    assert_eq!(changes.len(), 1);
    changes.remove(0).1
}

#[test]
fn crash_after_each_step_of_an_insertion() {
    let cases = [
        (LIST_FILE, LIST, LIST_FILE),
        (CONF_FILE, CONF, LIST_FILE),
        ("10-net.json", CONF, "10-net.json.conflist"),
    ];
    for (name, text, list) in cases {
        for taken in 0.. {
            let host = Host::with(name, text);
            host.installer().binary.install("x.tmp").unwrap();
            let steps = insertion(&host);
            for step in steps.iter().take(taken) {
                assert!(host.read_as_containerd().is_some());
                step.run(&host.conf_dir(), ".usher-cni.1.tmp").unwrap();
            }
            assert!(host.read_as_containerd().is_some());
            host.assert_callable();
            // The next agent.
            files::sweep(&host.conf_dir()).unwrap();
            settle(&mut host.installer(), Instant::now());
            let files = host.files();
            assert_eq!(files.keys().collect::<Vec<_>>(), [list], "{taken}");
            assert!(files[list].contains("usher-cni"));
            if taken == steps.len() {
                break;
            }
        }
    }
}

#[test]
fn crash_after_each_step_of_a_removal() {
    for taken in 0.. {
        let host = Host::with(LIST_FILE, LIST);
        host.installer().reconcile(Instant::now());
        let steps = removal(&host);
        for step in steps.iter().take(taken) {
            step.run(&host.conf_dir(), ".usher-cni.1.tmp").unwrap();
            assert_eq!(host.read_as_containerd().unwrap(), LIST_FILE);
            host.assert_callable();
        }
        host.uninstall().unwrap();
        assert_eq!(
            host.files().into_iter().collect::<Vec<_>>(),
            [(LIST_FILE.to_owned(), LIST.to_owned())]
        );
        if taken == steps.len() {
            break;
        }
    }
}
