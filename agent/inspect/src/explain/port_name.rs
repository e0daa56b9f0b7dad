//! Port names from which Istio reads another protocol than their author meant.
//!
//! Istio goes by the ports of Services: `appProtocol`, else what stands before the first dash of the name, if that is one
//! of its words. Services cannot be seen from a node. The ports of the pod's containers can, and a Service has, as a rule,
//! the same names; so a finding says what to compare.

use super::{Case, Finding, Id, Severity, facts::Port, finding::short};

/// The words that Istio knows
/// ([`protocol.Parse`](https://github.com/istio/istio/blob/1.26.0/pkg/config/protocol/instance.go)).
const KNOWN: [&str; 11] = [
    "tcp", "udp", "grpc", "grpc-web", "http", "http2", "https", "tls", "mongo", "redis", "mysql",
];
/// Those with which its proxy reads requests.
const HTTP: [&str; 4] = ["http", "http2", "grpc", "grpc-web"];
/// Ports at which something else than plain HTTP is spoken, with the name that says so.
const OTHERS: [(u16, &str, &str); 13] = [
    (21, "FTP", "tcp"),
    (22, "SSH", "tcp"),
    (25, "SMTP", "tcp"),
    (443, "TLS", "https"),
    (587, "SMTP", "tcp"),
    (1433, "SQL Server", "tcp"),
    (3306, "MySQL", "tcp"),
    (5432, "PostgreSQL", "tcp"),
    (5672, "AMQP", "tcp"),
    (6379, "Redis", "tcp"),
    (8443, "TLS", "https"),
    (9092, "Kafka", "tcp"),
    (27017, "MongoDB", "tcp"),
];

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    if case.istio().is_none() {
        return Vec::new();
    }
    let ports = case
        .apps()
        .flat_map(|app| app.ports.iter().map(move |port| (app, port)));
    let wrong = ports.filter_map(|(app, port)| {
        let (problem, name) = wrong(port)?;
        let source = format!("{}.ports[{}].name", app.place, port.number);
        let finding = Finding::new(Id::PortName, Severity::Warning, problem)
            .about(&app.name)
            .by(source, format!("{:?}, containerPort {}", short(&port.name), port.number))
            .by("not seen", "the Service's own port name and appProtocol, which count, are not on the node");
        let remedy = format!(
            "Name the port of the Service (and this one) after what is spoken there, or give it an appProtocol; compare: \
             kubectl -n {} get services -o wide",
            case.facts.namespace
        );
        let how = format!(
            "ports:\n- name: {name}\n  port: {number}\n  targetPort: {number}",
            number = port.number
        );
        Some(finding.mend(remedy, how))
    });
    wrong.collect()
}

/// What is wrong with a port's name, and a better one.
fn wrong(port: &Port) -> Option<(String, String)> {
    let name = port.name.as_str();
    if !port.is_tcp || name.is_empty() {
        return None;
    }
    let number = port.number;
    let shown = short(name);
    if let Some(read) = read(name) {
        let (_, spoken, better) = OTHERS.iter().find(|(known, ..)| *known == number)?;
        return HTTP.contains(&read).then(|| {
            let problem = format!(
                "port {number} is named {shown:?}, which has Istio read {read} there, and {spoken} is what is usually spoken at it"
            );
            (problem, format!("{better}-{}", spoken.to_lowercase().replace(' ', "-")))
        });
    }
    let meant = meant(name)?;
    let problem = format!(
        "port {number} is named {shown:?}, from which Istio reads no protocol: only what stands before the first dash counts, \
         and {meant} does not stand there alone"
    );
    let rest: Vec<&str> = name.split('-').filter(|part| *part != meant).collect();
    Some((problem, format!("{meant}-{}", rest.join("-"))))
}

/// The protocol that Istio reads from a name.
fn read(name: &str) -> Option<&'static str> {
    if name.starts_with("grpc-web") {
        return Some("grpc-web");
    }
    let word = name.split('-').next()?;
    KNOWN.into_iter().find(|known| *known == word)
}

/// The protocol that a name has in a place where nobody looks.
fn meant(name: &str) -> Option<&'static str> {
    // The longest that fits: http2 before http.
    const WORDS: [&str; 6] = ["https", "http2", "http", "grpc", "mysql", "redis"];
    let mut parts = name.split('-').skip(1);
    let later = parts.find_map(|part| WORDS.into_iter().find(|word| *word == part));
    let first = name.split('-').next().unwrap_or_default();
    let glued = || {
        WORDS
            .into_iter()
            .find(|word| first.starts_with(word) || first.ends_with(word))
    };
    later.or_else(glued)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (name, number, expected) in [
            ("http", 8080, None),
            ("http-web", 8080, None),
            ("grpc-web", 8080, None),
            ("web", 8080, None),
            ("metrics", 9090, None),
            ("tcp-db", 3306, None),
            ("mysql", 3306, None),
            ("db", 3306, None),
            ("https", 8443, None),
            ("", 3306, None),
            ("http-db", 3306, Some("tcp-mysql")),
            ("http", 8443, Some("https-tls")),
            ("grpc-x", 5432, Some("tcp-postgresql")),
            ("web-http", 8080, Some("http-web")),
            ("api-grpc", 9000, Some("grpc-api")),
            ("httpapi", 8080, Some("http-httpapi")),
            ("my-http2-port", 8080, Some("http2-my-port")),
        ] {
            let port = Port {
                name: name.to_owned(),
                number,
                is_tcp: true,
            };
            let better = wrong(&port).map(|(_problem, better)| better);
            assert_eq!(better.as_deref(), expected, "{name} {number}");
            let udp = Port {
                is_tcp: false,
                ..port
            };
            assert_eq!(wrong(&udp), None);
        }
    }
}
