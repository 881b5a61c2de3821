//! Values of keys: numbers, names, addresses, prefixes, ranges and interfaces.

use super::keys::{Domain, Key, malformed, only};
use super::names;
use crate::condition::{ConnectionState, Range};
use crate::interfaces::came_in;
use crate::options::{ReadOptions, Side};
use crate::refusal::Refusal;
use serde_json::Value;
use std::net::{Ipv4Addr, Ipv6Addr};

/// EtherTypes and families of the kernel, with the version of IP.
const VERSIONS: [(u128, u128, u128); 2] = [(0x0800, 2, 4), (0x86dd, 10, 6)];

/// The values of the subject that an expression stands for; none: no packet has them.
pub(super) fn range(
    key: &Key,
    value: &Value,
    options: &ReadOptions,
) -> Result<Option<Range>, Refusal> {
    match key.domain {
        Domain::Interface(side) => interface(value, side, options).map(Some),
        Domain::Version(names) => {
            let native = native(key, value)?;
            let is_ether_type = names == names::ETHER_TYPES;
            let versions = VERSIONS.iter().filter(|(ether_type, family, _)| {
                native.contains(if is_ether_type { *ether_type } else { *family })
            });
            let versions: Vec<u128> = versions.map(|(.., version)| *version).collect();
            let ends = versions.first().zip(versions.last());
            Ok(ends.map(|(first, last)| Range { first: *first, last: *last }))
        }
        _ => native(key, value).map(Some),
    }
}

/// The values as they are written, of keys whose values are numbers.
pub(super) fn native(key: &Key, value: &Value) -> Result<Range, Refusal> {
    match only(value) {
        Some(("prefix", body)) => {
            let (Some(address), Some(length)) = (body.get("addr"), body.get("len")) else {
                return Err(malformed("a prefix", value));
            };
            let width = 128 - key.all.leading_zeros();
            let length = length.as_u64().and_then(|length| u32::try_from(length).ok());
            let length = length.filter(|length| *length <= width);
            let length = length.ok_or_else(|| malformed("the length of a prefix", value))?;
            let free = key.all.checked_shr(length).unwrap_or(0);
            let first = scalar(key, address)? & !free;
            Ok(Range { first, last: first | free })
        }
        Some(("range", body)) => {
            let Some([first, last]) = body.as_array().map(Vec::as_slice) else {
                return Err(malformed("a range", value));
            };
            let range = Range { first: scalar(key, first)?, last: scalar(key, last)? };
            if range.first > range.last {
                let what = format!("the range {first}-{last} ends before it begins");
                return Err(Refusal::wrong(what, "write the lower value first"));
            }
            Ok(range)
        }
        _ => Ok(Range::one(scalar(key, value)?)),
    }
}

/// One value, or bits joined into one.
pub(super) fn scalar(key: &Key, value: &Value) -> Result<u128, Refusal> {
    let number = match value {
        Value::Number(number) => number.as_u64().map(u128::from),
        Value::String(text) => named(key.domain, text),
        _ => {
            let parts = match only(value) {
                Some(("|", parts)) => parts.as_array(),
                _ => value.as_array(),
            };
            let may_join = matches!(key.domain, Domain::Bits(_) | Domain::States);
            let Some(parts) = parts.filter(|_| may_join) else {
                return Err(malformed("a value", value));
            };
            return parts.iter().try_fold(0, |all, part| Ok(all | scalar(key, part)?));
        }
    };
    number.filter(|number| *number <= key.all).ok_or_else(|| {
        let what = format!("{value} is no value of {}", key.subject);
        let advice = "write the number itself, or the file by nft -j list ruleset";
        Refusal::wrong(what, advice)
    })
}

fn named(domain: Domain, text: &str) -> Option<u128> {
    let known = match domain {
        Domain::Number(names) | Domain::Bits(names) | Domain::Version(names) => {
            names::number(names, text)
        }
        Domain::States => {
            let mut states = ConnectionState::ALL.iter();
            let state = states.find(|(_, name)| name.eq_ignore_ascii_case(text));
            state.map(|(state, _)| *state as u128)
        }
        Domain::Ipv4 => return text.parse::<Ipv4Addr>().ok().map(|v4| v4.to_bits().into()),
        Domain::Ipv6 => return text.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits),
        Domain::Mac => return mac(text),
        Domain::Interface(_) => return None,
        Domain::FragmentWord => None,
    };
    known.or_else(|| match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    })
}

fn mac(text: &str) -> Option<u128> {
    let octets: Vec<u8> = text
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16))
        .collect::<Result<_, _>>()
        .ok()?;
    (octets.len() == 6)
        .then(|| octets.into_iter().fold(0, |all, octet| all << 8 | u128::from(octet)))
}

fn interface(value: &Value, side: Side, options: &ReadOptions) -> Result<Range, Refusal> {
    let name = match value {
        Value::String(name) => name.clone(),
        // The number of an interface that was not there when the rules were listed.
        Value::Number(number) => number.to_string(),
        _ => return Err(malformed("the name of an interface", value)),
    };
    let start = name.strip_suffix('*').filter(|start| !start.ends_with('\\'));
    let sides = came_in(options, &name.replace("\\*", "*"), start, side)?;
    let first = sides.iter().map(|side| side.first).min().unwrap_or(0);
    let last = sides.iter().map(|side| side.last).max().unwrap_or(0);
    Ok(Range { first, last })
}
