//! Interfaces, addresses and routes of the calling thread's network namespace, made by rtnetlink.
//!
//! Each function runs an event loop of its own on the calling thread, so it cannot be called from an async task.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::{
    Handle, LinkUnspec, LinkVeth, RouteMessageBuilder,
    packet_route::{
        address::AddressHeaderFlags,
        link::{LinkAttribute, LinkMessage},
        route::RouteMessage,
    },
};

/// A request failed: which one, and the kernel's reason.
#[derive(Debug)]
pub struct Error(String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A veth pair with both ends in the namespace. It is the only route out, and no host behind it replies.
#[derive(Debug, Clone, Copy)]
pub struct DeadEnd<'a> {
    pub name: &'a str,
    pub peer: &'a str,
    /// Resolve neighbours. Without it the kernel sends to any address at once.
    pub arp: bool,
    /// Addresses, with the length of their network's prefix.
    pub addresses: &'a [(IpAddr, u8)],
    /// Next hops of the default routes; an unspecified address for a route without one.
    pub gateways: &'a [IpAddr],
}

/// Brings `lo` up.
pub fn loopback_up() -> Result<(), Error> {
    run(async |handle| {
        set(
            &handle,
            LinkUnspec::new_with_name("lo").up().build(),
            "lo up",
        )
        .await
    })
}

/// Creates a veth pair: `name` in the calling thread's namespace, and `peer` in that of a process.
pub fn connect(name: &str, peer: &str, pid: u32) -> Result<(), Error> {
    run(async |handle| {
        let request = handle.link().add(LinkVeth::new(name, peer).build());
        let created = request.execute().await;
        created.map_err(|error| failed(&format!("add the veth pair {name} and {peer}"), &error))?;
        let moved = LinkUnspec::new_with_name(peer).setns_by_pid(pid).build();
        set(&handle, moved, peer).await
    })
}

/// Adds an address to an interface, and brings it up.
pub fn enable(name: &str, address: IpAddr, length: u8) -> Result<(), Error> {
    run(async |handle| {
        let index = index(&handle, name).await?;
        let request = handle.address().add(index, address, length);
        let added = request.execute().await;
        added.map_err(|error| failed(&format!("add the address {address}"), &error))?;
        set(&handle, LinkUnspec::new_with_name(name).up().build(), name).await
    })
}

impl DeadEnd<'_> {
    /// Creates the interfaces, the addresses and the default routes.
    pub fn create(&self) -> Result<(), Error> {
        run(async |handle| self.create_with(&handle).await)
    }

    async fn create_with(&self, handle: &Handle) -> Result<(), Error> {
        let Self { name, peer, .. } = *self;
        handle
            .link()
            .add(LinkVeth::new(name, peer).build())
            .execute()
            .await
            .map_err(|error| failed(&format!("add the veth pair {name} and {peer}"), &error))?;
        let own = LinkUnspec::new_with_name(name).arp(self.arp).up().build();
        set(handle, own, name).await?;
        set(handle, LinkUnspec::new_with_name(peer).up().build(), peer).await?;
        let index = index(handle, name).await?;
        for (address, length) in self.addresses {
            let mut request = handle.address().add(index, *address, *length);
            // Without duplicate address detection, which would delay the address.
            request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
            request
                .execute()
                .await
                .map_err(|error| failed(&format!("add the address {address}"), &error))?;
        }
        for gateway in self.gateways {
            handle
                .route()
                .add(default_route(*gateway, index))
                .execute()
                .await
                .map_err(|error| failed(&format!("add the route by {gateway}"), &error))?;
        }
        Ok(())
    }
}

fn default_route(gateway: IpAddr, index: u32) -> RouteMessage {
    match gateway {
        IpAddr::V4(gateway) => {
            let route = RouteMessageBuilder::<Ipv4Addr>::new().output_interface(index);
            if gateway.is_unspecified() {
                route.build()
            } else {
                route.gateway(gateway).build()
            }
        }
        IpAddr::V6(gateway) => {
            let route = RouteMessageBuilder::<Ipv6Addr>::new().output_interface(index);
            if gateway.is_unspecified() {
                route.build()
            } else {
                route.gateway(gateway).build()
            }
        }
    }
}

async fn set(handle: &Handle, link: LinkMessage, what: &str) -> Result<(), Error> {
    let request = handle.link().set(link);
    request
        .execute()
        .await
        .map_err(|error| failed(&format!("set {what}"), &error))
}

async fn index(handle: &Handle, name: &str) -> Result<u32, Error> {
    use futures::TryStreamExt;

    let request = handle.link().get().match_name(name.to_owned());
    let mut links = request.execute();
    let link = links
        .try_next()
        .await
        .map_err(|error| failed(&format!("get {name}"), &error))?
        .filter(|link| {
            link.attributes
                .contains(&LinkAttribute::IfName(name.to_owned()))
        });
    link.map(|link| link.header.index)
        .ok_or_else(|| Error(format!("get {name}: no such interface")))
}

fn run(requests: impl AsyncFnOnce(Handle) -> Result<(), Error>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| failed("start an event loop", &error))?;
    runtime.block_on(async {
        let (connection, handle, _unsolicited) =
            rtnetlink::new_connection().map_err(|error| failed("open a netlink socket", &error))?;
        let connection = tokio::spawn(connection);
        let result = requests(handle).await;
        connection.abort();
        result
    })
}

fn failed(request: &str, error: &dyn std::error::Error) -> Error {
    Error(format!("{request}: {error}"))
}
