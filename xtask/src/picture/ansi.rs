//! Text with the colours of a terminal. Of all that can be told to a terminal this is what `usher` tells it; anything
//! else is left out, and so is what it says.

/// A stretch of a line that looks the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) look: Look,
}

/// How it looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// One of the 16 colours; the terminal's own without.
    pub(super) colour: Option<u8>,
    pub(super) is_bold: bool,
    pub(super) is_faint: bool,
}

/// The lines of a text. A look goes on at the next line, as on a terminal.
pub(super) fn lines(text: &str) -> Vec<Vec<Span>> {
    let mut look = Look::default();
    let lines = text.trim_end().lines();
    lines.map(|line| spans(line, &mut look)).collect()
}

fn spans(line: &str, look: &mut Look) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut add = |text: String, look: Look| match spans.last_mut() {
        _ if text.is_empty() => {}
        Some(last) if last.look == look => last.text.push_str(&text),
        _ => spans.push(Span { text, look }),
    };
    let mut pieces = line.split("\u{1b}[");
    add(plain(pieces.next().unwrap_or_default()), *look);
    for piece in pieces {
        let is_end = |letter: char| ('@'..='~').contains(&letter);
        let Some(end) = piece.find(is_end) else {
            continue;
        };
        let (codes, rest) = piece.split_at(end);
        if rest.starts_with('m') {
            for code in codes.split(';') {
                look.apply(code);
            }
        }
        add(plain(&rest[1..]), *look);
    }
    spans
}

fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

impl Look {
    fn apply(&mut self, code: &str) {
        match code.parse().unwrap_or(0_u8) {
            0 => *self = Self::default(),
            1 => self.is_bold = true,
            2 => self.is_faint = true,
            22 => (self.is_bold, self.is_faint) = (false, false),
            colour @ 30..=37 => self.colour = Some(colour - 30),
            colour @ 90..=97 => self.colour = Some(colour - 90 + 8),
            39 => self.colour = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str, colour: Option<u8>, is_bold: bool) -> Span {
        let look = Look {
            colour,
            is_bold,
            is_faint: false,
        };
        Span {
            text: text.to_owned(),
            look,
        }
    }

    #[test]
    fn colours() {
        let text = "a \u{1b}[32mok\u{1b}[0m\n\u{1b}[1;91mbad\nworse\u{1b}[m.\n\n";
        assert_eq!(
            lines(text),
            [
                vec![span("a ", None, false), span("ok", Some(2), false)],
                vec![span("bad", Some(9), true)],
                vec![span("worse", Some(9), true), span(".", None, false)],
            ]
        );
    }

    #[test]
    fn anything_else_is_left_out() {
        let text = "a\u{1b}[2Jb\u{7}\u{1b}[999mc\u{1b}[1";
        assert_eq!(lines(text), [vec![span("abc", None, false)]]);
    }
}
