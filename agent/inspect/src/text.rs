//! Text for terminals: tables, and characters that are safe to print.

pub mod list;
pub mod printable;
pub mod table;
