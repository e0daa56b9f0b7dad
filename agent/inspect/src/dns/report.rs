//! The report of `usher resolve`.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::text::table::{Cell, Table, Tone};

/// How one name of one pod was resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// `namespace/name`, or the UID.
    pub pod: String,
    pub uid: String,
    pub name: String,
    pub resolver: Resolver,
    /// The result; empty if the name could not be resolved.
    pub addresses: Vec<IpAddr>,
    /// The origin of the addresses; None without addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    pub time_us: u64,
    pub exchanges: Vec<Exchange>,
}

/// The pod's `resolv.conf`, or the servers of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolver {
    pub servers: Vec<IpAddr>,
    pub search: Vec<String>,
    pub ndots: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Source {
    /// The pod's `/etc/hosts`, or the name is localhost.
    Hosts,
    Server {
        server: SocketAddr,
        /// The name with the search domain.
        queried: String,
    },
}

/// One query and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    pub queried: String,
    pub record: RecordType,
    pub server: SocketAddr,
    pub transport: Transport,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias_of: Option<String>,
    /// The error of the system call, or the defect of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub time_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE")]
#[serde(rename_all = "UPPERCASE")]
pub enum RecordType {
    A,
    Aaaa,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Udp,
    Tcp,
}

/// The result of a query, with its text in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum Outcome {
    Addresses,
    /// The name exists.
    #[strum(serialize = "no addresses of this type")]
    NoAddresses,
    #[strum(serialize = "no such name (NXDOMAIN)")]
    NoSuchName,
    #[strum(serialize = "server failure (SERVFAIL)")]
    ServerFailure,
    #[strum(serialize = "query refused by the server (REFUSED)")]
    QueryRefused,
    /// Any other response code.
    #[strum(serialize = "error of the server")]
    OtherError,
    Timeout,
    /// The host rejects the port: nothing listens there, or a rule rejects it.
    #[strum(serialize = "port unreachable")]
    PortUnreachable,
    /// No route, or another error of the system call.
    Unreachable,
    #[strum(serialize = "malformed reply")]
    Malformed,
}

impl Outcome {
    /// Whether the reply settles that the name exists or does not exist, so that no other server is queried.
    pub const fn is_definite(self) -> bool {
        matches!(self, Self::Addresses | Self::NoAddresses | Self::NoSuchName)
    }

    /// Whether the server sent a DNS message.
    pub const fn is_reply(self) -> bool {
        self.is_definite()
            || matches!(
                self,
                Self::ServerFailure | Self::QueryRefused | Self::OtherError
            )
    }
}

impl Resolution {
    /// Whether servers replied that the name has no address.
    pub fn is_negative(&self) -> bool {
        self.addresses.is_empty()
            && !self.exchanges.is_empty()
            && self
                .exchanges
                .iter()
                .all(|exchange| exchange.outcome.is_definite())
    }

    /// The result as one sentence.
    pub fn summary(&self) -> String {
        let Self { name, pod, .. } = self;
        let time = time_text(self.time_us);
        match &self.source {
            Some(Source::Hosts) => {
                return format!("{name} is {} in /etc/hosts of {pod}", list(&self.addresses));
            }
            Some(Source::Server { server, queried }) => {
                let addresses = list(&self.addresses);
                let of = (queried != name).then(|| format!("{queried}, "));
                let of = of.unwrap_or_default();
                return format!("{name} is {addresses} ({of}from {server} in {time})");
            }
            None => {}
        }
        if self.is_negative() {
            return format!("{name} has no address; queried: {}", list(&self.queried()));
        }
        if self
            .exchanges
            .iter()
            .any(|exchange| exchange.outcome.is_reply())
        {
            return format!("{name} could not be resolved within {time}");
        }
        let servers = list(&self.resolver.servers);
        format!(
            "no DNS server of {pod} ({servers}) replied within {time}; check the pods behind that address, and the \
             NetworkPolicies for egress to port 53"
        )
    }

    /// The names that servers were queried about.
    fn queried(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for exchange in &self.exchanges {
            if !names.contains(&exchange.queried.as_str()) {
                names.push(&exchange.queried);
            }
        }
        names
    }

    pub fn table(&self, wide: bool) -> Table {
        let mut columns = vec!["QUERY", "TYPE", "SERVER", "RESULT", "TIME"];
        if wide {
            columns.push("TRANSPORT");
        }
        let mut table = Table::new(columns);
        let tone = if self.addresses.is_empty() {
            Tone::Bad
        } else {
            Tone::Good
        };
        table.lead(Cell::new(self.summary(), tone));
        for exchange in &self.exchanges {
            table.row(exchange.cells(wide));
        }
        if wide {
            let Resolver { search, ndots, .. } = &self.resolver;
            table.note(format!("search domains: {}; ndots: {ndots}", list(search)));
        }
        table
    }
}

impl Exchange {
    fn cells(&self, wide: bool) -> Vec<Cell> {
        let mut result = match self.outcome {
            Outcome::Addresses => list(&self.addresses),
            other => <&str>::from(other).to_owned(),
        };
        let details = [
            self.alias_of
                .as_ref()
                .map(|name| format!("alias of {name}")),
            self.error.clone(),
        ];
        for detail in details.into_iter().flatten() {
            result.push_str(&format!(" ({detail})"));
        }
        let tone = match self.outcome {
            Outcome::Addresses => Tone::Good,
            Outcome::NoAddresses | Outcome::NoSuchName => Tone::Plain,
            _ => Tone::Bad,
        };
        let record: &str = self.record.into();
        let transport: &str = self.transport.into();
        let mut cells = vec![
            self.queried.clone().into(),
            record.into(),
            self.server.to_string().into(),
            Cell::new(result, tone),
            time_text(self.time_us).into(),
        ];
        if wide {
            cells.push(transport.into());
        }
        cells
    }
}

/// A measured time, in milliseconds.
pub fn time_text(micros: u64) -> String {
    format!("{}.{:03}ms", micros / 1000, micros % 1000)
}

fn list(values: &[impl ToString]) -> String {
    if values.is_empty() {
        return "none".to_owned();
    }
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(queried: &str, outcome: Outcome) -> Exchange {
        Exchange {
            queried: queried.to_owned(),
            record: RecordType::A,
            server: "10.96.0.10:53".parse().unwrap(),
            transport: Transport::Udp,
            outcome,
            addresses: Vec::new(),
            alias_of: None,
            error: None,
            time_us: 1_400,
        }
    }

    fn resolution(exchanges: Vec<Exchange>) -> Resolution {
        Resolution {
            pod: "shop/report".to_owned(),
            uid: "u".to_owned(),
            name: "db".to_owned(),
            resolver: Resolver {
                servers: vec!["10.96.0.10".parse().unwrap()],
                search: vec!["shop.svc.cluster.local".to_owned()],
                ndots: 5,
            },
            addresses: Vec::new(),
            source: None,
            time_us: 1_400,
            exchanges,
        }
    }

    #[test]
    fn summary_names_what_was_found_and_where() {
        let mut found = resolution(vec![exchange(
            "db.shop.svc.cluster.local",
            Outcome::Addresses,
        )]);
        found.addresses = vec!["10.1.2.3".parse().unwrap()];
        found.source = Some(Source::Server {
            server: "10.96.0.10:53".parse().unwrap(),
            queried: "db.shop.svc.cluster.local".to_owned(),
        });
        assert_eq!(
            found.summary(),
            "db is 10.1.2.3 (db.shop.svc.cluster.local, from 10.96.0.10:53 in 1.400ms)"
        );
        found.source = Some(Source::Hosts);
        assert_eq!(
            found.summary(),
            "db is 10.1.2.3 in /etc/hosts of shop/report"
        );
    }

    #[test]
    fn name_without_an_address_differs_from_a_server_without_a_reply() {
        let negative = resolution(vec![
            exchange("db.shop.svc.cluster.local", Outcome::NoSuchName),
            exchange("db", Outcome::NoAddresses),
        ]);
        assert!(negative.is_negative());
        assert!(
            negative
                .summary()
                .starts_with("db has no address; queried: db.shop")
        );
        for (outcome, text) in [
            (
                Outcome::Timeout,
                "no DNS server of shop/report (10.96.0.10) replied",
            ),
            (Outcome::ServerFailure, "db could not be resolved"),
        ] {
            let failed = resolution(vec![exchange("db", outcome)]);
            assert!(!failed.is_negative());
            assert!(failed.summary().starts_with(text), "{}", failed.summary());
        }
    }

    #[test]
    fn json_is_read_back() {
        let before = resolution(vec![exchange("db", Outcome::PortUnreachable)]);
        let text = serde_json::to_string(&before).unwrap();
        assert!(text.contains("\"outcome\":\"port-unreachable\""), "{text}");
        assert_eq!(serde_json::from_str::<Resolution>(&text).unwrap(), before);
    }
}
