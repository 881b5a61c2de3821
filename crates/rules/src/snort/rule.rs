//! A rule as it is run. Knows what is asked; refuses to know how it was written.

use super::pattern::Pattern;
use super::set::Set;
use super::words;
use crate::error::{Remark, Skipped};
use std::net::IpAddr;
use std::sync::Arc;

/// Rules, in the order of their lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdsRules {
    /// The file that they were read from.
    pub file: String,
    /// The rules.
    pub rules: Vec<IdsRule>,
    /// Those that were left out.
    pub skipped: Vec<Skipped>,
    /// Names of flowbits, by their numbers in the rules.
    pub flowbits: Vec<String>,
}

impl IdsRules {
    /// A rule in its user's words.
    #[must_use]
    pub fn in_words(&self, rule: &IdsRule) -> String {
        format!("{} line {}, sid {}: {}", self.file, rule.line, rule.sid, rule.message)
    }

    /// What their writer should know: which rules were left out.
    pub fn remarks(&self) -> impl Iterator<Item = Remark<'_>> {
        self.skipped.iter().map(|skipped| skipped.remark(&self.file))
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdsRule {
    /// Its line, from 1.
    pub line: u32,
    /// Its text.
    pub text: String,
    /// What becomes of packets that it takes.
    pub action: Action,
    /// Whose packets it is about.
    pub protocol: Protocol,
    /// Where they come from.
    pub source: Ends,
    /// Where they go.
    pub destination: Ends,
    /// Is it about the other way as well (`<>`)?
    pub is_both_ways: bool,
    /// What people are told.
    pub message: String,
    /// Its generator.
    pub gid: u32,
    /// Its number.
    pub sid: u32,
    /// Its revision.
    pub revision: u32,
    /// The kind of attack, in words.
    pub category: String,
    /// How bad it is: 1 is worst.
    pub severity: u8,
    /// What it asks of buffers, in its order.
    pub checks: Vec<(Buffer, Check)>,
    /// The content that a packet must have for the rest to be looked at, in lower case, and where.
    pub fast: Option<(Buffer, Vec<u8>)>,
    /// Bytes of payload of the packet.
    pub payload_bytes: Option<Span>,
    /// Flags of TCP.
    pub flags: Option<FlagTest>,
    /// What it asks of the flow.
    pub flow: FlowAsks,
    /// What it asks of flowbits and does with them.
    pub flowbits: Vec<(FlowbitUse, u16)>,
    /// Does it tell nothing (`flowbits:noalert`, `noalert`)?
    pub is_silent: bool,
    /// Types of ICMP.
    pub icmp_type: Option<Span>,
    /// Codes of ICMP.
    pub icmp_code: Option<Span>,
    /// Time to live.
    pub ttl: Option<Span>,
    /// How often it matches before it counts, or is told at most.
    pub thresholds: Vec<Threshold>,
}

impl IdsRule {
    /// Does it ask only of packets, never of bytes put together?
    #[must_use]
    pub const fn is_of_packets(&self) -> bool {
        self.payload_bytes.is_some()
            || self.flags.is_some()
            || self.flow.is_no_stream
            || matches!(self.protocol, Protocol::TcpPacket)
    }

    /// Its options as they were written, each with what is behind its colon, in their order.
    #[must_use]
    pub fn options(&self) -> Vec<(&str, Option<&str>)> {
        let body = words::head_and_body(&self.text);
        body.and_then(|(_, body)| words::options(body)).unwrap_or_default()
    }

    /// Does it ask of requests of HTTP?
    #[must_use]
    pub fn is_of_requests(&self) -> bool {
        self.checks.iter().any(|(buffer, _)| *buffer != Buffer::Payload)
    }
}

/// What becomes of packets, first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// No further rule looks at them.
    Pass,
    /// They end.
    Drop,
    /// They end, and the sender is told.
    Reject,
    /// They are told.
    Alert,
}

/// Whose packets a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// All of IP.
    Ip,
    /// TCP: packets, and streams put together.
    Tcp,
    /// TCP: packets alone.
    TcpPacket,
    /// TCP: streams alone.
    TcpStream,
    /// Connections of TCP in which a request of HTTP was seen.
    Http,
    /// UDP.
    Udp,
    /// ICMP and ICMPv6.
    Icmp,
}

/// Where packets come from or go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Addresses.
    pub addresses: Arc<Set>,
    /// Ports; asked only of packets that have some.
    pub ports: Arc<Set>,
}

impl Ends {
    /// Is it among them? None: it has no port.
    #[must_use]
    pub fn has(&self, address: IpAddr, port: Option<u16>) -> bool {
        self.addresses.has_address(address) && port.is_none_or(|port| self.ports.has_port(port))
    }
}

/// A row of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// What a packet carries, or the stream that it belongs to.
    Payload,
    /// The URI of a request, escapes undone.
    Uri,
    /// All headers of a request.
    Header,
    /// Its method.
    Method,
    /// Whom it asks, in lower case, without port.
    Host,
    /// What program asks.
    UserAgent,
}

impl Buffer {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Payload, Self::Uri, Self::Header, Self::Method, Self::Host, Self::UserAgent];
}

/// What is asked of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Bytes are in it.
    Content(Content),
    /// A pattern is in it.
    Pattern(Pattern),
    /// A number in it is such.
    ByteTest(ByteTest),
    /// It is so long.
    DataAt(DataAt),
}

/// Bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// In lower case where case does not matter.
    pub bytes: Vec<u8>,
    /// May they not be there?
    pub is_negated: bool,
    /// Is it the same in upper case?
    pub ignores_case: bool,
    /// Is its place told from the end of the last match?
    pub is_relative: bool,
    /// Where it may begin: `offset`, or `distance`.
    pub from: i32,
    /// Bytes from there within which it must end: `depth`, or behind the last match `within`.
    pub within: Option<u32>,
    /// Must it be at the end of the buffer?
    pub is_at_end: bool,
}

/// A number in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteTest {
    /// Bytes that it has.
    pub bytes: u8,
    /// Is it asked that it be not so?
    pub is_negated: bool,
    /// How it is compared.
    pub comparison: Comparison,
    /// With what.
    pub value: u64,
    /// Where it is.
    pub offset: i32,
    /// From the end of the last match?
    pub is_relative: bool,
    /// How it is written.
    pub numeral: Numeral,
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It is less.
    Less,
    /// It is greater.
    Greater,
    /// It is the same.
    Equal,
    /// It is not greater.
    AtMost,
    /// It is not less.
    AtLeast,
    /// They have a bit in common.
    And,
    /// They differ in a bit.
    Xor,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numeral {
    /// In bytes, highest first.
    Big,
    /// In bytes, lowest first.
    Little,
    /// In digits to this base.
    Digits(u32),
}

/// How long a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAt {
    /// There is a byte so far behind.
    pub offset: i32,
    /// Is it asked that there be none?
    pub is_negated: bool,
    /// From the end of the last match?
    pub is_relative: bool,
}

/// Numbers from one to another, both included; or, negated, all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The least.
    pub first: u32,
    /// The greatest.
    pub last: u32,
    /// Is it all others?
    pub is_negated: bool,
}

impl Span {
    /// Is a number among them?
    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        (self.first <= number && number <= self.last) != self.is_negated
    }
}

/// Flags of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagTest {
    /// How they are compared.
    pub mode: FlagsMode,
    /// These.
    pub flags: u8,
    /// Flags that do not matter.
    pub ignored: u8,
}

impl FlagTest {
    /// Are flags such?
    #[must_use]
    pub const fn has(&self, flags: u8) -> bool {
        let flags = flags & !self.ignored;
        match self.mode {
            FlagsMode::Exactly => flags == self.flags,
            FlagsMode::All => flags & self.flags == self.flags,
            FlagsMode::Any => flags & self.flags != 0,
            FlagsMode::None => flags & self.flags == 0,
        }
    }
}

/// How flags are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagsMode {
    /// These and no others.
    Exactly,
    /// These, and others or not.
    All,
    /// One of these.
    Any,
    /// None of these.
    None,
}

/// What is asked of a flow; none: it does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowAsks {
    /// Is it established, or not?
    pub is_established: Option<bool>,
    /// Does the packet go to who was asked for the connection, or away?
    pub is_to_server: Option<bool>,
    /// Only streams?
    pub is_only_stream: bool,
    /// Only packets?
    pub is_no_stream: bool,
}

impl FlowAsks {
    /// Is anything asked?
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }
}

/// What is asked of a flowbit or done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowbitUse {
    /// It is set when the rule matches.
    Set,
    /// It is cleared.
    Unset,
    /// It is set, or cleared where it was set.
    Toggle,
    /// It must be set.
    IsSet,
    /// It must not be set.
    IsNotSet,
}

/// How often a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Threshold {
    /// What becomes of matches.
    pub kind: ThresholdKind,
    /// Which matches are counted together.
    pub track: Track,
    /// How many.
    pub count: u32,
    /// In which time.
    pub seconds: u32,
}

/// What becomes of matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThresholdKind {
    /// The first so many of a time are told.
    Limit,
    /// Each so-manieth in a time is told.
    Each,
    /// Once in a time, the so-manieth is told.
    Both,
    /// Only what comes behind so many in a time is a match (`detection_filter`).
    Filter,
}

/// Which matches are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Track {
    /// Those from one source.
    Source,
    /// Those to one destination.
    Destination,
    /// All of the rule.
    Rule,
}
