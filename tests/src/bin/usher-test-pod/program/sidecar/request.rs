//! The parser of a sidecar's requests, and the match of routes.

use std::io::Read;
use std::net::TcpStream;

use usher_tests::synthetic::wire::Route;

const HEAD_LIMIT: usize = 16 * 1024;

/// The head of a request.
pub(super) struct Request {
    /// Method, path and version.
    pub(super) line: String,
    headers: Vec<(String, String)>,
    from_loopback: bool,
}

impl Request {
    /// Reads until the head is complete.
    pub(super) fn read(stream: &mut TcpStream) -> Option<Self> {
        let peer = stream.peer_addr().ok()?;
        let mut head = Vec::with_capacity(1024);
        let mut block = [0; 1024];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = stream.read(&mut block).ok().filter(|read| *read > 0)?;
            head.extend(block.get(..read)?);
            if head.len() > HEAD_LIMIT {
                return None;
            }
        }
        let text = String::from_utf8_lossy(&head);
        let mut lines = text.split("\r\n");
        let line = lines.next()?.to_owned();
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        });
        Some(Self {
            line,
            headers: headers.collect(),
            // Through a listener of both families 127.0.0.1 is ::ffff:127.0.0.1.
            from_loopback: peer.ip().to_canonical().is_loopback(),
        })
    }

    /// Whether a route matches this request.
    pub(super) fn fits(&self, route: &Route) -> bool {
        let mut words = self.line.split(' ');
        let method = words.next().unwrap_or_default();
        let target = words.next().unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default();
        let has = |(name, value): &(String, String)| {
            let mut headers = self.headers.iter();
            headers.any(|(found, is)| found.eq_ignore_ascii_case(name) && is == value)
        };
        route
            .method
            .as_deref()
            .is_none_or(|wanted| wanted == method)
            && route.path.as_deref().is_none_or(|wanted| wanted == path)
            && route.header.as_ref().is_none_or(has)
            && (self.from_loopback || !route.from_loopback)
    }
}
