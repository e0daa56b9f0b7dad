//! Lists of ports in a pod: Consul's upstreams, the instances of Cloud SQL's proxy v1.

use serde::Deserialize;

use crate::recipe::{Sources, Subject};

/// A list of entries that each have a port, such as `orders:1234,stock:1235:dc2` or
/// `p:r:a=tcp:5432,p:r:b=tcp:0.0.0.0:3306`. All sources count.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortList {
    pub annotations: Vec<String>,
    pub args: Vec<String>,
    pub env: Vec<String>,
    /// The text of an entry after which its address begins; an entry without it has no port.
    pub after: Option<String>,
}

impl PortList {
    pub(super) fn ports(&self, subject: Subject<'_>) -> Vec<u16> {
        let annotations = self
            .annotations
            .iter()
            .filter_map(|key| subject.annotation(key));
        let args = self.args.iter().flat_map(|name| subject.flags(name));
        let env = self.env.iter().filter_map(|name| subject.env(name));
        annotations
            .chain(args)
            .chain(env)
            .flat_map(|list| list.split([',', ';', ' ', '\n']))
            .filter_map(|entry| self.port(entry.trim()))
            .collect()
    }

    fn port(&self, entry: &str) -> Option<u16> {
        let address = match &self.after {
            Some(after) => entry.split_once(after)?.1,
            None => entry.split_once(':')?.1,
        };
        address.split(':').find_map(|part| part.parse().ok())
    }

    pub(super) fn sources(&self) -> Sources<'_> {
        Sources {
            annotations: &self.annotations,
            args: &self.args,
            env: &self.env,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_entries() {
        let upstreams = PortList::default();
        for (entry, port) in [
            ("orders:1234", Some(1234)),
            ("stock:1235:dc2", Some(1235)),
            ("prepared_query:orders:1236", Some(1236)),
            ("orders.svc.shop.ns.us.dc:1237", Some(1237)),
            ("1238:1239", Some(1239)),
            ("orders", None),
            ("orders:many", None),
            ("", None),
        ] {
            assert_eq!(upstreams.port(entry), port, "{entry}");
        }
        let instances = PortList {
            after: Some("=tcp:".to_owned()),
            ..PortList::default()
        };
        for (entry, port) in [
            ("p:r:i=tcp:5432", Some(5432)),
            ("p:r:i=tcp:0.0.0.0:3306", Some(3306)),
            ("$I=tcp:5433", Some(5433)),
            ("p:r:i=unix:/cloudsql/i", None),
            ("p:r:i", None),
        ] {
            assert_eq!(instances.port(entry), port, "{entry}");
        }
    }
}
