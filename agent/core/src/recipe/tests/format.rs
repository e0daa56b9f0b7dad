//! Valid and invalid recipes: both sides of each limit.

use super::super::{Act, ExitCode, Recipe};
use crate::recipe::step::{Method, Step};

const REQUEST: &str = "{post: {port: 1, path: /x}}";
const SIGNAL: &str = "{signal: SIGTERM}";

/// A recipe of these fields, in which missing fields are valid.
fn read(fields: &[(&str, String)]) -> Result<Recipe, String> {
    let mut text = String::new();
    for (key, value) in [
        ("name", "x".to_owned()),
        ("recognize", "[{name: [x]}]".to_owned()),
        ("quit", format!("[{SIGNAL}]")),
    ] {
        if fields.iter().all(|(field, _)| *field != key) {
            text.push_str(&format!("{key}: {value}\n"));
        }
    }
    for (key, value) in fields {
        text.push_str(&format!("{key}: {value}\n"));
    }
    serde_saphyr::from_str(&text).map_err(|error| error.to_string())
}

fn list(item: &str, count: usize) -> String {
    format!("[{}]", vec![item; count].join(", "))
}

#[test]
fn limits() {
    let hold = |ports| format!("{{local: {}}}", list("{default: 1}", ports));
    let version = |path, pointer| format!("{{port: 1, path: {path}, pointer: {pointer}}}");
    let step = |step: &str| format!("[{step}]");
    for (key, good) in [
        ("name", "a-9".to_owned()),
        ("name", "a".repeat(63)),
        ("quit", list(SIGNAL, 16)),
        ("drain", "[]".to_owned()),
        ("drain", list(SIGNAL, 16)),
        (
            "drain",
            step("{post: {port: 1, path: '/drain_listeners?graceful&skip_exit&inboundonly'}}"),
        ),
        ("hold", hold(16)),
        ("version", version("/v", "/v")),
        ("recognize", "[{name: [x]}]".to_owned()),
        ("recognize", "[{image: [x]}]".to_owned()),
        ("recognize", "[{args: [x]}]".to_owned()),
        ("quit", step("{signal: SIGTERM, process: x}")),
        ("afterTerm", format!("{{steps: {}}}", list(REQUEST, 16))),
        (
            "afterTerm",
            format!("{{sidecar: [{{args: [x]}}], steps: [{REQUEST}]}}"),
        ),
        ("quit", step("{signal: SIGTERM, code: 255}")),
        ("quit", step("{signal: SIGTERM, code: unknown}")),
    ] {
        let recipe = read(&[(key, good.clone())]);
        assert!(recipe.is_ok(), "{key}: {good}\n{recipe:?}");
    }
    let code = |text| read(&[("quit", step(text))]).unwrap().quit[0].code;
    assert_eq!(code(SIGNAL), ExitCode::Unknown, "it was never measured");
    assert_eq!(code("{signal: SIGTERM, code: 0}"), ExitCode::ZERO);
    for (key, bad, why) in [
        ("name", "''".to_owned(), "is no name"),
        ("name", "a".repeat(64), "is no name"),
        ("name", "a_b".to_owned(), "is no name"),
        ("recognize", "[]".to_owned(), "recognizes nothing"),
        (
            "recognize",
            "[{}]".to_owned(),
            "name, image, program, command, args or when",
        ),
        ("quit", "[]".to_owned(), "1 to 16 steps"),
        ("quit", list(SIGNAL, 17), "1 to 16 steps"),
        ("drain", list(SIGNAL, 17), "1 to 16 steps"),
        (
            "drain",
            step("{post: {port: 1, path: '/drain_listeners?graceful'}}"),
            "without inboundonly",
        ),
        (
            "drain",
            step("{post: {port: 1, path: '/drain_listeners?inboundonly&graceful'}}"),
            "without skip_exit",
        ),
        (
            "drain",
            step("{post: {port: 1, path: /drain_listeners}}"),
            "without inboundonly",
        ),
        ("hold", hold(17), "more than 16 ports"),
        ("version", version("v", "/v"), "begin with slashes"),
        ("version", version("/v", "v"), "begin with slashes"),
        (
            "afterTerm",
            format!("{{steps: {}}}", list(REQUEST, 17)),
            "at most 16 steps in afterTerm",
        ),
        (
            "afterTerm",
            format!("{{steps: [{SIGNAL}]}}"),
            "must have requests only",
        ),
        (
            "afterTerm",
            "{sidecar: [{args: [x]}]}".to_owned(),
            "has no steps",
        ),
        (
            "afterTerm",
            "{sidecar: [{}]}".to_owned(),
            "name, image, program, command, args or when",
        ),
        ("quit", step("{}"), "one of post, get and signal"),
        (
            "quit",
            step("{post: {port: 1, path: /x}, process: x}"),
            "process goes with signal only",
        ),
        (
            "quit",
            step("{post: {port: true, path: /x}}"),
            "expected a TCP port, or a map with its default",
        ),
        (
            "quit",
            step("{post: {port: {default: true}, path: /x}}"),
            "expected a number or a text",
        ),
        (
            "quit",
            step("{signal: SIGTERM, code: 256}"),
            "0 to 255 or unknown",
        ),
        (
            "quit",
            step("{signal: SIGTERM, code: none}"),
            "0 to 255 or unknown",
        ),
        (
            "quit",
            step("{signal: SIGTERM, when: 5}"),
            "a map, or a list of maps",
        ),
    ] {
        let error = read(&[(key, bad.clone())]).unwrap_err();
        assert!(error.contains(why), "{key}: {bad}\n{error}");
    }
}

#[test]
fn method_of_a_request_step() {
    for (text, expected) in [("post", Method::Post), ("get", Method::Get)] {
        let quit = format!("[{{{text}: {{port: 1, path: /x}}}}]");
        let recipe = read(&[("quit", quit)]).unwrap();
        let Act::Request { method, .. } = &recipe.quit[0].act else {
            panic!("{recipe:?}");
        };
        assert_eq!(*method, expected);
        assert!(matches!(recipe.quit[0].act.by_default(), Step::Request(_)));
    }
}

/// The first existing drain step is used. Steps after one that always exists are not described.
#[test]
fn steps_after_an_unconditional_step_are_not_described() {
    let post = |path: &str, rest: &str| format!("{{post: {{port: 1, path: {path}}}{rest}}}");
    for (condition, described) in [
        ("", 1),
        (", when: {flag: --x}", 2),
        (", unless: {flag: --x}", 2),
        (", when: {flag: --x}, unless: {flag: --y}", 2),
    ] {
        let drain = format!("[{}, {}]", post("/a", condition), post("/b", ""));
        let recipe = read(&[("drain", drain)]).unwrap();
        let stretches = recipe.drain_by_version();
        assert_eq!(stretches.len(), 1, "{condition}");
        assert_eq!(stretches[0].steps.len(), described, "{condition}");
    }
}

/// Equal results are one range, even if they differ in a step that is never reached.
#[test]
fn equal_ranges_are_merged() {
    for (first, ranges) in [
        ("", &["any version"][..]),
        (", when: {version: '<3.0'}", &["from 3.0", "below 3.0"]),
        (
            ", when: {version: '>=1.0 <3.0'}",
            &["from 3.0", "1.0 to below 3.0", "below 1.0"],
        ),
    ] {
        let drain = format!(
            "[{{post: {{port: 1, path: /a}}{first}}}, \
             {{post: {{port: 1, path: /b}}, when: {{version: '>=2.0'}}}}]"
        );
        let recipe = read(&[("drain", drain)]).unwrap();
        let stretches = recipe.drain_by_version();
        let found: Vec<_> = stretches
            .iter()
            .map(|one| one.versions.to_string())
            .collect();
        assert_eq!(found, ranges, "{first}");
    }
}
