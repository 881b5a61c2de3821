//! Options that ask of numbers: lengths, flags, types, tests of bytes, thresholds.

use super::rule::{
    ByteTest, Comparison, DataAt, FlagTest, FlagsMode, FlowAsks, Numeral, Span, Threshold,
    ThresholdKind, Track,
};
use crate::refusal::Refusal;
use std::str::FromStr;

pub(super) fn number<T: FromStr>(option: &str, text: &str) -> Result<T, Refusal> {
    text.trim().parse().map_err(|_| {
        let what = format!("'{text}' is no number for {option}");
        Refusal::wrong(what, format!("write a number that {option} may have"))
    })
}

/// `N`, `<N`, `>N`, `N<>M` (both excluded), `!N`.
pub(super) fn span(option: &str, text: &str, max: u32) -> Result<Span, Refusal> {
    let text: String = text.chars().filter(|one| !one.is_whitespace()).collect();
    let (is_negated, rest) = text.strip_prefix('!').map_or((false, &*text), |rest| (true, rest));
    let nothing = || {
        let what = format!("{option}:{text} takes nothing");
        Refusal::wrong(what, "write N, <N, >N or N<>M, of which both ends are left out")
    };
    let of = |text: &str| {
        number::<u32>(option, text)
            .and_then(|one| if one <= max { Ok(one) } else { Err(nothing()) })
    };
    let inner = |first: &str, last: &str| -> Result<(u32, u32), Refusal> {
        let first = of(first)?.checked_add(1).ok_or_else(nothing)?;
        let last = of(last)?.checked_sub(1).ok_or_else(nothing)?;
        Ok((first, last))
    };
    let (first, last) = if let Some((first, last)) = rest.split_once("<>") {
        inner(first, last)?
    } else if let Some(number) = rest.strip_prefix("<=") {
        (0, of(number)?)
    } else if let Some(number) = rest.strip_prefix(">=") {
        (of(number)?, max)
    } else if let Some(number) = rest.strip_prefix('<') {
        (0, of(number)?.checked_sub(1).ok_or_else(nothing)?)
    } else if let Some(number) = rest.strip_prefix('>') {
        (of(number)?.checked_add(1).ok_or_else(nothing)?, max)
    } else {
        let number = of(rest)?;
        (number, number)
    };
    if first > last || last > max {
        return Err(nothing());
    }
    Ok(Span { first, last, is_negated })
}

/// `[+*!]FSRPAUCE[,ignored]`, `0` for none.
pub(super) fn flags(text: &str) -> Result<FlagTest, Refusal> {
    let wrong = || {
        let what = format!("flags:{text} cannot be read");
        Refusal::wrong(
            what,
            "write letters of FSRPAUCE12, or 0; before them +, * or !; ignored ones behind a comma",
        )
    };
    let (asked, ignored) = text.split_once(',').unwrap_or((text, ""));
    let mut mode = None;
    let bits = |text: &str, mode: &mut Option<FlagsMode>| {
        let mut flags = 0_u8;
        for letter in text.chars().filter(|one| !one.is_whitespace()) {
            flags |= match letter.to_ascii_uppercase() {
                'F' => 0x01,
                'S' => 0x02,
                'R' => 0x04,
                'P' => 0x08,
                'A' => 0x10,
                'U' => 0x20,
                '2' | 'E' => 0x40,
                '1' | 'C' => 0x80,
                '0' => 0,
                '+' | '*' | '!' if mode.is_none() => {
                    *mode = Some(match letter {
                        '+' => FlagsMode::All,
                        '*' => FlagsMode::Any,
                        _ => FlagsMode::None,
                    });
                    0
                }
                _ => return Err(wrong()),
            };
        }
        Ok(flags)
    };
    let asked_bits = bits(asked, &mut mode)?;
    let ignored_bits = bits(ignored, &mut Some(FlagsMode::All))?;
    if asked.trim().is_empty() || (asked_bits == 0 && mode.is_some()) {
        return Err(wrong());
    }
    Ok(FlagTest {
        mode: mode.unwrap_or(FlagsMode::Exactly),
        flags: asked_bits,
        ignored: ignored_bits,
    })
}

pub(super) fn flow(text: &str) -> Result<FlowAsks, Refusal> {
    let mut flow = FlowAsks::default();
    let twice = |is_twice: bool| {
        let what = format!("flow:{text} contradicts itself");
        if is_twice { Err(Refusal::wrong(what, "leave one of the words out")) } else { Ok(()) }
    };
    for word in text.split(',').map(str::trim) {
        match word {
            "established" | "not_established" => {
                twice(flow.is_established.is_some())?;
                flow.is_established = Some(word == "established");
            }
            "stateless" => twice(flow.is_established.is_some())?,
            "to_server" | "from_client" | "to_client" | "from_server" => {
                let is_to_server = word == "to_server" || word == "from_client";
                twice(flow.is_to_server.is_some_and(|other| other != is_to_server))?;
                flow.is_to_server = Some(is_to_server);
            }
            "only_stream" => flow.is_only_stream = true,
            "no_stream" => flow.is_no_stream = true,
            "only_frag" | "no_frag" => {
                return Err(Refusal::unsupported(format!("flow:{word} is not supported")));
            }
            _ => {
                let what = format!("'{word}' says nothing of a flow");
                let advice = "write established, not_established, stateless, to_server, to_client, only_stream, \
                              no_stream";
                return Err(Refusal::wrong(what, advice));
            }
        }
    }
    twice(flow.is_only_stream && flow.is_no_stream)?;
    Ok(flow)
}

/// `bytes, [!]operator, value, offset[, relative][, big|little][, string, dec|hex|oct]`.
pub(super) fn byte_test(text: &str) -> Result<ByteTest, Refusal> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let advice =
        "write byte_test:bytes,operator,value,offset and then relative, little, or string,dec";
    let wrong = |what: String| Refusal::wrong(what, advice);
    let [bytes, operator, value, offset, rest @ ..] = parts.as_slice() else {
        return Err(wrong(format!("byte_test:{text} has {} parts of 4 at least", parts.len())));
    };
    let (is_negated, operator) =
        operator.strip_prefix('!').map_or((false, *operator), |rest| (true, rest.trim()));
    let comparison = match operator {
        "<" => Comparison::Less,
        ">" => Comparison::Greater,
        "=" | "==" => Comparison::Equal,
        "" if is_negated => Comparison::Equal,
        "<=" => Comparison::AtMost,
        ">=" => Comparison::AtLeast,
        "&" => Comparison::And,
        "^" => Comparison::Xor,
        _ => return Err(wrong(format!("'{operator}' is no operator of byte_test"))),
    };
    let value = value
        .strip_prefix("0x")
        .map_or_else(|| value.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
    let value = value.ok_or_else(|| wrong(format!("byte_test:{text} compares with no number")))?;
    let bytes: u8 = number("byte_test", bytes)?;
    let mut test = ByteTest {
        bytes,
        is_negated,
        comparison,
        value,
        offset: number("byte_test", offset)?,
        is_relative: false,
        numeral: Numeral::Big,
    };
    let (mut is_string, mut base) = (false, None);
    for word in rest.iter().flat_map(|part| part.split_whitespace()) {
        match word {
            "relative" => test.is_relative = true,
            "big" => test.numeral = Numeral::Big,
            "little" => test.numeral = Numeral::Little,
            "string" => is_string = true,
            "dec" => base = Some(10),
            "hex" => base = Some(16),
            "oct" => base = Some(8),
            _ => {
                return Err(Refusal::unsupported(format!(
                    "'{word}' in byte_test is not supported"
                )));
            }
        }
    }
    if is_string {
        test.numeral = Numeral::Digits(base.unwrap_or(10));
    } else if base.is_some() {
        return Err(wrong(format!("byte_test:{text} names a base without 'string'")));
    }
    let max = if is_string { 23 } else { 8 };
    if bytes == 0 || bytes > max {
        return Err(wrong(format!("byte_test:{text} has {bytes} bytes of 1 to {max}")));
    }
    bounded("byte_test", test.offset)?;
    Ok(test)
}

/// Refuses places that no packet has.
pub(super) fn bounded(option: &str, place: i32) -> Result<i32, Refusal> {
    if (-65_535..=65_535).contains(&place) {
        return Ok(place);
    }
    let what = format!("{option} {place} is beyond any packet");
    Err(Refusal::wrong(what, "write a number of at most 65535"))
}

/// `[!]N[, relative]`.
pub(super) fn data_at(text: &str) -> Result<DataAt, Refusal> {
    let mut parts = text.split(',').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let (is_negated, place) =
        first.strip_prefix('!').map_or((false, first), |rest| (true, rest.trim()));
    let mut test = DataAt {
        offset: bounded("isdataat", number("isdataat", place)?)?,
        is_negated,
        is_relative: false,
    };
    for word in parts {
        match word {
            "relative" => test.is_relative = true,
            // What is asked is asked of bytes as they are.
            "rawbytes" => {}
            _ => {
                let what = format!("'{word}' says nothing in isdataat");
                return Err(Refusal::wrong(what, "write isdataat:N or isdataat:!N,relative"));
            }
        }
    }
    Ok(test)
}

/// `threshold`, or with `is_filter` `detection_filter`.
pub(super) fn threshold(text: &str, is_filter: bool) -> Result<Threshold, Refusal> {
    let option = if is_filter { "detection_filter" } else { "threshold" };
    let (mut kind, mut track, mut count, mut seconds) =
        (is_filter.then_some(ThresholdKind::Filter), None, None, None);
    for part in text.split(',').map(str::trim) {
        let (name, value) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        let value = value.trim();
        let unknown = || Refusal::unsupported(format!("'{part}' in {option} is not supported"));
        match name {
            "type" if !is_filter => {
                kind = Some(match value {
                    "limit" => ThresholdKind::Limit,
                    "threshold" => ThresholdKind::Each,
                    "both" => ThresholdKind::Both,
                    _ => return Err(unknown()),
                });
            }
            "track" => {
                track = Some(match value {
                    "by_src" => Track::Source,
                    "by_dst" => Track::Destination,
                    "by_rule" => Track::Rule,
                    _ => return Err(unknown()),
                });
            }
            "count" => count = Some(number::<u32>("count", value)?),
            "seconds" => seconds = Some(number::<u32>("seconds", value)?),
            _ => return Err(unknown()),
        }
    }
    let all = (kind, track, count.filter(|one| *one > 0), seconds.filter(|one| *one > 0));
    let (Some(kind), Some(track), Some(count), Some(seconds)) = all else {
        let type_word = if is_filter { "" } else { "type limit, " };
        let what = format!("{option}:{text} lacks a part");
        let advice = format!("write {option}:{type_word}track by_src, count 1, seconds 60");
        return Err(Refusal::wrong(what, advice));
    };
    Ok(Threshold { kind, track, count, seconds })
}
