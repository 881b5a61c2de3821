//! The fields of a packet that rules may look at beside its flow and its VLAN. A field is declared here,
//! by a row of [`FIELDS`]: matching, overlap, the keys of the data plane's memories, the attribute of the
//! API, the option and the words of the command line, documents and what explains a packet are made of the
//! row. What packets show is read and written in `catena_wire`.
//!
//! Such a field may differ between packets of one flow, so whatever remembers a flow where rules look at
//! it remembers the field, too: all fields of a packet are one [`super::FieldWord`], and what rules ask of
//! it is part of every key.

use crate::resource::Transport;
use catena_wire::field::Field as WireField;
use catena_wire::tcp::TcpFlags;
use catena_wire::varying::VaryingFields;

/// A declared field.
#[derive(Debug)]
pub struct Field {
    /// The attribute of a flow classifier, and the word in documents and on the command line.
    pub name: &'static str,
    /// The field of the packet.
    pub shows: WireField,
    /// What a condition may say, and where the field is defined.
    pub help: &'static str,
    /// The transport protocol that has it: a rule that looks at it says so; none: every packet has it.
    pub transport: Option<Transport>,
    /// How a condition is written.
    pub(super) kind: FieldKind,
    /// What a packet shows that nobody wants to show any.
    pub(super) usual: u8,
    /// What a packet shows; none: the packet does not have it.
    pub(super) read: fn(&VaryingFields) -> Option<u8>,
    /// Makes a packet show it.
    pub(super) write: fn(&mut VaryingFields, u8),
}

/// How values are written.
#[derive(Debug)]
pub(super) enum FieldKind {
    /// A number, or its name.
    Number(&'static [(&'static str, u8)]),
    /// Names of bits, the lowest first; `!` before one means that it must be clear.
    Flags(&'static [&'static str]),
}

/// All of them.
pub static FIELDS: [Field; 2] = [
    Field {
        name: "dscp",
        shows: WireField::Dscp,
        help: "differentiated services code point (RFC 2474): 0 to 63, or a name such as ef, af41 or cs6",
        transport: None,
        kind: FieldKind::Number(&CODE_POINTS),
        usual: 0,
        read: |packet| Some(packet.dscp),
        write: |packet, value| packet.dscp = value,
    },
    Field {
        name: "tcp_flags",
        shows: WireField::TcpFlags,
        help: "flags of TCP (RFC 9293) that must be set, or with ! clear, such as syn,!ack: fin, syn, rst, \
               psh, ack, urg, ece, cwr",
        transport: Some(Transport::Tcp),
        kind: FieldKind::Flags(&["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"]),
        usual: TcpFlags::ACK.0,
        read: |packet| packet.tcp_flags.map(|flags| flags.0),
        write: |packet, value| packet.tcp_flags = Some(TcpFlags(value)),
    },
];

/// Named code points (registry of RFC 2474, with RFC 2597, 3246, 5865 and 8622).
pub const CODE_POINTS: [(&str, u8); 23] = [
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

impl Field {
    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        FIELDS.iter().find(|field| field.name == name)
    }

    /// What it is called in sentences.
    #[must_use]
    pub const fn title(&self) -> &'static str {
        self.shows.title()
    }

    /// Bits of its value, one to eight.
    pub(super) const fn bits(&self) -> u32 {
        self.shows.bits()
    }

    /// All bits of its value.
    pub(super) const fn all(&self) -> u8 {
        u8::MAX >> (u8::BITS - self.bits())
    }

    /// What of its bits a condition in words wants, as value and mask; none: it is no condition.
    pub(super) fn parse(&self, text: &str) -> Option<(u8, u8)> {
        match self.kind {
            FieldKind::Number(names) => {
                let named = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
                let value = named.map_or_else(|| text.parse().ok(), |(_, value)| Some(*value))?;
                (value <= self.all()).then_some((value, self.all()))
            }
            FieldKind::Flags(names) => {
                let (mut value, mut mask) = (0, 0);
                for word in text.split(',').map(str::trim) {
                    let (name, is_set) =
                        word.strip_prefix('!').map_or((word, true), |name| (name, false));
                    let is_it = |flag: &&str| flag.eq_ignore_ascii_case(name);
                    let bit = 1 << names.iter().position(is_it)?;
                    // What is to be set and clear, no packet has.
                    let is_new = mask & bit == 0 || (value & bit != 0) == is_set;
                    is_new.then_some(())?;
                    mask |= bit;
                    value |= if is_set { bit } else { 0 };
                }
                Some((value, mask))
            }
        }
    }

    /// The words of a condition; of a packet's own value, with its whole mask, those of that value.
    pub(super) fn words(&self, value: u8, mask: u8) -> String {
        match self.kind {
            FieldKind::Number(names) => names
                .iter()
                .find(|(_, known)| *known == value)
                .map_or_else(|| value.to_string(), |(name, _)| (*name).to_owned()),
            FieldKind::Flags(names) => {
                let asked = (0..).zip(names).filter(|(bit, _)| mask & 1 << bit != 0);
                let word = |(bit, name): (u32, &&str)| {
                    if value & 1 << bit == 0 { format!("!{name}") } else { (*name).to_owned() }
                };
                asked.map(word).collect::<Vec<_>>().join(",")
            }
        }
    }

    /// What a packet shows, in words.
    pub(super) fn shown(&self, packet: &VaryingFields) -> Option<String> {
        let value = (self.read)(packet)?;
        Some(match self.kind {
            FieldKind::Number(_) => self.words(value, self.all()),
            FieldKind::Flags(_) if value == 0 => "none set".to_owned(),
            FieldKind::Flags(_) => self.words(value, value),
        })
    }
}
