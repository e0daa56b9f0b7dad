//! The attacks other than `usher_tests::isolation::quit`.

pub(crate) mod cli;
pub(crate) mod hold;
