//! What packets of one flow may show differently from one to the next.
//!
//! Knows the code point of differentiated services and the flags of TCP. Refuses to know who asks.

use crate::scalar::IpProtocol;
use crate::tcp::TcpFlags;

/// What a packet shows beside its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VaryingFields {
    /// Differentiated services code point (RFC 2474 section 3); 0 unless IP.
    pub dscp: u8,
    /// Flags of TCP; none: it carries no TCP, or ends before them, as a later fragment does.
    pub tcp_flags: Option<TcpFlags>,
}

impl VaryingFields {
    /// Bits below the code point in the traffic class: those of ECN (RFC 3168 section 5).
    const ECN_BITS: u32 = 2;

    /// Those of a packet with this traffic class, whose upper layer begins with these bytes.
    #[inline]
    pub(crate) fn of(traffic_class: u8, protocol: IpProtocol, upper: &[u8]) -> Self {
        let flags = upper.get(crate::tcp::FLAGS_OFFSET).filter(|_| protocol == IpProtocol::TCP);
        Self {
            dscp: traffic_class >> Self::ECN_BITS,
            tcp_flags: flags.map(|flags| TcpFlags(*flags)),
        }
    }

    /// The traffic class of a packet with this code point, without ECN.
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        self.dscp << Self::ECN_BITS
    }
}
