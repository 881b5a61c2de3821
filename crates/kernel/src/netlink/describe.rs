//! What the kernel says of a link, as one plain value.
//! It refuses to ask for anything; it only reads an answer.

use rtnetlink::packet_route::link::{
    LinkAttribute, LinkFlags, LinkInfo as Information, LinkMessage,
};

/// The bytes of a MAC address in the order they are sent.
pub type MacBytes = [u8; 6];

/// Counters of an interface since it was made, as the kernel keeps them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// Frames received. A super-frame counts once.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames sent. A super-frame counts once.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames received and dropped before the stack.
    pub rx_dropped: u64,
    /// Frames dropped instead of sent.
    pub tx_dropped: u64,
}

/// A link as it is at the moment of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    /// Index inside its namespace.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// Hardware address, for links that have one of six bytes.
    pub mac: Option<MacBytes>,
    /// Largest payload of a frame, in bytes.
    pub mtu: u32,
    /// Index of the link it is tied to (a veth's peer, a VLAN's parent), in *that* link's namespace.
    pub peer_index: Option<u32>,
    /// Number of the other link's namespace as seen from here; none if it is in this one.
    pub peer_netns_id: Option<i32>,
    /// Index of the bridge it is a port of.
    pub master_index: Option<u32>,
    /// Whether it was set up.
    pub is_up: bool,
    /// Whether it can send now: up, and for a veth the other end up too.
    pub has_carrier: bool,
    /// Kind: `veth`, `bridge`, …; empty for hardware.
    pub kind: String,
    /// Counters.
    pub statistics: LinkStatistics,
}

impl LinkInfo {
    /// Whether it is one end of a virtual Ethernet pair.
    pub fn is_veth(&self) -> bool {
        self.kind == "veth"
    }

    pub(super) fn from_message(message: &LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut link = Self {
            index: message.header.index,
            name: String::new(),
            mac: None,
            mtu: 0,
            peer_index: None,
            peer_netns_id: None,
            master_index: None,
            is_up: flags.contains(LinkFlags::Up),
            has_carrier: flags.contains(LinkFlags::LowerUp),
            kind: String::new(),
            statistics: LinkStatistics::default(),
        };
        for attribute in &message.attributes {
            link.take(attribute);
        }
        link
    }

    fn take(&mut self, attribute: &LinkAttribute) {
        match attribute {
            LinkAttribute::IfName(name) => self.name.clone_from(name),
            LinkAttribute::Address(bytes) => self.mac = bytes.as_slice().try_into().ok(),
            LinkAttribute::Mtu(bytes) => self.mtu = *bytes,
            // A loopback or a bridge is «tied» to itself or to nothing (0).
            LinkAttribute::Link(index) => self.peer_index = (*index != 0).then_some(*index),
            LinkAttribute::LinkNetNsId(id) => self.peer_netns_id = Some(*id),
            LinkAttribute::Controller(index) => self.master_index = Some(*index),
            LinkAttribute::LinkInfo(parts) => {
                for part in parts {
                    if let Information::Kind(kind) = part {
                        self.kind = kind.to_string();
                    }
                }
            }
            LinkAttribute::Stats64(counters) => {
                self.statistics = LinkStatistics {
                    rx_packets: counters.rx_packets,
                    rx_bytes: counters.rx_bytes,
                    tx_packets: counters.tx_packets,
                    tx_bytes: counters.tx_bytes,
                    rx_dropped: counters.rx_dropped,
                    tx_dropped: counters.tx_dropped,
                };
            }
            _ => {}
        }
    }
}
