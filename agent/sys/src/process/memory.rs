//! Memory of this process: the room in its cgroup, and an allocator with a limit.
//!
//! A command in the agent's container shares the agent's memory limit, at which the kernel may kill both
//! (`memory.oom.group`). So a command has its own limit, at which only the command exits.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Mount point of a container's cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";
/// The files for limit and usage on cgroup v2, and on v1.
const FILES: [(&str, &str); 2] = [
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
];

/// Bytes until the memory limit of the own cgroup, without the page cache; None without a limit.
pub fn headroom() -> Option<usize> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    cgroups
        .lines()
        .filter_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let path = path.trim_start_matches('/');
            match controllers {
                "" => Some(Path::new(CGROUPS).join(path)),
                "memory" => Some(Path::new(CGROUPS).join("memory").join(path)),
                _ => None,
            }
        })
        .filter_map(|path| headroom_of(&path))
        .min()
}

fn headroom_of(cgroup: &Path) -> Option<usize> {
    FILES.iter().find_map(|(limit, usage)| {
        let number = |file: &str| {
            let text = fs::read_to_string(cgroup.join(file)).ok()?;
            text.trim().parse::<usize>().ok()
        };
        let limit = number(limit).filter(|limit| *limit < isize::MAX.unsigned_abs() / 2)?;
        let stat = fs::read_to_string(cgroup.join("memory.stat")).ok()?;
        let cache = |name: &str| {
            let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
            let (_name, bytes) = lines.find(|(found, _bytes)| *found == name)?;
            bytes.parse::<usize>().ok()
        };
        let cached = ["active_file", "inactive_file"].map(|name| cache(name).unwrap_or_default());
        let used = number(usage)?.saturating_sub(cached.iter().sum());
        Some(limit.saturating_sub(used))
    })
}

/// The system's allocator, with a limit at which the process prints a message and exits.
#[derive(Debug)]
pub struct BoundedAllocator {
    allocated: AtomicUsize,
    limit: AtomicUsize,
    message: &'static str,
    exit_code: i32,
}

impl BoundedAllocator {
    /// An allocator without a limit. At a limit the process prints the message and exits with this code.
    pub const fn new(message: &'static str, exit_code: i32) -> Self {
        Self {
            allocated: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            message,
            exit_code,
        }
    }

    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        let before = self.allocated.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.limit() {
            self.end();
        }
    }

    #[expect(unsafe_code, reason = "nothing here may allocate")]
    fn end(&self) -> ! {
        let message = self.message.as_bytes();
        // SAFETY: the pointer and the length are those of a live slice, and _exit does not return.
        unsafe {
            libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
            libc::_exit(self.exit_code)
        }
    }
}

#[expect(unsafe_code, reason = "the trait is unsafe")]
// SAFETY: every method passes its arguments to the system's allocator and returns its result.
unsafe impl GlobalAlloc for BoundedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Counts both sizes, because the old memory may remain until the new one is filled.
        self.add(size);
        self.allocated.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.allocated.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_is_limit_without_usage_and_page_cache() {
        for (limit_file, usage_file) in FILES {
            let folder = tempfile::tempdir().unwrap();
            let cgroup = folder.path().to_path_buf();
            let write = |file: &str, text: &str| fs::write(cgroup.join(file), text).unwrap();
            assert_eq!(headroom_of(&cgroup), None);
            write(limit_file, "1000\n");
            write(usage_file, "700\n");
            write("memory.stat", "anon 1\nactive_file 100\ninactive_file 50\n");
            assert_eq!(headroom_of(&cgroup), Some(450));
            write(usage_file, "2000\n");
            assert_eq!(headroom_of(&cgroup), Some(0));
            // The values of v2 and v1 for no limit.
            for none in ["max\n", "9223372036854771712\n"] {
                write(limit_file, none);
                assert_eq!(headroom_of(&cgroup), None);
            }
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "the trait is unsafe")]
    fn allocations_are_counted() {
        let allocator = BoundedAllocator::new("", 1);
        let layout = Layout::from_size_align(100, 8).unwrap();
        // SAFETY: each memory is freed once, with its own layout.
        unsafe {
            let memory = allocator.alloc(layout);
            assert_eq!(allocator.allocated.load(Ordering::Relaxed), 100);
            let memory = allocator.realloc(memory, layout, 300);
            assert_eq!(allocator.allocated.load(Ordering::Relaxed), 300);
            allocator.dealloc(memory, Layout::from_size_align(300, 8).unwrap());
        }
        assert_eq!(allocator.allocated.load(Ordering::Relaxed), 0);
    }
}
