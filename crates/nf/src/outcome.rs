//! What a function makes of the packets of a batch. Knows verdicts, patches, events, packets that were
//! made and messages for collectors; refuses to carry any of it out. Nothing allocates once the rows have
//! grown to what batches need.

use crate::packet::{Direction, Time};
use catena_model::profile::Meta;
use catena_wire::field::Field;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::ops::Range;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// It goes on.
    #[default]
    Pass,
    /// It ends.
    Drop(DropCause),
    /// It waits in the function, which gives it back as it came: as [`GeneratedKind::Released`].
    Hold,
}

/// Why a packet ends in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DropCause {
    /// A rule says so, which has this number in [`crate::Function::rule_in_words`].
    Rule(u32),
    /// The function has no room for what the packet needs.
    Full,
}

/// What a patch changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// Bits of a field.
    Field(#[serde(with = "numbered_field")] Field),
    /// Metadata.
    Meta(#[serde(with = "numbered_meta")] Meta),
}

/// A change of a packet: it names a field, not a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Patch {
    /// What is changed.
    pub part: Part,
    /// The bits that are set, dirty even where they were so before.
    pub mask: u128,
    /// How they are set.
    pub value: u128,
}

impl Patch {
    /// All bits of a field.
    #[must_use]
    pub const fn of(field: Field, value: u128) -> Self {
        Self { part: Part::Field(field), mask: field.all(), value }
    }
}

/// Something that happened, for people or collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Time,
    /// What.
    pub kind: EventKind,
    /// The rule, by its number.
    pub rule: u32,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventKind {
    /// A rule says that the packet be told.
    Logged,
    /// This source opens connections to many places, and few of them answer.
    ScanFound(IpAddr),
    /// A rule of an ids takes a packet for an attack, or for what its user wants to know of.
    Alert,
}

/// A packet that a function made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generated {
    /// Why, by its name.
    pub kind: GeneratedKind,
    /// Which way it goes: forward it goes on behind its maker, backward it goes to where packets come
    /// from.
    pub direction: Direction,
    /// Its frame, as a place in [`Outcomes::bytes`].
    pub frame: Range<usize>,
}

/// Why functions make packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GeneratedKind {
    /// Tells the sender of a rejected packet, by ICMP.
    Unreachable,
    /// Resets the connection of a rejected packet.
    TcpReset,
    /// Goes on in place of a packet from inside that is for an outside address of another host inside (RFC 4787
    /// section 6).
    Hairpin,
    /// Asks a server whether it serves.
    HealthProbe,
    /// Tells the sender of a packet that went too far, by ICMP.
    TimeExceeded,
    /// No new packet: one that has waited in the function goes on.
    Released,
}

impl GeneratedKind {
    /// Its name in accounts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::TcpReset => "tcp_reset",
            Self::Hairpin => "hairpin",
            Self::HealthProbe => "health_probe",
            Self::TimeExceeded => "time_exceeded",
            Self::Released => "released",
        }
    }

    /// Is it an ICMP error, of which there may be so many in a second (RFC 1812 section 4.3.2.8)?
    #[must_use]
    pub const fn is_icmp_error(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimeExceeded)
    }
}

/// A message that a function hands out. It is no packet of the chain: whoever runs the function sends it
/// to the collectors that are configured there, or to none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOut {
    /// What it is.
    pub kind: HandedOutKind,
    /// It, whole, as a place in [`Outcomes::bytes`].
    pub message: Range<usize>,
}

/// What functions hand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HandedOutKind {
    /// A message of IPFIX (RFC 7011), which fits one datagram of UDP.
    Ipfix,
    /// An alert as Suricata writes it (EVE): one line of JSON.
    Eve,
}

/// What a function made of a batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcomes {
    verdicts: Vec<Verdict>,
    patches: Vec<(u32, Patch)>,
    events: Vec<(u32, Event)>,
    generated: Vec<(u32, Generated)>,
    replaced: Vec<(u32, Range<usize>)>,
    handed_out: Vec<(u32, HandedOut)>,
    bytes: Vec<u8>,
}

impl Outcomes {
    /// Forgets what is in it and begins a batch of so many packets, which all pass.
    pub fn begin(&mut self, packets: usize) {
        self.verdicts.clear();
        self.verdicts.resize(packets, Verdict::Pass);
        self.patches.clear();
        self.events.clear();
        self.generated.clear();
        self.replaced.clear();
        self.handed_out.clear();
        self.bytes.clear();
    }

    /// Ends a packet of the batch.
    pub fn drop_packet(&mut self, packet: usize, cause: DropCause) {
        self.decide(packet, Verdict::Drop(cause));
    }

    /// Says what becomes of a packet of the batch.
    pub fn decide(&mut self, packet: usize, verdict: Verdict) {
        if let Some(place) = self.verdicts.get_mut(packet) {
            *place = verdict;
        }
    }

    /// Changes a packet; of two patches of the same bits the later wins.
    pub fn patch(&mut self, packet: usize, patch: Patch) {
        self.patches.push((number(packet), patch));
    }

    /// Tells of a packet.
    pub fn tell(&mut self, packet: usize, event: Event) {
        self.events.push((number(packet), event));
    }

    /// Adds a packet because of one of the batch. `write` writes its frame into so many bytes and answers
    /// its length; none: there is no such packet.
    pub fn generate(
        &mut self,
        (packet, kind, direction): (usize, GeneratedKind, Direction),
        bytes_max: usize,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let Some(frame) = self.put(bytes_max, write) else { return false };
        self.generated.push((number(packet), Generated { kind, direction, frame }));
        true
    }

    /// Puts another packet in the place of one of the batch. `write` as in [`Self::generate`].
    pub fn replace(
        &mut self,
        packet: usize,
        bytes_max: usize,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let Some(frame) = self.put(bytes_max, write) else { return false };
        self.replaced.push((number(packet), frame));
        true
    }

    /// Hands a message out for collectors, at a packet of the batch, or where time only passes, at 0.
    /// `write` as in [`Self::generate`].
    pub fn hand_out(
        &mut self,
        packet: usize,
        kind: HandedOutKind,
        bytes_max: usize,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let Some(message) = self.put(bytes_max, write) else { return false };
        self.handed_out.push((number(packet), HandedOut { kind, message }));
        true
    }

    fn put(
        &mut self,
        bytes_max: usize,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<Range<usize>> {
        let start = self.bytes.len();
        self.bytes.resize(start + bytes_max, 0);
        let length = write(self.bytes.get_mut(start..).unwrap_or_default());
        self.bytes.truncate(start + length.unwrap_or(0).min(bytes_max));
        length.map(|_| start..self.bytes.len())
    }

    /// What becomes of each packet of the batch.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The patches, each with its packet's place in the batch.
    #[must_use]
    pub fn patches(&self) -> &[(u32, Patch)] {
        &self.patches
    }

    /// The patches of one packet.
    pub fn patches_of(&self, packet: usize) -> impl Iterator<Item = &Patch> {
        let packet = number(packet);
        self.patches.iter().filter(move |(of, _)| *of == packet).map(|(_, patch)| patch)
    }

    /// The events, each with its packet's place in the batch.
    #[must_use]
    pub fn events(&self) -> &[(u32, Event)] {
        &self.events
    }

    /// Packets that were made, each with the place of the packet that caused it.
    #[must_use]
    pub fn generated(&self) -> &[(u32, Generated)] {
        &self.generated
    }

    /// Packets in the place of others, as places in [`Self::bytes`].
    #[must_use]
    pub fn replaced(&self) -> &[(u32, Range<usize>)] {
        &self.replaced
    }

    /// The messages for collectors in their order, each with the place of the packet at which it was due.
    #[must_use]
    pub fn handed_out(&self) -> &[(u32, HandedOut)] {
        &self.handed_out
    }

    /// Puts what was made of other packets behind these, as if all had come together.
    pub fn append(&mut self, behind: &Self) {
        let (packets, bytes) = (number(self.verdicts.len()), self.bytes.len());
        let at = |packet: &u32| packets.saturating_add(*packet);
        let place = |range: &Range<usize>| range.start + bytes..range.end + bytes;
        self.verdicts.extend_from_slice(&behind.verdicts);
        self.patches.extend(behind.patches.iter().map(|(of, patch)| (at(of), *patch)));
        self.events.extend(behind.events.iter().map(|(of, event)| (at(of), *event)));
        self.generated.extend(
            behind.generated.iter().map(|(of, made)| {
                (at(of), Generated { frame: place(&made.frame), ..made.clone() })
            }),
        );
        self.replaced.extend(behind.replaced.iter().map(|(of, frame)| (at(of), place(frame))));
        self.handed_out.extend(
            behind.handed_out.iter().map(|(of, out)| {
                (at(of), HandedOut { kind: out.kind, message: place(&out.message) })
            }),
        );
        self.bytes.extend_from_slice(&behind.bytes);
    }

    /// How many patches, events, packets and messages there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        let packets = self.generated.len() + self.replaced.len() + self.handed_out.len();
        self.patches.len() + self.events.len() + packets
    }

    /// Do these outcomes speak of so many packets, of bits that their fields have, and of bytes that are there?
    #[must_use]
    pub fn are_sound(&self, packets: usize) -> bool {
        // What time alone makes is of packet 0.
        let is_one = |of: &u32| (*of as usize) < packets.max(1);
        let is_there =
            |range: &Range<usize>| !range.is_empty() && self.bytes.get(range.clone()).is_some();
        let is_of_field = |patch: &Patch| match patch.part {
            Part::Field(field) => (patch.mask | patch.value) & !field.all() == 0,
            Part::Meta(_) => true,
        };
        self.verdicts.len() == packets
            && self
                .patches
                .iter()
                .all(|(of, patch)| is_one(of) && packets > 0 && is_of_field(patch))
            && self.events.iter().all(|(of, _)| is_one(of))
            && self.generated.iter().all(|(of, made)| is_one(of) && is_there(&made.frame))
            && self.replaced.iter().all(|(of, frame)| is_one(of) && packets > 0 && is_there(frame))
            && self.handed_out.iter().all(|(of, out)| is_one(of) && is_there(&out.message))
    }

    /// The bytes of packets that were made, and of messages.
    #[must_use]
    pub fn bytes(&self, place: Range<usize>) -> &[u8] {
        self.bytes.get(place).unwrap_or_default()
    }
}

/// Batches are short.
fn number(packet: usize) -> u32 {
    u32::try_from(packet).unwrap_or(u32::MAX)
}

/// Fields by their numbers, where outcomes travel between processes.
mod numbered_field {
    use catena_wire::field::Field;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(field: &Field, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(*field as u8)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Field, D::Error> {
        let number = u8::deserialize(from)?;
        let field = Field::ALL.get(usize::from(number)).copied();
        field.ok_or_else(|| D::Error::custom("there is no such field"))
    }
}

/// The same of metadata.
mod numbered_meta {
    use catena_model::profile::Meta;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(meta: &Meta, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(*meta as u8)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Meta, D::Error> {
        let number = u8::deserialize(from)?;
        let meta = Meta::ALL.get(usize::from(number)).map(|(meta, _)| *meta);
        meta.ok_or_else(|| D::Error::custom("there is no such metadata"))
    }
}
