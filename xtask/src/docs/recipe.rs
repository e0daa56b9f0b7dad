//! The properties of a recipe, in words.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use usher_core::recipe::{
    Act, Condition, Described, HoldRecipe, Pattern, ReadyRecipe, Recipe, Recognition, Setting,
    Sources, Value,
};

use super::markdown::{code, codes, listed};

pub(super) fn recognition(recipe: &Recipe) -> Vec<String> {
    recipe.recognise.iter().map(way).collect()
}

fn way(way: &Recognition) -> String {
    let patterns = |patterns: &[Pattern]| codes(patterns.iter().map(Pattern::as_str), "or");
    let mut parts = Vec::new();
    if !way.names.is_empty() {
        parts.push(format!("name {}", patterns(&way.names)));
    }
    if !way.images.is_empty() {
        parts.push(format!("image {}", patterns(&way.images)));
    }
    if !way.args.is_empty() {
        parts.push(format!("arguments {}", code(&way.args.join(" "))));
    }
    let when = condition(&way.when);
    if !when.is_empty() {
        parts.push(when);
    }
    parts.join(", ")
}

/// The parts of a condition other than the version.
fn condition(condition: &Condition) -> String {
    let Condition {
        version: _,
        flag,
        env,
        annotations,
    } = condition;
    let pairs = |what: &str, sign: &str, pairs: &BTreeMap<String, String>| {
        let pair = |(key, value)| format!("{what} {}", code(&format!("{key}{sign}{value}")));
        pairs.iter().map(pair).collect::<Vec<_>>()
    };
    let mut parts: Vec<String> = flag.iter().map(|flag| code(flag)).collect();
    parts.extend(pairs("variable", "=", env));
    parts.extend(pairs("annotation", ": ", annotations));
    listed(&parts, "and")
}

/// The condition of a step other than the version.
pub(super) fn exists(step: &Described<'_>) -> String {
    let any = |conditions: &[&Condition]| {
        let texts: Vec<String> = conditions.iter().map(|one| condition(one)).collect();
        listed(&texts, "or")
    };
    let (when, unless) = (any(&step.when), any(&step.unless));
    let parts = [("with", when), ("without", unless)]
        .into_iter()
        .filter(|(_, condition)| !condition.is_empty())
        .map(|(word, condition)| format!("{word} {condition}"));
    parts.collect::<Vec<_>>().join(", ")
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
        when,
    } = &recipe.hold;
    let port = |port: &Setting<u16>| code(&format!(":{}", port.default()));
    let mut parts = Vec::new();
    if let Some(captured) = captured {
        let probe = |ready: &ReadyRecipe| {
            let get = format!(
                "GET :{}{}",
                ready.get.port.default(),
                ready.get.path.default()
            );
            let version = |word: &str, conditions: &[Condition]| {
                let versions = conditions.iter().map(|one| one.version);
                let mut limited = versions.filter(|versions| versions.is_limited());
                limited
                    .next()
                    .map(|versions| format!(" ({word}{versions})"))
            };
            let when = version("", &ready.when.0);
            let only = when.or_else(|| version("not ", &ready.unless.0));
            format!("{}{}", code(&get), only.unwrap_or_default())
        };
        let ready: Vec<String> = captured.ready.iter().map(probe).collect();
        let until = match listed(&ready, "or") {
            none if none.is_empty() => "it listens there".to_owned(),
            some => format!("{some} is answered with 2xx"),
        };
        let dns = captured.dns.as_ref().map(|dns| port(&dns.port));
        let dns = dns.map_or_else(String::new, |dns| format!(" (DNS: {dns})"));
        let redirected = port(&captured.port);
        parts.push(format!(
            "what is redirected to {redirected}{dns}, until {until}"
        ));
    }
    if !local.is_empty() {
        let ports: Vec<String> = local.iter().map(port).collect();
        let ports = listed(&ports, "and");
        parts.push(format!(
            "connections to {ports} on loopback, until it listens there"
        ));
    }
    if parts.is_empty() {
        return None;
    }
    let when: Vec<String> = when.0.iter().map(condition).collect();
    let only = match listed(&when, "or") {
        none if none.is_empty() => none,
        some => format!(" Only with {some}."),
    };
    Some(format!("Held: {}.{only}", parts.join("; ")))
}

/// The values that a pod can override and the places where it does, in the order of the recipe.
pub(super) fn overrides(recipe: &Recipe) -> Vec<String> {
    let port = |port: &Setting<u16>| sources("port", port, |port| code(&port.to_string()));
    let mut all: Vec<_> = recipe
        .version
        .iter()
        .map(|query| port(&query.port))
        .collect();
    for step in recipe.drain.iter().chain(&recipe.quit) {
        if let Act::Request { port: at, path, .. } = &step.act {
            all.extend([port(at), sources("path", path, |path| code(path))]);
        }
        all.push(sources("time", &step.takes, |takes| time(*takes)));
    }
    all.extend(recipe.hold.ports().map(port));
    let mut seen = BTreeSet::new();
    all.into_iter()
        .flatten()
        .filter(|text| seen.insert(text.clone()))
        .collect()
}

/// None for a value that no pod can override.
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
    let places: Vec<String> = [
        ("annotation", annotations),
        ("argument", args),
        ("variable", env),
    ]
    .into_iter()
    .flat_map(|(kind, names)| {
        names
            .iter()
            .map(move |name| format!("{kind} {}", code(name)))
    })
    .collect();
    let default = show(setting.default());
    (!places.is_empty()).then(|| format!("{what} {default}: {}", listed(&places, "or")))
}
