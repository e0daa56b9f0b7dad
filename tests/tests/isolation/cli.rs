//! The program `usher` enters the hostile pod, in a process of its own.

use crate::affects_nothing_else;
use crate::attack::cli::{CAPTURE, CONNS, REQUEST};

#[test]
fn conns() {
    affects_nothing_else(&CONNS);
}

#[test]
fn capture() {
    affects_nothing_else(&CAPTURE);
}

#[test]
fn request() {
    affects_nothing_else(&REQUEST);
}
