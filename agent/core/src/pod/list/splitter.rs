//! Splits a list into its pods while its bytes arrive, whatever their chunks are.
//!
//! Only the value that is being read is in memory, and of a pod at most [`LARGEST_POD`] bytes. The structure of the list is checked
//! here, and each value by `serde_json`: those of pods by the caller. So the same texts are valid as for `serde_json` on the whole
//! list.

use serde::de::IgnoredAny;
use serde_json::from_slice;

use super::NotAPodList;

/// The longest pod that is read. etcd limits objects to 1.5 MiB by default.
pub const LARGEST_POD: usize = 2 * 1024 * 1024;

const ITEMS: &str = "items";

/// One element of `items`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element<'splitter> {
    /// The position in the list, from 0.
    pub(super) index: usize,
    pub(super) bytes: usize,
    pub(super) text: Text<'splitter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text<'splitter> {
    /// A JSON value, if it is valid at all.
    Whole(&'splitter str),
    /// The first bytes of an element that is longer than [`LARGEST_POD`].
    Beginning(&'splitter [u8]),
}

/// A list while it arrives.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    place: Place,
    value: Value,
    pods: usize,
    has_items: bool,
    /// The bytes before the next one.
    offset: u64,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    BeforeList,
    /// Behind the `{`, where the list may end.
    FirstMember,
    Name,
    Colon,
    Member,
    /// Behind the name `items`.
    Items,
    AfterMember,
    /// Behind the `[`, where `items` may end.
    FirstPod,
    Pod,
    AfterPod,
    AfterList,
}

/// A value of the list, from its first byte to its last one.
#[derive(Debug, Default)]
struct Value {
    shape: Shape,
    bytes: usize,
    text: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Shape {
    /// The value has not begun.
    #[default]
    Absent,
    /// A number, `true`, `false` or `null`, which ends before the next delimiter.
    Bare,
    String {
        escaped: bool,
    },
    Nested {
        depth: usize,
        in_string: bool,
        escaped: bool,
    },
}

impl Splitter {
    /// Reads bytes until a pod is complete or no bytes are left; the bytes that were read are removed from `chunk`.
    pub(super) fn next(&mut self, chunk: &mut &[u8]) -> Result<Option<Element<'_>>, NotAPodList> {
        while let Some(&byte) = chunk.first() {
            let blank = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
            if blank && self.value.shape == Shape::Absent {
                self.skip(chunk);
                continue;
            }
            match (self.place, byte) {
                (Place::BeforeList, b'{') => self.enter(Place::FirstMember, chunk),
                (Place::FirstMember | Place::AfterMember, b'}') => {
                    self.enter(Place::AfterList, chunk);
                }
                (Place::FirstMember, b'"') => self.place = Place::Name,
                (Place::AfterMember, b',') => self.enter(Place::Name, chunk),
                (Place::Colon, b':') => {
                    let next = if self.is_items()? {
                        Place::Items
                    } else {
                        Place::Member
                    };
                    self.enter(next, chunk);
                }
                (Place::Items, b'[') if self.value.shape == Shape::Absent => {
                    self.enter(Place::FirstPod, chunk);
                }
                (Place::FirstPod | Place::AfterPod, b']') => self.enter(Place::AfterMember, chunk),
                (Place::FirstPod, _) => self.place = Place::Pod,
                (Place::AfterPod, b',') => self.enter(Place::Pod, chunk),
                (Place::Name, b'"') | (Place::Member | Place::Items | Place::Pod, _) => {
                    if self.read_value(chunk)? {
                        return self.element();
                    }
                }
                (Place::Name, _) if self.value.shape != Shape::Absent => {
                    self.read_value(chunk)?;
                }
                _ => return Err(self.unexpected()),
            }
        }
        Ok(None)
    }

    /// Accepts the end of the bytes.
    pub(super) fn finish(&self) -> Result<(), NotAPodList> {
        match self.place {
            Place::AfterList => Ok(()),
            _ => Err(NotAPodList::Incomplete { bytes: self.offset }),
        }
    }

    fn skip(&mut self, chunk: &mut &[u8]) {
        *chunk = chunk.get(1..).unwrap_or_default();
        self.offset += 1;
    }

    fn enter(&mut self, place: Place, chunk: &mut &[u8]) {
        self.skip(chunk);
        self.place = place;
        self.value.clear();
    }

    /// Reads bytes of the current value. Returns whether a pod is complete.
    fn read_value(&mut self, chunk: &mut &[u8]) -> Result<bool, NotAPodList> {
        if self.value.shape == Shape::Absent && !self.value.begin(chunk) {
            return Err(self.unexpected());
        }
        let (taken, is_complete) = self.value.read(chunk);
        *chunk = chunk.get(taken..).unwrap_or_default();
        self.offset += taken as u64;
        let is_pod = self.place == Place::Pod;
        if self.value.is_too_long() && !is_pod {
            return Err(NotAPodList::TooLong {
                offset: self.offset,
            });
        }
        if !is_complete {
            return Ok(false);
        }
        self.place = match self.place {
            Place::Name => Place::Colon,
            Place::Pod => Place::AfterPod,
            place => {
                self.check_member(place == Place::Items)?;
                Place::AfterMember
            }
        };
        if !is_pod {
            self.value.shape = Shape::Absent;
        }
        Ok(is_pod)
    }

    /// Checks the value of a member. The kubelet writes `null` for the pods of a node without any.
    fn check_member(&self, is_items: bool) -> Result<(), NotAPodList> {
        let text = &self.value.text;
        let valid = if is_items {
            from_slice::<()>(text)
        } else {
            from_slice::<IgnoredAny>(text).map(drop)
        };
        valid.map_err(|source| self.invalid(source))
    }

    /// Whether the name that was read is `items`.
    fn is_items(&mut self) -> Result<bool, NotAPodList> {
        let name: String = from_slice(&self.value.text).map_err(|source| self.invalid(source))?;
        let is_items = name == ITEMS;
        if is_items && self.has_items {
            return Err(self.unexpected());
        }
        self.has_items |= is_items;
        Ok(is_items)
    }

    fn element(&mut self) -> Result<Option<Element<'_>>, NotAPodList> {
        let index = self.pods;
        self.pods += 1;
        self.value.shape = Shape::Absent;
        let text = if self.value.is_too_long() {
            Text::Beginning(&self.value.text)
        } else {
            let text = str::from_utf8(&self.value.text);
            Text::Whole(text.map_err(|_not_utf8| self.unexpected())?)
        };
        Ok(Some(Element {
            index,
            bytes: self.value.bytes,
            text,
        }))
    }

    fn unexpected(&self) -> NotAPodList {
        NotAPodList::Syntax {
            offset: self.offset,
        }
    }

    /// The error for a value that ends here.
    pub(super) const fn invalid(&self, source: serde_json::Error) -> NotAPodList {
        NotAPodList::Value {
            offset: self.offset,
            source,
        }
    }
}

impl Value {
    fn clear(&mut self) {
        self.shape = Shape::Absent;
        self.bytes = 0;
        self.text.clear();
    }

    const fn is_too_long(&self) -> bool {
        self.bytes > LARGEST_POD
    }

    /// Begins a value with its first byte; false where no value begins with it.
    fn begin(&mut self, chunk: &[u8]) -> bool {
        self.clear();
        self.shape = match chunk.first() {
            Some(b'{' | b'[') => Shape::Nested {
                depth: 0,
                in_string: false,
                escaped: false,
            },
            // The opening quote is read like an escaped character.
            Some(b'"') => Shape::String { escaped: true },
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => Shape::Bare,
            _ => return false,
        };
        true
    }

    /// Reads the bytes of the value. Returns how many there are, and whether the value is complete.
    fn read(&mut self, chunk: &[u8]) -> (usize, bool) {
        let end = self.shape.end(chunk);
        let taken = end.unwrap_or(chunk.len());
        let room = LARGEST_POD.saturating_sub(self.text.len());
        let kept = chunk.get(..taken.min(room)).unwrap_or_default();
        self.text.extend_from_slice(kept);
        self.bytes = self.bytes.saturating_add(taken);
        (taken, end.is_some())
    }
}

impl Shape {
    /// The end of the value in these bytes, if it is there.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Absent => Some(0),
            Self::Bare => bytes
                .iter()
                .position(|byte| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t')),
            Self::String { escaped } => end_of_string(bytes, escaped),
            Self::Nested {
                depth,
                in_string,
                escaped,
            } => {
                let mut at = 0;
                while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
                    if *in_string {
                        at += end_of_string(rest, escaped)?;
                        *in_string = false;
                        continue;
                    }
                    let is_delimiter = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
                    let found = rest.iter().position(is_delimiter)?;
                    match rest.get(found) {
                        Some(b'"') => *in_string = true,
                        Some(b'{' | b'[') => *depth += 1,
                        _ => *depth -= 1,
                    }
                    at += found + 1;
                    if *depth == 0 {
                        return Some(at);
                    }
                }
                None
            }
        }
    }
}

/// The end of a string behind its closing quote. `escaped`: whether the first byte is read literally.
fn end_of_string(bytes: &[u8], escaped: &mut bool) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        if std::mem::take(escaped) {
            at += 1;
            continue;
        }
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\');
        at += bytes.get(at..)?.iter().position(is_special)? + 1;
        match bytes.get(at - 1) {
            Some(b'"') => return Some(at),
            _ => *escaped = true,
        }
    }
    None
}

#[cfg(test)]
mod tests;
