//! Limits of the values that are kept from objects that users may write.
//!
//! The annotations of one object may have 256 KiB. A key that usher reads is always kept, because it may be an opt-out.

use std::borrow::Cow;

use super::{
    annotation::{Holder, KNOWN},
    overrides::Values,
};

/// Bytes of a value on a pod. No valid value is longer than a list of container names.
pub(crate) const POD_VALUE: usize = 8 * 1024;
/// Bytes of a value on a Namespace. No valid value is longer than a duration.
const NAMESPACE_VALUE: usize = 256;

/// The values that usher reads from a Namespace.
pub fn of_namespace(mut values: Values) -> Values {
    KNOWN
        .iter()
        .filter(|known| known.on.contains(&Holder::Namespace))
        .filter_map(|known| values.remove_entry(known.key))
        .map(|(key, value)| (key, shortened(value.into(), NAMESPACE_VALUE)))
        .collect()
}

/// Shortens a value that is too long and thus invalid: its beginning is kept for the report, with a character that no
/// valid value contains.
pub(crate) fn shortened(value: Cow<'_, str>, longest: usize) -> String {
    if value.len() <= longest {
        return value.into_owned();
    }
    let begin = &value[..value.floor_char_boundary(longest)];
    format!("{begin}\u{2026}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::annotation::{HOLD, PREFIX, QUIT};

    #[test]
    fn namespace_keeps_the_keys_that_usher_reads() {
        let mut values: Values = (0..1000)
            .map(|number| (format!("{PREFIX}a{number}"), "x".repeat(1024)))
            .collect();
        values.insert(QUIT.to_owned(), "false".to_owned());
        values.insert(HOLD.to_owned(), "é".repeat(1024));
        let kept = of_namespace(values);
        assert_eq!(kept.keys().collect::<Vec<_>>(), [HOLD, QUIT]);
        assert_eq!(kept[QUIT], "false");
        let shortened = format!("{}\u{2026}", "é".repeat(NAMESPACE_VALUE / 2));
        assert_eq!(kept[HOLD], shortened);
    }
}
