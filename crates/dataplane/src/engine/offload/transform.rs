//! From how packets leave to the kernel's operations. Knows both vocabularies; decides nothing.

use super::KernelPort;
use super::arrival::Arrival;
use crate::engine::action::effects::Leaving;
use crate::engine::action::gso_batch::entropy;
use crate::engine::packet::index::{NodeIndex, PortIndex};
use crate::engine::tables::Tables;
use crate::engine::vector::decision::Exit;
use catena_fastpath::{
    Guard, Operation, OuterHeader, Transform, TransformError, segments_template,
};
use catena_model::TunnelKind;
use catena_model::kernel::Declined;
use catena_model::program::{Locator, PROXY_MAC};
use catena_wire::frame::FrameView;
use catena_wire::ipv6::Ipv6Header;
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::{ethernet, ipv4, udp};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// Bytes of the outer headers behind Ethernet.
const OUTER_BYTES: usize = ipv4::HEADER_BYTES + udp::HEADER_BYTES;

/// A transform that does not count yet.
pub(super) struct Draft {
    transform: Transform,
    exit: Operation,
    /// Below which locator the segment is that packets leave for, if they do so by segments.
    pub(super) segments_to: Option<Locator>,
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
    if let Some(trim) = tunnels.trim()? {
        transform = transform.then(trim).map_err(declined)?;
    }
    for leaf in copies {
        let Exit::Port(port) = leaf.exit else { return Err(Declined::TapElsewhere) };
        let port = port_of(port).ok_or(Declined::NoInterface)?;
        transform = address(transform, &mut carried, leaf.destination.unwrap_or(view.destination))?;
        transform = transform.then(Operation::clone_to(port.interface)).map_err(declined)?;
    }
    transform = address(transform, &mut carried, last.destination.unwrap_or(view.destination))?;
    let mut segments_to = None;
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
        Exit::Node(_) if last.tunnel.is_segmented() => {
            let (pushing, exit, to) = tunnels.over_segments(transform, last)?;
            (transform, segments_to) = (pushing, Some(to));
            exit
        }
        Exit::Node(node) => {
            let (pushing, exit) = tunnels.by_tunnel(transform, last, node)?;
            transform = pushing;
            exit
        }
    };
    let leaves_node = matches!(last.exit, Exit::Node(_));
    if leaves_node && tunnels.changes_over(last) {
        return Err(Declined::Changeover);
    }
    if tunnels.may_be_marked_otherwise(last) {
        transform = transform.for_unmarked();
    }
    Ok(Draft { transform, exit, segments_to })
}

/// How the tunnels of this node look to the kernel.
pub(super) struct Tunnels<'t> {
    pub(super) tables: &'t Tables,
    pub(super) protocol: IpProtocol,
    /// What has brought the packet, or those of its path before they went into a function here; none: it is from an
    /// endpoint.
    pub(super) came: Option<Arrival>,
    /// It begins a path here.
    pub(super) is_classified: bool,
    /// Bytes of the tunnel's own header before the frame of a packet that came by one; 0: it came
    /// by a port.
    pub(super) taken_off: usize,
    /// None: the kernel sends nothing to other nodes.
    pub(super) underlay: Option<KernelUnderlay<'t>>,
}

impl Tunnels<'_> {
    /// Takes off what the packet came with; none: it came by a port.
    fn trim(&self) -> Result<Option<Operation>, Declined> {
        if self.taken_off == 0 {
            return Ok(None);
        }
        // The frame of a packet that segments have brought is made before it.
        let inner = self.taken_off + ethernet::HEADER_BYTES;
        let length = |bytes| u8::try_from(bytes).map_err(|_| Declined::LongHeader);
        Ok(Some(match self.came {
            Some(Arrival::Segments) => Operation::trim_segments(length(inner)?, PROXY_MAC),
            _ => Operation::trim(length(OUTER_BYTES + inner)?),
        }))
    }

    /// Bytes before the frame of a packet, as it enters.
    fn before_frame(&self) -> u32 {
        let outer = match self.came {
            _ if self.taken_off == 0 => 0,
            Some(Arrival::Segments) => ethernet::HEADER_BYTES,
            _ => ethernet::HEADER_BYTES + OUTER_BYTES,
        };
        u32::try_from(outer + self.taken_off).unwrap_or(u32::MAX)
    }

    /// Do super-frames leave by something else than they came by? They keep the mark of that, by which no kernel
    /// segments them behind this.
    fn changes_over(&self, leaving: &Leaving) -> bool {
        match (self.came, leaving.tunnel.is_segmented()) {
            (Some(Arrival::Segments), false) => self.protocol == IpProtocol::TCP,
            // Not every kernel can give what a tunnel has marked another family, as room for segments needs.
            (Some(Arrival::Tunnel), true) => true,
            _ => false,
        }
    }

    /// May something else than a path of ours have marked packets that begin one here, so that the mark must be looked
    /// for? An endpoint may send on what a path has brought it.
    fn may_be_marked_otherwise(&self, leaving: &Leaving) -> bool {
        if self.came.is_some() || self.tables.positions.own_segments().is_none() {
            return false;
        }
        let leaves_node = matches!(leaving.exit, Exit::Node(_));
        match leaves_node && leaving.tunnel.is_segmented() {
            true => true,
            false => self.protocol == IpProtocol::TCP && (leaves_node || self.is_classified),
        }
    }

    fn by_tunnel(
        &self,
        transform: Transform,
        leaving: &Leaving,
        node: NodeIndex,
    ) -> Result<(Transform, Operation), Declined> {
        let (IpAddr::V4(to), Some(underlay)) = (self.tables.node_address(node), self.underlay)
        else {
            return Err(Declined::Tunnel);
        };
        let outer = OuterHeader {
            source: underlay.address,
            destination: to,
            source_port: entropy(leaving.flow_hash),
            destination_port: leaving.tunnel.udp_port(),
        };
        let header = outer.with(&leaving.header).ok_or(Declined::LongHeader)?;
        let pushing = transform.then_push_tunnel(&header).map_err(declined)?;
        self.to_neighbour(pushing, underlay, header.len(), 0)
    }

    fn over_segments(
        &self,
        transform: Transform,
        leaving: &Leaving,
    ) -> Result<(Transform, Operation, Locator), Declined> {
        let underlay = self.underlay.ok_or(Declined::Tunnel)?;
        if matches!(leaving.tunnel, TunnelKind::Path(by) if by.is_compressed()) {
            return Err(Declined::Segmented);
        }
        let header = segments_template(&leaving.header).ok_or(Declined::Segmented)?;
        let to = Ipv6Header::parse(&header).map_err(|_| Declined::Segmented)?.0.destination;
        let to = Locator::of(to).ok().filter(|to| underlay.locators.contains(to));
        let to = to.filter(|_| leaving.replaces == ethernet::HEADER_BYTES);
        let to = to.ok_or(Declined::Segmented)?;
        let pushing = transform.then_push_segments(&header).map_err(declined)?;
        let (bounded, exit) =
            self.to_neighbour(pushing, underlay, header.len(), leaving.replaces)?;
        Ok((bounded, exit, to))
    }

    /// Sends what has headers of so many bytes in front, in the place of others of the frame, if the underlay takes it.
    fn to_neighbour(
        &self,
        pushing: Transform,
        underlay: KernelUnderlay<'_>,
        header_bytes: usize,
        replaces: usize,
    ) -> Result<(Transform, Operation), Declined> {
        let frame = (usize::from(underlay.mtu) + replaces).checked_sub(header_bytes);
        let frame =
            frame.and_then(|bytes| u32::try_from(bytes).ok()).ok_or(Declined::LongHeader)?;
        let frame = frame + self.before_frame();
        let bounded = pushing.bounded_by(frame, frame);
        Ok((bounded, Operation::transmit_to_neighbour(underlay.interface)))
    }
}

/// The underlay, as the kernel uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelUnderlay<'t> {
    /// Its interface.
    pub(super) interface: u32,
    /// The node's address there.
    pub(super) address: Ipv4Addr,
    /// Packets for segments below these leave by it.
    pub(super) locators: &'t BTreeSet<Locator>,
    /// Longest IP packet, in bytes.
    pub(super) mtu: u16,
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
