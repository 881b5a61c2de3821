//! The checksums that cover a change, and their update (RFC 1624). Knows where protocols keep theirs;
//! refuses to compute one anew.

use super::Covered;
use crate::checksum::{Sum, update};
use crate::frame::{Fragment, FrameView, Network};
use crate::scalar::IpProtocol;
use crate::{icmp, ipv4, tcp, udp};
use core::ops::Range;

/// How the checksum of the upper layer stands in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UpperChecksum {
    /// As a receiver expects it.
    #[default]
    Closed,
    /// Left to whoever sends the frame: the field holds the sum of the pseudo header alone, so that ports
    /// and what else is behind it do not count.
    Open,
}

/// A checksum of the upper layer.
#[derive(Clone, Copy)]
struct Upper {
    at: usize,
    /// Does it cover the addresses?
    has_pseudo_header: bool,
    /// Does zero say that there is none?
    may_be_none: bool,
}

impl Upper {
    /// That of a frame; none: the protocol has none that RFC 1071 speaks of, or the frame ends before it.
    fn of(view: &FrameView) -> Option<Self> {
        let l4 = usize::from(view.l4_offset.filter(|_| view.fragment != Fragment::Later)?);
        let (offset, has_pseudo_header, may_be_none) = match view.protocol? {
            IpProtocol::TCP => (tcp::CHECKSUM_OFFSET, true, false),
            IpProtocol::UDP => (udp::CHECKSUM_OFFSET, true, true),
            IpProtocol::ICMP => (icmp::CHECKSUM_OFFSET, false, false),
            IpProtocol::ICMPV6 => (icmp::CHECKSUM_OFFSET, true, false),
            // RFC 3828 section 3.1 and RFC 4340 section 5.1 place theirs alike.
            IpProtocol::UDP_LITE | IpProtocol::DCCP => (6, true, false),
            _ => return None,
        };
        let at = l4 + offset;
        (at + 2 <= view.end as usize).then_some(Self { at, has_pseudo_header, may_be_none })
    }
}

/// The sums over what is about to change, and the checksums that follow it.
pub(super) struct Before {
    /// Whole words, seen from the header that the field is in.
    words: Range<usize>,
    sum: Sum,
    header: Option<usize>,
    upper: Option<Upper>,
    is_behind_pseudo_header: bool,
}

impl Before {
    /// Of a field in these bytes of a frame.
    pub(super) fn of(
        frame: &[u8],
        view: &FrameView,
        covered: Covered,
        field: Range<usize>,
    ) -> Self {
        let l3 = usize::from(view.l3_offset);
        let base = match covered {
            Covered::Upper => view.l4_offset.map_or(l3, usize::from),
            _ => l3,
        };
        let start = field.start - (field.start.wrapping_sub(base) & 1);
        let words = start..field.end + (field.end.wrapping_sub(base) & 1);
        let is_v4 = view.network == Network::Ipv4;
        let has_header = is_v4 && matches!(covered, Covered::Header | Covered::Addresses);
        let upper = match covered {
            Covered::Addresses => Upper::of(view).filter(|upper| upper.has_pseudo_header),
            Covered::Upper => Upper::of(view),
            Covered::Nowhere | Covered::Header => None,
        };
        Self {
            sum: sum(frame, &words),
            words,
            header: has_header.then_some(l3 + ipv4::CHECKSUM_OFFSET),
            upper,
            is_behind_pseudo_header: covered == Covered::Upper,
        }
    }

    /// Updates them, now that the bytes have changed.
    pub(super) fn update(&self, frame: &mut [u8], state: UpperChecksum) {
        let new = sum(frame, &self.words);
        if let Some(field) = self.header.and_then(|at| field(frame, at)) {
            *field = update(u16::from_be_bytes(*field), self.sum, new).to_be_bytes();
        }
        let Some(upper) = self.upper else { return };
        let Some(field) = field(frame, upper.at) else { return };
        let old = u16::from_be_bytes(*field);
        match state {
            UpperChecksum::Open if self.is_behind_pseudo_header => {}
            // An open one is the sum itself, not its inverse.
            UpperChecksum::Open => *field = (!update(!old, self.sum, new)).to_be_bytes(),
            UpperChecksum::Closed if upper.may_be_none && old == 0 => {}
            UpperChecksum::Closed => {
                let checksum = update(old, self.sum, new);
                let other_zero = upper.may_be_none && checksum == 0;
                *field = if other_zero { u16::MAX } else { checksum }.to_be_bytes();
            }
        }
    }
}

fn field(frame: &mut [u8], at: usize) -> Option<&mut [u8; 2]> {
    frame.get_mut(at..)?.first_chunk_mut()
}

/// The sum of some bytes, those that the frame does not have being zero.
fn sum(frame: &[u8], words: &Range<usize>) -> Sum {
    let end = words.end.min(frame.len());
    Sum::of(frame.get(words.start.min(end)..end).unwrap_or_default())
}
