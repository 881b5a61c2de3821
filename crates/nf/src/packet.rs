//! A packet as functions see it. Knows what is beside its bytes; refuses to know where it came from.

use catena_wire::field::UpperChecksum;
use catena_wire::frame::{FrameError, FrameView};
use catena_wire::scalar::{Qfi, Teid, Vni};
use serde::{Deserialize, Serialize};

/// A moment, nanoseconds since some start that its owner knows. Functions are told what time it is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub u64);

impl Time {
    /// This many seconds after the start.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since an earlier moment.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Which way a packet goes through a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// In by its first port, as the chain lists its functions.
    Forward,
    /// In by its second port.
    Backward,
}

impl Direction {
    /// The other one.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// What tunnels said of a packet, which its bytes do not say any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The network of VXLAN (RFC 7348).
    pub vni: Option<Vni>,
    /// The tunnel of GTP-U (TS 29.281).
    pub teid: Option<Teid>,
    /// The QoS flow (TS 38.415).
    pub qfi: Option<Qfi>,
    /// The slice, as the number of its identifier.
    pub slice: Option<u128>,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'p> {
    /// Its frame, padding cut off or not.
    pub frame: &'p [u8],
    /// What the frame holds.
    pub view: FrameView,
    /// How the checksum of its upper layer stands.
    pub upper: UpperChecksum,
    /// Packets that it becomes on the wire: more than one of a super-frame.
    pub wire_packets: u32,
    /// Bytes of IP that these have together.
    pub wire_bytes: u64,
    /// What tunnels said of it.
    pub metadata: Metadata,
}

impl<'p> Packet<'p> {
    /// That of a frame as it is on the wire.
    ///
    /// # Errors
    /// As [`FrameView::parse`] says.
    pub fn read(frame: &'p [u8]) -> Result<Self, FrameError> {
        let view = FrameView::parse(frame)?;
        Ok(Self {
            frame,
            view,
            upper: UpperChecksum::Closed,
            wire_packets: 1,
            wire_bytes: u64::from(view.end).saturating_sub(view.l3_offset.into()),
            metadata: Metadata::default(),
        })
    }
}
