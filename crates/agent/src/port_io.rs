//! How the data plane takes frames from a port's interface, where the kernel's program does not: by a
//! packet ring, by AF_XDP, or from a TAP that the agent makes. Opens what each needs; refuses to
//! look for interfaces of the node.

use crate::fast_path::Known;
use crate::open_error::OpenError;
use catena_kernel::attach::{FunctionNamespace, SwitchSide};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::{LinkInfo, Netlink};
use catena_kernel::{ethtool, packet, tap, xdp};
use catena_model::limits::TENANT_MTU_BYTES;
use catena_model::program::PortEntry;
use catena_protocol::message::PortKind;
use std::os::fd::OwnedFd;

/// What `rtnetlink` calls a TAP.
const TAP_KIND: &str = "tun";
/// What stands in front of the payload of a frame at most: addresses, a tag, a type.
const TAGGED_ETHERNET_BYTES: u32 = 18;

/// The kind of port of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortIo {
    /// A packet ring, or the kernel's program in front of it.
    #[default]
    PacketRing,
    /// AF_XDP, zero-copy where the driver can; goes past the kernel's program.
    Xdp,
    /// A TAP in the function's namespace; made with the port's MAC if it is not there.
    Tap,
}

/// What a data plane is given of a port.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) kind: PortKind,
    /// As the kind wants them.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Index of the interface on the node; 0: it is not there.
    pub(crate) interface: u32,
    /// Of a link, the longest frame that it carries; 0: super-frames come, too.
    pub(crate) frame_bytes_max: u32,
    /// How the kernel's program knows it, if it does.
    pub(crate) known: Option<Known>,
    /// The function's end finishes checksums now, which it did not before.
    pub(crate) has_changed_checksums: bool,
}

impl Given {
    /// A packet socket, which only sends where the kernel's program takes what comes.
    pub(crate) fn packet_socket(
        node: &NetNamespace,
        side: &SwitchSide,
        known: Option<Known>,
    ) -> Result<Self, OpenError> {
        let socket = match known {
            Some(_) => packet::open_sending_socket(node, &side.name)?,
            None => packet::open_packet_socket(node, &side.name)?,
        };
        Ok(Self {
            kind: PortKind::PacketRing,
            descriptors: vec![socket],
            interface: side.ifindex,
            frame_bytes_max: 0,
            known,
            has_changed_checksums: false,
        })
    }

    /// A packet socket that takes source routes alone, whatever ports are given, or nothing where the kernel's program
    /// takes them.
    pub(crate) fn link(
        node: &NetNamespace,
        link: &LinkInfo,
        known: Option<Known>,
    ) -> Result<Self, OpenError> {
        let socket = match known {
            Some(_) => packet::open_sending_socket(node, &link.name)?,
            None => packet::open_link_socket(node, &link.name)?,
        };
        Ok(Self {
            kind: PortKind::PacketRing,
            descriptors: vec![socket],
            interface: link.index,
            frame_bytes_max: longest_frame(link),
            known,
            has_changed_checksums: false,
        })
    }

    /// An AF_XDP socket on the node's side. XDP has no word for an open checksum, so the other end of
    /// a veth must finish its own.
    pub(crate) fn xdp(
        node: &NetNamespace,
        side: &SwitchSide,
        (function, interface): (&FunctionNamespace, &str),
    ) -> Result<Self, OpenError> {
        let queues = ethtool::receive_queues(node, &side.name)?;
        if queues > 1 {
            return Err(OpenError::Queues { interface: side.name.clone(), queues });
        }
        // Last comes what must be undone.
        let opened = xdp::open_xdp_socket(node, &side.name)?;
        let is_veth = side.function_mac.is_some();
        let has_changed_checksums = match function.open()? {
            Some(function) => finish_checksums(&function, interface)?,
            None if is_veth => return Err(OpenError::FarEnd { interface: side.name.clone() }),
            None => false,
        };
        Ok(Self {
            kind: PortKind::Xdp,
            descriptors: vec![opened.socket, opened.map, opened.link],
            interface: side.ifindex,
            frame_bytes_max: 0,
            known: None,
            has_changed_checksums,
        })
    }

    /// A TAP in the function's namespace.
    pub(crate) async fn tap(entry: &PortEntry, function: &NetNamespace) -> Result<Self, OpenError> {
        let interface = entry.attachment.name();
        let links = Netlink::open(function)?;
        let there = links.link(interface).await?;
        if let Some(other) = there.as_ref().filter(|link| link.kind != TAP_KIND) {
            let (interface, kind) = (interface.to_owned(), other.kind.clone());
            return Err(OpenError::NoTap { interface, kind });
        }
        let file = tap::open_tap(function, interface)?;
        if there.is_none() {
            links.set_mac_and_mtu(interface, entry.mac.0, TENANT_MTU_BYTES.into()).await?;
        }
        links.set_up(interface).await?;
        Ok(Self {
            kind: PortKind::Tap,
            descriptors: vec![file],
            interface: 0,
            frame_bytes_max: 0,
            known: None,
            has_changed_checksums: false,
        })
    }
}

/// The longest frame that a link carries, in bytes.
pub(crate) fn longest_frame(link: &LinkInfo) -> u32 {
    link.mtu.saturating_add(TAGGED_ETHERNET_BYTES)
}

/// Has the function's own end finish the checksums of what it sends; answers whether it did not.
fn finish_checksums(function: &NetNamespace, interface: &str) -> Result<bool, OpenError> {
    let leaves_them = ethtool::leaves_checksums(function, interface)?;
    if leaves_them {
        ethtool::leave_checksums(function, interface, false)?;
    }
    Ok(leaves_them)
}

/// Lets the function's own end leave checksums again.
pub(crate) fn leave_checksums(entry: &PortEntry, function: &FunctionNamespace) {
    let left = function.open().and_then(|function| match function {
        Some(function) => ethtool::leave_checksums(&function, entry.attachment.name(), true),
        None => Ok(()),
    });
    // A function that is gone took its interface with it.
    if let Err(error) = left
        && !error.is_not_found()
    {
        tracing::warn!(port = entry.name, "the function goes on finishing checksums: {error}");
    }
}
