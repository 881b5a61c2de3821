//! Contents and what follows them: where they may be, whether case matters, which of them is looked for first.

use super::numbers::{bounded, number};
use super::rule::{Buffer, Check, Content};
use super::words;
use crate::refusal::Refusal;

/// Bytes of one content.
const CONTENT_BYTES_MAX: usize = 1_024;

/// A content as it is being read.
pub(super) struct Draft {
    text: String,
    bytes: Vec<u8>,
    is_negated: bool,
    ignores_case: bool,
    offset: Option<i32>,
    depth: Option<u32>,
    distance: Option<i32>,
    within: Option<u32>,
    is_at_start: bool,
    is_at_end: bool,
    /// Is it looked for first, and which part of it?
    fast: Option<(usize, usize)>,
}

impl Draft {
    pub(super) fn read(value: &str) -> Result<Self, Refusal> {
        let advice = "write content:\"bytes\"; what follows a content stands in options of their own, as nocase;";
        let (is_negated, text) = words::quoted(value).ok_or_else(|| {
            Refusal::wrong(format!("the content {value} is not in quotes"), advice)
        })?;
        let bytes = words::bytes(text)?;
        if bytes.is_empty() || bytes.len() > CONTENT_BYTES_MAX {
            let what = format!("the content \"{text}\" has {} bytes", bytes.len());
            return Err(Refusal::wrong(what, format!("write 1 to {CONTENT_BYTES_MAX} bytes")));
        }
        Ok(Self {
            text: text.to_owned(),
            bytes,
            is_negated,
            ignores_case: false,
            offset: None,
            depth: None,
            distance: None,
            within: None,
            is_at_start: false,
            is_at_end: false,
            fast: None,
        })
    }

    /// Takes an option that belongs to it; false: it is none of these.
    pub(super) fn takes(&mut self, name: &str, value: Option<&str>) -> Result<bool, Refusal> {
        let of = || {
            value.ok_or_else(|| {
                Refusal::wrong(format!("{name} has no number"), format!("write {name}:N"))
            })
        };
        match name {
            "nocase" => self.ignores_case = true,
            // All contents are of bytes as they are.
            "rawbytes" => {}
            "offset" => self.offset = Some(bounded(name, number(name, of()?)?)?),
            "depth" => self.depth = Some(number(name, of()?)?),
            "distance" => self.distance = Some(bounded(name, number(name, of()?)?)?),
            "within" => self.within = Some(number(name, of()?)?),
            "startswith" => self.is_at_start = true,
            "endswith" => self.is_at_end = true,
            "fast_pattern" => self.fast = Some(self.part(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn part(&self, value: Option<&str>) -> Result<(usize, usize), Refusal> {
        let Some(value) = value.filter(|value| *value != "only") else {
            return Ok((0, self.bytes.len()));
        };
        let part = value.split_once(',').and_then(|(from, bytes)| {
            let (from, bytes): (usize, usize) =
                (from.trim().parse().ok()?, bytes.trim().parse().ok()?);
            let end =
                from.checked_add(bytes).filter(|end| bytes > 0 && *end <= self.bytes.len())?;
            Some((from, end))
        });
        part.ok_or_else(|| {
            let what = format!("fast_pattern:{value} is no part of \"{}\"", self.text);
            Refusal::wrong(
                what,
                "write fast_pattern, fast_pattern:only, or fast_pattern:first,bytes",
            )
        })
    }

    fn wrong(&self, what: &str, advice: &str) -> Refusal {
        Refusal::wrong(format!("the content \"{}\" {what}", self.text), advice)
    }

    /// Its part that is asked for first; else none.
    pub(super) fn fast(&self) -> Option<&[u8]> {
        self.fast.and_then(|(from, end)| self.bytes.get(from..end))
    }

    /// What may be looked for first where no content says so.
    pub(super) fn candidate(&self) -> Option<&[u8]> {
        (!self.is_negated).then_some(&self.bytes)
    }

    /// The check that it is.
    pub(super) fn finish(&self) -> Result<Content, Refusal> {
        let is_absolute = self.offset.is_some() || self.depth.is_some() || self.is_at_start;
        let is_relative = self.distance.is_some() || self.within.is_some();
        if is_absolute && is_relative {
            let advice = "write offset and depth, or distance and within";
            return Err(
                self.wrong("tells its place both from the start and from the last match", advice)
            );
        }
        if self.is_at_start && (self.offset.is_some() || self.depth.is_some()) {
            return Err(
                self.wrong("has startswith beside offset or depth", "leave one of them out")
            );
        }
        if self.is_at_end && (self.offset.is_some() || self.depth.is_some() || is_relative) {
            return Err(self.wrong("has endswith beside another place", "leave one of them out"));
        }
        if self.fast.is_some() && self.is_negated {
            let what = "may not be there, so it cannot be looked for first";
            return Err(self.wrong(what, "put fast_pattern behind another content"));
        }
        if self.offset.is_some_and(|offset| offset < 0) {
            return Err(self.wrong("has an offset below 0", "write 0 or more"));
        }
        let bytes = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let within = if self.is_at_start { Some(bytes) } else { self.depth.or(self.within) };
        if within.is_some_and(|within| within < bytes || within > 65_535) {
            let what = "is longer than its depth or within, or these are more than 65535";
            return Err(self.wrong(what, "write at least its length"));
        }
        let mut content = self.bytes.clone();
        if self.ignores_case {
            content.make_ascii_lowercase();
        }
        Ok(Content {
            bytes: content,
            is_negated: self.is_negated,
            ignores_case: self.ignores_case,
            is_relative,
            from: self.offset.or(self.distance).unwrap_or(0),
            within,
            is_at_end: self.is_at_end,
        })
    }
}

/// What a rule asks of buffers, as it is being read.
#[derive(Default)]
pub(super) struct Drafts(pub(super) Vec<(Buffer, Drafted)>);

pub(super) enum Drafted {
    Content(Draft),
    Done(Check),
}

/// A rule's checks, and what is looked for first.
pub(super) type Finished = (Vec<(Buffer, Check)>, Option<(Buffer, Vec<u8>)>);

impl Drafts {
    /// The content that an option may belong to.
    pub(super) fn last(&mut self) -> Option<&mut (Buffer, Drafted)> {
        self.0.last_mut()
    }

    pub(super) fn finish(self) -> Result<Finished, Refusal> {
        let mut checks = Vec::with_capacity(self.0.len());
        let (mut named, mut longest) = (None::<(Buffer, Vec<u8>)>, None::<(Buffer, Vec<u8>)>);
        for (buffer, draft) in self.0 {
            let draft = match draft {
                Drafted::Done(check) => {
                    checks.push((buffer, check));
                    continue;
                }
                Drafted::Content(draft) => draft,
            };
            checks.push((buffer, Check::Content(draft.finish()?)));
            if let Some(fast) = draft.fast() {
                if named.is_some() {
                    return Err(Refusal::wrong(
                        "two contents say fast_pattern",
                        "leave one of them out",
                    ));
                }
                named = Some((buffer, fast.to_ascii_lowercase()));
            }
            // Requests are fewer than packets: theirs come first.
            let weight = |buffer: Buffer, bytes: &[u8]| (buffer != Buffer::Payload, bytes.len());
            if let Some(bytes) = draft.candidate()
                && longest
                    .as_ref()
                    .is_none_or(|(other, most)| weight(buffer, bytes) > weight(*other, most))
            {
                longest = Some((buffer, bytes.to_ascii_lowercase()));
            }
        }
        Ok((checks, named.or(longest)))
    }
}
