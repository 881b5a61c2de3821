//! From what a rehearsal saw to steps in the user's names. Knows which entry of the program an
//! index stands for; refuses to decide anything.

use super::describe;
use crate::engine::action::effects::{Effect, Leaving, Noted};
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex, SliceIndex};
use crate::engine::tables::Tables;
use crate::engine::tables::path::InstancePlace;
use crate::engine::vector::decision::{Exit, Stage};
use catena_model::explain::{
    ExplainAction, ExplainStep, FlowShare, FrameBytes, Header, Place, SliceUser, WrittenMacs,
};
use catena_model::id::ChainId;
use catena_model::program::{HopKind, WhenAway};
use catena_model::topology::PortNumber;
use catena_model::{DropReason, NodeName, TunnelKind};
use catena_search::has_ports;
use catena_wire::flow::FlowKey;
use catena_wire::nsh::UserContext;
use catena_wire::{ethernet, ipv4, ipv6, udp};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// What a rehearsal saw, in order.
pub(crate) enum Event {
    /// A stage decided.
    Noted(Noted),
    /// A source route leads on by the link of this number, with these bytes; under a header that was written here, to
    /// this node.
    PassedOn { by: PortNumber, frame: Vec<u8>, written_to: Option<NodeName> },
    /// One is at its end, at a port.
    CameOut { port: PortIndex, frame: Vec<u8> },
    /// The packet came back from the local instance with this number; an aware one set this index.
    Assumed { position: PathPosition, local: u32, index: Option<u8> },
    /// It went on for too long.
    Stopped,
}

/// The steps of a packet behind the first, in the user's names.
pub(crate) fn steps(tables: &Tables, first: Vec<ExplainStep>, story: &[Event]) -> Vec<ExplainStep> {
    let mut renderer = Renderer { tables, positions: BTreeMap::new(), steps: first };
    story.iter().for_each(|event| renderer.add(event));
    renderer.steps
}

/// What came by a tunnel, and from whom.
pub(crate) fn received(
    tables: &Tables,
    kind: TunnelKind,
    source: IpAddr,
    bytes: &[u8],
) -> ExplainAction {
    let header = describe::tunnelled(kind, bytes);
    let from = tables.sender(kind, source);
    let from = from.and_then(|node| tables.nodes.get(node.0.into()).name.clone());
    ExplainAction::Received { from, header }
}

/// What came by a link, and out of a port here.
pub(crate) fn came_out(tables: &Tables, port: PortIndex, frame: &[u8]) -> ExplainAction {
    let port = tables.port(port).entry.name.clone();
    ExplainAction::CameOut { port, header: describe::on_link(frame) }
}

/// Decisions that were noted, in the user's names.
pub(crate) fn actions(tables: &Tables, notes: &[Noted]) -> Vec<ExplainAction> {
    let mut renderer = Renderer { tables, positions: BTreeMap::new(), steps: Vec::new() };
    for noted in notes {
        renderer.add(&Event::Noted(noted.clone()));
    }
    renderer.steps.into_iter().map(|step| step.action).collect()
}

struct Renderer<'r> {
    tables: &'r Tables,
    /// Where each copy is on its path.
    positions: BTreeMap<u16, PathPosition>,
    steps: Vec<ExplainStep>,
}

impl Renderer<'_> {
    fn add(&mut self, event: &Event) {
        let (copy, action) = match event {
            Event::Noted(Noted { copy, effect }) => {
                if let Effect::Chosen { position, .. } = effect {
                    self.positions.insert(*copy, *position);
                }
                let Some(action) = self.action(*copy, effect) else { return };
                (*copy, action)
            }
            Event::Assumed { position, local, index } => {
                let place = self.tables.positions.place(*position);
                let local = &self.tables.path(place.path).local_instances[*local as usize];
                let port = local.egress.map_or_else(String::new, |port| self.port(port));
                let (instance, index) = (local.name.clone(), *index);
                (0, ExplainAction::Assumed { instance, port, index })
            }
            Event::PassedOn { by, frame, written_to } => {
                let (header, written_to) = (describe::on_link(frame), written_to.clone());
                (0, ExplainAction::PassedOn { by: *by, header, written_to })
            }
            Event::CameOut { port, frame } => (0, came_out(self.tables, *port, frame)),
            Event::Stopped => {
                let why = "it goes round in circles at this node: the explanation ends here";
                (0, ExplainAction::Stopped { why: why.to_owned() })
            }
        };
        self.steps.push(ExplainStep::new(copy, action));
    }

    /// None: it says nothing that the others do not say.
    fn action(&self, copy: u16, effect: &Effect) -> Option<ExplainAction> {
        Some(match effect {
            Effect::Counted(_) | Effect::Known { .. } | Effect::Remembered { .. } => return None,
            Effect::Classified { port, rule, start } => self.classified(*port, *rule, *start),
            Effect::Sliced { port, slice, shown, start } => {
                self.sliced(*port, *slice, *shown, *start)
            }
            Effect::Branched { ended, rule, start } => self.branched(*ended, *rule, *start),
            Effect::Unclassified { port, never } => {
                ExplainAction::Unclassified { port: self.port(*port), is_never: *never }
            }
            Effect::Asked { port, start, away } => self.asked(*port, *start, *away),
            Effect::Chosen { position, instance, flow_hash } => {
                self.forwarded(*position, *instance, *flow_hash)
            }
            Effect::Bypassed { position, instance } => self.bypassed(*position, *instance),
            Effect::Judged { position, local, rules, ends, becomes } => {
                self.judged((*position, *local), rules, *ends, becomes.as_ref())
            }
            Effect::Recalled { port, position } => self.recalled(*port, *position, false),
            Effect::Returned { port, position } => self.recalled(*port, *position, true),
            Effect::OwnTraffic { port } => ExplainAction::OwnTraffic { port: self.port(*port) },
            Effect::Answered { port } => ExplainAction::Answered { port: self.port(*port) },
            Effect::Finished { position, network, resolved } => ExplainAction::Finished {
                path: self.tables.positions.id(*position),
                network: self.network(*network),
                mac: *resolved,
            },
            Effect::Switched { network, destination } => {
                ExplainAction::Switched { network: self.network(*network), mac: *destination }
            }
            Effect::Leaves(leaving) => self.leaves(copy, leaving),
            Effect::Dropped { reason } => ExplainAction::Dropped { reason: *reason },
        })
    }

    fn classified(&self, port: PortIndex, rule: u32, start: PathPosition) -> ExplainAction {
        let entry = self.tables.rules.entry(rule);
        let path = self.tables.path(self.tables.positions.place(start).path);
        let id = self.tables.positions.id(start);
        ExplainAction::Classified {
            rule: entry.map_or_else(String::new, |entry| entry.name.clone()),
            priority: entry.map_or(0, |entry| entry.priority),
            port: self.port(port),
            chain: chain_name(self.tables, path.chain),
            path: id,
            pinned_from: entry.map(|entry| entry.path).filter(|new| *new != id),
        }
    }

    fn sliced(
        &self,
        port: Option<PortIndex>,
        slice: SliceIndex,
        shown: UserContext,
        start: PathPosition,
    ) -> ExplainAction {
        let entry = self.tables.slices.get(slice);
        let path = self.tables.path(self.tables.positions.place(start).path);
        ExplainAction::Sliced {
            slice: entry.map_or_else(String::new, |entry| entry.name.to_string()),
            port: port.map(|port| self.port(port)),
            user: SliceUser { tunnel_id: shown.tunnel_id, teid: shown.teid, qfi: shown.qfi },
            chain: chain_name(self.tables, path.chain),
            path: self.tables.positions.id(start),
            is_injected: entry.is_some_and(|entry| entry.is_injected),
        }
    }

    fn branched(&self, ended: PathPosition, rule: u32, start: PathPosition) -> ExplainAction {
        let path = |position| self.tables.path(self.tables.positions.place(position).path);
        let entry = self.tables.rules.entry(rule);
        let (before, path) = (path(ended), path(start));
        let id = self.tables.positions.id(start);
        ExplainAction::Branched {
            after: chain_name(self.tables, before.chain),
            rule: entry.map_or_else(String::new, |entry| entry.name.clone()),
            chain: chain_name(self.tables, path.chain),
            path: id,
            pinned_from: entry.map(|entry| entry.path).filter(|new| *new != id),
        }
    }

    fn asked(&self, port: PortIndex, start: PathPosition, away: WhenAway) -> ExplainAction {
        let path = self.tables.path(self.tables.positions.place(start).path);
        let chain = chain_name(self.tables, path.chain);
        ExplainAction::Asked { port: self.port(port), chain, path: path.id, away }
    }

    fn forwarded(&self, position: PathPosition, instance: usize, flow_hash: u64) -> ExplainAction {
        let tables = self.tables;
        let place = tables.positions.place(position);
        let (path, hop) = (tables.path(place.path), usize::from(place.hop));
        let entry = &path.entry.hops[hop];
        let chosen = &entry.instances[instance];
        let place = match path.hops[hop].instances[instance].place {
            InstancePlace::Here { ingress, .. } => Place::Port(self.port(ingress)),
            InstancePlace::There(_) => Place::Node(chosen.node.clone()),
            InstancePlace::Unported | InstancePlace::Ambiguous | InstancePlace::Nowhere => {
                Place::Unreachable
            }
        };
        ExplainAction::Forwarded {
            position: describe::position(tables, position),
            function: entry.name.clone(),
            instance: chosen.name.clone(),
            place,
            is_tap: entry.kind == HopKind::Tap,
            share: FlowShare {
                flow_hash,
                instances: entry.instances.len(),
                weight: chosen.weight,
                weights: entry.instances.iter().map(|one| u64::from(one.weight)).sum(),
            },
        }
    }

    fn bypassed(&self, position: PathPosition, instance: usize) -> ExplainAction {
        let place = self.tables.positions.place(position);
        let path = &self.tables.path(place.path).entry;
        let entry = &path.hops[usize::from(place.hop)];
        ExplainAction::Bypassed {
            position: describe::position(self.tables, position),
            function: entry.name.clone(),
            instance: entry.instances[instance].name.clone(),
        }
    }

    fn judged(
        &self,
        (position, local): (PathPosition, u32),
        rules: &[String],
        ends: Option<DropReason>,
        becomes: Option<&FlowKey>,
    ) -> ExplainAction {
        let place = self.tables.positions.place(position);
        let path = self.tables.path(place.path);
        let local = path.local_instances.get(local as usize);
        let member = local
            .and_then(|local| self.tables.entries.members.get(&(path.id, place.hop, local.member)));
        ExplainAction::Judged {
            position: describe::position(self.tables, position),
            function: member.map_or_else(String::new, |member| member.function.clone()),
            instance: local.map_or_else(String::new, |local| local.name.clone()),
            rules: rules.to_vec(),
            ends,
            becomes: becomes.map(in_words),
        }
    }

    fn recalled(
        &self,
        port: PortIndex,
        position: PathPosition,
        is_by_header: bool,
    ) -> ExplainAction {
        let position = describe::position(self.tables, position);
        ExplainAction::Recalled { port: self.port(port), position, is_by_header }
    }

    fn leaves(&self, copy: u16, leaving: &Leaving) -> ExplainAction {
        let Leaving { exit, stage, tunnel, header, replaces, destination, source, goes_on, .. } =
            leaving;
        let macs = WrittenMacs { destination: *destination, source: *source };
        match (*exit, *stage) {
            (Exit::Port(port), Stage::Into(_)) => {
                let port_name = self.port(port);
                let header =
                    (!header.is_empty()).then(|| describe::over_ethernet(header)).flatten();
                let instance = self.instance(copy, *stage);
                ExplainAction::Visited { instance, port: port_name, header, macs }
            }
            (Exit::Port(port), _) => ExplainAction::Delivered { port: self.port(port), macs },
            (Exit::Link(node, _), _) => ExplainAction::Encapsulated {
                to: self.node(node),
                added_bytes: header.len().saturating_sub(*replaces),
                header: describe::on_link(header).unwrap_or_else(|| unread(header)),
                macs,
                goes_on: *goes_on,
            },
            (Exit::Node(node), _) => {
                let entry = self.tables.nodes.get(node.0.into());
                let ip =
                    if entry.address.is_ipv4() { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES };
                let outer = match tunnel.is_segmented() {
                    true => ethernet::HEADER_BYTES,
                    false => ethernet::HEADER_BYTES + ip + udp::HEADER_BYTES,
                };
                let header = header.as_slice();
                ExplainAction::Encapsulated {
                    to: self.node(node),
                    added_bytes: (outer + header.len()).saturating_sub(*replaces),
                    header: describe::tunnelled(*tunnel, header).unwrap_or_else(|| unread(header)),
                    macs,
                    goes_on: *goes_on,
                }
            }
        }
    }

    /// Name of the local instance that a copy goes into.
    fn instance(&self, copy: u16, stage: Stage) -> String {
        let (Stage::Into(local), Some(position)) = (stage, self.positions.get(&copy)) else {
            return String::new();
        };
        let path = self.tables.path(self.tables.positions.place(*position).path);
        path.local_instances[local as usize].name.clone()
    }

    fn node(&self, node: NodeIndex) -> NodeName {
        let name = self.tables.nodes.get(node.0.into()).name.clone();
        name.unwrap_or_else(|| self.tables.node.clone())
    }

    fn port(&self, port: PortIndex) -> String {
        self.tables.port(port).entry.name.clone()
    }

    fn network(&self, network: NetworkIndex) -> String {
        self.tables.network(network).entry.name.clone()
    }
}

/// A header that cannot be read.
fn unread(header: &[u8]) -> Header {
    Header { layers: Vec::new(), bytes: FrameBytes(header.to_vec()) }
}

/// What people call a chain.
pub(crate) fn chain_name(tables: &Tables, chain: ChainId) -> String {
    let named = tables.entries.chains.get(&chain);
    named.map_or_else(|| chain.to_string(), |entry| entry.name.clone())
}

/// The ends of a packet.
fn in_words(flow: &FlowKey) -> String {
    let FlowKey { source, destination, source_port, destination_port, .. } = *flow;
    if !has_ports(flow) {
        return format!("{source} > {destination}");
    }
    let [from, to] = [(source, source_port), (destination, destination_port)].map(SocketAddr::from);
    format!("{from} > {to}")
}
