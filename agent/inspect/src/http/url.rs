//! Addresses of what listens in a pod.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    host: Host,
    port: u16,
    path: String,
}

/// The host of a URL. No name is looked up: whom a name means in a pod is written in the pod's file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The pod's loopback, whichever family.
    Localhost,
    /// An address.
    Address(IpAddr),
}

/// A text is no address of something that can be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAUrl {
    /// Another protocol.
    #[error("{0}:// is not spoken here, only http://")]
    Scheme(String),
    /// A name that would have to be looked up.
    #[error(
        "host {0:?} would have to be looked up in the pod: give localhost or an IP address, and the name \
         with -H \"Host: {0}\""
    )]
    Name(String),
    /// No port.
    #[error("{0:?} is no port")]
    Port(String),
    /// A user and a password.
    #[error("a URL with user and password is not taken: give -H \"Authorization: ...\"")]
    User,
    /// A path with bytes that cannot be in a request.
    #[error("the path has a character that must be percent-encoded")]
    Path,
}

impl Url {
    /// Whom to ask.
    pub fn host(&self) -> Host {
        self.host
    }

    /// At which port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// For what, with the query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// For the header Host.
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
    type Err = NotAUrl;

    /// `http://host:port/path?query`; the scheme may be missing, and the host, which is localhost then.
    fn from_str(text: &str) -> Result<Self, NotAUrl> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            // Not one of a query.
            Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                return Err(NotAUrl::Scheme(scheme.to_owned()));
            }
            _ => text,
        };
        // A fragment is the browser's.
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if !path.bytes().all(|byte| (b'!'..=b'~').contains(&byte)) {
            return Err(NotAUrl::Path);
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

fn split(authority: &str) -> Result<(Host, u16), NotAUrl> {
    if authority.contains('@') {
        return Err(NotAUrl::User);
    }
    let no_name = || NotAUrl::Name(authority.to_owned());
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or_else(no_name)?;
        let address: Ipv6Addr = address.parse().map_err(|_no_address| no_name())?;
        let port = match port {
            "" => None,
            port => Some(port.strip_prefix(':').ok_or_else(no_name)?),
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
                    .map_err(|_no_address| NotAUrl::Name(name.to_owned()));
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
            .ok_or_else(|| NotAUrl::Port(port.to_owned()))?,
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls() {
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
    fn what_is_none() {
        let name = |name: &str| NotAUrl::Name(name.to_owned());
        for (text, error) in [
            ("https://localhost/", NotAUrl::Scheme("https".to_owned())),
            ("http://shop.svc:80/", name("shop.svc")),
            ("http://[::1/", name("[::1")),
            ("http://[::1]8/", name("[::1]8")),
            ("http://a:b@localhost/", NotAUrl::User),
            ("localhost:0", NotAUrl::Port("0".to_owned())),
            ("localhost:65536", NotAUrl::Port("65536".to_owned())),
            ("localhost/a b", NotAUrl::Path),
            ("localhost/a\r\nX: y", NotAUrl::Path),
            ("localhost/ä", NotAUrl::Path),
        ] {
            assert_eq!(text.parse::<Url>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_one_line(text in "(http://)?\\PC{0,20}[:/?\\[\\]@\r\n]{0,4}\\PC{0,20}") {
            if let Ok(url) = text.parse::<Url>() {
                let whole = format!("{}{}", url.authority(), url.path());
                prop_assert!(whole.bytes().all(|byte| (b'!'..=b'~').contains(&byte)), "{}", whole);
            }
        }
    }
}
