//! The properties of a recipe, in words.

use std::{collections::BTreeMap, iter, time::Duration};

use usher_core::recipe::{
    Act, AfterTerm, Captured, Condition, Described, HoldRecipe, Pattern, ReadyRecipe, Recipe,
    Recognition, Setting, Sources, StepRecipe, Value,
};

use super::markdown::{code, codes, distinct, listed, with_note};

pub(super) fn recognition(recipe: &Recipe) -> String {
    let ways: Vec<String> = recipe.recognize.iter().map(way).collect();
    let unless = clause("not with", &any(&recipe.unless.0));
    let parts: Vec<String> = iter::once(ways.join("; or ")).chain(unless).collect();
    parts.join("; ")
}

fn way(way: &Recognition) -> String {
    let patterns = [
        ("name", &way.names),
        ("image", &way.images),
        ("tag", &way.tags),
        ("program", &way.programs),
        ("command", &way.commands),
    ];
    let mut parts: Vec<String> = patterns
        .into_iter()
        .filter_map(|(word, list)| clause(word, &codes(list.iter().map(Pattern::as_str), "or")))
        .collect();
    if !way.args.is_empty() {
        parts.push(format!("arguments {}", code(&way.args.join(" "))));
    }
    parts.extend(Some(condition(&way.when)).filter(|when| !when.is_empty()));
    parts.join(", ")
}

/// The text after a word; None without a text.
fn clause(word: &str, text: &str) -> Option<String> {
    (!text.is_empty()).then(|| format!("{word} {text}"))
}

/// The parts of a condition without the version.
fn condition(condition: &Condition) -> String {
    let Condition {
        version: _,
        flag,
        shell,
        env,
        variables,
        annotations,
        annotated,
        unannotated,
    } = condition;
    let keys = |what: &str, keys: &[String]| {
        let key = |key: &String| format!("{what} {}", code(key));
        keys.iter().map(key).collect::<Vec<_>>()
    };
    let pairs = |what: &str, sign: &str, pairs: &BTreeMap<String, String>| {
        let pair = |(key, value)| format!("{what} {}", code(&format!("{key}{sign}{value}")));
        pairs.iter().map(pair).collect::<Vec<_>>()
    };
    let parts = [
        flag.iter().map(|flag| code(flag)).collect(),
        shell.then(|| "a shell".to_owned()).into_iter().collect(),
        pairs("variable", "=", env),
        keys("variable", variables),
        pairs("annotation", ": ", annotations),
        keys("annotation", annotated),
        keys("no annotation", unannotated),
    ];
    listed(parts.concat(), "and")
}

/// The conditions without their versions.
fn any<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> String {
    let texts = conditions.into_iter().map(condition);
    listed(texts.filter(|text| !text.is_empty()), "or")
}

/// The versions of the conditions that limit them.
fn ranges(conditions: &[Condition]) -> impl Iterator<Item = String> {
    let versions = conditions.iter().map(|one| one.version);
    let limited = versions.filter(|versions| versions.is_limited());
    limited.map(|versions| versions.to_string())
}

fn joined(parts: impl IntoIterator<Item = Option<String>>, separator: &str) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(separator)
}

/// The condition of a step without the version.
pub(super) fn exists(step: &Described<'_>) -> String {
    let in_shell = !step.when.is_empty() && step.when.iter().all(|one| one.shell);
    let shell = in_shell.then(|| "below a shell".to_owned());
    let without_shell = |one: &&Condition| Condition {
        shell: one.shell && !in_shell,
        ..(*one).clone()
    };
    let when: Vec<Condition> = step.when.iter().map(without_shell).collect();
    let parts = [
        shell,
        clause("with", &any(&when)),
        clause("without", &any(step.unless.iter().copied())),
    ];
    joined(parts, ", ")
}

pub(super) fn ends_in(takes: Duration) -> String {
    if takes.is_zero() {
        return "at once".to_owned();
    }
    time(takes)
}

fn time(takes: Duration) -> String {
    if takes.subsec_nanos() == 0 {
        format!("{} s", takes.as_secs())
    } else {
        format!("{} ms", takes.as_millis())
    }
}

/// The connections that wait until the sidecar is ready.
pub(super) fn hold(recipe: &Recipe) -> Option<String> {
    let HoldRecipe {
        captured,
        local,
        listed: lists,
        instances,
        when,
        unless,
    } = &recipe.hold;
    let port = |port: &u16| code(&format!(":{port}"));
    let mut ports: Vec<String> = local.iter().map(|one| port(one.default())).collect();
    ports.extend(lists.iter().map(|list| {
        let places = list.annotations.iter().chain(&list.args).chain(&list.env);
        let places = codes(places.map(String::as_str), "or");
        format!("the ports that {places} lists")
    }));
    ports.extend(instances.iter().map(|instances| {
        let defaults = listed(instances.defaults.iter().map(port), "or");
        format!("the port of each instance (from {defaults} on)")
    }));
    let ports = clause("connections to", &listed(ports, "and"))
        .map(|ports| format!("{ports} on loopback, each until it listens there"));
    let held = joined([captured.as_ref().map(redirected), ports], "; ");
    let only = only(&when.0, &unless.0);
    (!held.is_empty()).then(|| format!("Held: {held}.{only}"))
}

/// The sentences about conditions; empty without conditions.
fn only(when: &[Condition], unless: &[Condition]) -> String {
    let clauses = [
        clause(" Only with", &any(when)),
        clause(" Not with", &any(unless)),
    ];
    let sentences = clauses.into_iter().flatten();
    sentences.map(|clause| clause + ".").collect()
}

/// The connections that a mesh redirects.
fn redirected(captured: &Captured) -> String {
    let port = |port: &Setting<u16>| code(&format!(":{}", port.default()));
    let probe = |ready: &ReadyRecipe| {
        let (at, path) = (ready.get.port.default(), ready.get.path.default());
        let conditions = |conditions: &[Condition]| {
            let texts = conditions.iter().map(condition);
            let texts = texts.filter(|text| !text.is_empty());
            listed(ranges(conditions).chain(texts), "or")
        };
        let (when, unless) = (&ready.when.0, &ready.unless.0);
        let notes = [
            Some(conditions(when)).filter(|when| !when.is_empty()),
            clause("not", &conditions(unless)),
            ready
                .backend
                .as_ref()
                .map(|backend| format!("not where {} is off", port(backend))),
        ];
        with_note(code(&format!("GET :{at}{path}")), &joined(notes, "; "))
    };
    let until = match listed(captured.ready.iter().map(probe), "or") {
        none if none.is_empty() => "it listens there".to_owned(),
        some => format!("{some} is answered with 2xx, or 2 s after it listens there"),
    };
    let dns = captured.dns.as_ref();
    let dns = dns.map_or_else(String::new, |dns| format!("DNS: {}", port(&dns.port)));
    let only = only(&captured.when.0, &captured.unless.0).to_lowercase();
    let port = with_note(port(&captured.port), &dns);
    let text = format!("what is redirected to {port}, until {until}");
    with_note(text, only.trim().trim_end_matches('.'))
}

/// What ends the sidecar after SIGTERM, when its pod is deleted.
pub(super) fn after_term(recipe: &Recipe) -> Option<String> {
    let AfterTerm { sidecar, steps } = &recipe.after_term;
    let step = |step: &StepRecipe| {
        let conditions = [
            clause("with", &any(&step.when)),
            clause("not with", &any(&step.unless)),
        ];
        let notes = ranges(&step.when).map(Some).chain(conditions);
        let act = code(&step.act.by_default().to_string());
        with_note(act, &joined(notes, ", "))
    };
    let certain = listed(sidecar.iter().map(way), "or");
    let certain = clause(", where the container has", &certain).unwrap_or_default();
    let steps = listed(steps.iter().map(step), "or else");
    (!steps.is_empty())
        .then(|| format!("When the pod is deleted and its last app has ended{certain}: {steps}."))
}

/// The values that a pod can override, with the place of each override, in the order of the recipe.
pub(super) fn overrides(recipe: &Recipe) -> Vec<String> {
    let port = |port: &Setting<u16>| sources("port", port, |port| code(&port.to_string()));
    let mut all: Vec<_> = recipe
        .version
        .iter()
        .map(|query| port(&query.port))
        .collect();
    let after_term = &recipe.after_term.steps;
    for step in recipe.drain.iter().chain(&recipe.quit).chain(after_term) {
        if let Act::Request { port: at, path, .. } = &step.act {
            all.extend([port(at), sources("path", path, |path| code(path))]);
        }
        let times = step.takes.settings().iter();
        all.extend(times.map(|takes| sources("time", takes, |takes| time(*takes))));
    }
    let (first, others): (Vec<_>, Vec<_>) =
        recipe.hold.ports().partition(|port| *port.default() == 0);
    all.extend(others.into_iter().map(port));
    let of_instance = |port| sources("port of the first instance", port, |_none| String::new());
    all.extend(first.into_iter().map(of_instance));
    distinct(all.into_iter().flatten())
}

/// The places that override a value; None if no pod can override it.
fn sources<T: Value>(
    what: &str,
    setting: &Setting<T>,
    show: impl Fn(&T) -> String,
) -> Option<String> {
    let Sources {
        annotations,
        args,
        env,
    } = setting.sources();
    let kinds = [
        ("annotation", annotations),
        ("argument", args),
        ("variable", env),
    ];
    let places = kinds.into_iter().flat_map(|(kind, names)| {
        let names = names.iter();
        names.map(move |name| format!("{kind} {}", code(name)))
    });
    let what = format!("{what} {}", show(setting.default()));
    clause(&format!("{}:", what.trim_end()), &listed(places, "or"))
}
