//! From how packets leave to the kernel's operations. Knows both vocabularies; decides nothing.

use super::KernelPort;
use crate::engine::action::effects::Leaving;
use crate::engine::action::gso_batch::entropy;
use crate::engine::packet::index::PortIndex;
use crate::engine::tables::Tables;
use crate::engine::vector::decision::Exit;
use catena_fastpath::{Guard, Operation, OuterHeader, Transform, TransformError};
use catena_model::kernel::Declined;
use catena_wire::frame::FrameView;
use catena_wire::scalar::MacAddr;
use catena_wire::{ethernet, ipv4, udp};
use std::net::{IpAddr, Ipv4Addr};

/// Bytes of the outer headers behind Ethernet.
const OUTER_BYTES: usize = ipv4::HEADER_BYTES + udp::HEADER_BYTES;

/// A transform that does not count yet.
pub(super) struct Draft {
    transform: Transform,
    exit: Operation,
}

impl Draft {
    /// The transform, counting in this account.
    pub(super) fn counting(self, account: u32) -> Result<Transform, Declined> {
        let counted = self.transform.then(Operation::count(account));
        counted.and_then(|transform| transform.then(self.exit)).map_err(declined)
    }
}

/// Writes down how a packet leaves, its copies first. `port_of`: the interface of a port.
pub(super) fn draft(
    leaves: &[Leaving],
    guards: &[Guard],
    view: &FrameView,
    tunnels: &Tunnels<'_>,
    port_of: &dyn Fn(PortIndex) -> Option<KernelPort>,
) -> Result<Draft, Declined> {
    let mut transform = Transform::default();
    for guard in guards {
        transform = transform.guarded_by(*guard).map_err(declined)?;
    }
    let (last, copies) = leaves.split_last().ok_or(Declined::Dropped)?;
    let mut carried = view.destination;
    if tunnels.taken_off > 0 {
        let bytes = OUTER_BYTES + tunnels.taken_off + ethernet::HEADER_BYTES;
        let bytes = u8::try_from(bytes).map_err(|_| Declined::LongHeader)?;
        transform = transform.then(Operation::trim(bytes)).map_err(declined)?;
    }
    for leaf in copies {
        let Exit::Port(port) = leaf.exit else { return Err(Declined::TapElsewhere) };
        let port = port_of(port).ok_or(Declined::NoInterface)?;
        transform = address(transform, &mut carried, leaf.destination.unwrap_or(view.destination))?;
        transform = transform.then(Operation::clone_to(port.interface)).map_err(declined)?;
    }
    transform = address(transform, &mut carried, last.destination.unwrap_or(view.destination))?;
    let exit = match last.exit {
        Exit::Port(port) => {
            let port = port_of(port).ok_or(Declined::NoInterface)?;
            if port.has_peer && tunnels.taken_off == 0 {
                Operation::hand_over(port.interface)
            } else {
                Operation::transmit(port.interface)
            }
        }
        Exit::Link(..) => return Err(Declined::SourceRouted),
        Exit::Node(_) if last.tunnel.is_segmented() => return Err(Declined::Segmented),
        Exit::Node(node) => {
            let to = tunnels.tables.node_address(node);
            let (IpAddr::V4(to), Some(underlay)) = (to, tunnels.underlay) else {
                return Err(Declined::Tunnel);
            };
            let outer = OuterHeader {
                source: underlay.address,
                destination: to,
                source_port: entropy(last.flow_hash),
                destination_port: last.tunnel.udp_port(),
            };
            let header_bytes = last.header.len();
            let header = outer.with(&last.header).ok_or(Declined::LongHeader)?;
            transform = transform.then_push_tunnel(&header).map_err(declined)?;
            let frame = underlay.frame_bytes_max(header_bytes).ok_or(Declined::LongHeader)?;
            let frame = frame + tunnels.before_frame();
            transform = transform.bounded_by(frame, frame);
            Operation::transmit_to_neighbour(underlay.interface)
        }
    };
    Ok(Draft { transform, exit })
}

/// How the tunnels of this node look to the kernel.
pub(super) struct Tunnels<'t> {
    pub(super) tables: &'t Tables,
    /// Bytes of the tunnel's own header before the frame of a packet that came by one; 0: it came
    /// by a port.
    pub(super) taken_off: usize,
    /// None: the kernel sends nothing to other nodes.
    pub(super) underlay: Option<KernelUnderlay>,
}

impl Tunnels<'_> {
    /// Bytes before the frame of a packet, as it enters.
    fn before_frame(&self) -> u32 {
        let outer = if self.taken_off > 0 { ethernet::HEADER_BYTES + OUTER_BYTES } else { 0 };
        u32::try_from(outer + self.taken_off).unwrap_or(u32::MAX)
    }
}

/// The underlay, as the kernel uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelUnderlay {
    /// Its interface.
    pub(super) interface: u32,
    /// The node's address there.
    pub(super) address: Ipv4Addr,
    /// Longest IP packet, in bytes.
    pub(super) mtu: u16,
}

impl KernelUnderlay {
    /// Longest frame that fits behind so many bytes of a tunnel's own header.
    fn frame_bytes_max(&self, header_bytes: usize) -> Option<u32> {
        let rest = usize::from(self.mtu).checked_sub(OUTER_BYTES + header_bytes)?;
        u32::try_from(rest).ok()
    }
}

/// Writes a destination, if the frame does not carry it already.
fn address(
    transform: Transform,
    carried: &mut MacAddr,
    wanted: MacAddr,
) -> Result<Transform, Declined> {
    if *carried == wanted {
        return Ok(transform);
    }
    *carried = wanted;
    transform.then(Operation::set_destination(wanted)).map_err(declined)
}

fn declined(error: TransformError) -> Declined {
    match error {
        TransformError::Guards => Declined::TooManyGuards,
        TransformError::Template => Declined::LongHeader,
        TransformError::Operations
        | TransformError::Exit
        | TransformError::Bytes(_)
        | TransformError::Kind(_) => Declined::Refused,
    }
}
