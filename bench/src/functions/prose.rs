//! Text that nobody minds: words, numbers and marks of pages, drawn from a seed.

use crate::classifier::rules::Random;

const WORDS: [&str; 48] = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "you",
    "that",
    "it",
    "for",
    "was",
    "on",
    "are",
    "with",
    "his",
    "they",
    "at",
    "be",
    "this",
    "have",
    "from",
    "or",
    "one",
    "had",
    "by",
    "word",
    "but",
    "what",
    "some",
    "administration",
    "selection",
    "united",
    "password",
    "script",
    "console",
    "<p>",
    "</p>",
    "<a href=\"/index.html\">",
    "</a>",
    "<br/>",
    "GET",
    "POST",
    "Content-Type:",
    "image/png",
    "\r\n",
    "\"user\":",
    "\"id\":",
    "=",
];
/// Of so many words, one is a number.
const NUMBERS: u32 = 8;

/// Text without end.
pub(super) struct Prose {
    random: Random,
    rest: Vec<u8>,
}

impl Prose {
    pub(super) fn new() -> Self {
        Self { random: Random::new(0x7e87), rest: Vec::new() }
    }

    /// Its next bytes.
    pub(super) fn next(&mut self, bytes: usize) -> Vec<u8> {
        while self.rest.len() < bytes {
            let random = &mut self.random;
            let word = match random.below(NUMBERS) {
                0 => random.below(1 << 20).to_string(),
                _ => WORDS[random.below(WORDS.len() as u32) as usize].to_owned(),
            };
            self.rest.extend_from_slice(word.as_bytes());
            self.rest.push(b' ');
        }
        self.rest.drain(..bytes).collect()
    }
}
