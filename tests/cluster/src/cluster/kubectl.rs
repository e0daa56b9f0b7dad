//! Access to the cluster as for users: by kubectl, with the administrator's permissions.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Cluster;
use crate::progress::output;

impl Cluster {
    /// kubectl with this cluster's configuration, for use outside the node.
    #[must_use]
    pub fn kubectl_command(&self) -> Command {
        let mut command = Command::new(self.first.state.kubectl());
        command.env("KUBECONFIG", self.kubeconfig());
        command
    }

    /// Runs kubectl and returns its standard output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        output(self.kubectl_command().args(args))
    }

    /// Runs kubectl with `-o json` added and returns the object.
    pub fn kubectl_json(&self, args: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[args, &["-o", "json"]].concat())?;
        serde_json::from_str(&text)
            .with_context(|| format!("kubectl {args:?}: its answer is not JSON"))
    }

    /// Creates or changes an object.
    pub fn apply(&self, object: &Value) -> Result<()> {
        let mut kubectl = self
            .kubectl_command()
            .args(["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start kubectl apply")?;
        let mut stdin = kubectl.stdin.take().context("kubectl has no stdin")?;
        stdin
            .write_all(object.to_string().as_bytes())
            .context("write to kubectl apply")?;
        drop(stdin);
        let done = kubectl
            .wait_with_output()
            .context("wait for kubectl apply")?;
        if !done.status.success() {
            bail!(
                "apply {} {}: {}",
                object["kind"],
                object["metadata"]["name"],
                String::from_utf8_lossy(&done.stderr).trim()
            );
        }
        Ok(())
    }
}
