//! What surrounds a word: an open quote, and the query of a URL.

/// A quote, which may be in a text that is itself quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quote {
    letter: char,
    /// The backslashes before it.
    escapes: usize,
}

impl Quote {
    /// The quote that a text begins with, and its length with the backslashes.
    pub(super) fn at(text: &str) -> Option<(Self, usize)> {
        let escapes = text.len() - text.trim_start_matches('\\').len();
        let letter = text[escapes..].chars().next()?;
        let quote = Self { letter, escapes };
        ['"', '\'']
            .contains(&letter)
            .then_some((quote, escapes + 1))
    }

    /// Where the text before the closing quote ends.
    pub(super) fn close(self, text: &str) -> Option<usize> {
        let mut escapes = 0;
        for (at, letter) in text.char_indices() {
            match letter {
                '\\' => escapes += 1,
                _ if self.is_closed_by(letter, escapes) => {
                    return Some(at - escapes.min(self.escapes));
                }
                _ => escapes = 0,
            }
        }
        None
    }

    /// A quote with more backslashes belongs to the text. A quote with fewer ends the text around it too.
    fn is_closed_by(self, letter: char, escapes: usize) -> bool {
        let is_same = escapes % (2 * self.escapes + 2) == self.escapes;
        letter == self.letter && (is_same || escapes < self.escapes)
    }
}

#[derive(Debug, Default)]
pub(super) struct Place {
    open: Option<Quote>,
    /// Backslashes directly before this place.
    escapes: usize,
    /// Whether the open quote is directly before this place.
    is_quoted: bool,
    in_query: bool,
}

impl Place {
    pub(super) fn open(&self) -> Option<Quote> {
        self.open
    }

    pub(super) fn quote(&self) -> Option<char> {
        self.open.map(|quote| quote.letter)
    }

    pub(super) fn is_quoted(&self) -> bool {
        self.is_quoted
    }

    /// Whether the next word is in the query of a URL, where `&` ends a value.
    pub(super) fn in_query(&self) -> bool {
        self.in_query
    }

    /// Whether the rest begins with the end of the open quote, and not with a quote in it.
    pub(super) fn is_closed_by(&self, rest: &str) -> bool {
        // The backslashes before a quote are read once.
        if self.open.is_none() || self.escapes > 0 {
            return false;
        }
        let Some((quote, length)) = Quote::at(rest) else {
            return false;
        };
        let next = rest[length..].chars().next();
        let is_end = next.is_none_or(|next| next.is_whitespace() || ",;)}]".contains(next));
        is_end && self.closes(quote)
    }

    fn closes(&self, quote: Quote) -> bool {
        let open = self.open;
        open.is_some_and(|open| open.is_closed_by(quote.letter, quote.escapes))
    }

    /// The place after a value and its quotes.
    pub(super) fn skip(&mut self) {
        (self.is_quoted, self.escapes) = (false, 0);
    }

    /// The place after a word and the character that ends it.
    pub(super) fn advance(&mut self, text: &str, end: &str) {
        self.in_query |= text.contains('?');
        let escapes = if text.is_empty() { self.escapes } else { 0 };
        self.skip();
        match end.chars().next() {
            Some('\\') => self.escapes = escapes + 1,
            Some(letter @ ('"' | '\'')) => {
                let quote = Quote { letter, escapes };
                if self.closes(quote) {
                    self.open = None;
                } else if self.open.is_none() && !text.ends_with(char::is_alphanumeric) {
                    // Not the apostrophe of "don't".
                    self.open = Some(quote);
                    self.is_quoted = true;
                }
            }
            Some(letter) if letter.is_whitespace() => self.in_query = false,
            _ => {}
        }
    }
}
