//! The statements of one rule, in the order in which they run.

use super::Scope;
use super::keys::{Header, Key, malformed, only, text};
use super::names;
use super::sets;
use crate::condition::{Condition, Range, Subject, Test};
use crate::refusal::Refusal;
use crate::rule_set::{Limit, MapEntry, Reject, Statement, Verdict, VerdictMap};
use catena_wire::field::Field;
use catena_wire::scalar::IpProtocol;
use serde_json::Value;

/// Tokens of a limit that names none (`NFT_LIMIT_PKT_BURST_DEFAULT`).
const BURST: u64 = 5;

/// A rule that is being read.
pub(super) struct RuleReader<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) read: Vec<Statement>,
    /// The version of IP that packets have which come so far.
    version: Option<u128>,
    /// The upper protocols that they have.
    protocols: Option<Vec<Range>>,
    /// The types of ICMP messages that they have.
    icmp_types: Option<Vec<Range>>,
}

/// Reads the statements of a rule.
pub(super) fn read(scope: &Scope<'_>, statements: &[Value]) -> Result<Vec<Statement>, Refusal> {
    let version = match scope.family {
        "ip" => Some(4),
        "ip6" => Some(6),
        _ => None,
    };
    let mut reader =
        RuleReader { scope, read: Vec::new(), version, protocols: None, icmp_types: None };
    for statement in statements {
        let (name, body) = only(statement).ok_or_else(|| malformed("a statement", statement))?;
        reader.statement(name, body)?;
    }
    Ok(reader.read)
}

impl RuleReader<'_> {
    fn statement(&mut self, name: &str, body: &Value) -> Result<(), Refusal> {
        match name {
            "match" => return self.condition(body),
            "vmap" => return self.map(body),
            "counter" if body.is_string() => {
                return Err(Refusal::unsupported("counters with a name are not supported"));
            }
            "counter" => self.read.push(Statement::Count),
            "limit" => self.read.push(Statement::Limit(limit(body)?)),
            "log" => self.read.push(Statement::Log(log(body)?)),
            "reject" => {
                let reject = self.reject(body)?;
                self.read.push(Statement::Verdict(Verdict::Reject(reject)));
            }
            _ => {
                let verdict = self.verdict(name, body)?;
                self.read.extend(verdict.map(Statement::Verdict));
            }
        }
        Ok(())
    }

    pub(super) fn add(&mut self, subject: Subject, test: Test, is_negated: bool) {
        if let Test::In(ranges) = &test
            && !is_negated
        {
            match subject {
                Subject::Version if ranges.len() == 1 && ranges[0].first == ranges[0].last => {
                    self.version = Some(ranges[0].first);
                }
                Subject::Field(Field::Protocol) => self.protocols = Some(ranges.clone()),
                Subject::Field(Field::IcmpType) => self.icmp_types = Some(ranges.clone()),
                _ => {}
            }
        }
        self.read.push(Statement::Match(Condition::of(subject, test, is_negated)));
    }

    /// Asks for the headers that keys imply, as nft does by itself.
    pub(super) fn imply(&mut self, keys: &[Key]) -> Result<(), Refusal> {
        for key in keys {
            match key.header {
                Header::None => {}
                Header::Ip(version) => self.need_version(version.into()),
                Header::Upper(protocol) => self.need_protocol(protocol),
                Header::Icmp { version, is_echo } => {
                    if self.scope.family == "inet" {
                        self.need_version(version.into());
                    }
                    let is_v4 = version == 4;
                    self.need_protocol(if is_v4 { IpProtocol::ICMP } else { IpProtocol::ICMPV6 });
                    if is_echo {
                        self.need_echo(if is_v4 { [0, 8] } else { [128, 129] });
                    }
                }
                // In the kernel these are bytes of any protocol; here they are ports.
                Header::Ports => {
                    let is_in_key =
                        keys.iter().any(|key| key.subject == Subject::Field(Field::Protocol));
                    if !is_in_key && !self.protocols.as_ref().is_some_and(|asked| are_ports(asked))
                    {
                        return Err(ports_of_any());
                    }
                }
            }
        }
        Ok(())
    }

    /// Refuses tuples that ask for ports of protocols that have none; `all`: do others than those in
    /// the tuples come to nothing?
    pub(super) fn check_ports<'t>(
        &self,
        keys: &[Key],
        mut tuples: impl Iterator<Item = &'t Vec<Range>>,
        all: bool,
    ) -> Result<(), Refusal> {
        let is_any = keys.iter().any(|key| key.header == Header::Ports);
        if !is_any || self.protocols.as_ref().is_some_and(|asked| are_ports(asked)) {
            return Ok(());
        }
        let at = keys.iter().position(|key| key.subject == Subject::Field(Field::Protocol));
        let protocol = |ranges: &Vec<Range>| at.and_then(|at| ranges.get(at)).copied();
        let is_port = |ranges| protocol(ranges).is_some_and(|range| are_ports(&[range]));
        if all && tuples.all(is_port) { Ok(()) } else { Err(ports_of_any()) }
    }

    fn need_version(&mut self, version: u128) {
        if self.version != Some(version) {
            self.add(Subject::Version, Test::equals(version), false);
        }
    }

    fn need_protocol(&mut self, protocol: IpProtocol) {
        let number = u128::from(protocol.0);
        if self.protocols.as_deref() != Some(&[Range::one(number)]) {
            self.add(Subject::Field(Field::Protocol), Test::equals(number), false);
        }
    }

    fn need_echo(&mut self, types: [u128; 2]) {
        let is_echo = |range: &Range| {
            range.first == range.last && types.contains(&range.first)
                || types == [range.first, range.last] && types[0] + 1 == types[1]
        };
        if !self.icmp_types.as_ref().is_some_and(|asked| asked.iter().all(is_echo)) {
            let test = Test::among(types.map(Range::one).to_vec());
            self.add(Subject::Field(Field::IcmpType), test, false);
        }
    }

    fn map(&mut self, body: &Value) -> Result<(), Refusal> {
        let (Some(key), Some(data)) = (body.get("key"), body.get("data")) else {
            return Err(malformed("a map with its key", body));
        };
        let keys = super::keys::keys(key)?;
        refuse_fragment_word(&keys)?;
        let scope = self.scope;
        let mut entries = Vec::new();
        let mut others = Vec::new();
        for element in sets::elements(scope, data)? {
            let (value, verdict) = sets::pair(element)?;
            let (name, body) = only(verdict).ok_or_else(|| malformed("a verdict", verdict))?;
            let verdict = self.verdict(name, body)?;
            let Some(values) = sets::ranges(scope, &keys, value)? else { continue };
            let into = if sets::is_catch_all(value)? { &mut others } else { &mut entries };
            into.push(MapEntry { values, verdict });
        }
        // What stands for all others decides last, wherever it is written.
        entries.append(&mut others);
        self.imply(&keys)?;
        self.check_ports(&keys, entries.iter().map(|entry| &entry.values), true)?;
        let subjects = keys.iter().map(|key| key.subject).collect();
        self.read.push(Statement::Map(VerdictMap { subjects, entries }));
        Ok(())
    }

    /// A verdict; none: the rule goes on.
    fn verdict(&self, name: &str, body: &Value) -> Result<Option<Verdict>, Refusal> {
        Ok(Some(match name {
            "accept" => Verdict::Accept,
            "drop" => Verdict::Drop,
            "return" => Verdict::Return,
            "continue" => return Ok(None),
            "jump" => Verdict::Jump(self.scope.led(text(body, "target")?)?),
            "goto" => Verdict::Goto(self.scope.led(text(body, "target")?)?),
            _ => {
                return Err(Refusal::unsupported(format!("the statement {name} is not supported")));
            }
        }))
    }

    fn reject(&mut self, body: &Value) -> Result<Reject, Refusal> {
        let kind = body.get("type").and_then(Value::as_str);
        let kind = kind.unwrap_or(match self.scope.family {
            "ip" => "icmp",
            "ip6" => "icmpv6",
            _ => "icmpx",
        });
        let code = |names, default: u8| match body.get("expr") {
            None | Some(Value::Null) => Ok(default),
            Some(code) => {
                let number = code.as_str().map_or(code.as_u64().map(u128::from), |name| {
                    names::number(names, name).or_else(|| name.parse().ok())
                });
                number.and_then(|number| u8::try_from(number).ok()).ok_or_else(|| {
                    let what = format!("no packet is rejected with {kind} {code}");
                    Refusal::wrong(what, "write the file by nft -j list ruleset")
                })
            }
        };
        match kind {
            "tcp reset" => {
                self.need_protocol(IpProtocol::TCP);
                Ok(Reject::TcpReset)
            }
            "icmp" => {
                self.need_version(4);
                Ok(Reject::Icmp(code(names::ICMP_CODES, 3)?))
            }
            "icmpv6" => {
                self.need_version(6);
                Ok(Reject::IcmpV6(code(names::ICMPV6_CODES, 4)?))
            }
            "icmpx" => {
                let code = code(names::ICMPX_CODES, 1)?;
                let of_version = names::OF_VERSION.get(usize::from(code));
                let (v4, v6) = of_version.copied().ok_or_else(|| {
                    let what = format!("no packet is rejected with icmpx {code}");
                    Refusal::wrong(what, "write the file by nft -j list ruleset")
                })?;
                Ok(Reject::OfVersion { v4, v6 })
            }
            _ => Err(Refusal::unsupported(format!("reject with {kind} is not supported"))),
        }
    }
}

/// Refuses the flags and offset of fragments where one range cannot say them.
pub(super) fn refuse_fragment_word(keys: &[Key]) -> Result<(), Refusal> {
    if keys.iter().any(|key| key.domain == super::keys::Domain::FragmentWord) {
        let what = "ip frag-off is only supported with ==, != and one value";
        return Err(Refusal::unsupported(what));
    }
    Ok(())
}

/// Are all of these protocols with ports?
fn are_ports(protocols: &[Range]) -> bool {
    let with_ports = [IpProtocol::TCP, IpProtocol::UDP].map(|protocol| u128::from(protocol.0));
    protocols.iter().all(|range| range.first == range.last && with_ports.contains(&range.first))
}

fn ports_of_any() -> Refusal {
    let what = "th asks for ports of protocols that may have none";
    let advice =
        "say before it meta l4proto { tcp, udp }, or 'unsupported: skip' to leave such rules out";
    Refusal { advice: advice.into(), ..Refusal::unsupported(what) }
}

fn limit(body: &Value) -> Result<Limit, Refusal> {
    if body.is_string() {
        return Err(Refusal::unsupported("limits with a name are not supported"));
    }
    let unit = body.get("rate_unit").and_then(Value::as_str).unwrap_or("packets");
    if unit != "packets" {
        return Err(Refusal::unsupported(format!("limits of {unit} are not supported")));
    }
    let number = |name| match body.get(name) {
        None => Ok(0),
        Some(value) => value.as_u64().ok_or_else(|| malformed(&format!("'{name}'"), body)),
    };
    let (rate, burst) = (number("rate")?, number("burst")?);
    let period_s = names::number(names::PERIODS, text(body, "per")?);
    let period_s = period_s.and_then(|period_s| u64::try_from(period_s).ok());
    let period_s = period_s.filter(|_| rate > 0).ok_or_else(|| malformed("a rate", body))?;
    let is_over = body.get("inv").and_then(Value::as_bool).unwrap_or(false);
    Ok(Limit { rate, period_s, burst: if burst == 0 { BURST } else { burst }, is_over })
}

/// The prefix of what is told; level and flags decide what the kernel writes, and are ours.
fn log(body: &Value) -> Result<String, Refusal> {
    let Some(body) = body.as_object() else { return Ok(String::new()) };
    let theirs = body.keys().find(|name| !matches!(&***name, "prefix" | "level" | "flags"));
    if let Some(theirs) = theirs {
        return Err(Refusal::unsupported(format!("log {theirs} is not supported")));
    }
    match body.get("prefix") {
        None => Ok(String::new()),
        Some(Value::String(prefix)) => Ok(prefix.clone()),
        Some(other) => Err(malformed("'prefix'", other)),
    }
}
