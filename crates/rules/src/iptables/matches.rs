//! What a rule asks: protocol, addresses, interfaces and the match modules.

use super::words::Words;
use crate::condition::{Condition, ConnectionState, Range, Subject, Test};
use crate::interfaces::came_in;
use crate::options::{ReadOptions, Side};
use crate::refusal::Refusal;
use crate::rule_set::{Limit, Statement};
use catena_wire::field::Field;
use catena_wire::scalar::IpProtocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A row of conditions that is being read.
struct Matches<'o> {
    options: &'o ReadOptions,
    is_v6: bool,
    protocol: Option<IpProtocol>,
    read: Vec<Statement>,
}

/// Reads everything before the target.
pub(super) fn read(
    words: &mut Words<'_>,
    options: &ReadOptions,
    is_v6: bool,
) -> Result<Vec<Statement>, Refusal> {
    let mut matches = Matches { options, is_v6, protocol: None, read: Vec::new() };
    let mut limit: Option<Limit> = None;
    loop {
        let is_target = |word: &str| matches!(word, "-j" | "--jump" | "-g" | "--goto");
        let mut is_negated = false;
        match words.peek() {
            None => break,
            Some(word) if is_target(word) => break,
            Some("!") => {
                words.next_word();
                is_negated = true;
            }
            Some(_) => {}
        }
        let Some(word) = words.next_word() else {
            return Err(Refusal::wrong("'!' negates nothing", "say what must not be"));
        };
        match &*word {
            // As it stands in the rule: what comes before it decides whether a token is taken.
            "--limit" | "--limit-burst" => {
                let limit = limit.as_mut().ok_or_else(|| without_module(&word, "limit"))?;
                set_limit(limit, &word, &words.need(&word)?)?;
                let places = matches.read.iter_mut().rev();
                let mut placed = places.filter_map(|statement| match statement {
                    Statement::Limit(placed) => Some(placed),
                    _ => None,
                });
                if let Some(placed) = placed.next() {
                    placed.clone_from(limit);
                }
            }
            "-m" | "--match" => {
                let module = words.need("the module of -m")?;
                if module == "limit" {
                    let default = Limit { rate: 3, period_s: 3_600, burst: 5, is_over: false };
                    limit = Some(default.clone());
                    matches.read.push(Statement::Limit(default));
                } else if !MODULES.contains(&&*module) {
                    return Err(Refusal::unsupported(format!(
                        "the match {module} is not supported"
                    )));
                }
            }
            _ => matches.one(&word, is_negated, words)?,
        }
    }
    Ok(matches.read)
}

/// The match modules that are read; `limit` apart.
const MODULES: [&str; 16] = [
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "icmpv6",
    "multiport",
    "conntrack",
    "state",
    "comment",
    "iprange",
    "length",
    "ttl",
    "hl",
    "dscp",
    "mac",
    "tos",
];

fn without_module(word: &str, module: &str) -> Refusal {
    Refusal::wrong(
        format!("{word} stands without its match"),
        format!("write -m {module} before it"),
    )
}

impl Matches<'_> {
    fn add(&mut self, subject: Subject, test: Test, is_negated: bool) {
        self.read.push(Statement::Match(Condition::of(subject, test, is_negated)));
    }

    fn add_field(&mut self, field: Field, test: Test, is_negated: bool) {
        self.add(Subject::Field(field), test, is_negated);
    }

    fn one(&mut self, word: &str, is_negated: bool, words: &mut Words<'_>) -> Result<(), Refusal> {
        match word {
            "-4" | "--ipv4" | "-6" | "--ipv6" => {
                let version = if word.contains('4') { 4 } else { 6 };
                self.add(Subject::Version, Test::equals(version), is_negated);
            }
            "-f" | "--fragment" => self.add(Subject::IsLaterFragment, Test::equals(1), is_negated),
            "--syn" => {
                let test = Test::Bits { mask: 0x17, value: 0x02 };
                self.add_field(Field::TcpFlags, test, is_negated);
            }
            "--tcp-flags" => {
                let mask = tcp_flags(&words.need("the mask of --tcp-flags")?)?;
                let value = tcp_flags(&words.need("the flags of --tcp-flags that are set")?)?;
                let test = Test::Bits { mask, value };
                self.add_field(Field::TcpFlags, test, is_negated);
            }
            _ => {
                let value = words.need(word)?;
                self.with_value(word, &value, is_negated)?;
            }
        }
        Ok(())
    }

    fn with_value(&mut self, word: &str, value: &str, is_negated: bool) -> Result<(), Refusal> {
        match word {
            "--comment" => {}
            "-p" | "--protocol" | "--proto" => self.protocol(value, is_negated)?,
            "-s" | "--source" | "--src" => {
                self.add_field(Field::Source, self.addresses(value)?, is_negated);
            }
            "-d" | "--destination" | "--dst" => {
                self.add_field(Field::Destination, self.addresses(value)?, is_negated);
            }
            "--src-range" => self.add_field(Field::Source, self.address_range(value)?, is_negated),
            "--dst-range" => {
                self.add_field(Field::Destination, self.address_range(value)?, is_negated);
            }
            "-i" | "--in-interface" => self.interface(value, is_negated, Side::In)?,
            "-o" | "--out-interface" => self.interface(value, is_negated, Side::Out)?,
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                self.ports(&[Field::SourcePort], value, is_negated)?;
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                self.ports(&[Field::DestinationPort], value, is_negated)?;
            }
            "--ports" => {
                self.ports(&[Field::SourcePort, Field::DestinationPort], value, is_negated)?;
            }
            "--tcp-option" => {
                let kind = u8::try_from(number(value, 255)?).unwrap_or(u8::MAX);
                self.add(Subject::TcpOption(kind), Test::equals(1), is_negated);
            }
            "--icmp-type" | "--icmpv6-type" => self.icmp(value, is_negated)?,
            "--ctstate" | "--state" => {
                self.add(Subject::State, Test::AnyBit(states(value)?), is_negated);
            }
            "--length" => {
                let range = number_range(value, u16::MAX.into())?;
                self.add(Subject::PacketBytes, Test::among(vec![range]), is_negated);
            }
            "--ttl-eq" | "--hl-eq" => {
                self.add_field(Field::Ttl, Test::equals(number(value, 255)?), is_negated);
            }
            "--ttl-lt" | "--hl-lt" => {
                let test = match number(value, 255)?.checked_sub(1) {
                    Some(last) => Test::among(vec![Range { first: 0, last }]),
                    None => Test::In(Vec::new()),
                };
                self.add_field(Field::Ttl, test, is_negated);
            }
            "--ttl-gt" | "--hl-gt" => {
                let first = number(value, 255)? + 1;
                let test = Test::among(vec![Range { first, last: u8::MAX.into() }]);
                let test = if first > 255 { Test::In(Vec::new()) } else { test };
                self.add_field(Field::Ttl, test, is_negated);
            }
            "--dscp" => {
                self.add_field(Field::Dscp, Test::equals(number(value, 63)?), is_negated);
            }
            "--mac-source" => self.add_field(Field::EthernetSource, mac(value)?, is_negated),
            _ => return Err(Refusal::unsupported(format!("{word} is not supported"))),
        }
        Ok(())
    }

    fn protocol(&mut self, value: &str, is_negated: bool) -> Result<(), Refusal> {
        let number = match &*value.to_ascii_lowercase() {
            "all" | "0" => return Ok(()),
            "tcp" => IpProtocol::TCP,
            "udp" => IpProtocol::UDP,
            "icmp" => IpProtocol::ICMP,
            "icmpv6" | "ipv6-icmp" => IpProtocol::ICMPV6,
            "udplite" => IpProtocol::UDP_LITE,
            "sctp" => IpProtocol::SCTP,
            "dccp" => IpProtocol::DCCP,
            "gre" => IpProtocol::GRE,
            "esp" => IpProtocol(50),
            "ah" => IpProtocol::AUTHENTICATION,
            "ipip" | "ipencap" => IpProtocol(4),
            other => IpProtocol(other.parse().map_err(|_| {
                let advice = "say tcp, udp, icmp, ipv6-icmp, all, or a number up to 255";
                Refusal::wrong(format!("{value} is no protocol"), advice)
            })?),
        };
        self.protocol = (!is_negated).then_some(number);
        self.add_field(Field::Protocol, Test::equals(number.0.into()), is_negated);
        Ok(())
    }

    /// An address, a prefix, or an address with a mask.
    fn addresses(&self, value: &str) -> Result<Test, Refusal> {
        let (address, mask) = value.split_once('/').unwrap_or((value, ""));
        let (address, width) = self.address(address)?;
        let ones = u128::MAX >> (128 - width);
        let mask = match (mask, mask.parse::<u32>()) {
            ("", _) => ones,
            (_, Ok(bits)) if bits <= width => ones & !ones.checked_shr(bits).unwrap_or(0),
            (mask, _) => self.address(mask)?.0,
        };
        Ok(Test::under_mask(mask, address & mask, ones))
    }

    fn address_range(&self, value: &str) -> Result<Test, Refusal> {
        let (first, last) = value.split_once('-').unwrap_or((value, value));
        let range = Range { first: self.address(first)?.0, last: self.address(last)?.0 };
        if range.first > range.last {
            let what = format!("the range {value} ends before it begins");
            return Err(Refusal::wrong(what, "write the lower address first"));
        }
        Ok(Test::among(vec![range]))
    }

    fn address(&self, text: &str) -> Result<(u128, u32), Refusal> {
        let parsed = if self.is_v6 {
            text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
        } else {
            text.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
        };
        match parsed {
            Some(IpAddr::V4(v4)) => Ok((v4.to_bits().into(), 32)),
            Some(IpAddr::V6(v6)) => Ok((v6.to_bits(), 128)),
            None => {
                let version = if self.is_v6 { "IPv6" } else { "IPv4" };
                let what = format!("'{text}' is no address of {version}");
                Err(Refusal::wrong(what, "names of hosts are not looked up: write the number"))
            }
        }
    }

    /// Which side of the function an interface is. `names`: the side that the option speaks of.
    fn interface(&mut self, value: &str, is_negated: bool, names: Side) -> Result<(), Refusal> {
        let values = came_in(self.options, value, value.strip_suffix('+'), names)?;
        self.add(Subject::CameIn, Test::among(values), is_negated);
        Ok(())
    }

    fn ports(&mut self, fields: &[Field], value: &str, is_negated: bool) -> Result<(), Refusal> {
        if !matches!(self.protocol, Some(IpProtocol::TCP | IpProtocol::UDP)) {
            let what = format!("ports {value} are asked for without a protocol that has ports");
            return Err(Refusal::unsupported(format!("{what}, tcp or udp")));
        }
        let ranges: Result<_, Refusal> =
            value.split(',').map(|part| number_range(part, u16::MAX.into())).collect();
        let subjects = fields.iter().map(|field| Subject::Field(*field)).collect();
        let test = Test::among(ranges?);
        self.read.push(Statement::Match(Condition { subjects, test, is_negated }));
        Ok(())
    }

    fn icmp(&mut self, value: &str, is_negated: bool) -> Result<(), Refusal> {
        let names = if self.is_v6 { ICMPV6_TYPES } else { ICMP_TYPES };
        let named = names.iter().find(|(name, ..)| *name == value);
        let (kind, code) = match named {
            Some((_, kind, code)) => (*kind, *code),
            None => {
                let (kind, code) = value.split_once('/').unwrap_or((value, ""));
                let code = if code.is_empty() { None } else { Some(number(code, 255)?) };
                (number(kind, 255)?, code)
            }
        };
        // Of ICMP, type 255 stands for any (`--icmp-type any`).
        if kind == 255 && !self.is_v6 {
            self.add(
                Subject::IcmpMessage,
                Test::among(vec![Range { first: 0, last: 0xffff }]),
                is_negated,
            );
            return Ok(());
        }
        let first = kind << 8 | code.unwrap_or(0);
        let last = kind << 8 | code.unwrap_or(0xff);
        self.add(Subject::IcmpMessage, Test::among(vec![Range { first, last }]), is_negated);
        Ok(())
    }
}

/// Names of types and codes, as iptables has them.
const ICMP_TYPES: &[(&str, u128, Option<u128>)] = &[
    ("any", 255, None),
    ("echo-reply", 0, None),
    ("destination-unreachable", 3, None),
    ("network-unreachable", 3, Some(0)),
    ("host-unreachable", 3, Some(1)),
    ("protocol-unreachable", 3, Some(2)),
    ("port-unreachable", 3, Some(3)),
    ("fragmentation-needed", 3, Some(4)),
    ("source-quench", 4, None),
    ("redirect", 5, None),
    ("echo-request", 8, None),
    ("time-exceeded", 11, None),
    ("parameter-problem", 12, None),
    ("timestamp-request", 13, None),
    ("timestamp-reply", 14, None),
];

/// The same of ICMPv6.
const ICMPV6_TYPES: &[(&str, u128, Option<u128>)] = &[
    ("destination-unreachable", 1, None),
    ("packet-too-big", 2, None),
    ("time-exceeded", 3, None),
    ("parameter-problem", 4, None),
    ("echo-request", 128, None),
    ("echo-reply", 129, None),
    ("router-solicitation", 133, None),
    ("router-advertisement", 134, None),
    ("neighbour-solicitation", 135, None),
    ("neighbour-advertisement", 136, None),
    ("redirect", 137, None),
];

fn number(text: &str, most: u128) -> Result<u128, Refusal> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.filter(|number| *number <= most).ok_or_else(|| {
        Refusal::wrong(format!("'{text}' is no number up to {most}"), "write the number itself")
    })
}

/// `a`, `a:b`, `a:` or `:b`.
fn number_range(text: &str, most: u128) -> Result<Range, Refusal> {
    let Some((first, last)) = text.split_once(':') else {
        return Ok(Range::one(number(text, most)?));
    };
    let first = if first.is_empty() { 0 } else { number(first, most)? };
    let last = if last.is_empty() { most } else { number(last, most)? };
    if first > last {
        let what = format!("the range {text} ends before it begins");
        return Err(Refusal::wrong(what, "write the lower number first"));
    }
    Ok(Range { first, last })
}

fn tcp_flags(text: &str) -> Result<u128, Refusal> {
    const NAMES: [(&str, u128); 8] = [
        ("FIN", 0x01),
        ("SYN", 0x02),
        ("RST", 0x04),
        ("PSH", 0x08),
        ("ACK", 0x10),
        ("URG", 0x20),
        ("ALL", 0x3f),
        ("NONE", 0x00),
    ];
    text.split(',').try_fold(0, |all, word| {
        let known = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        known.map(|(_, bits)| all | bits).ok_or_else(|| {
            Refusal::wrong(
                format!("{word} is no flag of TCP"),
                "FIN, SYN, RST, PSH, ACK and URG are",
            )
        })
    })
}

fn states(text: &str) -> Result<u128, Refusal> {
    text.split(',').try_fold(0, |all, word| {
        let mut known = ConnectionState::ALL.iter();
        let known = known.find(|(_, name)| name.eq_ignore_ascii_case(word));
        known.map(|(state, _)| all | *state as u128).ok_or_else(|| {
            let names = "NEW, ESTABLISHED, RELATED, INVALID and UNTRACKED are";
            Refusal::unsupported(format!("{word} is no state that is told apart ({names})"))
        })
    })
}

fn mac(text: &str) -> Result<Test, Refusal> {
    let octets: Vec<Option<u8>> =
        text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    if octets.len() != 6 || octets.contains(&None) {
        return Err(Refusal::wrong(
            format!("'{text}' is no MAC address"),
            "write it as 02:00:00:00:00:01",
        ));
    }
    let value = octets.into_iter().flatten().fold(0, |all, octet| all << 8 | u128::from(octet));
    Ok(Test::equals(value))
}

fn set_limit(limit: &mut Limit, word: &str, value: &str) -> Result<(), Refusal> {
    if word == "--limit-burst" {
        limit.burst = u64::try_from(number(value, 10_000)?).unwrap_or(u64::MAX);
        return Ok(());
    }
    let (rate, unit) = value.split_once('/').unwrap_or((value, "second"));
    limit.rate = u64::try_from(number(rate, 10_000)?).unwrap_or(u64::MAX);
    let units = [("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400)];
    let known = units.iter().find(|(name, _)| !unit.is_empty() && name.starts_with(unit));
    let known = known.or_else(|| units.iter().find(|_| unit == "sec")).map(|(_, seconds)| *seconds);
    let known = known.filter(|_| limit.rate > 0).ok_or_else(|| {
        let advice = "write a number above zero and its time, such as 3/minute";
        Refusal::wrong(format!("'{value}' is no rate"), advice)
    });
    limit.period_s = known?;
    Ok(())
}
