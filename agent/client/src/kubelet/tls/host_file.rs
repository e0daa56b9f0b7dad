//! The certificate that the kubelet creates for itself, on the node's disk.
//!
//! A volume cannot provide it: a hostPath of type `File` keeps the pod from starting where the file does not exist,
//! `FileOrCreate` and a plain hostPath create a file or a directory that keeps the kubelet from starting, and the directory
//! of the file has the private keys as well. The agent is in the host's PID namespace, so `/proc/1/root` has the file, and
//! this module opens nothing else.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use rustls_pki_types::{CertificateDer, pem::PemObject};

/// In the default of the kubelet's `--cert-dir`.
pub const HOST_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet.crt";
/// Longer than any chain.
const LIMIT: u64 = 64 * 1024;

/// Reads the certificates below the host's root directory.
pub(super) fn read(root: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let root = File::options()
        .read(true)
        .custom_flags((OFlag::O_PATH | OFlag::O_DIRECTORY).bits())
        .open(root)?;
    // /var/lib/kubelet may be a link, which is meant for the host's root directory.
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
