//! The kubelet's self-signed certificate on the node's disk.
//!
//! A volume cannot provide it. With a hostPath of type `File` the pod does not start if the file is missing.
//! `FileOrCreate` and a plain hostPath create a file or directory that keeps the kubelet from starting. The file's
//! directory also has the private keys. The agent is in the host's PID namespace, so `/proc/1/root` has the file, and
//! this module opens nothing else.
//!
//! The kernel permits `/proc/1/root` to a thread with `CAP_SYS_PTRACE` ([ptrace(2), access mode
//! checking](https://man7.org/linux/man-pages/man2/ptrace.2.html)). The thread that sends requests to the kubelet has
//! no capabilities, so another thread opens the file.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use usher_sys::process::capability::{self, Capability};

use crate::error_chain::chain;

/// The path in the default of the kubelet's `--cert-dir`.
pub const HOST_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet.crt";
/// No certificate chain is longer.
const LIMIT: u64 = 64 * 1024;

type Certificates = io::Result<Vec<CertificateDer<'static>>>;

/// The file, and the thread that reads it. The thread ends when all clones are dropped.
#[derive(Debug, Clone)]
pub struct HostFile {
    requests: mpsc::Sender<mpsc::Sender<Certificates>>,
}

impl HostFile {
    /// Starts the thread, which keeps only `CAP_SYS_PTRACE`. It reads the file below this root directory.
    pub fn start(root: PathBuf) -> io::Result<Self> {
        let (requests, received) = mpsc::channel::<mpsc::Sender<Certificates>>();
        let serve = move || {
            if let Err(error) = capability::keep_only(&[Capability::CAP_SYS_PTRACE]) {
                tracing::warn!(error = %chain(&error), "could not drop capabilities; running with more than needed");
            }
            for reply in received {
                // Fails only during the shutdown.
                drop(reply.send(read(&root)));
            }
        };
        thread::Builder::new()
            .name("host-file".to_owned())
            .spawn(serve)?;
        Ok(Self { requests })
    }

    /// Blocks during the read.
    pub(super) fn read(&self) -> Certificates {
        let ended = || io::Error::other("the thread that reads it has ended");
        let (reply, read) = mpsc::channel();
        self.requests.send(reply).map_err(|_closed| ended())?;
        read.recv().map_err(|_closed| ended())?
    }
}

/// Reads the certificates below the host's root directory.
fn read(root: &Path) -> Certificates {
    let root = File::options()
        .read(true)
        .custom_flags((OFlag::O_PATH | OFlag::O_DIRECTORY).bits())
        .open(root)?;
    // /var/lib/kubelet may be a link, which must be resolved within the host's root directory.
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let file = File::from(openat2(root.as_fd(), HOST_CERTIFICATE, how)?);
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut pem = Vec::new();
    file.take(LIMIT).read_to_end(&mut pem)?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(io::Error::other)?;
    if certificates.is_empty() {
        return Err(io::Error::other("no certificate in it"));
    }
    Ok(certificates)
}
