//! A file whose server replies to nothing.
//!
//! A thread that opens it waits even after SIGKILL, until the server ends
//! ([`request_wait_answer`](https://github.com/torvalds/linux/blob/v6.12/fs/fuse/dev.c)). No crate is used, because
//! those for FUSE run a loop that replies to every request.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// Requests, [`fuse_opcode`](https://github.com/torvalds/linux/blob/v6.12/include/uapi/linux/fuse.h).
const INIT: u32 = 26;
const OPEN: u32 = 14;
/// `FUSE_MIN_READ_BUFFER`.
const BUFFER: usize = 8192;
/// The protocol's version 7.31.
const VERSION: [u32; 2] = [7, 31];
/// The lengths of `fuse_out_header` and `fuse_init_out`.
const HEAD: usize = 16;
const INIT_REPLY: usize = 64;

/// Dropping it releases the threads that wait.
#[derive(Debug)]
pub struct SilentFile {
    path: PathBuf,
    device: File,
}

impl SilentFile {
    /// Mounts it at this path.
    pub fn new(path: &Path) -> Self {
        fs::write(path, "").expect("the directory is writable");
        let mut options = File::options();
        let device = options.read(true).write(true).open("/dev/fuse");
        let device = device.expect("the kernel has FUSE");
        let data = format!(
            "fd={},rootmode=100444,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("silent"), path, Some("fuse"), flags, Some(&data[..])).expect("it is mounted");
        let mut file = Self {
            path: path.to_owned(),
            device,
        };
        let unique = file.next(INIT);
        file.reply_to_init(unique);
        file
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until a thread waits for the file to open.
    pub fn wait_for_open(&mut self) {
        self.next(OPEN);
    }

    /// The number of the next request of this kind.
    fn next(&mut self, kind: u32) -> u64 {
        loop {
            let mut buffer = [0; BUFFER];
            let length = self.device.read(&mut buffer).expect("it is mounted");
            assert!(length > HEAD, "a request of {length} bytes");
            let number = |at: usize| {
                u32::from_ne_bytes(
                    buffer[at..at + 4]
                        .try_into()
                        .expect("its length is that of the number"),
                )
            };
            if number(4) == kind {
                return u64::from_ne_bytes(
                    buffer[8..16]
                        .try_into()
                        .expect("its length is that of the number"),
                );
            }
        }
    }

    fn reply_to_init(&mut self, unique: u64) {
        let mut reply = Vec::new();
        reply.extend(((HEAD + INIT_REPLY) as u32).to_ne_bytes());
        reply.extend(0_u32.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        for number in VERSION {
            reply.extend(number.to_ne_bytes());
        }
        reply.resize(HEAD + INIT_REPLY, 0);
        self.device.write_all(&reply).expect("the kernel waits");
    }
}

impl Drop for SilentFile {
    fn drop(&mut self) {
        // The requests end when the device is closed.
        umount2(&self.path, MntFlags::MNT_DETACH).ok();
    }
}
