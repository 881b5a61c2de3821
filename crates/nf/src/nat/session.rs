//! What is known of one flow. Knows how long it is kept, by what its packets say (RFC 6146 section 3.5.2.2, of which
//! this is the part that timeouts need); refuses to know addresses.

use crate::packet::Time;
use catena_rules::nat::NatTimeouts;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;

/// How long a flow is kept behind its last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Wait {
    Udp,
    Icmp,
    Established,
    Transitory,
}

impl Wait {
    pub(super) const ALL: [Self; 4] = [Self::Udp, Self::Icmp, Self::Established, Self::Transitory];
    pub(super) const COUNT: usize = Self::ALL.len();

    pub(super) const fn time(self, timeouts: &NatTimeouts) -> Time {
        Time::seconds(match self {
            Self::Udp => timeouts.udp_s,
            Self::Icmp => timeouts.icmp_s,
            Self::Established => timeouts.tcp_established_s,
            Self::Transitory => timeouts.tcp_transitory_s,
        })
    }
}

/// Which side a packet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Inside,
    Outside,
}

/// What was seen of a flow; of protocols other than TCP, nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(pub(super) u8);

impl Seen {
    const SYN_INSIDE: u8 = 1;
    const SYN_OUTSIDE: u8 = 2;
    const OPEN: u8 = Self::SYN_INSIDE | Self::SYN_OUTSIDE;
    const FIN_INSIDE: u8 = 4;
    const FIN_OUTSIDE: u8 = 8;
    const CLOSED: u8 = Self::FIN_INSIDE | Self::FIN_OUTSIDE;
    const RESET: u8 = 16;

    /// That of a flow that begins with such a segment from inside. One that answers a SYN has seen it pass.
    pub(super) fn begun(flags: TcpFlags) -> Self {
        let is_answer = flags.has_any(TcpFlags::SYN) && flags.has_any(TcpFlags::ACK);
        Self(if is_answer { Self::SYN_OUTSIDE } else { 0 }).after(flags, Origin::Inside)
    }

    /// With another segment.
    pub(super) fn after(self, flags: TcpFlags, from: Origin) -> Self {
        let (syn, fin) = match from {
            Origin::Inside => (Self::SYN_INSIDE, Self::FIN_INSIDE),
            Origin::Outside => (Self::SYN_OUTSIDE, Self::FIN_OUTSIDE),
        };
        if flags.has_any(TcpFlags::RST) {
            return Self(self.0 | Self::RESET);
        }
        // Whoever goes on after a reset has not got it (RFC 6146 section 3.5.2.2, state TRANS).
        let mut seen = self.0 & !Self::RESET;
        if flags.has_any(TcpFlags::SYN) {
            let is_over = seen & Self::CLOSED == Self::CLOSED || self.0 & Self::RESET != 0;
            let is_asking = !flags.has_any(TcpFlags::ACK);
            seen = if is_over && is_asking { syn } else { seen | syn };
        }
        if flags.has_any(TcpFlags::FIN) {
            seen |= fin;
        }
        Self(seen)
    }

    pub(super) fn wait(self, protocol: IpProtocol) -> Wait {
        match protocol {
            IpProtocol::UDP => Wait::Udp,
            IpProtocol::ICMP => Wait::Icmp,
            _ => {
                let is_open = self.0 & Self::OPEN == Self::OPEN;
                let is_over = self.0 & Self::CLOSED == Self::CLOSED || self.0 & Self::RESET != 0;
                if is_open && !is_over { Wait::Established } else { Wait::Transitory }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);

    fn wait(segments: &[(TcpFlags, Origin)]) -> Wait {
        let (first, rest) = segments.split_first().unwrap();
        let begun = Seen::begun(first.0);
        rest.iter()
            .fold(begun, |seen, (flags, from)| seen.after(*flags, *from))
            .wait(IpProtocol::TCP)
    }

    #[test]
    fn a_connection_is_kept_longer_while_it_is_open() {
        use Origin::{Inside, Outside};
        let opened = [(TcpFlags::SYN, Inside), (SYN_ACK, Outside), (TcpFlags::ACK, Inside)];
        let and = |more: &[(TcpFlags, Origin)]| wait(&[&opened[..], more].concat());
        assert_eq!(wait(&opened[..1]), Wait::Transitory);
        assert_eq!(wait(&opened[..2]), Wait::Established);
        assert_eq!(and(&[(TcpFlags::FIN, Inside)]), Wait::Established);
        assert_eq!(and(&[(TcpFlags::FIN, Inside), (TcpFlags::FIN, Outside)]), Wait::Transitory);
        assert_eq!(and(&[(TcpFlags::RST, Outside)]), Wait::Transitory);
        assert_eq!(and(&[(TcpFlags::RST, Outside), (TcpFlags::ACK, Inside)]), Wait::Established);
        // Data that nobody has asked for opens nothing.
        assert_eq!(wait(&[(TcpFlags::SYN, Inside), (TcpFlags::ACK, Outside)]), Wait::Transitory);
        // The same ports once more.
        let again = [(TcpFlags::FIN, Inside), (TcpFlags::FIN, Outside), (TcpFlags::SYN, Inside)];
        assert_eq!(and(&again), Wait::Transitory);
        assert_eq!(and(&[&again[..], &[(SYN_ACK, Outside)]].concat()), Wait::Established);
        // What is opened from outside is known by its answer.
        assert_eq!(wait(&[(SYN_ACK, Inside)]), Wait::Established);
    }
}
