use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;

type Split = Result<Vec<(usize, String)>, ()>;

/// The elements of a list that arrives in chunks of these sizes.
fn split(bytes: &[u8], sizes: &[usize]) -> Split {
    let mut splitter = Splitter::default();
    let mut elements = Vec::new();
    let mut rest = bytes;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes
            .next()
            .map_or(rest.len(), |size| (*size).clamp(1, rest.len()));
        let (mut chunk, later) = rest.split_at(size);
        while let Some(element) = splitter.next(&mut chunk).map_err(drop)? {
            let Text::Whole(text) = element.text else {
                panic!("the element is short");
            };
            assert_eq!(element.bytes, text.len());
            serde_json::from_str::<IgnoredAny>(text).map_err(drop)?;
            elements.push((element.index, text.to_owned()));
        }
        assert!(chunk.is_empty());
        rest = later;
    }
    splitter.finish().map_err(drop)?;
    Ok(elements)
}

/// The elements as serde reads them from the whole list.
fn whole(bytes: &[u8]) -> Split {
    #[derive(Deserialize)]
    struct List<'list> {
        #[serde(borrow)]
        items: Option<Vec<&'list RawValue>>,
    }
    // serde also reads a struct from an array.
    let first = bytes.iter().find(|byte| !b" \n\r\t".contains(byte));
    if first != Some(&b'{') {
        return Err(());
    }
    let list: List<'_> = from_slice(bytes).map_err(drop)?;
    let items = list.items.unwrap_or_default().into_iter().enumerate();
    Ok(items
        .map(|(index, item)| (index, item.get().to_owned()))
        .collect())
}

fn agree(bytes: &[u8], sizes: &[usize]) {
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(split(bytes, sizes), whole(bytes), "{text}");
}

#[test]
fn same_as_serde_in_single_bytes_and_in_one_chunk() {
    for text in [
        r#"{"items":[]}"#,
        r#"{"items":null}"#,
        r#" { "kind" : "PodList" , "items" : [ 1 , "a\"]}" , { "b" : [ { } ] } ] , "c" : { } } "#,
        r#"{"\u0069tems":[true,-1.5e3,null]}"#,
        r#"{"items":[1],"items":[2]}"#,
        r#"{"items":[1],"items":null}"#,
        r#"{"a":1,"a":2}"#,
        "{}",
        "{} ",
        "{}{}",
        "[]",
        "",
        "{",
        r#"{"items"}"#,
        r#"{"items":}"#,
        r#"{"items":3}"#,
        r#"{"items":{}}"#,
        r#"{"items":"x"}"#,
        r#"{"items":[,]}"#,
        r#"{"items":[1,]}"#,
        r#"{"items":[1 2]}"#,
        r#"{"items":[[}]}"#,
        r#"{"items":[{"a":1,}]}"#,
        r#"{"items":[tru]}"#,
        r#"{"items":[01]}"#,
        r#"{"items":[1],}"#,
        r#"{,"items":[1]}"#,
        r#"{"items":[1]"#,
        r#"{"items":[1]]"#,
        r#"{"items":["\x"]}"#,
        r#"{"items":["\\"]}"#,
        r#"{"items":[1],"a":nonsense}"#,
        r#"{items:[1]}"#,
        "{\"items\":[\"\u{7f}\u{e9}\"]}",
        "{\"items\":[\"\u{1}\"]}",
    ] {
        agree(text.as_bytes(), &[1]);
        agree(text.as_bytes(), &[]);
    }
    agree(b"{\"items\":[\"\xff\"]}", &[1]);
    agree(b"{\"\xff\":[]}", &[1]);
}

#[test]
fn long_value_beside_the_pods_is_an_error() {
    let long = "x".repeat(LARGEST_POD);
    for text in [
        format!(r#"{{"a":"{long}"}}"#),
        format!(r#"{{"{long}":1}}"#),
        format!(r#"{{"items":"{long}"}}"#),
    ] {
        let error = split(text.as_bytes(), &[4096]);
        assert_eq!(error, Err(()));
    }
}

#[test]
fn only_the_beginning_of_a_long_pod_is_kept() {
    let text = format!(r#"{{"items":["{}",1]}}"#, "\\\"".repeat(2 * LARGEST_POD));
    let mut splitter = Splitter::default();
    let mut found = Vec::new();
    for mut chunk in text.as_bytes().chunks(65_537) {
        while let Some(element) = splitter.next(&mut chunk).unwrap() {
            found.push((element.bytes, matches!(element.text, Text::Whole("1"))));
            assert!(splitter.value.text.capacity() <= 2 * LARGEST_POD);
        }
    }
    splitter.finish().unwrap();
    assert_eq!(found, [(4 * LARGEST_POD + 2, false), (1, true)]);
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::String),
        r#"["\\\[\]{},:]{0,8}"#.prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(".{0,6}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_chunks_give_the_same_as_serde(
        items in prop::collection::vec(json(), 0..6),
        others in prop::collection::btree_map("[a-j]{1,3}", json(), 0..3),
        pretty: bool,
        sizes in prop::collection::vec(1usize..40, 1..8),
    ) {
        let mut list: BTreeMap<String, serde_json::Value> = others;
        list.insert("items".to_owned(), items.into());
        let text = if pretty {
            serde_json::to_vec_pretty(&list).unwrap()
        } else {
            serde_json::to_vec(&list).unwrap()
        };
        prop_assert!(split(&text, &sizes).is_ok());
        agree(&text, &sizes);
        // A truncated list, and a damaged one.
        for at in [text.len() / 2, text.len() - 1] {
            agree(&text[..at], &sizes);
            for byte in *b"\"\\{}[],: 0x" {
                let mut damaged = text.clone();
                damaged[at] = byte;
                agree(&damaged, &sizes);
            }
        }
    }

    #[test]
    fn any_text_gives_the_same_as_serde(
        text in r#"( |\{|\}|\[|\]|,|:|"|\\|"items"|"a"|1|null|é){0,24}"#,
        sizes in prop::collection::vec(1usize..10, 1..4),
    ) {
        agree(text.as_bytes(), &sizes);
        agree(format!(r#"{{"items":[{text}"#).as_bytes(), &sizes);
        agree(format!(r#"{{"items":[{text}]}}"#).as_bytes(), &sizes);
    }
}
