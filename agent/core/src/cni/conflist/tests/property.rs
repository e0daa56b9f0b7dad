//! Invariants for every configuration, in any formatting.

use proptest::prelude::*;
use serde_json::Value;

use super::super::tests::*;

fn space() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,3}"
}

/// Foreign values: numbers beyond every machine type, and text that only looks like structure.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1e400".to_owned()),
        Just("12345678901234567890".to_owned()),
        Just("-0.10".to_owned()),
        Just("null".to_owned()),
        Just("\"]},\\\"[{\\u0000\"".to_owned()),
        Just("\"\\ud800\"".to_owned()),
        "\"[a-zA-Z0-9äß ]{0,8}\"",
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (
                proptest::collection::vec((space(), inner.clone(), space()), 0..3),
                space()
            )
                .prop_map(|(parts, end)| {
                    let parts: Vec<String> = parts
                        .into_iter()
                        .map(|(before, value, after)| format!("{before}{value}{after}"))
                        .collect();
                    format!("[{}{end}]", parts.join(","))
                }),
            members(inner).prop_map(|members| format!("{{{members}}}")),
        ]
    })
}

/// Members `"k": v` with commas, and keys that usher does not read.
fn members(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (space(), "[a-z]x{1,3}", space(), value, space());
    proptest::collection::vec(member, 0..3).prop_map(|members| {
        let written: Vec<String> = members
            .into_iter()
            .map(|(before, key, middle, value, after)| {
                format!("{before}\"{key}\"{middle}:{value}{after}")
            })
            .collect();
        written.join(",")
    })
}

fn plugin(name: &'static str) -> impl Strategy<Value = String> {
    (members(value()), space()).prop_map(move |(members, space)| {
        let comma = if members.is_empty() { "" } else { "," };
        format!("{{{members}{comma}{space}\"type\":{space}\"{name}\"}}")
    })
}

fn configuration(elements: impl Strategy<Value = Vec<String>>) -> impl Strategy<Value = String> {
    (elements, members(value()), space(), space(), space()).prop_map(
        |(elements, members, before, between, after)| {
            let comma = if members.is_empty() { "" } else { "," };
            let plugins = elements.join(&format!("{before},{between}"));
            format!(
                "{before}{{{members}{comma}{between}\"name\":\"n\",{before}\"plugins\"{after}:\
                 {between}[{after}{plugins}{before}]{after}}}{between}"
            )
        },
    )
}

/// A list without our entry.
fn others() -> impl Strategy<Value = String> {
    configuration(proptest::collection::vec(plugin("a"), 1..4))
}

/// A list with any number of our entries and at least one foreign entry.
fn mixed() -> impl Strategy<Value = String> {
    let any = proptest::collection::vec(prop_oneof![plugin("a"), plugin("usher-cni")], 0..4);
    configuration((any, plugin("b")).prop_flat_map(|(mut elements, other)| {
        elements.push(other);
        Just(elements).prop_shuffle()
    }))
}

/// The texts of the list's foreign elements, and whether our entry is the last one and the only
/// one.
fn read(text: &str) -> (Vec<String>, bool) {
    let Ok(Document::List(list)) = Document::read(text, Kind::ConfList) else {
        panic!("no list: {text}");
    };
    let is_last = list.of("usher-cni").collect::<Vec<_>>() == [list.elements.len() - 1];
    let others = list.elements.iter().zip(&list.plugins);
    let others = others.filter(|(_, plugin)| *plugin != "usher-cni");
    (
        others.map(|(at, _)| text[at.clone()].to_owned()).collect(),
        is_last,
    )
}

/// Keys and values of an object, each as it is written.
fn pairs(object: &str) -> Vec<(String, String)> {
    let members = json_span::members(object, &(0..object.len())).unwrap();
    let pair = |member: json_span::Member| (member.key, object[member.value].to_owned());
    members.into_iter().map(pair).collect()
}

proptest! {
    #[test]
    fn removed_without_a_trace(text in others()) {
        let after = inserted(&text);
        prop_assert!(read(&after).1);
        prop_assert_eq!(text_of(remove(&after, "usher-cni")), text);
    }

    #[test]
    fn once_and_last_and_then_unchanged(text in mixed()) {
        let after = match insert(&text, Kind::ConfList, &entry()).unwrap() {
            Edit::Text(after) => after,
            _ => text.clone(),
        };
        let (others, is_last) = read(&after);
        prop_assert!(is_last);
        prop_assert_eq!(others, read(&text).0);
        prop_assert_eq!(insert(&after, Kind::ConfList, &entry()).unwrap(), Edit::Unchanged);
        let installed = matches!(check(&after, Kind::ConfList, &entry()), State::Installed);
        prop_assert!(installed);
        // Everything outside the array is unchanged.
        let start = text.find("\"plugins\"").unwrap();
        prop_assert_eq!(&after[..start], &text[..start]);
        let end = |text: &str| text.rsplit(']').next().unwrap().to_owned();
        prop_assert_eq!(end(&after), end(&text));
    }

    #[test]
    fn none_is_left(text in mixed()) {
        let left = match remove(&text, "usher-cni").unwrap() {
            Edit::Text(left) => left,
            Edit::Unchanged => text.clone(),
            Edit::NothingLeft => panic!("there is another"),
        };
        prop_assert_eq!(remove(&left, "usher-cni").unwrap(), Edit::Unchanged);
        prop_assert_eq!(read(&left).0, read(&text).0);
    }

    #[test]
    fn single_configuration_keeps_its_members(plugin in plugin("a"), members in members(value())) {
        let comma = if members.is_empty() { "" } else { "," };
        let conf = format!("{{\"cniVersion\":\"1.0.0\",{members}{comma}\"name\":\"m\",{}", &plugin[1..]);
        let list = text_of(insert(&conf, Kind::Conf, &entry()));
        let (others, is_last) = read(&list);
        prop_assert!(is_last);
        prop_assert_eq!(others.len(), 1);
        let expected = format!("{{{members}{comma}{}", &plugin[1..]);
        prop_assert_eq!(pairs(&others[0]), pairs(&expected));
        prop_assert_eq!(insert(&list, Kind::ConfList, &entry()).unwrap(), Edit::Unchanged);
    }

    #[test]
    fn any_text_is_edited_without_panic(text in "[\\[\\]{}\",:a-z0-9\\\\ \u{feff}]{0,60}") {
        for kind in [Kind::Conf, Kind::ConfList] {
            if let Ok(Edit::Text(after)) = insert(&text, kind, &entry()) {
                prop_assert!(serde_json::from_str::<Value>(&after).is_ok());
            }
            drop(check(&text, kind, &entry()));
        }
        drop(remove(&text, "usher-cni"));
        drop(choose(&[("a.conf", &text)], "usher-cni"));
    }

    /// A configuration with a changed byte is rejected, or edited into a readable one.
    #[test]
    fn damaged_list_is_rejected_or_harmless(text in mixed(), at in any::<prop::sample::Index>(), with in "[\\[\\]{}\",: a1]") {
        let mut damaged = text;
        let index = at.index(damaged.len());
        if damaged.is_char_boundary(index) && damaged.is_char_boundary(index + 1) {
            damaged.replace_range(index..=index, &with);
        }
        if let Ok(Edit::Text(after)) = insert(&damaged, Kind::ConfList, &entry()) {
            prop_assert!(read(&after).1);
        }
    }
}
