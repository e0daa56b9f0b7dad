//! Decodes expressions of the kernel. An expression with options that usher's own rules do not use, such as "not in",
//! becomes [`Expression::Other`].

use usher_core::hold::ruleset::Queue;

use super::{
    ACCEPT, BYPASS, DATA, DROP, Expression, Field, METAS, NAME, REGISTER, REGISTER_VERDICT, TARGET,
    TARGET_REVISION, VALUE, VERDICT, VERDICT_CODE,
};
use crate::net::netlink::attribute::{Attribute, attributes, find};

impl Expression {
    /// Decodes an element of a list; None if it has no name.
    pub(crate) fn read(element: &[u8]) -> Option<Self> {
        let name = find(element, NAME)?.text()?;
        let data = find(element, DATA).map_or(&[][..], |data| data.value);
        let known = match name {
            "meta" => read_meta(data),
            "payload" => read_payload(data),
            "bitwise" => read_mask(data),
            "cmp" => read_comparison(data),
            "lookup" => read_lookup(data),
            "counter" => read_counter(data),
            "log" => read_log(data),
            "immediate" => read_verdict(data),
            "queue" => read_queue(data),
            "target" => read_target(data),
            _ => None,
        };
        Some(known.unwrap_or_else(|| Self::Other(name.to_owned())))
    }
}

fn number(data: &[u8], kind: u16) -> Option<u32> {
    find(data, kind)?.u32()
}

/// Whether the number has this value or is omitted.
fn is_or_absent(data: &[u8], kind: u16, value: u32) -> bool {
    find(data, kind).is_none_or(|attribute| attribute.u32() == Some(value))
}

fn bytes(data: &[u8], kind: u16) -> Option<&[u8]> {
    Some(find(find(data, kind)?.value, VALUE)?.value)
}

fn read_meta(data: &[u8]) -> Option<Expression> {
    let key = number(data, 2)?;
    let (meta, _) = METAS.iter().find(|(_, number)| *number == key)?;
    (number(data, 1)? == REGISTER).then_some(Expression::Meta(*meta))
}

fn read_payload(data: &[u8]) -> Option<Expression> {
    let field = Field {
        base: number(data, 2)?,
        offset: number(data, 3)?,
        length: number(data, 4)?,
    };
    (number(data, 1)? == REGISTER).then_some(Expression::Payload(field))
}

fn read_mask(data: &[u8]) -> Option<Expression> {
    let (mask, flip) = (bytes(data, 4)?, bytes(data, 5)?);
    let plain = number(data, 1)? == REGISTER
        && number(data, 2)? == REGISTER
        && is_or_absent(data, 6, 0)
        && flip.iter().all(|byte| *byte == 0);
    plain.then(|| Expression::Mask(mask.to_vec()))
}

fn read_comparison(data: &[u8]) -> Option<Expression> {
    let plain = number(data, 1)? == REGISTER && number(data, 2)? == 0;
    let value = bytes(data, 3)?;
    plain.then(|| Expression::Equals(value.to_vec()))
}

fn read_lookup(data: &[u8]) -> Option<Expression> {
    let set = find(data, 1)?.text()?;
    // Neither "not in" nor a map.
    let plain = number(data, 2)? == REGISTER && is_or_absent(data, 5, 0) && find(data, 3).is_none();
    plain.then(|| Expression::Lookup(set.to_owned()))
}

fn read_counter(data: &[u8]) -> Option<Expression> {
    let packets = find(data, 2)?.u64()?;
    Some(Expression::Counter(packets))
}

fn read_log(data: &[u8]) -> Option<Expression> {
    let group = find(data, 1)?.u16()?;
    let plain = attributes(data).all(|part| match part.kind {
        1 => true,
        4 => part.u16() == Some(1),
        _ => false,
    });
    (plain && find(data, 4).is_some()).then_some(Expression::Log(group))
}

fn read_verdict(data: &[u8]) -> Option<Expression> {
    let verdict = find(find(data, 2)?.value, VERDICT)?.value;
    let code = number(verdict, VERDICT_CODE)?;
    let plain = number(data, 1)? == REGISTER_VERDICT && matches!(code, ACCEPT | DROP);
    plain.then_some(Expression::Verdict(code))
}

fn read_queue(data: &[u8]) -> Option<Expression> {
    let part = |kind| find(data, kind).and_then(|attribute: Attribute<'_>| attribute.u16());
    let plain = part(2)? == 1 && part(3)? == BYPASS;
    plain.then_some(Expression::Queue(part(1)?, Queue::Native))
}

fn read_target(data: &[u8]) -> Option<Expression> {
    let (info, _padding) = find(data, 3)?.value.split_first_chunk::<6>()?;
    let part = |index| u16::from_ne_bytes([info[index], info[index + 1]]);
    let plain = find(data, 1)?.text()? == TARGET
        && number(data, 2)? == TARGET_REVISION
        && (part(2), part(4)) == (1, BYPASS);
    plain.then_some(Expression::Queue(part(0), Queue::Compat))
}
