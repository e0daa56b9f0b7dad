//! Port names from which Istio detects another protocol than their author meant.
//!
//! Istio uses the ports of Services: `appProtocol`, or else the part of the name before the first dash, if that is a
//! known word. A node has no access to Services, only to the ports of the pod's containers. A Service usually has the
//! same names, so the finding names the fields to compare.

use super::{Finding, Id, NOT_VISIBLE, Severity, short};
use crate::explain::{Case, facts::Port};

/// The protocols that Istio recognizes
/// ([`protocol.Parse`](https://github.com/istio/istio/blob/1.26.0/pkg/config/protocol/instance.go)).
const KNOWN: [&str; 11] = [
    "tcp", "udp", "grpc", "grpc-web", "http", "http2", "https", "tls", "mongo", "redis", "mysql",
];
/// The protocols with which Istio's proxy parses requests.
const HTTP: [&str; 4] = ["http", "http2", "grpc", "grpc-web"];
/// Ports that usually serve another protocol than plain HTTP, with the protocol and the prefix for it.
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
    case.apps()
        .flat_map(|app| app.ports.iter().map(move |port| (app, port)))
        .filter_map(|(app, port)| {
            let (severity, problem, name) = wrong(port)?;
            let number = port.number;
            let finding = Finding::new(Id::PortName, severity, problem)
                .about(&app.name)
                .because(
                    format!("{}.ports[{number}].name", app.place),
                    format!("{:?}, containerPort {number}", short(&port.name)),
                )
                .because(
                    NOT_VISIBLE,
                    "the Service's port name and appProtocol, which decide, are not on the node",
                );
            let remedy = format!(
                "Name the Service's port (and this one) after its protocol, or set appProtocol; compare: \
                 kubectl -n {} get services -o wide",
                case.facts.namespace
            );
            let how = format!("ports:\n- name: {name}\n  port: {number}\n  targetPort: {number}");
            Some(finding.fix(remedy, how))
        })
        .collect()
}

/// Returns the problem of a port's name, and a better name.
fn wrong(port: &Port) -> Option<(Severity, String, String)> {
    let (name, number) = (port.name.as_str(), port.number);
    if !port.is_tcp || name.is_empty() {
        return None;
    }
    let shown = short(name);
    if let Some(detected) = detect(name) {
        let (_, usual, better) = OTHERS.iter().find(|(known, ..)| *known == number)?;
        return HTTP.contains(&detected).then(|| {
            let problem = format!(
                "port {number} is named {shown:?}, so Istio detects {detected}, but this port usually serves {usual}"
            );
            let usual = usual.to_lowercase().replace(' ', "-");
            (Severity::Warning, problem, format!("{better}-{usual}"))
        });
    }
    let meant = meant(name)?;
    let problem = format!(
        "port {number} is named {shown:?}, so Istio has to detect the protocol: it reads only the part before the first \
         dash, and that part is not {meant}"
    );
    let rest: Vec<&str> = name.split('-').filter(|part| *part != meant).collect();
    // By default Istio detects HTTP and HTTP/2 from the first bytes of a connection.
    let better = format!("{meant}-{}", rest.join("-"));
    Some((Severity::Hint, problem, better))
}

fn detect(name: &str) -> Option<&'static str> {
    if name.starts_with("grpc-web") {
        return Some("grpc-web");
    }
    let word = name.split('-').next()?;
    KNOWN.into_iter().find(|known| *known == word)
}

/// The protocol in the part of a name that Istio ignores.
fn meant(name: &str) -> Option<&'static str> {
    // The longest match first: http2 before http.
    const WORDS: [&str; 6] = ["https", "http2", "http", "grpc", "mysql", "redis"];
    let mut parts = name.split('-');
    let first = parts.next().unwrap_or_default();
    let find = |fits: &dyn Fn(&str) -> bool| WORDS.into_iter().find(|word| fits(word));
    parts
        .find_map(|part| find(&|word| word == part))
        .or_else(|| find(&|word| first.starts_with(word) || first.ends_with(word)))
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
            let found = wrong(&port);
            let severity = found.as_ref().map(|(severity, ..)| *severity);
            let better = found.map(|(_severity, _problem, better)| better);
            let is_named = detect(name).is_some();
            let wanted = if is_named {
                Severity::Warning
            } else {
                Severity::Hint
            };
            assert_eq!(severity, expected.map(|_| wanted), "{name} {number}");
            assert_eq!(better.as_deref(), expected, "{name} {number}");
            let udp = Port {
                is_tcp: false,
                ..port
            };
            assert_eq!(wrong(&udp), None);
        }
    }
}
