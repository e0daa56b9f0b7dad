//! Showing what came: harmless, or as it is where that is asked for. A pipe is no sign of a program that reads: with
//! `kubectl exec` there is one, and a person's terminal at its other end.

use std::io::{self, IsTerminal, Write};

use usher_inspect::text::printable::clean;

/// A line that is longer is shown in parts.
const LONGEST_LINE: usize = 64 * 1024;

/// Shows head and body on standard output.
#[derive(Debug)]
pub(super) struct Output {
    out: io::Stdout,
    is_terminal: bool,
    raw: bool,
    with_head: bool,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
}

impl Output {
    pub(super) fn new(with_head: bool, raw: bool) -> Self {
        let out = io::stdout();
        Self {
            is_terminal: out.is_terminal(),
            out,
            raw,
            with_head,
            line: Vec::new(),
        }
    }

    /// Shows a head, where that is wanted.
    pub(super) fn head(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.with_head {
            self.body(bytes)?;
        }
        Ok(())
    }

    /// Shows a part of a body.
    pub(super) fn body(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.raw {
            return self.out.lock().write_all(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            self.line("\n")?;
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > LONGEST_LINE {
            return self.line("\n");
        }
        Ok(())
    }

    /// Hands over what was shown.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.lock().flush()
    }

    /// Shows what is left.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            // A prompt is to begin a line of its own; a file is to have what was sent.
            self.line(if self.is_terminal { "\n" } else { "" })?;
        }
        self.flush()
    }

    fn line(&mut self, end: &str) -> io::Result<()> {
        let shown = shown(&self.line);
        self.line.clear();
        write!(self.out.lock(), "{shown}{end}")
    }
}

/// One line of what came, for people. Tabs and the end of a line as HTTP writes it do no harm.
fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    let parts: Vec<_> = text.split('\t').map(clean).collect();
    parts.join("\t")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn nothing_drives_the_terminal() {
        assert_eq!(shown(b"a\tb\x1b[2J\x07\r"), "a\tb\\x1b[2J\\x07");
        assert_eq!(shown("ä\u{202e}\u{9b}1m".as_bytes()), "ä\\u{202e}\\u{9b}1m");
        assert_eq!(shown(b"\xff\x9b"), "\u{fffd}\u{fffd}");
    }
}
