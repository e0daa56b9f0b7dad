//! Writes packets as pcapng to a file or to standard output.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileTypeExt,
    },
    path::Path,
};

use nix::sys::utsname::uname;
use usher_core::node::packet::{Interface, Packet};
use usher_inspect::capture::{Writer, pcapng};
use usher_sys::net::packet::Statistics;

use super::owner::Owners;
use crate::output::private_file;

/// Bytes reserved per interface for the statistics at the end.
const STATISTICS_RESERVE: u64 = 256;
/// Bytes of a packet block in addition to the packet, with a comment.
const BLOCK_OVERHEAD: u64 = 512;

#[derive(Debug)]
pub(super) struct File {
    file: std::fs::File,
    /// Whether another program reads the output while it is written.
    is_pipe: bool,
    writer: Writer,
    written: u64,
    about: String,
    snap_length: u32,
    owners: Owners,
    /// The number of each interface in the file, and the count of its packets.
    described: BTreeMap<u32, (u32, u64)>,
}

impl File {
    /// Creates a file, or opens standard output for `-`. A named pipe or another special file is opened as it is.
    pub(super) fn open(
        path: &Path,
        force: bool,
        about: &str,
        snap_length: u32,
        owners: Owners,
    ) -> io::Result<Self> {
        let file = if path == Path::new("-") {
            std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?)
        } else {
            private_file::create(path, force)?
        };
        let kind = file.metadata()?.file_type();
        Ok(Self {
            file,
            is_pipe: kind.is_fifo() || kind.is_socket(),
            writer: Writer::default(),
            written: 0,
            about: about.to_owned(),
            snap_length,
            owners,
            described: BTreeMap::new(),
        })
    }

    /// Writes the header and the interfaces.
    pub(super) fn begin(&mut self, interfaces: &[Interface]) -> io::Result<()> {
        let kernel = uname().map(|name| {
            let [system, release] =
                [name.sysname(), name.release()].map(|word| word.to_string_lossy());
            format!("{system} {release}")
        });
        let application = concat!("usher ", env!("CARGO_PKG_VERSION"));
        let comment = format!("pod {}; {}", self.about, self.owners);
        self.writer
            .section(application, &kernel.unwrap_or_default(), &comment);
        for interface in interfaces {
            self.describe(interface);
        }
        self.flush()
    }

    fn describe(&mut self, interface: &Interface) -> u32 {
        let number = self.described.len() as u32;
        let description = format!("{} of {}", interface.name, self.about);
        self.writer
            .interface(interface, self.snap_length, &description);
        self.described.insert(interface.index, (number, 0));
        number
    }

    /// Adds a packet; false if it would make the file too large.
    pub(super) fn put(
        &mut self,
        packet: &Packet<'_>,
        interface: Option<&Interface>,
        size: Option<u64>,
    ) -> bool {
        let buffered = self.writer.bytes().len() as u64;
        let end = STATISTICS_RESERVE * (self.described.len() as u64 + 1);
        let more = packet.bytes.len() as u64 + BLOCK_OVERHEAD + end;
        if size.is_some_and(|size| self.written + buffered + more > size) {
            return false;
        }
        let number = match self.described.get(&packet.interface) {
            Some((number, _)) => *number,
            None => {
                let numbered = || Interface {
                    index: packet.interface,
                    name: format!("interface{}", packet.interface),
                    hardware: packet.hardware,
                };
                self.describe(&interface.cloned().unwrap_or_else(numbered))
            }
        };
        let comment = self.owners.comment(packet);
        self.writer.packet(number, packet, comment.as_deref());
        if let Some((_, count)) = self.described.get_mut(&packet.interface) {
            *count += 1;
        }
        true
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let bytes = self.writer.bytes();
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        self.writer.clear();
        Ok(())
    }

    /// Writes the statistics. The kernel counts for the whole capture and not per interface: with several interfaces, the
    /// first one has the sum, and a comment that states it.
    pub(super) fn end(
        &mut self,
        times: (u64, u64),
        counted: Option<&Statistics>,
    ) -> io::Result<()> {
        let is_only = self.described.len() == 1;
        let mut described: Vec<(u32, u64)> = self.described.values().copied().collect();
        described.sort_unstable();
        for (number, delivered) in described {
            let is_first = number == 0;
            let counted = counted.filter(|_| is_first);
            let statistics = pcapng::Statistics {
                start_ns: times.0,
                end_ns: times.1,
                delivered,
                received_and_dropped: counted.map(|counted| (counted.accepted, counted.dropped)),
            };
            let comment = match counted {
                Some(_) if !is_only => Some("received and dropped are the sums of all interfaces"),
                _ => None,
            };
            self.writer.statistics(number, &statistics, comment);
        }
        self.flush()
    }

    /// Number of bytes written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// The pipe to poll, which reports when its reader has closed it.
    pub(super) fn reader(&self) -> Option<BorrowedFd<'_>> {
        self.is_pipe.then(|| self.file.as_fd())
    }
}
