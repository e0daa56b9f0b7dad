//! The words of a line.

/// A word, the character that ends it, and the rest of the line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'line> {
    pub(super) text: &'line str,
    pub(super) end: &'line str,
    pub(super) rest: &'line str,
}

impl<'line> Word<'line> {
    /// The first word of a line, inside a quote or not.
    pub(super) fn split(line: &'line str, quote: Option<char>) -> Self {
        let mut is_url = false;
        let mut user_end = 0;
        let mut letters = line.char_indices();
        let end = letters.find(|(at, letter)| match letter {
            // A user and a password may have any character.
            _ if *at < user_end => false,
            // A colon does not end a word in a URL, where it may separate a user and a password.
            ':' => {
                let begin = line[*at..].strip_prefix("://").filter(|_| !is_url);
                is_url |= begin.is_some();
                user_end = begin.map_or(0, |begin| line.len() - begin.len() + user(begin, quote));
                !is_url
            }
            letter => ends(*letter),
        });
        let at = end.map_or(line.len(), |(at, _)| at);
        let (text, rest) = line.split_at(at);
        let next = rest.char_indices().nth(1);
        let (end, rest) = rest.split_at(next.map_or(rest.len(), |(at, _)| at));
        Self { text, end, rest }
    }
}

/// The length of the user and the password at the begin of a URL's authority.
fn user(authority: &str, quote: Option<char>) -> usize {
    let ends = |letter: char| {
        "/?#\"\\<>{}".contains(letter)
            || quote == Some(letter)
            || letter.is_whitespace()
            || letter.is_control()
    };
    let end = authority.find(ends).unwrap_or(authority.len());
    authority[..end].rfind('@').unwrap_or(0)
}

/// Whether the character ends every kind of word.
fn ends(letter: char) -> bool {
    "=,;&\"'\\(){}<>".contains(letter) || letter.is_whitespace() || letter.is_control()
}
