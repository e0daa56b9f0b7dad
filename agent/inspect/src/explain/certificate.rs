//! The certificates of a proxy, as the admin port of Envoy lists them
//! ([/certs](https://www.envoyproxy.io/docs/envoy/latest/operations/admin#get--certs)).

use serde::Deserialize;

use super::date::parse;

/// A certificate that a proxy presents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The name of the workload, such as `spiffe://cluster.local/ns/shop/sa/default`; it may be empty.
    pub name: String,
    /// The time of validity, in milliseconds since 1970.
    pub from_ms: u64,
    pub until_ms: u64,
}

#[derive(Deserialize)]
struct Certs {
    #[serde(default)]
    certificates: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    cert_chain: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    subject_alt_names: Vec<AltName>,
    valid_from: String,
    expiration_time: String,
}

#[derive(Deserialize)]
struct AltName {
    uri: Option<String>,
}

impl Certificate {
    /// Parses the response of the admin port. Only the first certificate of each chain is the proxy's own.
    pub fn parse_all(body: &[u8]) -> Vec<Self> {
        let certs = serde_json::from_slice::<Certs>(body);
        let entries = certs.map(|certs| certs.certificates).unwrap_or_default();
        entries
            .into_iter()
            .filter_map(|entry| entry.cert_chain.into_iter().next())
            .filter_map(|link| {
                let mut names = link.subject_alt_names.into_iter();
                Some(Self {
                    from_ms: parse(&link.valid_from)?,
                    until_ms: parse(&link.expiration_time)?,
                    name: names.find_map(|name| name.uri).unwrap_or_default(),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_parsed() {
        let body = br#"{"certificates": [
            {"ca_cert": [{"valid_from": "2026-01-01T00:00:00Z", "expiration_time": "2036-01-01T00:00:00Z"}],
             "cert_chain": []},
            {"ca_cert": [], "cert_chain": [
              {"path": "<inline>", "serial_number": "1f", "days_until_expiration": "0",
               "subject_alt_names": [{"uri": "spiffe://cluster.local/ns/shop/sa/default"}],
               "valid_from": "2026-11-22T00:08:05Z", "expiration_time": "2026-11-22T00:10:05Z"},
              {"valid_from": "2020-01-01T00:00:00Z", "expiration_time": "2030-01-01T00:00:00Z"}]}]}"#;
        let certificate = Certificate {
            name: "spiffe://cluster.local/ns/shop/sa/default".to_owned(),
            from_ms: 1_795_306_085_000,
            until_ms: 1_795_306_205_000,
        };
        assert_eq!(Certificate::parse_all(body), [certificate]);
        for body in [
            &b""[..],
            b"{}",
            b"[]",
            b"{\"certificates\": [{\"cert_chain\": [{}]}]}",
        ] {
            assert_eq!(Certificate::parse_all(body), []);
        }
    }
}
