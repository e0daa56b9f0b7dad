//! HTTP/1.1 for a client that prints responses unchanged.
//!
//! Client libraries reject malformed responses, and normalize the order and the spelling of headers. For debugging, the
//! response must be visible as the app sent it. Here the head stays as bytes, and only the fields that frame the body are
//! parsed ([RFC 9112](https://www.rfc-editor.org/rfc/rfc9112)).

pub mod body;
pub mod head;
pub mod url;

pub use self::{body::Body, head::Head, url::Url};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method(String);

/// A header of a request; without a value, it removes a default header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    name: String,
    value: Option<String>,
}

/// A method or a header is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    #[error("invalid HTTP method {0:?}")]
    Method(String),
    /// The header is not `Name: value`.
    #[error("invalid HTTP header {0:?}, use for example \"Accept: text/plain\"")]
    Header(String),
}

impl std::str::FromStr for Method {
    type Err = InvalidRequest;

    fn from_str(text: &str) -> Result<Self, InvalidRequest> {
        if is_token(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidRequest::Method(text.to_owned()))
        }
    }
}

impl Method {
    /// Whether the response has no body in spite of its Content-Length.
    pub fn is_head(&self) -> bool {
        self.0 == "HEAD"
    }
}

impl std::str::FromStr for Header {
    type Err = InvalidRequest;

    fn from_str(text: &str) -> Result<Self, InvalidRequest> {
        let invalid = || InvalidRequest::Header(text.to_owned());
        let (name, value) = text.split_once(':').ok_or_else(invalid)?;
        let value = value.trim_matches([' ', '\t']);
        let is_value = value
            .bytes()
            .all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
        if !is_token(name) || !is_value {
            return Err(invalid());
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

/// The head of a request: the default headers, replaced and extended by `headers`. `length` is the length of the body.
pub fn request(method: &Method, url: &Url, headers: &[Header], length: Option<usize>) -> Vec<u8> {
    let defaults = [
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
    for (name, value) in defaults {
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
    fn request_heads() {
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
    fn only_head_requests_have_no_response_body() {
        for (text, expected) in [("HEAD", true), ("GET", false), ("head", false)] {
            assert_eq!(
                text.parse::<Method>().unwrap().is_head(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn methods_and_headers_cannot_contain_line_breaks() {
        for text in ["", "GET ", "G\r\nX", "GÄT"] {
            assert!(text.parse::<Method>().is_err(), "{text:?}");
        }
        for text in ["", "a", ": b", "a b: c", "a: b\r\nc: d", "a: \0", "a\n: b"] {
            assert!(text.parse::<Header>().is_err(), "{text:?}");
        }
    }
}
