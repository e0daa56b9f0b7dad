//! Valid and malicious archives.

use tar::{Builder, EntryType, Header};

use super::super::archive::*;

const LARGEST: u64 = 1000;
/// No test may read more than this.
const READ_LIMIT: usize = 256 * 1024;

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_path("manifest.json").unwrap();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

/// An archive that never ends.
struct Endless {
    begin: Vec<u8>,
    read: usize,
}

impl Read for Endless {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let begin = self.begin.get(self.read..).unwrap_or_default();
        for (at, byte) in to.iter_mut().enumerate() {
            *byte = begin.get(at).copied().unwrap_or(b'x');
        }
        self.read += to.len();
        assert!(self.read <= READ_LIMIT, "{} bytes are read", self.read);
        Ok(to.len())
    }
}

fn found(archive: &[u8], path: &str) -> Option<Vec<u8>> {
    find(archive, path, LARGEST).unwrap()
}

fn error(archive: impl Read) -> String {
    find(archive, "pods.json", LARGEST).unwrap_err().to_string()
}

#[test]
fn long_names_are_read_in_all_formats() {
    let long = format!("pods/{}_{}/conns.json", "a".repeat(63), "b".repeat(63));
    let mut gnu = Builder::new(Vec::new());
    let mut file = header(EntryType::Regular, 3);
    gnu.append_data(&mut file, "pods.json", &b"one"[..])
        .unwrap();
    gnu.append_data(&mut file, &long, &b"two"[..]).unwrap();
    gnu.append_data(&mut file, "rules.json", &b"six"[..])
        .unwrap();
    let mut pax = Builder::new(Vec::new());
    let extensions = [
        ("mtime", &b"7.5"[..]),
        ("SCHILY.xattr.user.x", b"a\nb"),
        ("path", long.as_bytes()),
    ];
    pax.append_pax_extensions(extensions).unwrap();
    pax.append(&file, &b"two"[..]).unwrap();
    let (gnu, pax) = (gnu.into_inner().unwrap(), pax.into_inner().unwrap());
    for archive in [&gnu, &pax] {
        assert_eq!(found(archive, &long).as_deref(), Some(&b"two"[..]));
        assert_eq!(found(archive, "none.json"), None);
    }
    // A long name belongs to one entry only.
    assert_eq!(found(&gnu, "rules.json").as_deref(), Some(&b"six"[..]));
    assert_eq!(found(&pax, "manifest.json"), None);
}

#[test]
fn long_names_are_bounded() {
    for kind in [EntryType::GNULongName, EntryType::XHeader] {
        let begin = header(kind, 8 << 30).as_bytes().to_vec();
        let endless = Endless { begin, read: 0 };
        assert_eq!(error(endless), "larger than 64 KiB", "{kind:?}");
    }
    let mut archive = Builder::new(Vec::new());
    let name = "a".repeat(MAX_PATH + 1);
    let extension = header(EntryType::GNULongName, name.len() as u64);
    archive.append(&extension, name.as_bytes()).unwrap();
    let archive = archive.into_inner().unwrap();
    assert!(error(&archive[..]).contains("longer than 4096"));
}

#[test]
fn links_and_large_files_are_rejected() {
    let mut archive = Builder::new(Vec::new());
    let mut link = header(EntryType::Symlink, 0);
    archive
        .append_link(&mut link, "pods.json", "/etc/passwd")
        .unwrap();
    let mut file = header(EntryType::Regular, LARGEST + 1);
    let content = vec![b'x'; 1001];
    archive
        .append_data(&mut file, "pods.json", &content[..])
        .unwrap();
    let archive = archive.into_inner().unwrap();
    assert_eq!(error(&archive[..]), "larger than 1000 bytes");
}
