//! Prints a response with control characters escaped, or unchanged with `--raw`. A pipe does not mean that a program reads
//! it: `kubectl exec` has a pipe here and a terminal at its other end.

use std::io::{self, IsTerminal, Write};

use usher_inspect::text::printable::clean;

/// A longer line is printed in parts.
const MAX_LINE: usize = 64 * 1024;

/// Prints the head and the body to standard output.
#[derive(Debug)]
pub(super) struct Output<W = io::Stdout> {
    out: W,
    is_terminal: bool,
    raw: bool,
    with_head: bool,
    /// The start of an incomplete line.
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
}

impl<W: Write> Output<W> {
    /// Prints the head if it was requested.
    pub(super) fn head(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.with_head {
            self.body(bytes)?;
        }
        Ok(())
    }

    pub(super) fn body(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.raw {
            return self.out.write_all(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            self.line("\n")?;
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MAX_LINE {
            let rest = self.line.split_off(cut(&self.line));
            self.line("")?;
            self.line = rest;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Prints the incomplete last line.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            // A prompt must start on a new line; a file must equal the server's response.
            self.line(if self.is_terminal { "\n" } else { "" })?;
        }
        self.flush()
    }

    fn line(&mut self, end: &str) -> io::Result<()> {
        let shown = shown(&self.line);
        self.line.clear();
        write!(self.out, "{shown}{end}")
    }
}

/// Where a long line can be cut: not within a character, and not before the end of a line.
fn cut(line: &[u8]) -> usize {
    let last = line.utf8_chunks().last();
    let incomplete = last.map_or(0, |chunk| chunk.invalid().len());
    let is_return = line.ends_with(b"\r");
    line.len() - incomplete.max(usize::from(is_return))
}

/// One line with control characters escaped. Tabs and a trailing carriage return are harmless.
fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    let parts: Vec<_> = text.split('\t').map(clean).collect();
    parts.join("\t")
}

#[cfg(test)]
mod tests {
    use super::{MAX_LINE, Output, shown};

    #[test]
    fn long_lines_stay_as_they_are() {
        let long = ["a".repeat(MAX_LINE), "ä\r\n".to_owned()].concat();
        // A part of the response ends within the character, and one before the end of the line.
        for end in [MAX_LINE + 1, MAX_LINE + 3] {
            let mut output = Output {
                out: Vec::new(),
                is_terminal: true,
                raw: false,
                with_head: false,
                line: Vec::new(),
            };
            output.body(&long.as_bytes()[..end]).unwrap();
            output.body(&long.as_bytes()[end..]).unwrap();
            output.end().unwrap();
            let expected = long.replace('\r', "");
            assert!(output.out == expected.as_bytes(), "{end}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown(b"a\tb\x1b[2J\x07\r"), "a\tb\\x1b[2J\\x07");
        assert_eq!(shown("ä\u{202e}\u{9b}1m".as_bytes()), "ä\\u{202e}\\u{9b}1m");
        assert_eq!(shown(b"\xff\x9b"), "\u{fffd}\u{fffd}");
    }
}
