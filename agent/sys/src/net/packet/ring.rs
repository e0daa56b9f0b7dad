//! The memory that the kernel writes packets to, and this process reads.
//!
//! It consists of blocks. The kernel owns a block until it is full or times out; then this process owns it until it
//! returns the block. The block's status names the owner.

use std::{
    fmt, io,
    ops::ControlFlow,
    os::fd::{AsRawFd, OwnedFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU32, Ordering},
};

use usher_core::node::packet::Packet;

use super::{
    Error, block,
    option::{self, RingRequest},
};

/// The size of a block. It has room for four of loopback's longest packets (64 KiB).
pub(super) const BLOCK: usize = 256 * 1024;
/// The headers of a block take a small part of it.
pub(super) const LONGEST: u32 = BLOCK as u32 - 1024;
/// The kernel requires a frame size, although this version has no frames.
const FRAME: usize = 2048;
/// Timeout in milliseconds after which the kernel hands over a block with packets.
const HANDED_OVER_AFTER: u32 = 20;

const KERNELS: u32 = 0;
const OURS: u32 = 1;

/// A mapped ring.
pub(super) struct Ring {
    memory: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: only this value and the kernel use the memory, which is bound to no thread.
#[expect(unsafe_code, reason = "a pointer to a mapping")]
unsafe impl Send for Ring {}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("blocks", &self.blocks)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Maps a ring of at least one block, and of at most `room` bytes if that is more.
    pub(super) fn map(socket: &OwnedFd, room: usize) -> Result<Self, Error> {
        let blocks = (room / BLOCK).clamp(1, u32::MAX as usize / BLOCK);
        option::version(socket)?;
        option::room(
            socket,
            &RingRequest {
                block_size: BLOCK as u32,
                blocks: blocks as u32,
                frame_size: FRAME as u32,
                handed_over_after: HANDED_OVER_AFTER,
            },
        )?;
        let room = blocks * BLOCK;
        let memory = map(socket, room).map_err(|source| Error::Map { room, source })?;
        Ok(Self {
            memory,
            blocks,
            next: 0,
        })
    }

    /// Passes the packets of the next block to `take`; false when the block still belongs to the kernel.
    #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
    pub(super) fn read(&mut self, take: impl FnMut(Packet<'_>) -> ControlFlow<()>) -> bool {
        // SAFETY: `next` is below `blocks`, so the block is within the mapping.
        let start = unsafe { self.memory.add(self.next * BLOCK) };
        // SAFETY: a block begins at a page, and so the status is aligned; it is within the block, and the kernel
        // writes it as a whole.
        let status = unsafe { AtomicU32::from_ptr(start.add(block::STATUS).as_ptr().cast()) };
        // Makes everything visible that the kernel wrote before the status.
        if status.load(Ordering::Acquire) & OURS == 0 {
            return false;
        }
        // SAFETY: the whole block is within the mapping, which lives as long as `self`; the kernel writes nothing to
        // it until the status returns it to the kernel, and no other code has a reference.
        let bytes = unsafe { slice::from_raw_parts(start.as_ptr(), BLOCK) };
        block::packets(bytes, take);
        status.store(KERNELS, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        true
    }
}

#[expect(unsafe_code, reason = "mmap(2)")]
fn map(socket: &OwnedFd, room: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at a place of the kernel's choice concerns no other memory.
    let memory = unsafe {
        libc::mmap(
            ptr::null_mut(),
            room,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            socket.as_raw_fd(),
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

impl Drop for Ring {
    #[expect(unsafe_code, reason = "munmap(2)")]
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, of this size, and no slice of it outlives `read`.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK) };
    }
}
