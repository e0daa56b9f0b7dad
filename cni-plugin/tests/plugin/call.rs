//! One run of the binary.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The input of a call.
pub(crate) struct Call {
    command: Command,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Call {
    /// A call with a verb only.
    pub(crate) fn bare(verb: &str) -> Self {
        let mut call = Self::nothing();
        call.command.env("CNI_COMMAND", verb);
        call
    }

    /// A call without a verb.
    pub(crate) fn nothing() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_usher-cni"));
        command
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { command }
    }

    /// A call as containerd makes it.
    pub(crate) fn of_containerd(verb: &str, netns: &Path) -> Self {
        Self::bare(verb)
            .with("CNI_CONTAINERID", &"0123456789abcdef".repeat(4))
            .with("CNI_NETNS", &netns.display().to_string())
            .with("CNI_IFNAME", "eth0")
            .with("CNI_PATH", "/opt/cni/bin")
            .with("CNI_ARGS", &arguments("job-1"))
    }

    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.command.env(key, value);
        self
    }

    pub(crate) fn without(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    pub(crate) fn run(mut self, stdin: impl AsRef<[u8]>) -> Answer {
        let start = Instant::now();
        let mut child = self.command.spawn().unwrap();
        // Fails if the plugin ends without reading stdin. The test decides whether that is an error.
        drop(child.stdin.take().unwrap().write_all(stdin.as_ref()));
        let output = child.wait_with_output().unwrap();
        Answer {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            took: start.elapsed(),
        }
    }
}

impl Answer {
    /// Expects success without output.
    pub(crate) fn expect_silence(&self) {
        assert_eq!(
            (self.code, &self.stdout[..], &self.stderr[..]),
            (Some(0), "", ""),
            "{self:?}"
        );
    }

    /// Expects an error with this code.
    pub(crate) fn expect_error(&self, number: u64) -> serde_json::Value {
        assert_eq!(self.code, Some(1), "{self:?}");
        let error: serde_json::Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(error["code"], number, "{self:?}");
        assert!(!error["msg"].as_str().unwrap().is_empty(), "{self:?}");
        error
    }
}

pub(crate) const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

pub(crate) fn arguments(pod: &str) -> String {
    format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=jobs;K8S_POD_NAME={pod};K8S_POD_UID={UID}")
}
