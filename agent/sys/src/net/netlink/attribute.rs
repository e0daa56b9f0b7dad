//! Netlink attributes: type, length, value, nested and padded to 4 bytes
//! ([`include/uapi/linux/netlink.h`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/netlink.h)).
//!
//! Lengths and types are in host byte order. Values of netfilter's attributes are in network byte order, except packet
//! data and the values compared with it.

const HEADER: usize = 4;
const ALIGNMENT: usize = 4;
/// Flag of an attribute that contains attributes.
const NESTED: u16 = 1 << 15;
/// The bits of the type that are flags.
const FLAGS: u16 = 0b11 << 14;

/// Appends an attribute.
pub fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let start = begin(bytes, kind);
    bytes.extend_from_slice(value);
    end(bytes, start);
}

/// Appends a zero-terminated text.
pub fn put_text(bytes: &mut Vec<u8>, kind: u16, text: &str) {
    let start = begin(bytes, kind);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    end(bytes, start);
}

pub fn put_u16(bytes: &mut Vec<u8>, kind: u16, number: u16) {
    put(bytes, kind, &number.to_be_bytes());
}

pub fn put_u32(bytes: &mut Vec<u8>, kind: u16, number: u32) {
    put(bytes, kind, &number.to_be_bytes());
}

pub fn put_u64(bytes: &mut Vec<u8>, kind: u16, number: u64) {
    put(bytes, kind, &number.to_be_bytes());
}

/// Appends an attribute with the nested attributes of `fill`.
pub fn nest(bytes: &mut Vec<u8>, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(bytes, kind | NESTED);
    fill(bytes);
    end(bytes, start);
}

fn begin(bytes: &mut Vec<u8>, kind: u16) -> usize {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&kind.to_ne_bytes());
    start
}

fn end(bytes: &mut Vec<u8>, start: usize) {
    // All requests together have only a few kilobytes.
    let length = u16::try_from(bytes.len() - start).expect("an attribute is shorter than 64 KiB");
    bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
}

/// A received attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    pub kind: u16,
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// The value as a number in network byte order.
    pub fn u16(&self) -> Option<u16> {
        self.value.try_into().ok().map(u16::from_be_bytes)
    }

    /// The value as a number in network byte order.
    pub fn u32(&self) -> Option<u32> {
        self.value.try_into().ok().map(u32::from_be_bytes)
    }

    /// The value as a number in network byte order.
    pub fn u64(&self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_be_bytes)
    }

    /// The value as a text, without the terminating zero.
    pub fn text(&self) -> Option<&'a str> {
        let end = self.value.iter().position(|byte| *byte == 0);
        std::str::from_utf8(&self.value[..end.unwrap_or(self.value.len())]).ok()
    }
}

/// The attributes in `bytes` before the first truncated one.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (header, _) = rest.split_first_chunk::<HEADER>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !FLAGS;
        let value = rest.get(HEADER..length)?;
        rest = rest
            .get(length.next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
        Some(Attribute { kind, value })
    })
}

/// The first attribute of this type.
pub fn find(bytes: &[u8], kind: u16) -> Option<Attribute<'_>> {
    attributes(bytes).find(|attribute| attribute.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_attributes_are_read() {
        let mut bytes = Vec::new();
        put_text(&mut bytes, 1, "usher");
        nest(&mut bytes, 2, |inner| {
            put_u16(inner, 3, 15001);
            put_u64(inner, 4, 30_000);
        });
        put(&mut bytes, 5, &[]);
        assert_eq!(bytes.len() % ALIGNMENT, 0);
        assert_eq!(find(&bytes, 1).unwrap().text(), Some("usher"));
        let inner = find(&bytes, 2).unwrap().value;
        assert_eq!(find(inner, 3).unwrap().u16(), Some(15001));
        assert_eq!(find(inner, 3).unwrap().u32(), None);
        assert_eq!(find(inner, 4).unwrap().u64(), Some(30_000));
        assert!(find(&bytes, 5).unwrap().value.is_empty());
        assert_eq!(find(&bytes, 6), None);
    }

    #[test]
    fn truncated_attribute_ends_the_list() {
        let mut bytes = Vec::new();
        put_u32(&mut bytes, 1, 7);
        put_u32(&mut bytes, 2, 7);
        for length in 0..bytes.len() {
            let whole = usize::from(length >= 8);
            assert_eq!(attributes(&bytes[..length]).count(), whole, "{length}");
        }
        // A length shorter than its own header.
        assert_eq!(attributes(&[3, 0, 1, 0, 0, 0, 0, 0]).count(), 0);
    }
}
