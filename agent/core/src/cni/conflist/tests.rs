mod choice;
mod property;

use super::super::conflist::*;

const OURS: &str = "{\"type\":\"usher-cni\",\"timeout\":\"500ms\"}";
const LIST: &str = "{\n  \"cniVersion\": \"1.0.0\",\n  \"name\": \"cbr0\",\n  \"plugins\": [\n    \
                    {\n      \"type\": \"flannel\",\n      \"mtu\": 1450.0\n    },\n    \
                    {\"type\": \"portmap\"}\n  ],\n  \"x\": {\"b\": 1, \"a\": 12345678901234567890}\n}\n";

fn entry() -> Entry {
    Entry::parse(OURS).unwrap()
}

fn inserted(text: &str) -> String {
    text_of(insert(text, Kind::ConfList, &entry()))
}

fn text_of(edit: Result<Edit, Error>) -> String {
    match edit {
        Ok(Edit::Text(text)) => text,
        other => panic!("no text: {other:?}"),
    }
}

/// A compact list of these elements.
fn list(elements: &str) -> String {
    format!("{{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"plugins\":[{elements}]}}")
}

#[test]
fn entry_is_appended_with_the_existing_indentation() {
    let expected = LIST.replace(
        "{\"type\": \"portmap\"}",
        &format!("{{\"type\": \"portmap\"}},\n    {OURS}"),
    );
    assert_eq!(inserted(LIST), expected);
    assert_eq!(
        remove(&expected, "usher-cni").unwrap(),
        Edit::Text(LIST.to_owned())
    );
    // The entry has the style of its list.
    let cases = [
        ("[{\"type\":\"a\"}]", format!("[{{\"type\":\"a\"}},{OURS}]")),
        (
            "[ {\"type\":\"a\"} ]",
            format!("[ {{\"type\":\"a\"}}, {OURS} ]"),
        ),
        (
            "[\r\n\t{\"type\":\"a\"}\r\n]",
            format!("[\r\n\t{{\"type\":\"a\"}},\r\n\t{OURS}\r\n]"),
        ),
        (
            "[{\"type\":\"a\"} , {\"type\":\"b\"}\n]",
            format!("[{{\"type\":\"a\"}} , {{\"type\":\"b\"}} , {OURS}\n]"),
        ),
    ];
    for (plugins, expected) in cases {
        let text = format!("\r\n{{\"plugins\":{plugins},\"name\":\"n\"}}\r\n");
        let after = text.replace(plugins, &expected);
        assert_eq!(inserted(&text), after);
        assert_eq!(remove(&after, "usher-cni").unwrap(), Edit::Text(text));
    }
}

#[test]
fn correct_entry_is_unchanged() {
    let spaced = "{ \"timeout\" : \"500ms\", \"type\" : \"usher-cni\" }";
    for ours in [OURS, spaced] {
        let text = list(&format!("{{\"type\":\"a\"}},{ours}"));
        let edit = insert(&text, Kind::ConfList, &entry()).unwrap();
        assert_eq!(edit, Edit::Unchanged);
        assert!(matches!(
            check(&text, Kind::ConfList, &entry()),
            State::Installed
        ));
    }
    assert_eq!(
        remove(&list("{\"type\":\"a\"}"), "usher-cni").unwrap(),
        Edit::Unchanged
    );
}

#[test]
fn own_entry_is_there_once_and_last() {
    let a = "{\"type\":\"a\"}";
    let old = "{\"type\":\"usher-cni\",\"timeout\":\"1s\"}";
    let valid = list(&format!("{a},{OURS}"));
    let cases = [
        (a.to_owned(), "absent"),
        (format!("{a},{old}"), "stale"),
        (format!("{old},{a}"), "stale and not last"),
        (format!("{OURS},{a}"), "not last"),
        (format!("{a},{OURS},{OURS}"), "repeated"),
        (format!("{OURS},{a},{OURS}"), "repeated"),
        (format!("{old},{OURS},{a},{OURS},{old}"), "repeated"),
    ];
    for (elements, expected) in cases {
        let text = list(&elements);
        let state = match check(&text, Kind::ConfList, &entry()) {
            State::Absent => "absent",
            State::Stale => "stale",
            State::NotLast { is_current: true } => "not last",
            State::NotLast { is_current: false } => "stale and not last",
            State::Repeated { .. } => "repeated",
            other => panic!("{other:?}"),
        };
        assert_eq!(state, expected, "{elements}");
        assert_eq!(inserted(&text), valid, "{elements}");
        let removed = remove(&text, "usher-cni").unwrap();
        let left = if expected == "absent" {
            Edit::Unchanged
        } else {
            Edit::Text(list(a))
        };
        assert_eq!(removed, left, "{elements}");
    }
}

#[test]
fn single_configuration_becomes_a_list() {
    let conf = "\n{\r\n \"cniVersion\": \"0.3.1\",\r\n \"name\": \"n\\u0031\",\r\n \"type\": \"bridge\",\r\n \
                \"ipam\": {\"x\": 1e400}\r\n}\r\n";
    let expected = format!(
        "\n{{\r\n  \"cniVersion\": \"0.3.1\",\r\n  \"name\": \"n\\u0031\",\r\n  \"plugins\": [\r\n    {{\r\n \
         \"type\": \"bridge\",\r\n \"ipam\": {{\"x\": 1e400}}\r\n}},\r\n    {OURS}\r\n  ]\r\n}}\r\n"
    );
    let made = text_of(insert(conf, Kind::Conf, &entry()));
    assert_eq!(made, expected);
    assert!(matches!(
        check(&made, Kind::ConfList, &entry()),
        State::Installed
    ));
    assert!(matches!(check(conf, Kind::Conf, &entry()), State::Absent));
    let bare = text_of(insert("{\"type\":\"a\"}", Kind::Conf, &entry()));
    assert_eq!(
        bare,
        format!(
            "{{\n  \"name\": \"k8s-pod-network\",\n  \"plugins\": [\n    {{\"type\":\"a\"}},\n    {OURS}\n  ]\n}}"
        )
    );
    // A converted single plugin stays a list after the removal of our entry. Both forms mean the
    // same.
    let left = text_of(remove(&bare, "usher-cni"));
    assert!(matches!(
        check(&left, Kind::ConfList, &entry()),
        State::Absent
    ));
}

#[test]
fn invalid_list_is_rejected_with_its_position() {
    let plugins = |plugins: &str| format!("{{\"name\":\"n\",\"plugins\":{plugins}}}");
    let deep = plugins(&format!(
        "[{{\"type\":\"a\",\"b\":{}{}}}]",
        "[".repeat(10_000),
        "]".repeat(10_000)
    ));
    let cases = [
        (String::new(), "json", "not JSON"),
        ("\u{feff}{}".to_owned(), "json", "not JSON"),
        (format!("{LIST}}}"), "json", "not JSON"),
        (format!("{LIST}{LIST}"), "json", "not JSON"),
        (format!("{LIST}\0"), "json", "not JSON"),
        (LIST.replace("],", "],,"), "json", "not JSON"),
        (deep, "json", "not JSON"),
        (
            "[]".to_owned(),
            "shape",
            "the configuration is an array, not an object",
        ),
        ("{}".to_owned(), "missing", "name is missing"),
        (
            "{\"name\":1}".to_owned(),
            "shape",
            "name is a number, not a string",
        ),
        (
            "{\"name\":\"n\"}".to_owned(),
            "missing",
            "plugins is missing",
        ),
        (plugins("{}"), "shape", "plugins is an object, not an array"),
        (plugins("null"), "shape", "plugins is null, not an array"),
        (plugins("[ ]"), "empty", "plugins is empty"),
        (
            plugins("[{\"type\":\"a\"},[]]"),
            "shape",
            "plugins[1] is an array, not an object",
        ),
        (
            plugins("[{\"type\":\"a\"},{}]"),
            "missing",
            "plugins[1].type is missing",
        ),
        (
            plugins("[{\"type\":true}]"),
            "shape",
            "plugins[0].type is a boolean, not a string",
        ),
        (
            plugins("[{\"type\":\"\"}]"),
            "empty",
            "plugins[0].type is empty",
        ),
        (
            LIST.replace("\"x\"", "\"disableCheck\":\"no\",\"x\""),
            "shape",
            "disableCheck is a string, not a boolean",
        ),
        (
            LIST.replace("\"x\"", "\"disableGC\":null,\"x\""),
            "shape",
            "disableGC is null, not a boolean",
        ),
        (list(OURS), "alone", "no plugin but usher's own"),
        (
            LIST.replace("1.0.0", "1.2.0"),
            "version",
            "cniVersion is \"1.2.0\", a version that usher-cni does not know",
        ),
        (
            LIST.replace("\"x\"", "\"cniVersions\":[\"1.0.0\",\"9\"],\"x\""),
            "version",
            "cniVersions[1] is \"9\", a version that usher-cni does not know",
        ),
        (
            " ".repeat(MAX_LENGTH + 1),
            "too-long",
            "1048577 bytes long, more than 1048576",
        ),
    ];
    for (text, kind, message) in cases {
        let error = insert(&text, Kind::ConfList, &entry()).unwrap_err();
        let shown: String = text.chars().take(80).collect();
        assert_eq!(
            (error.kind(), &error.to_string()[..]),
            (kind, message),
            "{shown}"
        );
        let state = check(&text, Kind::ConfList, &entry());
        assert!(matches!(state, State::Unusable(_)), "{shown}");
    }
}

/// Otherwise the entry could not be removed again.
#[test]
fn file_never_exceeds_the_size_limit() {
    let conf = "{\"type\":\"a\",\"name\":\"n\"}";
    for (text, kind) in [(LIST, Kind::ConfList), (conf, Kind::Conf)] {
        let added = text_of(insert(text, kind, &entry())).len() - text.len();
        let padded = |length: usize| text.to_owned() + &" ".repeat(length - text.len());
        let fits = text_of(insert(&padded(MAX_LENGTH - added), kind, &entry()));
        assert_eq!(fits.len(), MAX_LENGTH);
        let after = remove(&fits, "usher-cni").unwrap();
        assert!(matches!(after, Edit::Text(_)), "{kind:?}");
        for length in [MAX_LENGTH - added + 1, MAX_LENGTH] {
            let text = padded(length);
            assert!(matches!(check(&text, kind, &entry()), State::Absent));
            let error = insert(&text, kind, &entry()).unwrap_err().to_string();
            let expected = format!(
                "with usher's entry {} bytes long, more than 1048576",
                length + added
            );
            assert_eq!(error, expected);
        }
    }
}

#[test]
fn json_error_has_a_line_number() {
    let error = insert("{\n\"a\": nil\n}", Kind::ConfList, &entry()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("line 2 column"), "{source}");
}

#[test]
fn single_configuration_that_cannot_be_used() {
    let cases = [
        (LIST, "list-in-conf"),
        ("{\"name\":\"n\"}", "missing"),
        ("{\"type\":1}", "shape"),
        ("{\"type\":\"a\",\"name\":{}}", "shape"),
        (OURS, "alone"),
    ];
    for (text, kind) in cases {
        let error = insert(text, Kind::Conf, &entry()).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}");
        let State::Unusable(error) = check(text, Kind::Conf, &entry()) else {
            panic!("usable: {text}");
        };
        assert_eq!(error.kind(), kind, "{text}");
    }
}

#[test]
fn our_entry_is_removed_from_unusable_lists() {
    let broken = format!("{{\"plugins\":[{{\"type\":1}}, {OURS}, null]}}");
    let edit = remove(&broken, "usher-cni").unwrap();
    assert_eq!(
        edit,
        Edit::Text("{\"plugins\":[{\"type\":1}, null]}".to_owned())
    );
    let cases = [
        (list(OURS), Edit::NothingLeft),
        (OURS.to_owned(), Edit::NothingLeft),
        ("{\"type\":\"a\"}".to_owned(), Edit::Unchanged),
        ("{}".to_owned(), Edit::Unchanged),
        (list(""), Edit::Unchanged),
    ];
    for (text, expected) in cases {
        assert_eq!(remove(&text, "usher-cni").unwrap(), expected, "{text}");
    }
    for text in ["", "[]", "{\"plugins\":{}}"] {
        assert!(remove(text, "usher-cni").is_err(), "{text}");
    }
}

#[test]
fn copy_of_the_entry_in_another_plugin_is_found_and_not_edited() {
    let multus = format!(
        "{{\"name\":\"m\",\"type\":\"multus\",\"delegates\":[{}]}}",
        list(&format!("{{\"type\":\"a\"}},{OURS}"))
    );
    assert_eq!(remove(&multus, "usher-cni").unwrap(), Edit::Unchanged);
    assert!(contains(&multus, "usher-cni"));
    assert!(!contains(
        &multus.replace("usher-cni", "usher-cni-2"),
        "usher-cni"
    ));
}

#[test]
fn name_may_be_empty() {
    let text = LIST.replace("cbr0", "");
    assert!(inserted(&text).contains("\"name\": \"\""));
    let made = insert("{\"name\":\"\",\"type\":\"a\"}", Kind::Conf, &entry());
    assert!(text_of(made).contains("\"name\": \"k8s-pod-network\""));
}

#[test]
fn switches_may_be_words() {
    for value in ["true", "false", "\"true\"", "\"False\""] {
        let text = LIST.replace("\"x\"", &format!("\"disableGC\":{value},\"x\""));
        assert!(inserted(&text).contains(OURS), "{value}");
    }
}

#[test]
fn keys_match_as_in_go() {
    // Keys may be escaped and repeated; the last one counts.
    let text = "{\"name\":\"n\",\"plugins\":[],\"plug\\u0069ns\":[{\"type\":1,\"type\":\"a\"}]}";
    let after = inserted(text);
    assert_eq!(after, text.replace("\"a\"}]", &format!("\"a\"}},{OURS}]")));
}

#[test]
fn entry_has_no_version_of_its_own() {
    let parsed = Entry::parse("{\"cniVersion\":\"0.3.1\", \"type\":\"usher-cni\"}\n").unwrap();
    assert_eq!(parsed.text(), "{\"type\":\"usher-cni\"}");
    assert_eq!(parsed.plugin(), "usher-cni");
    for (text, kind) in [("", "json"), ("[]", "shape"), ("{}", "missing")] {
        assert_eq!(Entry::parse(text).unwrap_err().kind(), kind);
    }
}

#[test]
fn name_of_a_file_without_its_extensions() {
    for file in [
        "10-net.conf",
        "10-net.conflist",
        "10-net.json",
        "10-net.json.conflist",
    ] {
        assert!(has_stem(file, Some("10-net")), "{file}");
        assert!(
            !has_stem(file, Some("10")) && has_stem(file, None),
            "{file}"
        );
    }
}
