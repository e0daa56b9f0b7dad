//! HTTP/1.1 as a client speaks it that shows what comes and does not judge it.
//!
//! A library for clients refuses answers that are not well-formed and gives headers in an order and spelling of its own; who asks
//! what an app answers wants to see the answer. Here an answer's head stays the bytes that came, of which only what says
//! where the body ends is understood ([RFC 9112](https://www.rfc-editor.org/rfc/rfc9112)).

pub mod body;
pub mod head;
pub mod url;

pub use self::{body::Body, head::Head, url::Url};

/// Words of a request, as they may be in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method(String);

/// A line of a request's head; without a value it takes one of the usual ones away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    name: String,
    value: Option<String>,
}

/// A word cannot be in a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotInARequest {
    /// It is no method.
    #[error("{0:?} is no method, as GET is")]
    Method(String),
    /// It is no header.
    #[error("{0:?} is no header, as \"Accept: text/plain\" is")]
    Header(String),
}

impl std::str::FromStr for Method {
    type Err = NotInARequest;

    fn from_str(text: &str) -> Result<Self, NotInARequest> {
        if is_token(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotInARequest::Method(text.to_owned()))
        }
    }
}

impl Method {
    /// Whether the answer has no body, whatever its head says.
    pub fn is_head(&self) -> bool {
        self.0 == "HEAD"
    }
}

impl std::str::FromStr for Header {
    type Err = NotInARequest;

    fn from_str(text: &str) -> Result<Self, NotInARequest> {
        let no = || NotInARequest::Header(text.to_owned());
        let (name, value) = text.split_once(':').ok_or_else(no)?;
        let value = value.trim_matches([' ', '\t']);
        let is_value = value
            .bytes()
            .all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
        if !is_token(name) || !is_value {
            return Err(no());
        }
        Ok(Self {
            name: name.to_owned(),
            value: (!value.is_empty()).then(|| value.to_owned()),
        })
    }
}

fn is_token(text: &str) -> bool {
    let is_in_one = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_in_one)
}

/// The head of a request: what is usual, unless `headers` say otherwise, and what they add. `length` is that of the body that
/// follows.
pub fn request(method: &Method, url: &Url, headers: &[Header], length: Option<usize>) -> Vec<u8> {
    let usual = [
        ("Host", Some(url.authority())),
        (
            "User-Agent",
            Some(concat!("usher/", env!("CARGO_PKG_VERSION")).to_owned()),
        ),
        ("Accept", Some("*/*".to_owned())),
        ("Content-Length", length.map(|length| length.to_string())),
        (
            "Content-Type",
            length.map(|_| "application/x-www-form-urlencoded".to_owned()),
        ),
    ];
    let is_given = |name: &str| {
        headers
            .iter()
            .any(|header| header.name.eq_ignore_ascii_case(name))
    };
    let mut head = format!("{} {} HTTP/1.1\r\n", method.0, url.path());
    for (name, value) in usual {
        if let Some(value) = value.filter(|_| !is_given(name)) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    for Header { name, value } in headers {
        if let Some(value) = value {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("\r\n");
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let url: Url = "http://localhost:8080/a?b".parse().unwrap();
        let head = |method: &str, headers: &[&str], length| {
            let headers: Vec<Header> = headers.iter().map(|text| text.parse().unwrap()).collect();
            String::from_utf8(request(&method.parse().unwrap(), &url, &headers, length)).unwrap()
        };
        let agent = concat!("User-Agent: usher/", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            head("GET", &[], None),
            format!("GET /a?b HTTP/1.1\r\nHost: localhost:8080\r\n{agent}\r\nAccept: */*\r\n\r\n")
        );
        assert_eq!(
            head(
                "PUT",
                &[
                    "host:  a b ",
                    "user-agent:",
                    "Accept:",
                    "X:y",
                    "content-type:"
                ],
                Some(3)
            ),
            "PUT /a?b HTTP/1.1\r\nContent-Length: 3\r\nhost: a b\r\nX: y\r\n\r\n"
        );
    }

    /// Methods are case-sensitive.
    #[test]
    fn only_an_answer_to_head_has_no_body() {
        for (text, expected) in [("HEAD", true), ("GET", false), ("head", false)] {
            assert_eq!(
                text.parse::<Method>().unwrap().is_head(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn nothing_breaks_out_of_its_line() {
        for text in ["", "GET ", "G\r\nX", "GÄT"] {
            assert!(text.parse::<Method>().is_err(), "{text:?}");
        }
        for text in ["", "a", ": b", "a b: c", "a: b\r\nc: d", "a: \0", "a\n: b"] {
            assert!(text.parse::<Header>().is_err(), "{text:?}");
        }
    }
}
