//! Sidecars as data: what they listen on, what they answer, how they end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A sidecar.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sidecar {
    /// Name of its process (`/proc/<pid>/comm`); none leaves it as it is.
    pub process: Option<String>,
    /// What it listens on.
    pub listeners: Vec<Listener>,
    /// Since when.
    pub listen: Listen,
    /// What it does on a signal, by number. Signals that are not here do what
    /// they do by default: to pid 1 of a namespace, nothing.
    pub signals: Vec<(i32, Reaction)>,
    /// A process that it starts.
    pub child: Option<Child>,
}

/// When a sidecar begins to listen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listen {
    /// As soon as it runs.
    #[default]
    AtOnce,
    /// After a while.
    After(Duration),
    /// At the line `listen` on its standard input.
    OnCommand,
}

/// One port.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listener {
    /// Its number.
    pub port: u16,
    /// The addresses.
    pub place: Place,
    /// What is spoken there.
    pub speech: Speech,
    /// The first that fits a request counts; without one it is 404.
    pub routes: Vec<Route>,
    /// So many requests come to nothing first: the connection is closed, as after a handler that panics.
    pub lost: u32,
}

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Speech {
    /// HTTP/1.1, by the routes.
    Http,
    /// TCP: to each line the address that the connection was made to, before
    /// any redirection.
    Original,
    /// UDP: each datagram comes back.
    Datagram,
}

/// Addresses to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// 127.0.0.1
    Loopback,
    /// ::1
    Loopback6,
    /// All, of both families, as Go's `:15020`.
    Everywhere,
}

/// What is done with the requests that it fits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Route {
    /// None: any.
    pub method: Option<String>,
    /// Without the query; none: any.
    pub path: Option<String>,
    /// A header that must be there, and its value.
    pub header: Option<(String, String)>,
    /// Only from 127.0.0.0/8 and ::1, by the peer's address.
    pub from_loopback: bool,
    /// What is sent.
    pub answer: Answer,
    /// What happens then.
    pub effect: Effect,
}

/// What is sent back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A status and a short text.
    Status(u16),
    /// 200 and this JSON.
    Json(String),
    /// 200 and a body that never ends.
    Endless,
    /// The head of an answer, a byte at a time, and never its end.
    Trickle,
    /// Not a byte.
    Nothing,
    /// 307 to this URL, which asks for the same request there.
    Redirect(String),
}

/// What follows the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// The connection is closed, and nothing else.
    Stay,
    /// The sidecar ends with this code after a while; until then it answers.
    Quit { after: Duration, code: u8 },
    /// The connection stays open.
    Hang,
    /// The connection is reset.
    Reset,
}

/// What a sidecar does on a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reaction {
    /// Ends with this code after a while.
    End { after: Duration, code: u8 },
    /// Says that it came.
    Stay,
}

/// A process that a sidecar starts, as pilot-agent starts Envoy. It says
/// `child-signalled <number>` and ends on its own when its parent has.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Child {
    /// Name of its process.
    pub process: String,
    /// How long it outlives its parent.
    pub outlives: Duration,
}

/// Whole ports in a word: what happens to any request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Answers 200 and ends with code 0.
    Quit,
    /// Answers 200 and stays.
    IgnoreQuit,
    /// Answers with this status and stays.
    Status(u16),
    /// Never answers.
    Hang,
    /// Closes the connection.
    CloseWithoutReply,
    /// Resets the connection.
    Reset,
    /// Answers 200 with a body that never ends.
    EndlessBody,
    /// Answers so slowly that it never ends, though never idle for long.
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
    /// The sidecar ends at once, with code 0.
    pub const QUIT: Self = Self::Quit {
        after: Duration::ZERO,
        code: 0,
    };
}

impl Reaction {
    /// The sidecar ends at once, with code 0.
    pub const END: Self = Self::End {
        after: Duration::ZERO,
        code: 0,
    };
}

impl Route {
    /// Answers whatever comes.
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

    /// Answers a method at a path.
    pub fn at(method: &str, path: &str, answer: Answer, effect: Effect) -> Self {
        Self {
            method: Some(method.to_owned()),
            ..Self::path(path, answer, effect)
        }
    }

    /// Answers any method at a path.
    pub fn path(path: &str, answer: Answer, effect: Effect) -> Self {
        Self {
            path: Some(path.to_owned()),
            ..Self::any(answer, effect)
        }
    }

    /// Only peers on loopback.
    #[must_use]
    pub const fn from_loopback(mut self) -> Self {
        self.from_loopback = true;
        self
    }

    /// Only with this header.
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

    /// On all addresses, what a mesh's proxy does with what is redirected to it.
    pub const fn original(port: u16) -> Self {
        Self {
            port,
            place: Place::Everywhere,
            speech: Speech::Original,
            routes: Vec::new(),
            lost: 0,
        }
    }

    /// On 127.0.0.1, each datagram comes back.
    pub const fn datagram(port: u16) -> Self {
        Self {
            port,
            place: Place::Loopback,
            speech: Speech::Datagram,
            routes: Vec::new(),
            lost: 0,
        }
    }

    /// On 127.0.0.1, with one answer to everything.
    pub fn mannered(port: u16, manner: Manner) -> Self {
        let (answer, effect) = manner.acts();
        Self::new(port, vec![Route::any(answer, effect)])
    }

    /// So many requests come to nothing first.
    #[must_use]
    pub const fn losing(mut self, requests: u32) -> Self {
        self.lost = requests;
        self
    }

    /// On these addresses instead.
    #[must_use]
    pub const fn on(mut self, place: Place) -> Self {
        self.place = place;
        self
    }
}
