//! Lists in sentences.

/// The first names, and the number of the others; `none` without names.
pub fn first(names: &[String], most: usize) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown = names.get(..most).unwrap_or(names).join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
