//! The other records of the kernel's tables: what stands beside a flow, and what the program counts.
//! Knows layouts and names; refuses to know how tables are reached.

use crate::transform::{Guard, Transform};
use catena_wire::srv6::Locator;

/// A flow in the table: its transform, and what the program notes about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// The gate that must be open; 0: none.
    pub gate: u32,
    /// Length of the longest frame, as it leaves, that its interface was found to take at `seen_ns`;
    /// 0 for super-frames that leave without a tunnel.
    pub fitting: i32,
    /// When it was last used, by the coarse monotonic clock, in nanoseconds; 0: never.
    pub seen_ns: u64,
    /// Wire packets transformed.
    pub packets: u64,
    /// Their bytes, as the engine counts them.
    pub bytes: u64,
    /// What is done.
    pub transform: Transform,
}

/// A slot of the table of epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Slot {
    /// The epoch; transforms carry its lower half.
    pub epoch: u64,
    /// Frames that met a transform of an earlier epoch of this slot.
    pub stale: u64,
}

/// An account: as the engine books a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Account {
    /// Wire packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A port that the program serves, found by its interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Port {
    /// Its number, 1 to [`PORT_NUMBER_MAX`]; the tag of its punted frames.
    pub number: u32,
    /// Not zero: every frame of the port goes to the engine.
    pub is_watched: u32,
    /// Of a link, its number in source routes; 0: it is none.
    pub link: u32,
}

/// What becomes of frames that one link brings in one profile with one port number. In a line of the cache of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Transit {
    /// That of the link that brings them, and that of the link that they leave by.
    pub guards: [Guard; 2],
    /// As the words of gates are.
    pub gate: u64,
    /// The interface that they leave by; 0: they go to the engine.
    pub interface: u32,
    /// As in [`Entry`].
    pub fitting: i32,
    /// When the last passed, by the coarse monotonic clock, in nanoseconds; 0: none has.
    pub seen_ns: u64,
    /// Frames passed on.
    pub packets: u64,
    /// Their bytes, as they came.
    pub bytes: u64,
    /// Always zero.
    pub reserved: u64,
}

/// What concerns all packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Interface by which frames go to the engine; 0: none, and they end here.
    pub punt_ifindex: u32,
    /// Not zero: every frame goes to the engine.
    pub is_off: u32,
    /// Own IPv4 address on the underlay in the order of the packet; 0: none.
    pub underlay_address: u32,
    /// Frames that may be on their way up to the engine at once; 0: as many as come.
    pub queue_frames: u32,
    /// The first four octets of the own locator, in the order of the packet.
    pub locator_high: u32,
    /// Its last two octets.
    pub locator_low: u16,
    /// Zero: the node has no locator, and takes nothing that segments lead to it.
    pub has_locator: u16,
}

impl Settings {
    /// The same with another locator, or none.
    #[must_use]
    pub fn at_locator(self, locator: Option<Locator>) -> Self {
        let [a, b, c, d, e, f, ..] = locator.map_or([0; 16], |own| own.address().octets());
        let locator_high = u32::from_ne_bytes([a, b, c, d]);
        let locator_low = u16::from_ne_bytes([e, f]);
        Self { locator_high, locator_low, has_locator: locator.is_some().into(), ..self }
    }
}

/// What of one port is on its way up to the engine, and what was not let up. That of number 0 is of
/// all ports and the underlay together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Queue {
    /// Frames sent up while there was a limit.
    pub sent: u64,
    /// Of these, those that are on their way no more: never more than `sent`.
    pub served: u64,
    /// How many frames it may have on their way for each place that is free; 0 counts as 1.
    pub weight: u64,
    /// Wire packets that were not let up.
    pub refused_packets: u64,
    /// Bytes of the frames that were not let up.
    pub refused_bytes: u64,
}

/// Highest number of a port: VLAN identifier 0 has a meaning of its own, and those above are of tunnels.
pub const PORT_NUMBER_MAX: u16 = 4_030;
/// The first of the VLAN identifiers of punted frames that came by a tunnel: of all who are no nodes.
pub const UNDERLAY_NUMBER: u16 = 4_031;
/// How many follow it, of nodes: a power of two, so that neighbouring addresses have each another.
pub const UNDERLAY_SHARES: u16 = 64;
/// Bit of a gate's word that says that it is open; the others count the frames that went up.
pub const GATE_OPEN: u64 = 1 << 63;

/// What the program counts, in frames (a super-frame is one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Event {
    /// Transformed.
    Hit = 0,
    /// Punted: no transform for it.
    Miss = 1,
    /// Punted: something its transform depends on has changed.
    Stale = 2,
    /// Punted: its transform waits until the frames before it have passed the engine.
    Waiting = 3,
    /// Punted: it has no key (a fragment, a group, ARP, options, contradictory lengths and so on).
    Unkeyed = 4,
    /// Punted: its transform cannot be applied to a frame of this length or with this tag, or the
    /// interface that it should leave by is gone.
    Unfit = 5,
    /// Punted: the port is watched, or the fast path is off.
    Watched = 6,
    /// Lost: the kernel refused an operation half way.
    Broken = 7,
    /// The kernel did not take a copy.
    CloneFailed = 8,
    /// Ended here: the interface is no port, or there is no punt device.
    Swallowed = 9,
    /// A tunnel packet left to the socket of the tunnel.
    LeftToSocket = 10,
    /// Punted, for one of the reasons above, and came by a tunnel.
    FromUnderlay = 11,
}

impl Event {
    /// Every event.
    pub const ALL: [Event; 12] = [
        Event::Hit,
        Event::Miss,
        Event::Stale,
        Event::Waiting,
        Event::Unkeyed,
        Event::Unfit,
        Event::Watched,
        Event::Broken,
        Event::CloneFailed,
        Event::Swallowed,
        Event::LeftToSocket,
        Event::FromUnderlay,
    ];

    /// Those that tell why a frame was punted; each punted frame is counted as one of them.
    pub const PUNTED: [Event; 6] =
        [Event::Miss, Event::Stale, Event::Waiting, Event::Unkeyed, Event::Unfit, Event::Watched];

    /// The event with this number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|event| *event as u8 == number)
    }

    /// Its name, in small letters and underscores.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Stale => "stale",
            Self::Waiting => "waiting",
            Self::Unkeyed => "unkeyed",
            Self::Unfit => "unfit",
            Self::Watched => "watched",
            Self::Broken => "broken",
            Self::CloneFailed => "clone_failed",
            Self::Swallowed => "swallowed",
            Self::LeftToSocket => "left_to_socket",
            Self::FromUnderlay => "from_underlay",
        }
    }
}
