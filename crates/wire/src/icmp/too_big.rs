//! The answer to a packet that is too big for what lies ahead: ICMP «fragmentation needed» (RFC 792
//! with the size of RFC 1191 section 4), ICMPv6 «packet too big» (RFC 4443 section 3.2).
//!
//! Knows whom knowing would help and what the answer says. Refuses to know where it goes and how often
//! it is given.

use core::net::IpAddr;

use super::error_message::{ErrorMessage, IPV4_MESSAGE_BYTES_MAX, IPV6_MTU_MIN, Said};
use super::{IcmpV4Type, IcmpV6Type};
use crate::ipv4::Ipv4View;
use crate::scalar::MacAddr;

pub use super::error_message::FRAME_BYTES_MAX;

/// What every link of IPv4 takes (RFC 791 section 3.2).
const IPV4_MTU_MIN: u16 = 68;
const FRAGMENTATION_NEEDED: u8 = 4;

/// A packet that may be answered, and the size that would fit.
#[derive(Clone, Copy, Debug)]
pub struct TooBig<'f> {
    message: ErrorMessage<'f>,
    said: Said,
}

impl<'f> TooBig<'f> {
    /// Judges a frame as it would be on the wire, padding allowed. `mtu`: the longest IP packet that
    /// fits, in bytes. None: its sender must not be told ([`ErrorMessage::judge`]), or knowing would not
    /// help it, as when IPv4 may be fragmented or IPv6 is as short as it gets.
    #[must_use]
    pub fn judge(frame: &'f [u8], mtu: u16) -> Option<Self> {
        let message = ErrorMessage::judge(frame)?;
        let packet = message.packet();
        let (would_help, said) = match message.sender()? {
            IpAddr::V4(_) => {
                // Where the packet did not fit, its answer shall.
                let longest = IPV4_MESSAGE_BYTES_MAX.min(usize::from(mtu));
                let kind = IcmpV4Type::DESTINATION_UNREACHABLE.0;
                let said = Said { kind, code: FRAGMENTATION_NEEDED, rest: mtu.into(), longest };
                (mtu >= IPV4_MTU_MIN && Ipv4View::parse(packet).ok()?.dont_fragment(), said)
            }
            IpAddr::V6(_) => {
                // A sender that is told less makes no smaller packets (RFC 8201 section 4).
                let rest = mtu.max(IPV6_MTU_MIN).into();
                let kind = IcmpV6Type::PACKET_TOO_BIG.0;
                let said = Said { kind, code: 0, rest, longest: IPV6_MTU_MIN.into() };
                (packet.len() > usize::from(IPV6_MTU_MIN), said)
            }
        };
        would_help.then_some(Self { message, said })
    }

    /// The packet's sender.
    #[must_use]
    pub fn sender(&self) -> Option<IpAddr> {
        self.message.sender()
    }

    /// Writes the answer, as [`ErrorMessage::emit`] does.
    #[must_use]
    pub fn emit(&self, from: MacAddr, to: MacAddr, into: &mut [u8]) -> Option<usize> {
        self.message.emit(self.said, (from, to), into)
    }

    /// The addresses of the frame: whoever sent it, and to whom.
    #[must_use]
    pub fn macs(&self) -> (MacAddr, MacAddr) {
        self.message.macs()
    }
}
