//! The words of a line, as `iptables-save` quotes them.

use crate::refusal::Refusal;

/// The words of a rule that have not been read yet.
pub(super) struct Words<'t> {
    text: &'t str,
    /// Each with where it begins.
    words: Vec<(usize, String)>,
    at: usize,
}

impl<'t> Words<'t> {
    pub(super) fn of(text: &'t str) -> Result<Self, Refusal> {
        let mut words = Vec::new();
        let mut letters = text.char_indices().peekable();
        while let Some((start, first)) = letters.next() {
            if first.is_whitespace() {
                continue;
            }
            let mut word = String::new();
            let mut quote = None;
            let mut letter = first;
            loop {
                match (quote, letter) {
                    (None, '"' | '\'') => quote = Some(letter),
                    (Some(open), close) if open == close => quote = None,
                    (Some('"') | None, '\\') => match letters.next() {
                        Some((_, escaped)) => word.push(escaped),
                        None => break,
                    },
                    _ => word.push(letter),
                }
                match letters.peek() {
                    Some((_, next)) if quote.is_some() || !next.is_whitespace() => letter = *next,
                    _ => break,
                }
                letters.next();
            }
            if quote.is_some() {
                let what = "a quotation mark is not closed";
                return Err(Refusal::wrong(what, "close it in the same line"));
            }
            words.push((start, word));
        }
        Ok(Self { text, words, at: 0 })
    }

    pub(super) fn next_word(&mut self) -> Option<String> {
        let (_, word) = self.words.get(self.at)?;
        self.at += 1;
        Some(word.clone())
    }

    pub(super) fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(|(_, word)| &**word)
    }

    /// The next word, which `what` names.
    pub(super) fn need(&mut self, what: &str) -> Result<String, Refusal> {
        self.next_word().ok_or_else(|| {
            Refusal::wrong(format!("{what} is missing"), "complete the rule or take it out")
        })
    }

    /// Passes by `[packets:bytes]`, which a saved rule may begin with.
    pub(super) fn skip_counters(&mut self) {
        if self.peek().is_some_and(|word| word.starts_with('[') && word.ends_with(']')) {
            self.at += 1;
        }
    }

    /// The text from the next word on.
    pub(super) fn rest(&self) -> &'t str {
        self.words.get(self.at).and_then(|(start, _)| self.text.get(*start..)).unwrap_or_default()
    }
}
