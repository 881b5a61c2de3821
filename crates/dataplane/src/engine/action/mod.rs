//! What is done with packets, and the doing of it: actions, their compilation, and their execution, of which
//! plain packets need a part alone. Knows rewrites, headers, exits and what each step counts; refuses to
//! decide which action a packet meets.

pub(crate) mod actions;
mod compile;
pub(crate) mod context;
pub(crate) mod effects;
pub(crate) mod egress;
pub(crate) mod execute;
pub(crate) mod gso_batch;
pub(crate) mod output;
pub(crate) mod pathlets;
pub(crate) mod segment_lists;
pub(crate) mod too_big;

use crate::engine::account::slots::Slots;
use crate::engine::account::tx_batches::Ends;
use crate::engine::encap::{RouteHeader, SegmentsHeader, Template};
use crate::engine::packet::PortSlot;
use crate::engine::packet::index::{NodeIndex, PortIndex};
use crate::engine::tables::Tables;
use crate::engine::vector::decision::{ActionRef, Exit, Stage};
use crate::engine::vector::owner::{Owner, Passage, PathRef};
use catena_model::id::InstanceId;
use catena_model::program::PROXY_MAC;
use catena_model::topology::PortNumber;
use catena_model::{DropReason, TunnelKind};
use catena_wire::scalar::MacAddr;
use catena_wire::vxlan::VxlanHeader;
use std::net::IpAddr;

/// All that is done with a packet once its way is decided: what is written, what is remembered, where it leaves,
/// and by that what is counted. It depends on the tables that it was compiled from and on the
/// port's slot, and holds as long as they do.
#[derive(Clone)]
pub(crate) struct Action {
    pub(crate) exit: ActionExit,
    pub(crate) rewrite: Rewrite,
    /// Is it done with every packet at its hop that has nothing special, whatever else it shows?
    pub(crate) is_repeated: bool,
}

/// Where a packet leaves.
#[derive(Clone)]
pub(crate) enum ActionExit {
    /// By a tunnel to another node.
    Node { node: NodeIndex, to: IpAddr, tunnel: TunnelKind },
    /// By a link, on a source route to another node.
    Link { node: NodeIndex, number: PortNumber, slot: PortSlot, owner: Owner },
    /// Into an instance on this node.
    Instance(Instance),
    /// Out of a port, on no path.
    Port { port: PortIndex, slot: PortSlot, owner: Owner },
}

impl ActionExit {
    /// The same way by another link.
    pub(crate) fn by_link(&self, number: PortNumber, slot: PortSlot, owner: Owner) -> Self {
        match self {
            Self::Link { node, .. } => Self::Link { node: *node, number, slot, owner },
            other => other.clone(),
        }
    }
}

/// What is written into a packet.
#[derive(Clone)]
pub(crate) enum Rewrite {
    Nothing,
    /// A header stands in front of its frame.
    Header(Template),
    /// The ports of its way stand in it.
    Route {
        header: RouteHeader,
        /// The instance that it leads to, by its place among those of the hop.
        instance: u16,
        /// Flows meet several instances further on, and have headers of their own.
        by_flow: bool,
    },
    /// The segments of its way stand before it, or in the place of its Ethernet header.
    Segments {
        /// None: flows meet several instances further on, and have headers of their own.
        header: Option<SegmentsHeader>,
        /// The instance that it leads to, by its place among those of the hop.
        instance: u16,
    },
    /// What is left of its source route stands in it for a function that reads that, at this address.
    Given {
        destination: MacAddr,
    },
    /// Its MACs are others; none: the source stays.
    Macs {
        destination: MacAddr,
        source: Option<MacAddr>,
        memory: Option<Memory>,
    },
}

/// What the proxy's memory keeps of a packet that goes into a function that knows nothing of chains: by which
/// port, with the serial by which the memory knows it, it will come out, and the VNI of its network.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) egress: PortIndex,
    pub(crate) serial: u32,
    pub(crate) network: u32,
}

/// An instance on this node.
#[derive(Clone, Copy)]
pub(crate) struct Instance {
    /// The port towards it.
    pub(crate) port: PortIndex,
    pub(crate) slot: PortSlot,
    pub(crate) owner: Owner,
    /// Its number among those of the path.
    pub(crate) local: u32,
    pub(crate) id: InstanceId,
    /// Index among those that are watched.
    pub(crate) watch: Option<u32>,
    /// The port that it sends from, if the program has it.
    pub(crate) egress: Option<PortIndex>,
    /// What comes back by that port may be of another network, or of a user who is on another path.
    pub(crate) is_met: bool,
    pub(crate) is_shared_by_slices: bool,
}

impl Action {
    /// That of a packet on no path.
    ///
    /// # Errors
    /// The network header cannot be written.
    fn ordinary(action: ActionRef, tables: &Tables, slots: &Slots) -> Result<Self, DropReason> {
        let (exit, rewrite) = match action {
            ActionRef::Hop(_) => return Err(DropReason::NoPath),
            ActionRef::Port(port) => {
                let (slot, owner) = (slots.of_index(port), slots.owner_of_index(port));
                (ActionExit::Port { port, slot, owner }, Rewrite::Nothing)
            }
            ActionRef::Network(network, node) => {
                let mut header = [0; VxlanHeader::LEN];
                let emitted = VxlanHeader { vni: tables.network(network).vni }.emit(&mut header);
                emitted.map_err(|_| DropReason::MalformedVxlan)?;
                let (to, tunnel) = (tables.node_address(node), TunnelKind::Vxlan);
                let exit = ActionExit::Node { node, to, tunnel };
                (exit, Rewrite::Header(Template::fixed(&header)))
            }
        };
        Ok(Self { exit, rewrite, is_repeated: true })
    }

    /// Where it leads.
    pub(crate) fn exit(&self) -> Exit {
        match &self.exit {
            ActionExit::Node { node, .. } => Exit::Node(*node),
            ActionExit::Link { node, number, .. } => Exit::Link(*node, *number),
            ActionExit::Instance(Instance { port, .. }) | ActionExit::Port { port, .. } => {
                Exit::Port(*port)
            }
        }
    }

    /// How the counters of a path see it.
    pub(crate) fn stage(&self) -> Stage {
        match &self.exit {
            ActionExit::Node { tunnel: TunnelKind::Path(_), .. } | ActionExit::Link { .. } => {
                Stage::Between
            }
            ActionExit::Instance(instance) => Stage::Into(instance.local),
            ActionExit::Node { .. } | ActionExit::Port { .. } => Stage::Ordinary,
        }
    }

    /// Between whom a packet of this owner is counted as sent; `path`: whose counters see it.
    pub(crate) fn ends(&self, owner: Owner, path: Option<PathRef>) -> Ends {
        let on_path = self.ends_on(owner, path.unwrap_or_default());
        if path.is_some() { on_path } else { Ends { passage: Passage::Ordinary, ..on_path } }
    }

    /// The same for a packet that is on a path.
    #[inline(always)]
    pub(crate) fn ends_on(&self, owner: Owner, path: PathRef) -> Ends {
        let (to, passage) = match &self.exit {
            ActionExit::Node { tunnel: TunnelKind::Path(_), .. } => {
                (Owner::Tunnels, Passage::Tunnelled(path))
            }
            ActionExit::Node { tunnel: TunnelKind::Vxlan, .. } => {
                (Owner::Tunnels, Passage::Ordinary)
            }
            ActionExit::Link { owner, .. } => (*owner, Passage::Tunnelled(path)),
            ActionExit::Instance(Instance { owner, local, .. }) => {
                (*owner, Passage::Delivered(path, *local))
            }
            ActionExit::Port { owner, .. } => (*owner, Passage::Ordinary),
        };
        Ends { owner, to, passage }
    }

    /// Bytes by which a frame without metadata is longer.
    #[inline(always)]
    pub(crate) fn header_bytes(&self) -> usize {
        match &self.rewrite {
            Rewrite::Header(header) => header.len(),
            Rewrite::Segments { header: Some(header), .. } => header.added_bytes(),
            Rewrite::Nothing
            | Rewrite::Macs { .. }
            | Rewrite::Route { .. }
            | Rewrite::Segments { header: None, .. }
            | Rewrite::Given { .. } => 0,
        }
    }

    /// The MACs that it writes over those of a frame, destination and source; none: that stays. `addressed`: the
    /// MAC that a packet is addressed to where the action names none.
    #[inline(always)]
    pub(crate) fn macs(&self, addressed: Option<MacAddr>) -> (Option<MacAddr>, Option<MacAddr>) {
        match self.rewrite {
            Rewrite::Nothing
            | Rewrite::Header(_)
            | Rewrite::Route { .. }
            | Rewrite::Segments { .. } => (addressed, None),
            Rewrite::Macs { destination, source, .. } => (Some(destination), source),
            // Whoever answers the sender answers the proxy.
            Rewrite::Given { destination } => (Some(destination), Some(PROXY_MAC)),
        }
    }

    /// What the proxy's memory keeps of a packet.
    pub(crate) fn memory(&self) -> Option<Memory> {
        match self.rewrite {
            Rewrite::Macs { memory, .. } => memory,
            Rewrite::Nothing
            | Rewrite::Header(_)
            | Rewrite::Route { .. }
            | Rewrite::Segments { .. }
            | Rewrite::Given { .. } => None,
        }
    }
}
