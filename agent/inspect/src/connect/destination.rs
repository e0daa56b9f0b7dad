//! A destination of the command line: `HOST:PORT`.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use crate::dns::Name;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub host: Host,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Address(IpAddr),
    Name(Name),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid destination, use for example db.shop.svc:5432, 10.0.0.1:443, [fd00::1]:53 or :8080"
)]
pub struct InvalidDestination;

impl FromStr for Destination {
    type Err = InvalidDestination;

    fn from_str(text: &str) -> Result<Self, InvalidDestination> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidDestination)?;
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse::<u16>().ok();
        let port = port.filter(|port| is_number && *port != 0);
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(host) => host
                .parse::<Ipv6Addr>()
                .ok()
                .map(|it| Host::Address(it.into())),
            None if host.is_empty() => "localhost".parse().ok().map(Host::Name),
            None => Host::of(host),
        };
        let host = host.ok_or(InvalidDestination)?;
        let port = port.ok_or(InvalidDestination)?;
        Ok(Self { host, port })
    }
}

impl Host {
    fn of(text: &str) -> Option<Self> {
        let last = text.trim_end_matches('.').rsplit('.').next()?;
        // A name does not end with a number: "10.0.0" and "300.1.2.3" are errors in an address.
        if last.bytes().all(|byte| byte.is_ascii_digit()) {
            let address = text.parse::<IpAddr>().ok()?;
            return Some(Self::Address(address));
        }
        text.parse().ok().map(Self::Name)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations() {
        for (text, shown) in [
            ("db.shop.svc:5432", "db.shop.svc:5432"),
            ("example.com.:443", "example.com.:443"),
            ("10.0.0.1:443", "10.0.0.1:443"),
            ("[fd00::1]:53", "[fd00::1]:53"),
            (":8080", "localhost:8080"),
        ] {
            let destination: Destination = text.parse().unwrap();
            assert_eq!(destination.to_string(), shown);
        }
        for text in [
            "",
            "db",
            "db:",
            "db:0",
            "db:x",
            "db:65536",
            "db:+1",
            "10.0.0:1",
            "300.1.2.3:1",
            "fd00::1:53",
            "[db]:1",
            "a b:1",
            "http://db:80",
        ] {
            assert_eq!(
                text.parse::<Destination>(),
                Err(InvalidDestination),
                "{text}"
            );
        }
    }
}
