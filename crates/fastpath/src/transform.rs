//! The form of a decision in the kernel's tables: what a packet must look like and what is done to
//! it. The C header is generated from these types, so both sides have one layout. Knows layouts;
//! refuses to know who decides.
//!
//! Every byte of a key is compared, so that unused ones are zero. Numbers of packets are in network
//! order where they are so in the packet; our own are in the machine's.

use catena_wire::scalar::MacAddr;

/// Most operations of one transform.
pub const OPERATIONS_MAX: usize = 12;
/// Most things that a transform depends on.
pub const GUARDS_MAX: usize = 4;
/// Bytes that one transform puts in front of a packet, all headers together.
pub const TEMPLATE_BYTES_MAX: usize = 128;
/// Largest header that one operation takes off or puts in front, the inner Ethernet header
/// included, in bytes.
pub const HEADER_BYTES_MAX: usize = 200;

/// Where a packet enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Origin {
    /// A port of this node; `door` is its number.
    Port = 1,
    /// A tunnel from another node that carries NSH; `door` is the SPI, `position` is
    /// `SI << 8 | TTL`, both as received.
    NshTunnel = 2,
    /// A tunnel from another node that carries MPLS; `door` is the SFC context label, `position`
    /// is the word of the SFC label as received, TTL included.
    MplsTunnel = 3,
    /// A tunnel from another node that carries a tenant network; `door` is the VNI.
    NetworkTunnel = 4,
    /// Segments of IPv6 with a packet inside; `door` is the path of the active segment, `position` is
    /// `hop << 16 | (bytes of IPv6 and routing header) / 8 << 8 | hop limit`, all as received. It
    /// brings no MAC along: those of the key are zero.
    Segments = 5,
}

impl Origin {
    /// Every origin.
    pub const ALL: [Origin; 5] = [
        Origin::Port,
        Origin::NshTunnel,
        Origin::MplsTunnel,
        Origin::NetworkTunnel,
        Origin::Segments,
    ];
}

/// What packets of a flow look like where they enter, in 64 bytes. Of flows that it hands over the engine
/// decides by nothing else: packets with the same key, whole and unicast, have the same lot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct FlowKey {
    /// An [`Origin`].
    pub origin: u8,
    /// 4 or 6.
    pub family: u8,
    /// TCP, UDP, ICMP or ICMPv6.
    pub protocol: u8,
    /// Always zero.
    pub reserved: u8,
    /// Which port, path or network, by `origin`.
    pub door: u32,
    /// How far on its path, by `origin`.
    pub position: u32,
    /// VLAN tag control information of a tagged frame with its priority, else zero.
    pub vlan: u16,
    /// Number of the node that has sent it by a tunnel or segments, else zero.
    pub sender: u16,
    /// IPv4 addresses stand in the first four bytes.
    pub source: [u8; 16],
    /// As `source`.
    pub destination: [u8; 16],
    /// The octets of the packet, hence in network order (`u16::from_be` for its value); of an ICMP
    /// echo its identifier, so far as it has one.
    pub source_port: u16,
    /// As `source_port`; zero where the protocol has none.
    pub destination_port: u16,
    /// Of the inner Ethernet header, if there is one.
    pub destination_mac: [u8; 6],
    /// As `destination_mac`.
    pub source_mac: [u8; 6],
}

/// Something a transform depends on: it is valid while the slot holds this epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Guard {
    /// Which slot of the table of epochs; slot 0 never changes.
    pub slot: u32,
    /// What it must hold.
    pub epoch: u32,
}

/// What an operation does; the number is its `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Writes `mac` as destination.
    SetDestination = 1,
    /// Takes `length` bytes off: all between the outer Ethernet header and the end of the inner
    /// one, which takes the outer one's place.
    Trim = 2,
    /// Puts the outer IPv4 header and what follows it in front, `length` bytes of the template from
    /// `offset` on, and an Ethernet header before them, whose addresses the last operation fills
    /// in. Lengths and the checksum of the IPv4 header are completed for each packet.
    PushTunnel = 3,
    /// Sends a copy, as the packet is now, out of interface `number`.
    CloneTo = 4,
    /// Adds the packet to account `number`, as the engine would: wire packets, and bytes as they
    /// entered.
    Count = 5,
    /// Ends: sends the packet out of interface `number`.
    Transmit = 6,
    /// Ends: the packet arrives at the peer of veth `number`, in whatever namespace that is, without
    /// being queued for it; there it counts as sent to the host.
    HandOver = 7,
    /// Ends: the kernel finds the next hop of the outer IP header on interface `number` and its
    /// hardware address.
    TransmitToNeighbour = 8,
    /// Puts an IPv6 header and a routing header between Ethernet and the packet, `length` bytes of the
    /// template from `offset` on. Payload length and traffic class are completed for each packet.
    PushSegments = 9,
    /// Takes `length` bytes off: all between the Ethernet header and the packet, whose frame is made
    /// anew, from and to `mac`.
    TrimSegments = 10,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 10] = [
        Kind::SetDestination,
        Kind::Trim,
        Kind::PushTunnel,
        Kind::CloneTo,
        Kind::Count,
        Kind::Transmit,
        Kind::HandOver,
        Kind::TransmitToNeighbour,
        Kind::PushSegments,
        Kind::TrimSegments,
    ];

    /// The kind with this number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Is a transform over with it?
    #[must_use]
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Transmit | Self::HandOver | Self::TransmitToNeighbour)
    }
}

/// One operation, in the order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Operation {
    /// A [`Kind`]; zero ends the list.
    pub kind: u8,
    /// Bytes, for kinds that have a length.
    pub length: u8,
    /// Where in the template, for kinds that put bytes in front.
    pub offset: u16,
    /// Interface, account or another number, by kind.
    pub number: u32,
    /// A MAC, for kinds that set one.
    pub mac: [u8; 6],
    /// Always zero.
    pub reserved: u16,
}

impl Operation {
    const fn numbered(kind: Kind, number: u32) -> Self {
        Self { kind: kind as u8, length: 0, offset: 0, number, mac: [0; 6], reserved: 0 }
    }

    /// [`Kind::SetDestination`].
    #[must_use]
    pub const fn set_destination(mac: MacAddr) -> Self {
        Self { mac: mac.0, ..Self::numbered(Kind::SetDestination, 0) }
    }

    /// [`Kind::Trim`]: `bytes` counts from the outer IP header to the end of the inner Ethernet
    /// header, that is outer IP + UDP + tunnel + path header + 14.
    #[must_use]
    pub const fn trim(bytes: u8) -> Self {
        Self { length: bytes, ..Self::numbered(Kind::Trim, 0) }
    }

    /// [`Kind::TrimSegments`]: `bytes` are those of both headers.
    #[must_use]
    pub const fn trim_segments(bytes: u8, mac: MacAddr) -> Self {
        Self { length: bytes, mac: mac.0, ..Self::numbered(Kind::TrimSegments, 0) }
    }

    /// [`Kind::CloneTo`].
    #[must_use]
    pub const fn clone_to(ifindex: u32) -> Self {
        Self::numbered(Kind::CloneTo, ifindex)
    }

    /// [`Kind::Count`].
    #[must_use]
    pub const fn count(account: u32) -> Self {
        Self::numbered(Kind::Count, account)
    }

    /// [`Kind::Transmit`].
    #[must_use]
    pub const fn transmit(ifindex: u32) -> Self {
        Self::numbered(Kind::Transmit, ifindex)
    }

    /// [`Kind::HandOver`].
    #[must_use]
    pub const fn hand_over(ifindex: u32) -> Self {
        Self::numbered(Kind::HandOver, ifindex)
    }

    /// [`Kind::TransmitToNeighbour`].
    #[must_use]
    pub const fn transmit_to_neighbour(ifindex: u32) -> Self {
        Self::numbered(Kind::TransmitToNeighbour, ifindex)
    }
}

/// Flag of a transform: it moves headers, which a frame with a VLAN tag beside it would not survive.
pub const FLAG_UNTAGGED_ONLY: u8 = 1;
/// Flag of a transform: it puts a header in front, so that the segments of a super-frame must fit
/// the interface with it.
pub const FLAG_PUSHES: u8 = 2;

/// Flag of a transform: a packet that a tunnel has marked is the engine's. The mark stays when the tunnel
/// is behind it, and by it a kernel would segment a super-frame in the next.
pub const FLAG_UNMARKED_ONLY: u8 = 4;
/// Flag of a transform: it writes a payload length of IPv6, which counts no super-frame beyond 65,535 bytes.
pub const FLAG_COUNTED: u8 = 8;
/// Tag of routing headers that a kernel's path has written (RFC 8754 section 2: packets of a class),
/// so that a receiver knows them from those of an engine.
pub const KERNEL_TAG: u16 = 1;

/// What is done to the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Transform {
    /// What it depends on; unused guards name slot 0 and epoch 0.
    pub guards: [Guard; GUARDS_MAX],
    /// Longest frame, as it enters, that is no super-frame; a longer one goes to the engine. In
    /// bytes, headers of the tunnel that brings it included.
    pub frame_bytes_max: u32,
    /// Longest wire packet, as it enters, of a super-frame; in bytes, as above.
    pub segment_bytes_max: u32,
    /// Operations in the list.
    pub operations_count: u8,
    /// [`FLAG_UNTAGGED_ONLY`], [`FLAG_PUSHES`], [`FLAG_UNMARKED_ONLY`] and [`FLAG_COUNTED`].
    pub flags: u8,
    /// Bytes of the template in use.
    pub template_bytes: u16,
    /// Bytes by which a frame is longer when it leaves.
    pub growth: i32,
    /// The bytes that operations put in front.
    pub template: [u8; TEMPLATE_BYTES_MAX],
    /// The list. It stands last: the verifier can only see that a place and a length in the
    /// template are each below its size, so as many bytes must follow it.
    pub operations: [Operation; OPERATIONS_MAX],
}

const _: () = assert!(size_of::<[Operation; OPERATIONS_MAX]>() >= TEMPLATE_BYTES_MAX);

/// Why a transform cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// Too many operations.
    #[error("a transform has at most {OPERATIONS_MAX} operations")]
    Operations,
    /// Too many guards.
    #[error("a transform has at most {GUARDS_MAX} guards")]
    Guards,
    /// The headers are longer than the template.
    #[error("the headers of a transform have at most {TEMPLATE_BYTES_MAX} bytes")]
    Template,
    /// The list does not end with a transmission, or goes on behind it.
    #[error("a transform ends with its only transmission")]
    Exit,
    /// A length or place is outside its bounds.
    #[error("operation {0} of the transform names bytes that are not there")]
    Bytes(usize),
    /// An operation of no kind.
    #[error("operation {0} of the transform is of no kind")]
    Kind(usize),
}

impl Default for Transform {
    fn default() -> Self {
        Self {
            guards: [Guard::default(); GUARDS_MAX],
            frame_bytes_max: u32::MAX,
            segment_bytes_max: u32::MAX,
            operations_count: 0,
            flags: 0,
            template_bytes: 0,
            growth: 0,
            operations: [Operation::default(); OPERATIONS_MAX],
            template: [0; TEMPLATE_BYTES_MAX],
        }
    }
}

impl Transform {
    /// Adds something it depends on; the same slot is not added twice.
    ///
    /// # Errors
    /// [`TransformError::Guards`].
    pub fn guarded_by(mut self, guard: Guard) -> Result<Self, TransformError> {
        if guard.slot == 0 || self.guards.contains(&guard) {
            return Ok(self);
        }
        let free = self.guards.iter_mut().find(|place| place.slot == 0);
        *free.ok_or(TransformError::Guards)? = guard;
        Ok(self)
    }

    /// Adds an operation behind the others.
    ///
    /// # Errors
    /// [`TransformError::Operations`].
    pub fn then(mut self, operation: Operation) -> Result<Self, TransformError> {
        let place = self.operations.get_mut(usize::from(self.operations_count));
        *place.ok_or(TransformError::Operations)? = operation;
        self.operations_count += 1;
        match Kind::of(operation.kind) {
            Some(Kind::Trim | Kind::TrimSegments) => {
                self.flags |= FLAG_UNTAGGED_ONLY;
                self.growth -= i32::from(operation.length);
            }
            Some(Kind::PushTunnel) => {
                self.flags |= FLAG_UNTAGGED_ONLY | FLAG_PUSHES;
                self.growth += i32::from(operation.length) + ETHERNET_BYTES as i32;
            }
            Some(Kind::PushSegments) => {
                self.flags |= FLAG_UNTAGGED_ONLY | FLAG_PUSHES | FLAG_COUNTED;
                self.growth += i32::from(operation.length);
            }
            _ => {}
        }
        Ok(self)
    }

    /// Adds [`Kind::PushTunnel`] with these bytes: an IPv4 header with a total length of zero and
    /// the checksum for it, UDP with length and checksum zero, and what follows up to the inner
    /// Ethernet header (see [`crate::OuterHeader`]).
    ///
    /// # Errors
    /// [`TransformError::Template`] and [`TransformError::Operations`].
    pub fn then_push_tunnel(self, header: &[u8]) -> Result<Self, TransformError> {
        self.then_push(Kind::PushTunnel, header)
    }

    /// Adds [`Kind::PushSegments`] with these bytes: an IPv6 header of class and payload length zero, and
    /// a routing header with [`KERNEL_TAG`] (see [`crate::segments_template`]).
    ///
    /// # Errors
    /// As [`Self::then_push_tunnel`].
    pub fn then_push_segments(self, header: &[u8]) -> Result<Self, TransformError> {
        self.then_push(Kind::PushSegments, header)
    }

    fn then_push(mut self, kind: Kind, header: &[u8]) -> Result<Self, TransformError> {
        let offset = self.template_bytes;
        let rest = self.template.get_mut(usize::from(offset)..).unwrap_or_default();
        let place = rest.get_mut(..header.len()).ok_or(TransformError::Template)?;
        place.copy_from_slice(header);
        let length = u8::try_from(header.len()).map_err(|_| TransformError::Template)?;
        self.template_bytes += u16::from(length);
        self.then(Operation { length, offset, ..Operation::numbered(kind, 0) })
    }

    /// Lowers the bounds below what the interface takes, which the program asks itself: `frame` for
    /// a frame that is no super-frame, `segment` for a wire packet of one; both as they enter, in
    /// bytes.
    #[must_use]
    pub fn bounded_by(mut self, frame: u32, segment: u32) -> Self {
        self.frame_bytes_max = self.frame_bytes_max.min(frame);
        self.segment_bytes_max = self.segment_bytes_max.min(segment);
        self
    }

    /// Leaves packets that a tunnel has marked to the engine.
    #[must_use]
    pub fn for_unmarked(mut self) -> Self {
        self.flags |= FLAG_UNMARKED_ONLY;
        self
    }

    /// The operations in use.
    pub fn operations(&self) -> impl Iterator<Item = Operation> {
        self.operations.into_iter().take(usize::from(self.operations_count))
    }

    /// Whether the kernel's program will do what the list says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), TransformError> {
        let count = usize::from(self.operations_count);
        if count > OPERATIONS_MAX {
            return Err(TransformError::Operations);
        }
        for (index, operation) in self.operations().enumerate() {
            let kind = Kind::of(operation.kind).ok_or(TransformError::Kind(index))?;
            if kind.is_last() != (index + 1 == count) {
                return Err(TransformError::Exit);
            }
            let length = usize::from(operation.length);
            let is_legal = match kind {
                Kind::Trim => (ETHERNET_BYTES..=HEADER_BYTES_MAX).contains(&length),
                Kind::TrimSegments => (SEGMENTS_BYTES_MIN..=HEADER_BYTES_MAX).contains(&length),
                Kind::PushTunnel => {
                    length >= OUTER_BYTES_MIN
                        && usize::from(operation.offset) + length <= TEMPLATE_BYTES_MAX
                }
                Kind::PushSegments => {
                    length >= SEGMENTS_BYTES_MIN
                        && usize::from(operation.offset) + length <= TEMPLATE_BYTES_MAX
                }
                _ => true,
            };
            if !is_legal {
                return Err(TransformError::Bytes(index));
            }
        }
        if count == 0 { Err(TransformError::Exit) } else { Ok(()) }
    }
}

/// Bytes of an Ethernet header without tags.
pub(crate) const ETHERNET_BYTES: usize = 14;
/// Bytes of the outer IPv4 and UDP headers.
pub(crate) const OUTER_BYTES_MIN: usize = 28;
/// Bytes of an IPv6 header and a routing header of one segment.
pub(crate) const SEGMENTS_BYTES_MIN: usize = 64;
