//! Whether bytes are such as the checks of a rule ask.
//!
//! Knows places relative to former matches: all ends at which what was asked so far may have matched are
//! carried on together, so that no choice has to be taken back and the effort stays linear for each check.
//! Refuses to know packets and flows.

use catena_rules::snort::{ByteTest, Check, Comparison, Content, DataAt, Numeral, Pattern};

/// Places from which on a pattern that holds only where its search begins is tried, and one whose places overlap.
const TRIES_MAX: usize = 1_024;

/// Bytes that are looked at.
#[derive(Clone, Copy)]
pub(super) struct Window<'w> {
    pub(super) bytes: &'w [u8],
    /// Bytes of the stream before them.
    pub(super) base: u64,
    /// How many of them have been looked at before.
    pub(super) seen: usize,
}

impl<'w> Window<'w> {
    pub(super) const fn whole(bytes: &'w [u8]) -> Self {
        Self { bytes, base: 0, seen: 0 }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    No,
    /// Nothing of it ends in bytes that are new.
    Before,
    /// Some of it does.
    Now,
}

/// Ends of matches, in order; beside them those of which something ends in new bytes.
#[derive(Clone, Debug, Default)]
struct Ends {
    any: Vec<u32>,
    new: Vec<u32>,
}

impl Ends {
    fn reset(&mut self) {
        self.any.clear();
        self.new.clear();
    }

    fn push(&mut self, end: u32, is_new: bool) {
        if self.any.last() != Some(&end) {
            self.any.push(end);
        }
        if is_new && self.new.last() != Some(&end) {
            self.new.push(end);
        }
    }

    fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        self.any.retain(|end| keep(*end));
        self.new.retain(|end| keep(*end));
    }
}

/// Room for what is found on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursors {
    now: Ends,
    next: Ends,
}

impl Cursors {
    /// With room for a window of so many bytes.
    pub(super) fn with_room(bytes: usize) -> Self {
        let ends =
            || Ends { any: Vec::with_capacity(bytes + 1), new: Vec::with_capacity(bytes + 1) };
        Self { now: ends(), next: ends() }
    }

    /// Holds the checks of one buffer, in their order.
    pub(super) fn hold<'c>(
        &mut self,
        checks: impl Iterator<Item = &'c Check>,
        window: Window<'_>,
    ) -> Held {
        let mut has_new = window.seen == 0;
        self.now.reset();
        self.now.push(0, false);
        let mut checks = checks.peekable();
        while let Some(check) = checks.next() {
            let is_start = match check {
                Check::Content(content) => !content.is_relative && !content.is_negated,
                Check::Pattern(pattern) => !pattern.is_relative && !pattern.is_negated,
                Check::ByteTest(_) | Check::DataAt(_) => false,
            };
            if is_start {
                has_new |= !self.now.new.is_empty();
                self.now.reset();
            }
            let holds = match check {
                Check::Content(content) => self.content(content, window),
                Check::Pattern(pattern) => {
                    let is_followed = checks.peek().is_some_and(|next| is_relative(next));
                    self.pattern(pattern, is_followed, window)
                }
                Check::ByteTest(test) => self.byte_test(test, window),
                Check::DataAt(test) => self.data_at(test, window),
            };
            if !holds {
                return Held::No;
            }
        }
        if has_new || !self.now.new.is_empty() { Held::Now } else { Held::Before }
    }

    fn content(&mut self, content: &Content, window: Window<'_>) -> bool {
        let length = content.bytes.len() as i64;
        let base = i64::try_from(window.base).unwrap_or(i64::MAX);
        let from = i64::from(content.from);
        let within = content.within.map_or(i64::MAX / 4, i64::from);
        let span = |start: i64| {
            (start.saturating_add(from), start.saturating_add(from).saturating_add(within))
        };
        if !content.is_relative {
            let (first, last) = span(-base);
            let first = if content.is_at_end { window.bytes.len() as i64 - length } else { first };
            let mut places = occurrences(content, window.bytes, first, last).peekable();
            if content.is_negated {
                return places.peek().is_none();
            }
            for place in places {
                let end = place + content.bytes.len();
                self.now.push(end as u32, end > window.seen);
            }
            return !self.now.any.is_empty();
        }
        if content.is_negated {
            let bytes = window.bytes;
            self.now.retain(|cursor| {
                let (first, last) = span(cursor.into());
                occurrences(content, bytes, first, last).next().is_none()
            });
            return !self.now.any.is_empty();
        }
        let Self { now, next } = self;
        next.reset();
        let lowest = now.any.first().map_or(0, |cursor| span((*cursor).into()).0);
        let highest = now.any.last().map_or(0, |cursor| span((*cursor).into()).1);
        for place in occurrences(content, window.bytes, lowest, highest) {
            let end = place as i64 + length;
            // Cursors from which it is not too far and not too near.
            let (least, most) =
                (end.saturating_sub(from).saturating_sub(within), place as i64 - from);
            let reaches = |ends: &[u32]| {
                let at = ends.partition_point(|cursor| i64::from(*cursor) < least);
                ends.get(at).is_some_and(|cursor| i64::from(*cursor) <= most)
            };
            if reaches(&now.any) {
                next.push(end as u32, end > window.seen as i64 || reaches(&now.new));
            }
        }
        std::mem::swap(now, next);
        !self.now.any.is_empty()
    }

    /// `is_followed`: what comes next asks where it ends.
    fn pattern(&mut self, pattern: &Pattern, is_followed: bool, window: Window<'_>) -> bool {
        let Window { bytes, seen, .. } = window;
        if pattern.is_negated {
            if !pattern.is_relative {
                return !pattern.regex.is_match(bytes);
            }
            self.now.any.truncate(TRIES_MAX);
            self.now.retain(|cursor| {
                !pattern.regex.is_match(bytes.get(cursor as usize..).unwrap_or_default())
            });
            return !self.now.any.is_empty();
        }
        let Self { now, next } = self;
        next.reset();
        if !pattern.is_relative {
            for (_, end) in matches(pattern, bytes, is_followed) {
                next.any.push(end as u32);
                if end > seen {
                    next.new.push(end as u32);
                }
            }
        } else {
            let tries = if pattern.is_anchored { TRIES_MAX } else { 1 };
            for cursor in now.any.iter().take(tries) {
                let start = *cursor as usize;
                let rest = bytes.get(start..).unwrap_or_default();
                for (first, last) in matches(pattern, rest, is_followed) {
                    let (place, end) = (start + first, start + last);
                    let is_from_new = if pattern.is_anchored {
                        now.new.binary_search(cursor).is_ok()
                    } else {
                        now.new.first().is_some_and(|first| *first as usize <= place)
                    };
                    next.any.push(end as u32);
                    if end > seen || is_from_new {
                        next.new.push(end as u32);
                    }
                }
                if next.any.len() > bytes.len() {
                    break;
                }
            }
        }
        for ends in [&mut next.any, &mut next.new] {
            ends.sort_unstable();
            ends.dedup();
        }
        std::mem::swap(now, next);
        !self.now.any.is_empty()
    }

    fn byte_test(&mut self, test: &ByteTest, window: Window<'_>) -> bool {
        let end_of = |start: i64| {
            let place = start.saturating_add(test.offset.into());
            let number = read(test, window.bytes, place)?;
            compare(test, number).then_some(place + i64::from(test.bytes))
        };
        self.test(test.is_relative, window, end_of)
    }

    fn data_at(&mut self, test: &DataAt, window: Window<'_>) -> bool {
        let length = window.bytes.len() as i64;
        let end_of = |start: i64| {
            let end = start.saturating_add(i64::from(test.offset) + i64::from(!test.is_relative));
            // What is not there yet is no new byte.
            let end_told = if test.is_negated { 0 } else { end };
            ((end <= length) != test.is_negated).then_some(end_told)
        };
        self.test(test.is_relative, window, end_of)
    }

    /// Keeps the ends from which a test holds. `end_of`: where the bytes end that it has read from a start on; none: it
    /// does not hold.
    fn test(
        &mut self,
        is_relative: bool,
        window: Window<'_>,
        end_of: impl Fn(i64) -> Option<i64>,
    ) -> bool {
        let seen = window.seen as i64;
        let Self { now, next } = self;
        if !is_relative {
            let start = i64::try_from(window.base).map_or(i64::MIN / 2, |base| -base);
            let Some(end) = end_of(start) else { return false };
            if end > seen {
                now.new.clone_from(&now.any);
            }
            return true;
        }
        next.reset();
        for cursor in &now.any {
            if let Some(end) = end_of((*cursor).into()) {
                next.push(*cursor, end > seen || now.new.binary_search(cursor).is_ok());
            }
        }
        std::mem::swap(now, next);
        !self.now.any.is_empty()
    }
}

fn is_relative(check: &Check) -> bool {
    match check {
        Check::Content(content) => content.is_relative,
        Check::Pattern(pattern) => pattern.is_relative,
        Check::ByteTest(test) => test.is_relative,
        Check::DataAt(test) => test.is_relative,
    }
}

/// Where a pattern begins and ends; where its end is asked for, also at places that overlap, of the first so many.
fn matches(
    pattern: &Pattern,
    bytes: &[u8],
    is_followed: bool,
) -> impl Iterator<Item = (usize, usize)> {
    let (mut at, mut tries) = (0, if is_followed { TRIES_MAX } else { 0 });
    std::iter::from_fn(move || {
        let found = pattern.regex.find_at(bytes, Some(at).filter(|at| *at <= bytes.len())?)?;
        let (start, end) = (found.start(), found.end());
        at = if tries > 0 { start + 1 } else { end.max(start + 1) };
        tries = tries.saturating_sub(1);
        Some((start, end))
    })
}

/// Where a content is that begins at `first` or behind and ends at `last` or before, in order.
fn occurrences<'o>(
    content: &'o Content,
    bytes: &'o [u8],
    first: i64,
    last: i64,
) -> impl Iterator<Item = usize> + 'o {
    let needle = &*content.bytes;
    let length = bytes.len() as i64;
    let start = usize::try_from(first.clamp(0, length)).unwrap_or(0);
    let end = usize::try_from(last.clamp(0, length)).unwrap_or(0);
    let part = bytes.get(start..end.max(start)).unwrap_or_default();
    let head = needle.first().copied().unwrap_or_default();
    let ignores_case = content.ignores_case;
    part.windows(needle.len().max(1)).enumerate().filter_map(move |(at, window)| {
        let found = if ignores_case {
            window.first().is_some_and(|one| one.eq_ignore_ascii_case(&head))
                && window.eq_ignore_ascii_case(needle)
        } else {
            window.first() == Some(&head) && window == needle
        };
        found.then_some(start + at)
    })
}

/// The number at a place; none: it is not in the bytes, or no number.
fn read(test: &ByteTest, bytes: &[u8], place: i64) -> Option<u64> {
    let start = usize::try_from(place).ok()?;
    let digits = bytes.get(start..start.checked_add(test.bytes.into())?)?;
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    match test.numeral {
        Numeral::Big => Some(digits.iter().fold(0, add)),
        Numeral::Little => Some(digits.iter().rev().fold(0, add)),
        Numeral::Digits(base) => {
            let text = digits.trim_ascii_start();
            let text = if base == 16 { text.strip_prefix(b"0x").unwrap_or(text) } else { text };
            let mut values =
                text.iter().map_while(|one| char::from(*one).to_digit(base)).peekable();
            values.peek()?;
            Some(values.fold(0, |number: u64, digit| {
                number.saturating_mul(base.into()).saturating_add(digit.into())
            }))
        }
    }
}

fn compare(test: &ByteTest, number: u64) -> bool {
    let holds = match test.comparison {
        Comparison::Less => number < test.value,
        Comparison::Greater => number > test.value,
        Comparison::Equal => number == test.value,
        Comparison::AtMost => number <= test.value,
        Comparison::AtLeast => number >= test.value,
        Comparison::And => number & test.value != 0,
        Comparison::Xor => number ^ test.value != 0,
    };
    holds != test.is_negated
}
