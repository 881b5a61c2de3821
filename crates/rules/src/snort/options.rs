//! The options of a rule, one after the other. Knows which belong together; refuses what it does not know.

use super::classes::Classes;
use super::contents::{Draft, Drafted, Drafts};
use super::header::Header;
use super::rule::{Buffer, Check, FlowAsks, FlowbitUse, IdsRule, Protocol, ThresholdKind};
use super::{numbers, pattern, words};
use crate::refusal::Refusal;

/// Letters of a message.
const MESSAGE_LETTERS_MAX: usize = 512;
/// Checks of buffers in one rule.
const CHECKS_MAX: usize = 64;
/// Severity of rules that name neither kind nor priority, as Suricata has it.
const SEVERITY: u8 = 3;

struct Reader<'r> {
    rule: IdsRule,
    drafts: Drafts,
    buffer: Buffer,
    classes: &'r Classes,
    has_priority: bool,
}

pub(super) fn read(
    header: Header,
    body: &str,
    classes: &Classes,
    bit: &mut dyn FnMut(&str) -> Result<u16, Refusal>,
) -> Result<IdsRule, Refusal> {
    let mut reader = Reader {
        rule: empty(header),
        drafts: Drafts::default(),
        buffer: Buffer::Payload,
        classes,
        has_priority: false,
    };
    for (name, value) in words::options(body)? {
        let is_known = reader.says(name, value)?
            || reader.asks_of_packet(name, value)?
            || reader.asks_of_bytes(name, value)?
            || reader.asks_of_state(name, value, bit)?;
        if !is_known {
            return Err(Refusal::unsupported(format!("the option '{name}' is not supported")));
        }
    }
    reader.finish()
}

fn empty(header: Header) -> IdsRule {
    let Header { action, protocol, source, destination, is_both_ways } = header;
    IdsRule {
        line: 0,
        text: String::new(),
        action,
        protocol,
        source,
        destination,
        is_both_ways,
        message: String::new(),
        gid: 1,
        sid: 0,
        revision: 0,
        category: String::new(),
        severity: SEVERITY,
        checks: Vec::new(),
        fast: None,
        payload_bytes: None,
        flags: None,
        flow: FlowAsks::default(),
        flowbits: Vec::new(),
        is_silent: false,
        icmp_type: None,
        icmp_code: None,
        ttl: None,
        thresholds: Vec::new(),
    }
}

fn needed<'v>(name: &str, value: Option<&'v str>) -> Result<&'v str, Refusal> {
    value.filter(|value| !value.is_empty()).ok_or_else(|| {
        Refusal::wrong(format!("the option {name} says nothing"), format!("write {name}:value;"))
    })
}

/// Puts a value where none is yet.
fn once<T>(name: &str, place: &mut Option<T>, value: T) -> Result<(), Refusal> {
    if place.replace(value).is_some() {
        return Err(Refusal::wrong(
            format!("the option {name} is there twice"),
            "leave one of them out",
        ));
    }
    Ok(())
}

impl Reader<'_> {
    /// What people are told.
    fn says(&mut self, name: &str, value: Option<&str>) -> Result<bool, Refusal> {
        match name {
            "msg" => {
                let (_, text) = words::quoted(needed(name, value)?).ok_or_else(|| {
                    Refusal::wrong("the message is not in quotes", "write msg:\"what it is\";")
                })?;
                self.rule.message = words::text(text);
                if self.rule.message.chars().count() > MESSAGE_LETTERS_MAX {
                    let what = format!("the message has more than {MESSAGE_LETTERS_MAX} letters");
                    return Err(Refusal::wrong(what, "write a shorter one"));
                }
            }
            "sid" => self.rule.sid = numbers::number(name, needed(name, value)?)?,
            "gid" => self.rule.gid = numbers::number(name, needed(name, value)?)?,
            "rev" => self.rule.revision = numbers::number(name, needed(name, value)?)?,
            "classtype" => {
                let (category, severity) = self.classes.get(needed(name, value)?)?;
                self.rule.category = category;
                if !self.has_priority {
                    self.rule.severity = severity;
                }
            }
            "priority" => {
                self.has_priority = true;
                self.rule.severity = numbers::number(name, needed(name, value)?)?;
                if self.rule.severity == 0 {
                    return Err(Refusal::wrong("the priority is 0", "write 1 to 255; 1 is worst"));
                }
            }
            "noalert" => self.rule.is_silent = true,
            // For people alone.
            "reference" | "metadata" | "target" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What packets look like.
    fn asks_of_packet(&mut self, name: &str, value: Option<&str>) -> Result<bool, Refusal> {
        let rule = &mut self.rule;
        match name {
            "dsize" => {
                let span = numbers::span(name, needed(name, value)?, 65_535)?;
                once(name, &mut rule.payload_bytes, span)?;
            }
            "flags" => once(name, &mut rule.flags, numbers::flags(needed(name, value)?)?)?,
            "itype" => {
                once(name, &mut rule.icmp_type, numbers::span(name, needed(name, value)?, 255)?)?;
            }
            "icode" => {
                once(name, &mut rule.icmp_code, numbers::span(name, needed(name, value)?, 255)?)?;
            }
            "ttl" => once(name, &mut rule.ttl, numbers::span(name, needed(name, value)?, 255)?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What is in their bytes.
    fn asks_of_bytes(&mut self, name: &str, value: Option<&str>) -> Result<bool, Refusal> {
        let drafted = match name {
            "content" => Drafted::Content(Draft::read(needed(name, value)?)?),
            "byte_test" => {
                Drafted::Done(Check::ByteTest(numbers::byte_test(needed(name, value)?)?))
            }
            "isdataat" => Drafted::Done(Check::DataAt(numbers::data_at(needed(name, value)?)?)),
            "pcre" => {
                let (pattern, buffer) = pattern::read(needed(name, value)?)?;
                self.push(buffer.unwrap_or(self.buffer), Drafted::Done(Check::Pattern(pattern)))?;
                return Ok(true);
            }
            "http.method" => return Ok(self.turn(Buffer::Method)),
            "http.uri" => return Ok(self.turn(Buffer::Uri)),
            "http.header" => return Ok(self.turn(Buffer::Header)),
            "http.host" => return Ok(self.turn(Buffer::Host)),
            "http.user_agent" => return Ok(self.turn(Buffer::UserAgent)),
            "pkt_data" => return Ok(self.turn(Buffer::Payload)),
            _ => return self.belongs(name, value),
        };
        self.push(self.buffer, drafted)?;
        Ok(true)
    }

    fn turn(&mut self, buffer: Buffer) -> bool {
        self.buffer = buffer;
        true
    }

    fn push(&mut self, buffer: Buffer, drafted: Drafted) -> Result<(), Refusal> {
        if self.drafts.0.len() >= CHECKS_MAX {
            let what = format!("the rule has more than {CHECKS_MAX} contents, patterns and tests");
            return Err(Refusal::wrong(what, "split it by flowbits"));
        }
        self.drafts.0.push((buffer, drafted));
        Ok(())
    }

    /// What belongs to the last content.
    fn belongs(&mut self, name: &str, value: Option<&str>) -> Result<bool, Refusal> {
        let former = match name {
            "http_method" => Some(Buffer::Method),
            "http_uri" => Some(Buffer::Uri),
            "http_header" => Some(Buffer::Header),
            "http_host" => Some(Buffer::Host),
            "http_user_agent" => Some(Buffer::UserAgent),
            _ => None,
        };
        const OWN: [&str; 9] = [
            "nocase",
            "rawbytes",
            "offset",
            "depth",
            "distance",
            "within",
            "startswith",
            "endswith",
            "fast_pattern",
        ];
        if former.is_none() && !OWN.contains(&name) {
            return Ok(false);
        }
        match (self.drafts.last(), former) {
            (Some((buffer, Drafted::Content(_))), Some(former)) => {
                *buffer = former;
                Ok(true)
            }
            (Some((_, Drafted::Content(draft))), None) => draft.takes(name, value),
            _ => {
                let what = format!("{name} belongs to no content");
                Err(Refusal::wrong(what, "write it right behind its content"))
            }
        }
    }

    /// What came before.
    fn asks_of_state(
        &mut self,
        name: &str,
        value: Option<&str>,
        bit: &mut dyn FnMut(&str) -> Result<u16, Refusal>,
    ) -> Result<bool, Refusal> {
        match name {
            "flow" => {
                if self.rule.flow.is_any() {
                    return Err(Refusal::wrong(
                        "the option flow is there twice",
                        "write one with commas",
                    ));
                }
                self.rule.flow = numbers::flow(needed(name, value)?)?;
            }
            "flowbits" => self.flowbits(needed(name, value)?, bit)?,
            "threshold" | "detection_filter" => {
                let threshold =
                    numbers::threshold(needed(name, value)?, name == "detection_filter")?;
                let is_filter = |kind| kind == ThresholdKind::Filter;
                if self
                    .rule
                    .thresholds
                    .iter()
                    .any(|one| is_filter(one.kind) == is_filter(threshold.kind))
                {
                    let what = format!("the option {name} is there twice");
                    return Err(Refusal::wrong(what, "leave one of them out"));
                }
                self.rule.thresholds.push(threshold);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn flowbits(
        &mut self,
        text: &str,
        bit: &mut dyn FnMut(&str) -> Result<u16, Refusal>,
    ) -> Result<(), Refusal> {
        let (verb, name) = text.split_once(',').unwrap_or((text, ""));
        let (verb, name) = (verb.trim(), name.trim());
        let usage = match verb {
            "noalert" => {
                self.rule.is_silent = true;
                return Ok(());
            }
            "set" => FlowbitUse::Set,
            "unset" => FlowbitUse::Unset,
            "toggle" => FlowbitUse::Toggle,
            "isset" => FlowbitUse::IsSet,
            "isnotset" => FlowbitUse::IsNotSet,
            _ => {
                let what = format!("'{verb}' says nothing of flowbits");
                return Err(Refusal::wrong(
                    what,
                    "write set, unset, toggle, isset, isnotset or noalert",
                ));
            }
        };
        let is_name = !name.is_empty()
            && name.bytes().all(|one| one.is_ascii_alphanumeric() || b"._-".contains(&one));
        if !is_name || name.len() > 64 {
            let unsupported = name.contains('|') || name.contains('&') || name.contains(',');
            if unsupported {
                return Err(Refusal::unsupported(format!(
                    "flowbits of several names ('{name}') are not supported"
                )));
            }
            let what = format!("'{name}' is no name of a flowbit");
            return Err(Refusal::wrong(what, "write up to 64 letters, digits, '.', '_' and '-'"));
        }
        self.rule.flowbits.push((usage, bit(name)?));
        Ok(())
    }

    fn finish(self) -> Result<IdsRule, Refusal> {
        let Self { mut rule, drafts, .. } = self;
        if rule.sid == 0 {
            return Err(Refusal::wrong("the rule has no sid", "give it a number: sid:1000001;"));
        }
        (rule.checks, rule.fast) = drafts.finish()?;
        let is_http = rule.is_of_requests();
        let is_tcp = matches!(rule.protocol, Protocol::Tcp | Protocol::Http | Protocol::TcpStream);
        if is_http && !is_tcp {
            let what = "http options stand in a rule that is not about streams of TCP";
            return Err(Refusal::wrong(what, "write the protocol http or tcp"));
        }
        if is_http && rule.flow.is_to_server == Some(false) {
            return Err(Refusal::unsupported(
                "http options of answers (flow:to_client) are not supported",
            ));
        }
        if is_http && rule.is_of_packets() {
            let what =
                "http options stand beside dsize, flags or no_stream, which ask of single packets";
            return Err(Refusal::wrong(what, "leave one of them out"));
        }
        let is_of_tcp = is_tcp || rule.protocol == Protocol::TcpPacket;
        if rule.flags.is_some() && !is_of_tcp {
            return Err(Refusal::wrong(
                "flags stand in a rule that is not about TCP",
                "write the protocol tcp",
            ));
        }
        let is_icmp = rule.icmp_type.is_some() || rule.icmp_code.is_some();
        if is_icmp && rule.protocol != Protocol::Icmp {
            return Err(Refusal::wrong(
                "itype or icode stand in a rule that is not about ICMP",
                "write icmp",
            ));
        }
        let is_only_stream = rule.flow.is_only_stream || rule.protocol == Protocol::TcpStream;
        if is_only_stream && (rule.is_of_packets() || !is_tcp) {
            let what = "only_stream stands beside what asks of single packets";
            return Err(Refusal::wrong(what, "leave one of them out"));
        }
        Ok(rule)
    }
}
