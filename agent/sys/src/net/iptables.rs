//! Rules of `iptables-legacy` in a network namespace, and their cost for a packet. nftables does not list them
//! ([`net/ipv4/netfilter/ip_tables.c`](https://github.com/torvalds/linux/blob/v6.18/net/ipv4/netfilter/ip_tables.c)).
//!
//! Only existing tables are read: a request for another table creates it, and Istio then chooses the legacy tables.
//!
//! What can go wrong: every call takes a mutex that all namespaces of the node share, so it waits for other processes
//! that change such rules. Call it under a deadline. Needs `CAP_NET_ADMIN` and `CAP_NET_RAW`.

mod decode;

use std::{
    fs, io,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::errno::Errno;
use usher_core::node::packet_filter::PacketFilter;

use self::decode::{Layout, TableInfo};
use crate::net::netns::{self, Netns};

const NAMES_IPV4: &str = "/proc/thread-self/net/ip_tables_names";
const NAMES_IPV6: &str = "/proc/thread-self/net/ip6_tables_names";
/// Length of a table's name with its terminating zero (`XT_TABLE_MAXNAMELEN`).
const NAME: usize = 32;
/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: libc::c_int = 64;
/// `IPT_SO_GET_ENTRIES` and `IP6T_SO_GET_ENTRIES`.
const GET_ENTRIES: libc::c_int = 65;
/// Maximum number of rules in all tables, and of their bytes.
const RULES: usize = 20_000;
const BYTES: usize = 2 * 1024 * 1024;
/// Attempts to read a table that keeps changing.
const ATTEMPTS: usize = 3;

/// Rules of iptables-legacy could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Netns(#[from] netns::Error),
    #[error("listing the tables of iptables")]
    List(#[source] io::Error),
    #[error("reading table {table} of iptables")]
    Read { table: String, source: io::Error },
}

/// An upper bound of what a packet on loopback evaluates, in the unit of
/// [`nft::Cost`](crate::net::nft::Cost::evaluations). This thread enters the namespace. 0 without tables, `u64::MAX` for more than
/// 20,000 rules, or 2 MiB of them in one table.
pub fn evaluations(netns: &Netns) -> Result<u64, Error> {
    let mut filter = PacketFilter::default();
    let mut rules = 0;
    for (layout, tables) in [Layout::IPV4, Layout::IPV6].into_iter().zip(tables(netns)?) {
        if tables.is_empty() {
            continue;
        }
        let socket = netns.raw_socket(layout.family)?;
        for table in tables {
            let read = read(&socket, &layout, &table);
            let read = read.map_err(|source| Error::Read { table, source })?;
            let Some((info, entries)) = read else {
                return Ok(u64::MAX);
            };
            rules += info.entries;
            if rules > RULES {
                return Ok(u64::MAX);
            }
            decode::add(&mut filter, &layout, &info, &entries);
        }
    }
    Ok(filter.evaluations())
}

/// The tables that exist in the namespace, of IPv4 and of IPv6.
fn tables(netns: &Netns) -> Result<[Vec<String>; 2], Error> {
    let [ipv4, ipv6] = netns.inside_here(|| [NAMES_IPV4, NAMES_IPV6].map(fs::read_to_string))?;
    Ok([names(ipv4)?, names(ipv6)?])
}

fn names(read: io::Result<String>) -> Result<Vec<String>, Error> {
    match read {
        // The kernel has no iptables.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => Ok(names
            .map_err(Error::List)?
            .lines()
            .map(str::to_owned)
            .collect()),
    }
}

/// Reads a table and its entries; None if it is too large.
fn read(
    socket: &OwnedFd,
    layout: &Layout,
    table: &str,
) -> io::Result<Option<(TableInfo, Vec<u8>)>> {
    for _ in 0..ATTEMPTS {
        let mut info = named(table, TableInfo::LENGTH);
        get(socket, layout, GET_INFO, &mut info)?;
        let info = TableInfo::read(&info).ok_or(Errno::EPROTO)?;
        if info.entries > RULES || info.bytes > BYTES {
            return Ok(None);
        }
        let mut entries = named(table, Layout::ENTRIES + info.bytes);
        let bytes = u32::try_from(info.bytes).ok().ok_or(Errno::E2BIG)?;
        entries[NAME..NAME + size_of::<u32>()].copy_from_slice(&bytes.to_ne_bytes());
        match get(socket, layout, GET_ENTRIES, &mut entries) {
            // The table changed between the two requests.
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(Some((info, entries.split_off(Layout::ENTRIES)))),
        }
    }
    Err(Errno::EAGAIN.into())
}

/// A buffer for a request, starting with the table's name.
fn named(table: &str, length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    let name = &table.as_bytes()[..table.len().min(NAME - 1)];
    buffer[..name.len()].copy_from_slice(name);
    buffer
}

#[expect(unsafe_code, reason = "nix has no option of a variable length")]
fn get(
    socket: &OwnedFd,
    layout: &Layout,
    option: libc::c_int,
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut length = u32::try_from(buffer.len()).ok().ok_or(Errno::E2BIG)?;
    // SAFETY: the pointers are to a buffer of this length and to the length, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            layout.level,
            option,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}
