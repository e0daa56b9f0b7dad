//! The result of a program that a test runs.

use std::process::Command;

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        let ran = command.output().unwrap();
        Self {
            code: ran.status.code(),
            stdout: ran.stdout,
            stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}
