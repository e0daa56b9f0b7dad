//! Which pods of a list are kept, and which are skipped for their size.

use super::*;

/// A pod with this UID and more members.
fn numbered(number: usize, status: &str, args: usize) -> String {
    let args = r#""-a","proxy","#.repeat(args);
    format!(
        r#"{{"metadata":{{"namespace":"shop","name":"pod-{number}","uid":"{number:032x}"}},
          "spec":{{"containers":[{{"name":"a","args":[{args}"x"]}}]}},"status":{{{status}}}}}"#
    )
}

fn select(pods: &[String], selection: Selection) -> PodList {
    let body = format!(r#"{{"items":[{}]}}"#, pods.join(","));
    parse(body.as_bytes(), selection).unwrap()
}

fn names(list: &PodList) -> Vec<&str> {
    let mut names: Vec<_> = list.pods.iter().map(|pod| &pod.name[..]).collect();
    names.sort_unstable();
    names
}

#[test]
fn too_long_pod_is_skipped_and_named() {
    let long = |name: &str| {
        let metadata = format!(r#"{{"namespace":"shop","name":"{name}","uid":"{UID}"}}"#);
        let spaces = "x".repeat(LARGEST_POD);
        format!(r#"{{"metadata":{metadata},"spec":{{"containers":[{{"name":"{spaces}"}}]}}}}"#)
    };
    let unnamed = format!(r#"["{}"]"#, "x".repeat(LARGEST_POD));
    let pods = [long("a"), numbered(1, "", 0), unnamed, numbered(2, "", 0)];
    let list = select(&pods, Selection::from(&reads()));
    assert_eq!(names(&list), ["pod-1", "pod-2"]);
    assert_eq!(list.skipped_counts[&PodSkipReason::TooLarge], 2);
    let texts: Vec<_> = list.skipped.iter().map(ToString::to_string).collect();
    assert!(texts[0].starts_with("pod shop/a has 2097"), "{texts:?}");
    let number = "pod number 2 of the kubelet's list has 2097156 bytes of JSON";
    assert!(texts[1].starts_with(number), "{texts:?}");
}

#[test]
fn pod_with_too_much_to_keep_is_skipped() {
    let long = numbered(1, "", 0).replace(
        r#""name":"a""#,
        &format!(r#""name":"a","image":"{}""#, "x".repeat(70_000)),
    );
    let pods = [long, numbered(2, "", 10)];
    let list = select(&pods, Selection::from(&reads()));
    assert_eq!(names(&list), ["pod-2"]);
    assert_eq!(list.skipped[0].reason(), PodSkipReason::TooLarge);
    assert!(
        list.skipped[0]
            .to_string()
            .starts_with("pod shop/pod-1 has ")
    );
}

#[test]
fn pod_with_too_many_init_containers_is_skipped() {
    let with = |count: usize| {
        let inits: Vec<_> = (0..count).map(|n| format!(r#"{{"name":"{n}"}}"#)).collect();
        let inits = format!(r#""initContainers":[{}],"containers""#, inits.join(","));
        let pods = [numbered(1, "", 0).replace(r#""containers""#, &inits)];
        let list = select(&pods, Selection::from(&reads()));
        list.skipped.first().map(SkippedPod::reason)
    };
    assert_eq!(with(100), None);
    assert_eq!(with(140), Some(PodSkipReason::TooLarge));
}

#[test]
fn largest_pods_are_skipped_when_the_budget_is_full() {
    let pods: Vec<_> = (1..=40).map(|n| numbered(n, "", n)).collect();
    let limits = Limits {
        pods: 3,
        ..Limits::default()
    };
    let selection = Selection {
        limits,
        ..Selection::from(&reads())
    };
    let list = select(&pods, selection.clone());
    assert_eq!(names(&list), ["pod-1", "pod-2", "pod-3"]);
    assert_eq!(list.skipped_counts[&PodSkipReason::OverBudget], 37);
    assert_eq!(list.skipped.len(), MOST_NAMED);
    let reversed: Vec<_> = pods.iter().rev().cloned().collect();
    assert_eq!(names(&select(&reversed, selection)), names(&list));
}

#[test]
fn finished_pods_are_kept_where_they_are_selected() {
    let ended = r#""phase":"Succeeded","podIPs":[{"ip":"10.0.0.1"},{"ip":"fd00::1"}]"#;
    let pods = [
        numbered(1, ended, 0),
        numbered(2, ended, 0),
        numbered(3, "", 0),
    ];
    let uid = |number: usize| PodUid::parse(&format!("{number:032x}")).unwrap();
    let all = select(&pods, Selection::from(&reads()));
    assert_eq!(names(&all), ["pod-1", "pod-2", "pod-3"]);
    assert_eq!(all.addresses[&uid(1)].len(), 2);
    let selected = select(
        &pods,
        Selection {
            finished: Some([uid(2)].into()),
            documents: [uid(1), uid(3)].into(),
            ..Selection::from(&reads())
        },
    );
    assert_eq!(names(&selected), ["pod-2", "pod-3"]);
    assert_eq!(selected.omitted_finished, 1);
    assert_eq!(selected.documents.len(), 1);
    assert_eq!(selected.documents[&uid(3)], pods[2]);
    // A finished pod makes room for others.
    let limits = Limits {
        pods: 1,
        ..Limits::default()
    };
    let full = select(
        &pods,
        Selection {
            limits,
            ..Selection::from(&reads())
        },
    );
    assert_eq!(names(&full), ["pod-3"]);
    assert!(full.skipped.is_empty());
    assert_eq!(full.omitted_finished, 2);
}
