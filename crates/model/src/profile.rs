//! What a function says of itself: what it reads, writes and does (specification of function
//! parallelism, section 1.1). Knows sets of bits of fields; refuses to know any function.

use catena_wire::field::Field;

/// What is known of a packet beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Meta {
    /// The port where it came in, so its direction.
    InPort,
    /// The state of its connection.
    ConnectionState,
    /// When it came.
    ReceivedAt,
    /// The hash of its flow.
    Hash,
    /// The network of VXLAN.
    Vni,
    /// The tunnel of GTP-U.
    Teid,
    /// The QoS flow.
    Qfi,
    /// The slice.
    Slice,
}

impl Meta {
    /// All of it, with its names.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::InPort, "meta.in_port"),
        (Self::ConnectionState, "meta.ct_state"),
        (Self::ReceivedAt, "meta.rx_time"),
        (Self::Hash, "meta.hash"),
        (Self::Vni, "meta.vni"),
        (Self::Teid, "meta.teid"),
        (Self::Qfi, "meta.qfi"),
        (Self::Slice, "meta.slice"),
    ];
}

/// Bits of fields, and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSet {
    fields: [u128; Field::ALL.len()],
    meta: u8,
}

impl Default for FieldSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl FieldSet {
    /// Nothing.
    pub const EMPTY: Self = Self { fields: [0; Field::ALL.len()], meta: 0 };

    /// All fields and all metadata.
    #[must_use]
    pub fn all() -> Self {
        let mut all = Self { fields: [0; Field::ALL.len()], meta: u8::MAX };
        for field in Field::ALL {
            all = all.with(*field);
        }
        all
    }

    /// This, and all bits of a field.
    #[must_use]
    pub const fn with(self, field: Field) -> Self {
        self.with_bits(field, field.all())
    }

    /// This, and some bits of a field.
    #[must_use]
    pub const fn with_bits(mut self, field: Field, mask: u128) -> Self {
        self.fields[field as usize] |= mask & field.all();
        self
    }

    /// This, and metadata.
    #[must_use]
    pub const fn with_meta(mut self, meta: Meta) -> Self {
        self.meta |= 1 << meta as u8;
        self
    }

    /// The bits of a field that are in it.
    #[must_use]
    pub const fn bits(&self, field: Field) -> u128 {
        self.fields[field as usize]
    }

    /// Is metadata in it?
    #[must_use]
    pub const fn has_meta(&self, meta: Meta) -> bool {
        self.meta & 1 << meta as u8 != 0
    }

    /// Is nothing in it?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// What is in one of them at least.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut either = Self { fields: self.fields, meta: self.meta | other.meta };
        either.fields.iter_mut().zip(other.fields).for_each(|(mask, others)| *mask |= others);
        either
    }

    /// This, and the checksums that change with what is in it.
    #[must_use]
    pub fn with_checksums(self) -> Self {
        let written = Field::ALL.iter().filter(|field| self.bits(**field) != 0);
        written.flat_map(|field| field.checksums()).fold(self, |all, sum| all.with(*sum))
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self { fields: self.fields, meta: self.meta & other.meta };
        both.fields.iter_mut().zip(other.fields).for_each(|(mask, others)| *mask &= others);
        both
    }

    /// The names of what is in it, with the bits of a field of which not all are.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let fields = Field::ALL.iter().filter_map(|field| match self.bits(*field) {
            0 => None,
            bits if bits == field.all() => Some(field.name().to_owned()),
            bits => Some(format!("{}&{bits:#x}", field.name())),
        });
        let meta = Meta::ALL.into_iter().filter(|(meta, _)| self.has_meta(*meta));
        fields.chain(meta.map(|(_, name)| name.to_owned())).collect()
    }
}

/// How far the packets reach that decide together what becomes of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateScope {
    /// The packet alone: there is no state.
    Packet,
    /// Packets of its flow, both ways, and errors about them.
    Flow,
    /// Packets from or to its hosts.
    Host,
    /// All packets.
    All,
}

/// What a function is: the profile of an instance with its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// R: what decides over verdict, output, events and state.
    pub reads: FieldSet,
    /// W: what patches may change.
    pub writes: FieldSet,
    /// A: may it put another packet in a packet's place? In that of a super-frame it never does.
    pub replaces: bool,
    /// D: may it drop?
    pub drops: bool,
    /// E: has it effects outside of the packet, such as events and counters of flows?
    pub has_effects: bool,
    /// Are its effects sums, which may be held until a verdict is known and then be added or not?
    pub effects_are_sums: bool,
    /// S: how far its state reaches.
    pub state: StateScope,
    /// G: does it make packets?
    pub generates: bool,
    /// May packets wait in it?
    pub holds: bool,
    /// O: does the order of packets of different flows matter?
    pub is_ordered: bool,
    /// X: can its effects be taken back?
    pub is_transactional: bool,
    /// Does it take super-frames whole? Else each packet must be as on the wire.
    pub takes_super_frames: bool,
    /// Must it see both directions?
    pub needs_both_directions: bool,
    /// Has the harness held it against its code? What is only declared may be analysed, and never runs
    /// beside others.
    pub is_verified: bool,
}

impl Profile {
    /// That of a function that does nothing.
    pub const IDENTITY: Self = Self {
        reads: FieldSet::EMPTY,
        writes: FieldSet::EMPTY,
        replaces: false,
        drops: false,
        has_effects: false,
        effects_are_sums: true,
        state: StateScope::Packet,
        generates: false,
        holds: false,
        is_ordered: false,
        is_transactional: false,
        takes_super_frames: true,
        needs_both_directions: false,
        is_verified: true,
    };

    /// That of a function of which nothing is known: it may do anything.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            reads: FieldSet::all(),
            writes: FieldSet::all(),
            replaces: true,
            drops: true,
            has_effects: true,
            effects_are_sums: false,
            state: StateScope::All,
            generates: true,
            holds: true,
            is_ordered: true,
            is_transactional: false,
            takes_super_frames: false,
            needs_both_directions: true,
            is_verified: false,
        }
    }

    /// Must each packet be as on the wire?
    #[must_use]
    pub const fn wants_wire_packets(&self) -> bool {
        !self.takes_super_frames
    }

    /// Must packets that are no super-frames have finished checksums? What stands in another's place has its own.
    #[must_use]
    pub const fn wants_checksums(&self) -> bool {
        self.wants_wire_packets() || self.replaces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_of_bits() {
        let dscp = FieldSet::EMPTY.with(Field::Dscp);
        let host = FieldSet::EMPTY.with_bits(Field::Source, 0xff).with_meta(Meta::Vni);
        assert!(dscp.intersection(&host).is_empty());
        assert_eq!(host.in_words(), ["ip.src&0xff", "meta.vni"]);
        let net = FieldSet::EMPTY.with_bits(Field::Source, !0xff);
        assert!(net.intersection(&host).is_empty(), "bits of one field are told apart");
        assert_eq!(FieldSet::all().intersection(&host), host);
        // DSCP has six bits, whatever a mask says.
        assert_eq!(FieldSet::EMPTY.with_bits(Field::Dscp, u128::MAX), dscp);
    }

    #[test]
    fn each_meta_has_its_bit() {
        for (at, (meta, name)) in Meta::ALL.into_iter().enumerate() {
            assert_eq!(meta as usize, at);
            assert!(FieldSet::EMPTY.with_meta(meta).in_words() == [name]);
        }
    }
}
