//! `deploy/seccomp/usher.json`, the seccomp profile of the agent's container
//! ([OCI runtime spec](https://github.com/opencontainers/runtime-spec/blob/v1.1.0/config-linux.md#seccomp)).

use std::{collections::BTreeSet, fs};

use serde::Deserialize;

use crate::workspace::root;

/// Required although a run may not use them: panics, the allocator, clocks, older kernels, rare work, the
/// installer.
const RARE: &[&str] = &[
    "exit",
    "exit_group",
    "restart_syscall",
    "rt_sigreturn",
    "getcwd",
    "gettid",
    "readlink",
    "rt_sigaction",
    "rt_sigprocmask",
    "sigaltstack",
    "tgkill",
    "tkill",
    "brk",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "gettimeofday",
    "nanosleep",
    "sched_yield",
    "accept",
    "accept4",
    "access",
    "copy_file_range",
    "dup",
    "dup2",
    "epoll_create1",
    "epoll_wait",
    "faccessat",
    "fstat",
    "fsync",
    "ftruncate",
    "getdents64",
    "lseek",
    "lstat",
    "membarrier",
    "newfstatat",
    "open",
    "openat",
    "pipe",
    "pipe2",
    "poll",
    "ppoll",
    "pread64",
    "preadv",
    "readv",
    "select",
    "sendfile",
    "stat",
    "statx",
    "writev",
    "ioctl",
    "kill",
    "pidfd_open",
    "pidfd_send_signal",
    "process_vm_readv",
    "setns",
    "unshare",
    "wait4",
    "vfork",
    "waitid",
    "chmod",
    "fchmod",
    "fchmodat",
    "fdatasync",
    "flock",
    "link",
    "linkat",
    "mkdir",
    "rename",
    "renameat2",
    "rmdir",
    "symlink",
    "unlink",
    "utimensat",
];
/// The runtime sets the filter before it drops its privileges and executes the program, because Kubernetes does not
/// set `no_new_privs` (runc `libcontainer/standard_init_linux.go`; crun `src/libcrun/container.c`).
const RUNTIME: &[&str] = &[
    "arch_prctl",
    "capget",
    "capset",
    "chdir",
    "clone",
    "close",
    "close_range",
    "dup3",
    "epoll_ctl",
    "epoll_pwait",
    "eventfd2",
    "execve",
    "faccessat2",
    "fchdir",
    "fchown",
    "fcntl",
    "fstatfs",
    "futex",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getppid",
    "getrandom",
    "getuid",
    "openat2",
    "prctl",
    "prlimit64",
    "read",
    "readlinkat",
    "rseq",
    "sched_getaffinity",
    "set_robust_list",
    "set_tid_address",
    "setgid",
    "setgroups",
    "setresgid",
    "setresuid",
    "setuid",
    "statfs",
    "umask",
    "uname",
    "write",
];
/// System calls of x86-64 that arm64 does not have, and their equivalents there.
const ARM64: &[(&str, &str)] = &[
    ("access", "faccessat"),
    ("chmod", "fchmodat"),
    ("chown", "fchownat"),
    ("dup2", "dup3"),
    ("epoll_create", "epoll_create1"),
    ("epoll_wait", "epoll_pwait"),
    ("eventfd", "eventfd2"),
    ("fork", "clone"),
    ("getdents", "getdents64"),
    ("inotify_init", "inotify_init1"),
    ("lchown", "fchownat"),
    ("link", "linkat"),
    ("lstat", "newfstatat"),
    ("mkdir", "mkdirat"),
    ("open", "openat"),
    ("pipe", "pipe2"),
    ("poll", "ppoll"),
    ("readlink", "readlinkat"),
    ("rename", "renameat"),
    ("rmdir", "unlinkat"),
    ("select", "pselect6"),
    ("stat", "newfstatat"),
    ("symlink", "symlinkat"),
    ("unlink", "unlinkat"),
    ("vfork", "clone"),
];
/// With the agent's capabilities, each of these allows an escape from the container or stops the node.
const NEVER: &[&str] = &[
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mknod",
    "mknodat",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "personality",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "userfaultfd",
    "vhangup",
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Profile {
    default_action: String,
    architectures: Vec<String>,
    syscalls: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    names: Vec<String>,
    action: String,
    errno_ret: Option<u32>,
}

#[test]
fn seccomp_profile_allows_what_is_required_and_nothing_dangerous() {
    let text = fs::read_to_string(root().join("deploy/seccomp/usher.json")).unwrap();
    let profile: Profile = serde_json::from_str(&text).unwrap();
    // EPERM means that the call is forbidden; ENOSYS means that the kernel does not have it.
    assert_eq!(profile.default_action, "SCMP_ACT_ERRNO");
    assert_eq!(
        profile.architectures,
        ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]
    );
    let [allow, clone3] = &profile.syscalls[..] else {
        panic!("{profile:?}");
    };
    assert_eq!(allow.action, "SCMP_ACT_ALLOW");
    assert!(allow.names.is_sorted());
    let names: BTreeSet<&str> = allow.names.iter().map(String::as_str).collect();
    for name in RARE.iter().chain(RUNTIME) {
        assert!(names.contains(name), "{name} is required");
    }
    for (_, there) in ARM64.iter().filter(|(here, _)| names.contains(here)) {
        assert!(names.contains(there), "{there} is required on arm64");
    }
    for name in NEVER {
        assert!(!names.contains(name), "{name} is dangerous");
    }
    // A filter cannot read the flags of `clone3` in memory. Libraries fall back to `clone`.
    assert_eq!(clone3.names, ["clone3"]);
    assert_eq!(
        (clone3.action.as_str(), clone3.errno_ret),
        ("SCMP_ACT_ERRNO", Some(38))
    );
}
