//! URLs of ports in a pod.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// The destination of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    host: Host,
    port: u16,
    path: String,
}

/// The host of a URL. Names are not resolved: the pod's resolver configuration is in its file system, which is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The pod's loopback, in both address families.
    Localhost,
    Address(IpAddr),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    #[error("unsupported URL scheme {0}://, use http://")]
    Scheme(String),
    #[error(
        "host {0:?} cannot be resolved in the pod: use localhost or an IP address, and pass the name with -H \
         \"Host: {0}\""
    )]
    Name(String),
    #[error("invalid port {0:?}")]
    Port(String),
    #[error("a URL with a user and a password is not supported: use -H \"Authorization: ...\"")]
    User,
    #[error("the URL path has a character that must be percent-encoded")]
    Path,
}

impl Url {
    pub fn host(&self) -> Host {
        self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path with the query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value of the header Host.
    pub fn authority(&self) -> String {
        match self.port {
            80 => self.host.to_string(),
            port => format!("{}:{port}", self.host),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Localhost => f.write_str("localhost"),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

impl FromStr for Url {
    type Err = InvalidUrl;

    /// `http://host:port/path?query`. The scheme is optional, and the default host is localhost.
    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            // "://" may also be part of a query.
            Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                return Err(InvalidUrl::Scheme(scheme.to_owned()));
            }
            _ => text,
        };
        // A fragment is not sent.
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if !path.bytes().all(|byte| (b'!'..=b'~').contains(&byte)) {
            return Err(InvalidUrl::Path);
        }
        let (host, port) = split(authority)?;
        Ok(Self {
            host,
            port,
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
        })
    }
}

fn split(authority: &str) -> Result<(Host, u16), InvalidUrl> {
    if authority.contains('@') {
        return Err(InvalidUrl::User);
    }
    let invalid = || InvalidUrl::Name(authority.to_owned());
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or_else(invalid)?;
        let address: Ipv6Addr = address.parse().map_err(|_no_address| invalid())?;
        let port = match port {
            "" => None,
            port => Some(port.strip_prefix(':').ok_or_else(invalid)?),
        };
        (Host::Address(address.into()), port)
    } else {
        let (name, port) = match authority.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (authority, None),
        };
        let host = match name {
            "" => Host::Localhost,
            name if name.eq_ignore_ascii_case("localhost") => Host::Localhost,
            name => {
                let address = name
                    .parse()
                    .map_err(|_no_address| InvalidUrl::Name(name.to_owned()));
                Host::Address(IpAddr::V4(address?))
            }
        };
        (host, port)
    };
    let port = match port {
        None | Some("") => 80,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| InvalidUrl::Port(port.to_owned()))?,
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn valid_urls() {
        for (text, whole) in [
            ("http://localhost", "http://localhost/"),
            (
                "HTTP://LocalHost:15000/stats?a=b#c",
                "http://localhost:15000/stats?a=b",
            ),
            ("localhost:80", "http://localhost/"),
            (
                ":15021/healthz/ready",
                "http://localhost:15021/healthz/ready",
            ),
            ("/a", "http://localhost/a"),
            ("127.0.0.1:8080?q", "http://127.0.0.1:8080/?q"),
            ("http://[::1]:8080/", "http://[::1]:8080/"),
            ("http://[fd00::7]", "http://[fd00::7]/"),
            (
                "/go?to=https://example.org",
                "http://localhost/go?to=https://example.org",
            ),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!(url.to_string(), whole, "{text}");
            assert_eq!(whole.parse(), Ok(url));
        }
    }

    #[test]
    fn invalid_urls() {
        let name = |name: &str| InvalidUrl::Name(name.to_owned());
        for (text, error) in [
            ("https://localhost/", InvalidUrl::Scheme("https".to_owned())),
            ("http://shop.svc:80/", name("shop.svc")),
            ("http://[::1/", name("[::1")),
            ("http://[::1]8/", name("[::1]8")),
            ("http://a:b@localhost/", InvalidUrl::User),
            ("localhost:0", InvalidUrl::Port("0".to_owned())),
            ("localhost:65536", InvalidUrl::Port("65536".to_owned())),
            ("localhost/a b", InvalidUrl::Path),
            ("localhost/a\r\nX: y", InvalidUrl::Path),
            ("localhost/ä", InvalidUrl::Path),
        ] {
            assert_eq!(text.parse::<Url>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn valid_urls_have_no_line_breaks(text in "(http://)?\\PC{0,20}[:/?\\[\\]@\r\n]{0,4}\\PC{0,20}") {
            if let Ok(url) = text.parse::<Url>() {
                let whole = format!("{}{}", url.authority(), url.path());
                prop_assert!(whole.bytes().all(|byte| (b'!'..=b'~').contains(&byte)), "{}", whole);
            }
        }
    }
}
