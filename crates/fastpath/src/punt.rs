//! The tag of a frame on its way up to the engine: an 802.1ad tag in front of whatever tags it has,
//! which says where it came in and why it goes up. Knows the sixteen bits; refuses to know frames.

use crate::records::{Event, UNDERLAY_NUMBER, UNDERLAY_SHARES};
use std::net::IpAddr;

/// What the tag of a punted frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuntTag {
    /// Where it came in.
    pub from: PuntedFrom,
    /// Why it goes up; [`Event::Waiting`] says that it was counted by the gate of its flow.
    pub cause: Event,
}

/// Where a punted frame came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntedFrom {
    /// The port with this number.
    Port(u16),
    /// The underlay, on the share with this number: the frame has all headers of the tunnel.
    Underlay(u16),
}

impl PuntedFrom {
    /// Who sends from an address that is no node's: however many he says to have, they have one share.
    pub const STRANGERS: Self = Self::Underlay(UNDERLAY_NUMBER);

    /// The tunnels of a node.
    #[must_use]
    pub const fn node(address: IpAddr) -> Self {
        let last = match address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(address) => address.octets()[15],
        };
        let share = last as u16 & (UNDERLAY_SHARES - 1);
        Self::Underlay(UNDERLAY_NUMBER + 1 + share)
    }

    /// The number of its queue.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Port(number) | Self::Underlay(number) => number,
        }
    }
}

impl PuntTag {
    /// EtherType of the tag.
    pub const ETHER_TYPE: u16 = 0x88a8;
    const NUMBER_MASK: u16 = 0x0fff;
    const CAUSE_SHIFT: u32 = 13;

    /// Reads the tag control information; `None` if the program does not make it.
    #[must_use]
    pub fn parse(control: u16) -> Option<Self> {
        let cause = Event::of((control >> Self::CAUSE_SHIFT) as u8)?;
        let from = match control & Self::NUMBER_MASK {
            0 => return None,
            number if number >= UNDERLAY_NUMBER => PuntedFrom::Underlay(number),
            number => PuntedFrom::Port(number),
        };
        Some(Self { from, cause })
    }

    /// The tag control information.
    #[must_use]
    pub const fn control(self) -> u16 {
        self.from.number() & Self::NUMBER_MASK | (self.cause as u16) << Self::CAUSE_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::PORT_NUMBER_MAX;

    #[test]
    fn every_cause_of_a_punt_fits_the_priority_of_the_tag_and_comes_back() {
        let causes = [
            Event::Miss,
            Event::Stale,
            Event::Waiting,
            Event::Unkeyed,
            Event::Unfit,
            Event::Watched,
        ];
        for cause in causes {
            let node = PuntedFrom::node(std::net::Ipv4Addr::BROADCAST.into());
            let ports = [PuntedFrom::Port(1), PuntedFrom::Port(PORT_NUMBER_MAX)];
            for from in ports.into_iter().chain([PuntedFrom::STRANGERS, node]) {
                let tag = PuntTag { from, cause };
                assert_eq!(PuntTag::parse(tag.control()), Some(tag));
            }
        }
        assert_eq!(PuntTag::parse(0x2000), None, "no port has number 0");
    }
}
