//! Sidecars as data: their listeners, responses and exits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sidecar {
    /// The name of its process (`/proc/<pid>/comm`); None leaves it unchanged.
    pub process: Option<String>,
    pub listeners: Vec<Listener>,
    /// When it starts to listen.
    pub listen: Listen,
    /// Its reactions to signals, by number. Other signals have
    /// their default effect: to pid 1 of a namespace, none.
    pub signals: Vec<(i32, Reaction)>,
    /// A process that it starts.
    pub child: Option<Child>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listen {
    /// As soon as it runs.
    #[default]
    AtOnce,
    After(Duration),
    /// On the line `listen` on its standard input.
    OnCommand,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listener {
    pub port: u16,
    pub place: Place,
    /// Its protocol.
    pub speech: Speech,
    /// The first matching route applies; without one the status is 404.
    pub routes: Vec<Route>,
    /// The number of requests that fail first: the connection is closed, as after a panic of the handler.
    pub lost: u32,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Speech {
    /// HTTP/1.1, by the routes.
    Http,
    /// TCP: returns for each line the original destination of the connection, before
    /// any redirection.
    Original,
    /// UDP: returns each datagram.
    Datagram,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    Loopback,
    Loopback6,
    /// All, of both families, as Go's `:15020`.
    Everywhere,
}

/// The response to matching requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Route {
    /// None matches any method.
    pub method: Option<String>,
    /// The path without the query; None matches any path.
    pub path: Option<String>,
    /// A required header and its value.
    pub header: Option<(String, String)>,
    /// Matches only peers in 127.0.0.0/8 and ::1.
    pub from_loopback: bool,
    /// The response.
    pub answer: Answer,
    /// The effect after the response.
    pub effect: Effect,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A status and a short text.
    Status(u16),
    /// 200 and this JSON.
    Json(String),
    /// 200 and an endless body.
    Endless,
    /// The head of a response, a byte at a time, without an end.
    Trickle,
    /// No byte.
    Nothing,
    /// 307 to this URL, which repeats the request there.
    Redirect(String),
}

/// The effect after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Only closes the connection.
    Stay,
    /// The sidecar exits with this code after a while, and responds until then.
    Quit {
        after: Duration,
        code: u8,
    },
    /// The connection stays open.
    Hang,
    Reset,
}

/// The reaction of a sidecar to a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reaction {
    /// Exits with this code after a while.
    End { after: Duration, code: u8 },
    /// Prints the signal and runs on.
    Stay,
}

/// A process that a sidecar starts, as pilot-agent starts Envoy. It prints `child-signalled <number>`,
/// and exits some time after its parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Child {
    pub process: String,
    /// The time that it outlives its parent.
    pub outlives: Duration,
}

/// The behaviour of a whole port for any request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Answers 200 and exits with code 0.
    Quit,
    /// Answers 200 and runs on.
    IgnoreQuit,
    /// Answers with this status and runs on.
    Status(u16),
    Hang,
    CloseWithoutReply,
    Reset,
    /// Answers 200 with an endless body.
    EndlessBody,
    /// Answers without an end, so slowly that the connection is never idle for long.
    Trickle,
}

impl Manner {
    fn acts(self) -> (Answer, Effect) {
        match self {
            Self::Quit => (Answer::Status(200), Effect::QUIT),
            Self::IgnoreQuit => (Answer::Status(200), Effect::Stay),
            Self::Status(code) => (Answer::Status(code), Effect::Stay),
            Self::Hang => (Answer::Nothing, Effect::Hang),
            Self::CloseWithoutReply => (Answer::Nothing, Effect::Stay),
            Self::Reset => (Answer::Nothing, Effect::Reset),
            Self::EndlessBody => (Answer::Endless, Effect::Stay),
            Self::Trickle => (Answer::Trickle, Effect::Stay),
        }
    }
}

impl Effect {
    /// The sidecar exits at once, with code 0.
    pub const QUIT: Self = Self::Quit {
        after: Duration::ZERO,
        code: 0,
    };
}

impl Reaction {
    /// The sidecar exits at once, with code 0.
    pub const END: Self = Self::End {
        after: Duration::ZERO,
        code: 0,
    };
}

impl Route {
    /// Matches any request.
    pub const fn any(answer: Answer, effect: Effect) -> Self {
        Self {
            method: None,
            path: None,
            header: None,
            from_loopback: false,
            answer,
            effect,
        }
    }

    /// Matches a method and a path.
    pub fn at(method: &str, path: &str, answer: Answer, effect: Effect) -> Self {
        Self {
            method: Some(method.to_owned()),
            ..Self::path(path, answer, effect)
        }
    }

    /// Matches any method at a path.
    pub fn path(path: &str, answer: Answer, effect: Effect) -> Self {
        Self {
            path: Some(path.to_owned()),
            ..Self::any(answer, effect)
        }
    }

    /// Matches only peers on loopback.
    #[must_use]
    pub const fn from_loopback(mut self) -> Self {
        self.from_loopback = true;
        self
    }

    /// Matches only requests with this header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.header = Some((name.to_owned(), value.to_owned()));
        self
    }
}

impl Listener {
    /// On 127.0.0.1, with these routes.
    pub const fn new(port: u16, routes: Vec<Route>) -> Self {
        Self {
            port,
            place: Place::Loopback,
            speech: Speech::Http,
            routes,
            lost: 0,
        }
    }

    /// On all addresses, like a mesh's proxy with redirected connections.
    pub const fn original(port: u16) -> Self {
        Self {
            port,
            place: Place::Everywhere,
            speech: Speech::Original,
            routes: Vec::new(),
            lost: 0,
        }
    }

    /// On 127.0.0.1, returns each datagram.
    pub const fn datagram(port: u16) -> Self {
        Self {
            port,
            place: Place::Loopback,
            speech: Speech::Datagram,
            routes: Vec::new(),
            lost: 0,
        }
    }

    /// On 127.0.0.1, with the same response to every request.
    pub fn mannered(port: u16, manner: Manner) -> Self {
        let (answer, effect) = manner.acts();
        Self::new(port, vec![Route::any(answer, effect)])
    }

    /// Fails this number of requests first.
    #[must_use]
    pub const fn losing(mut self, requests: u32) -> Self {
        self.lost = requests;
        self
    }

    /// Listens on these addresses instead.
    #[must_use]
    pub const fn on(mut self, place: Place) -> Self {
        self.place = place;
        self
    }
}
