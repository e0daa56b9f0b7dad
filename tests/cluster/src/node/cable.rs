//! The only cable out of a node, and the networks behind it.
//!
//! The first node's ends in the machine. That of every other node ends in the first node, so nothing of it is visible
//! outside: the nodes form a star, and its center forwards between them. No node has a default route, and
//! nothing leaves the machine.

use std::{fs, process::Command, time::Duration};

use anyhow::{Context, Result};

use super::{
    CLUSTER_PODS, Node, SERVICE_RANGE,
    address::{LINKS, Link},
    process::{Identity, wait_until},
};
use crate::progress::output;

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cable<'a> {
    pub(crate) link: Link,
    pub(crate) end: End<'a>,
}

/// Its far end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End<'a> {
    Machine,
    /// In the cluster's first node, which gets a route to these pods.
    First {
        first: &'a Node,
        pods: &'a str,
    },
}

impl End<'_> {
    /// The process of the network at the far end.
    fn process(&self) -> Result<String> {
        match self {
            Self::Machine => Ok("self".to_owned()),
            Self::First { first, .. } => {
                let init = first.init().context("the first node is not up")?;
                Ok(init.pid.to_string())
            }
        }
    }

    fn ip(&self, args: &[&str]) -> Result<()> {
        let mut command = match self {
            Self::Machine => Command::new("ip"),
            Self::First { first, .. } => first.command("ip")?,
        };
        output(command.args(args)).map(drop)
    }

    /// Removes the rest of an earlier cable, even if the kernel is about to.
    fn clear(&self, interface: &str) -> Result<()> {
        let process = self.process()?;
        if !has_interface(&process, interface) {
            return Ok(());
        }
        let deleted = self.ip(&["link", "delete", interface]);
        let gone = || Ok(!has_interface(&process, interface));
        wait_until(LIMIT, &format!("the end of interface {interface}"), gone)
            .map_err(|error| deleted.err().unwrap_or(error))
    }
}

impl Node {
    /// Removes the machine's end of a cable, if there is one.
    pub(super) fn disconnect(&self) -> Result<()> {
        End::Machine.clear(&Link::interface(&self.name))
    }

    pub(super) fn connect(&self, init: &Identity, cable: &Cable<'_>) -> Result<()> {
        let Cable { link, end } = cable;
        let veth = Link::interface(&self.name);
        let (far, near) = (format!("{}/30", link.host()), format!("{}/30", link.node()));
        let (gateway, address) = (link.host().to_string(), link.node().to_string());
        let here = |args: &[&str]| output(self.enter(init, "ip").args(args)).map(drop);
        end.clear(&veth)?;
        self.lay(init, end, &veth)?;
        end.ip(&["address", "add", &far, "dev", &veth])?;
        end.ip(&["link", "set", &veth, "up"])?;
        here(&["link", "set", "lo", "up"])?;
        here(&["address", "add", &near, "dev", "eth0"])?;
        here(&["link", "set", "eth0", "up"])?;
        // kube-proxy rewrites the destination, but a route must exist before.
        here(&["route", "add", SERVICE_RANGE, "via", &gateway])?;
        if let End::First { pods, .. } = end {
            // The other nodes and their pods; the bridge of the node's own pods is more specific.
            here(&["route", "add", LINKS, "via", &gateway])?;
            here(&["route", "add", CLUSTER_PODS, "via", &gateway])?;
            end.ip(&["route", "add", pods, "via", &address])?;
        }
        let settings =
            "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter";
        output(self.enter(init, "sh").args(["-c", settings])).map(drop)
    }

    /// Runs on the machine, from where the processes of both ends are visible.
    fn lay(&self, init: &Identity, end: &End<'_>, veth: &str) -> Result<()> {
        let mut add = Command::new("ip");
        add.args(["link", "add", veth]);
        if let End::First { .. } = end {
            add.args(["netns", &end.process()?]);
        }
        add.args(["type", "veth", "peer", "name", "eth0", "netns"]);
        output(add.arg(init.pid.to_string())).map(drop)
    }
}

/// Whether the network of a process has an interface; false if the process has exited.
fn has_interface(process: &str, name: &str) -> bool {
    let text = fs::read_to_string(format!("/proc/{process}/net/dev")).unwrap_or_default();
    let mut interfaces = text.lines().filter_map(|line| line.split_once(':'));
    interfaces.any(|(interface, _)| interface.trim() == name)
}
