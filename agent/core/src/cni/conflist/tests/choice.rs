use super::super::tests::*;

const CONF: &str = "{\"name\":\"n\",\"type\":\"bridge\"}";

/// The primary file, and the others before it with the reason.
fn chosen(files: &[(&str, &str)]) -> (Option<String>, Vec<String>, Option<String>) {
    let choice = choose(files, "usher-cni");
    let why = |skipped: &Skipped<'_>| match &skipped.why {
        Why::Extension => format!("{}: extension", skipped.name),
        Why::Ours => format!("{}: ours", skipped.name),
        Why::Unusable(error) => format!("{}: {}", skipped.name, error.kind()),
        Why::Unsupported(error) => format!("{}: unsupported {}", skipped.name, error.kind()),
    };
    (
        choice.primary.map(|primary| primary.name.to_owned()),
        choice.skipped.iter().map(why).collect(),
        choice
            .stops_containerd()
            .map(|skipped| skipped.name.to_owned()),
    )
}

#[test]
fn first_usable_file_is_selected() {
    let ours = list(OURS);
    let future = LIST.replace("1.0.0", "2.0.0");
    type Case<'a> = (
        &'a [(&'a str, &'a str)],
        Option<&'a str>,
        &'a [&'a str],
        Option<&'a str>,
    );
    let cases: [Case<'_>; 14] = [
        (&[], None, &[], None),
        (&[("a.txt", LIST)], None, &["a.txt: extension"], None),
        (&[("conflist", LIST)], None, &["conflist: extension"], None),
        (
            &[("a.conflist.tmp.1", LIST)],
            None,
            &["a.conflist.tmp.1: extension"],
            None,
        ),
        (&[("a.conf", "")], None, &["a.conf: json"], Some("a.conf")),
        (&[("a.conflist", LIST)], Some("a.conflist"), &[], None),
        (&[("a.json", CONF)], Some("a.json"), &[], None),
        (
            &[("b.conf", CONF), ("a.conflist", LIST)],
            Some("a.conflist"),
            &[],
            None,
        ),
        // File names are compared by bytes, so capitals come first.
        (
            &[("a.conf", CONF), ("Z.conf", CONF)],
            Some("Z.conf"),
            &[],
            None,
        ),
        (
            &[("00.conf", "{"), ("10.conflist", LIST), ("20.conf", "{")],
            Some("10.conflist"),
            &["00.conf: json"],
            Some("00.conf"),
        ),
        (
            &[("00.conf", LIST), ("01.conflist", CONF), ("02.conf", CONF)],
            Some("02.conf"),
            &["00.conf: list-in-conf", "01.conflist: missing"],
            Some("00.conf"),
        ),
        (
            &[("00.conf", OURS), ("01.conflist", &ours), ("02.conf", CONF)],
            Some("02.conf"),
            &["00.conf: ours", "01.conflist: ours"],
            None,
        ),
        // The runtimes use the first; an entry in the second would have no effect.
        (
            &[("00.conflist", &future), ("01.conflist", LIST)],
            None,
            &["00.conflist: unsupported version"],
            None,
        ),
        (
            &[("00.conflist", "[]"), ("01.conflist", "{\"plugins\":[]}")],
            None,
            &["00.conflist: shape", "01.conflist: missing"],
            Some("00.conflist"),
        ),
    ];
    for (files, primary, skipped, stops) in cases {
        let (found, before, stopping) = chosen(files);
        assert_eq!(found.as_deref(), primary, "{files:?}");
        assert_eq!(before, skipped, "{files:?}");
        assert_eq!(stopping.as_deref(), stops, "{files:?}");
    }
}

#[test]
fn list_with_our_entry_is_still_the_primary() {
    let text = inserted(LIST);
    let choice = choose(&[("10-flannel.conflist", &text)], "usher-cni");
    let expected = Primary {
        name: "10-flannel.conflist",
        kind: Kind::ConfList,
    };
    assert_eq!(choice.primary, Some(expected));
}
