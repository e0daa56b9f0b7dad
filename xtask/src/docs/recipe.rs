//! The properties of a recipe, in words.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use usher_core::recipe::{
    Act, AfterTerm, Captured, Condition, Described, HoldRecipe, Pattern, ReadyRecipe, Recipe,
    Recognition, Setting, Sources, StepRecipe, Value,
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
    if !way.tags.is_empty() {
        parts.push(format!("tag {}", patterns(&way.tags)));
    }
    if !way.programs.is_empty() {
        parts.push(format!("program {}", patterns(&way.programs)));
    }
    if !way.commands.is_empty() {
        parts.push(format!("command {}", patterns(&way.commands)));
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
    let pairs = |what: &str, sign: &str, pairs: &BTreeMap<String, String>| {
        let pair = |(key, value)| format!("{what} {}", code(&format!("{key}{sign}{value}")));
        pairs.iter().map(pair).collect::<Vec<_>>()
    };
    let mut parts: Vec<String> = flag.iter().map(|flag| code(flag)).collect();
    parts.extend(shell.then(|| "a shell".to_owned()));
    parts.extend(pairs("variable", "=", env));
    parts.extend(
        variables
            .iter()
            .map(|name| format!("variable {}", code(name))),
    );
    parts.extend(pairs("annotation", ": ", annotations));
    let keys = |what: &str, keys: &[String]| {
        let key = |key: &String| format!("{what} {}", code(key));
        keys.iter().map(key).collect::<Vec<_>>()
    };
    parts.extend(keys("annotation", annotated));
    parts.extend(keys("no annotation", unannotated));
    listed(&parts, "and")
}

/// The condition of a step without the version.
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
        listed,
        instances,
        when,
        unless,
    } = &recipe.hold;
    let mut parts: Vec<String> = captured.iter().map(redirected).collect();
    let port = |port: &u16| code(&format!(":{port}"));
    let mut ports: Vec<String> = local.iter().map(|one| port(one.default())).collect();
    ports.extend(listed.iter().map(|list| {
        let places = list.annotations.iter().chain(&list.args).chain(&list.env);
        let places: Vec<String> = places.map(|place| code(place)).collect();
        format!("the ports that {} lists", listed_or(&places))
    }));
    ports.extend(instances.iter().map(|instances| {
        let defaults: Vec<String> = instances.defaults.iter().map(port).collect();
        format!(
            "the port of each instance (from {} on)",
            listed_or(&defaults)
        )
    }));
    if !ports.is_empty() {
        parts.push(format!(
            "connections to {} on loopback, each until it listens there",
            super::markdown::listed(&ports, "and")
        ));
    }
    if parts.is_empty() {
        return None;
    }
    let only = clause(" Only with", &when.0) + &clause(" Not with", &unless.0);
    Some(format!("Held: {}.{only}", parts.join("; ")))
}

fn listed_or(texts: &[String]) -> String {
    listed(texts, "or")
}

/// A clause about conditions; empty without conditions.
fn clause(word: &str, conditions: &[Condition]) -> String {
    let texts: Vec<String> = conditions.iter().map(condition).collect();
    match listed(&texts, "or") {
        none if none.is_empty() => none,
        some => format!("{word} {some}."),
    }
}

/// The connections that a mesh redirects.
fn redirected(captured: &Captured) -> String {
    let probe = |ready: &ReadyRecipe| {
        let get = format!(
            "GET :{}{}",
            ready.get.port.default(),
            ready.get.path.default()
        );
        let conditions = |word: &str, conditions: &[Condition]| {
            let versions = conditions
                .iter()
                .map(|one| one.version)
                .filter(|versions| versions.is_limited())
                .map(|versions| versions.to_string());
            let texts: Vec<String> = versions
                .chain(conditions.iter().map(condition))
                .filter(|text| !text.is_empty())
                .collect();
            (!texts.is_empty()).then(|| format!("{word}{}", listed_or(&texts)))
        };
        let backend = ready.backend.as_ref().map(|port| {
            let port = code(&format!(":{}", port.default()));
            format!("not where {port} is off")
        });
        let all: Vec<String> = [
            conditions("", &ready.when.0),
            conditions("not ", &ready.unless.0),
            backend,
        ]
        .into_iter()
        .flatten()
        .collect();
        match all.as_slice() {
            [] => code(&get),
            all => format!("{} ({})", code(&get), all.join("; ")),
        }
    };
    let ready: Vec<String> = captured.ready.iter().map(probe).collect();
    let until = match listed(&ready, "or") {
        none if none.is_empty() => "it listens there".to_owned(),
        some => format!("{some} is answered with 2xx, or 2 s after it listens there"),
    };
    let port = |port: &Setting<u16>| code(&format!(":{}", port.default()));
    let dns = captured.dns.as_ref().map(|dns| port(&dns.port));
    let dns = dns.map_or_else(String::new, |dns| format!(" (DNS: {dns})"));
    let only = clause(" Only with", &captured.when.0) + &clause(" Not with", &captured.unless.0);
    let only = match only.trim().trim_end_matches('.') {
        "" => String::new(),
        some => format!(" ({})", some.to_lowercase()),
    };
    format!(
        "what is redirected to {}{dns}, until {until}{only}",
        port(&captured.port)
    )
}

/// What ends the sidecar after SIGTERM, when its pod is deleted.
pub(super) fn after_term(recipe: &Recipe) -> Option<String> {
    let AfterTerm { sidecar, steps } = &recipe.after_term;
    let step = |step: &StepRecipe| {
        let range = |conditions: &[Condition]| {
            let ranges = conditions.iter().map(|one| one.version);
            let ranges = ranges.filter(|versions| versions.is_limited());
            ranges
                .map(|versions| versions.to_string())
                .collect::<Vec<_>>()
        };
        let mut parts = range(&step.when);
        let all = |conditions: &[Condition]| {
            let texts: Vec<String> = conditions.iter().map(condition).collect();
            let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            listed(&texts, "or")
        };
        for (word, text) in [("with", all(&step.when)), ("not with", all(&step.unless))] {
            parts.extend((!text.is_empty()).then(|| format!("{word} {text}")));
        }
        let act = code(&step.act.by_default().to_string());
        match parts.join(", ") {
            none if none.is_empty() => act,
            some => format!("{act} ({some})"),
        }
    };
    let texts: Vec<String> = steps.iter().map(step).collect();
    let certain: Vec<String> = sidecar.iter().map(way).collect();
    let certain = match listed(&certain, "or") {
        none if none.is_empty() => none,
        some => format!(", where the container has {some}"),
    };
    (!texts.is_empty()).then(|| {
        format!(
            "When the pod is deleted and its last app has ended{certain}: {}.",
            listed(&texts, "or else")
        )
    })
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
    let mut seen = BTreeSet::new();
    all.into_iter()
        .flatten()
        .filter(|text| seen.insert(text.clone()))
        .collect()
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
    let what = format!("{what} {}", show(setting.default()));
    (!places.is_empty()).then(|| format!("{}: {}", what.trim_end(), listed(&places, "or")))
}
