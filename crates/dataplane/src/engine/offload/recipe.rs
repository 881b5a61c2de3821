//! From what the stages told of one packet to what the kernel shall do with the others of its flow.
//! Knows what it cannot say in a transform, and names it; refuses to decide anything: it repeats.

use super::counter_updates::CounterUpdate;
use crate::engine::account::counters::Counters;
use crate::engine::account::slots::Slots;
use crate::engine::account::tx_batches::{TxBatches, TxRef};
use crate::engine::action::output::{Datagram, Frame};
use crate::engine::encap::PathPosition;
use crate::engine::packet::PortSlot;
use crate::engine::packet::index::{PortIndex, UNTOLD_NETWORK};
use crate::engine::state::proxy_flows::{Key, Visit, Whose};
use crate::engine::state::rewrite;
use crate::engine::tables::Tables;
use crate::engine::tables::descent::Dependency;
use crate::engine::vector::owner::{Owner, PathRef};
use crate::engine::vector::trace::{Note, Noted};
use crate::engine::vector::transform::{Epoch, Exit, Stage};
use catena_model::PathId;
use catena_model::TunnelKind;
use catena_model::account::Created;
use catena_model::kernel::Declined;
use catena_model::program::HopKind;
use catena_model::resource::FailurePolicy;
use catena_wire::flow;
use catena_wire::scalar::{IpProtocol, MacAddr};
use std::net::IpAddr;

/// Nobody looks into tunnels here: flows that may hide users of slices are the engine's.
pub(super) const NOBODY: u64 = 0;

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Out of a port of this node.
    Port(PortSlot),
    /// To another node, with this header behind the outer UDP header.
    Node { to: IpAddr, kind: TunnelKind, entropy: u16, header: Vec<u8> },
}

/// One frame that a packet gives rise to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) destination: MacAddr,
    pub(super) target: Target,
}

/// What goes into an unaware function: how the proxy's memory knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Into {
    pub(super) keys: Vec<Key>,
    pub(super) visit: Visit,
}

/// All that is to be done and noted for each packet of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recipe {
    /// Copies first; the last leaf is the packet itself.
    pub(super) leaves: Vec<Leaf>,
    pub(super) lines: Vec<CounterUpdate>,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) into: Option<Into>,
    /// By what the memory knew it when it came back.
    pub(super) back: Option<Key>,
    /// The path that the classifier noted for the flow.
    pub(super) classified: Option<PathId>,
}

/// What is known of a packet that passed, and of the engine.
pub(super) struct Observed<'o> {
    pub(super) tables: &'o Tables,
    pub(super) slots: &'o Slots,
    pub(super) counters: &'o Counters,
    pub(super) epoch: Epoch,
    pub(super) notes: &'o [Noted],
    /// What it gave rise to.
    pub(super) frames: &'o [Frame],
    pub(super) datagrams: &'o [Datagram],
    pub(super) batches: &'o TxBatches,
    pub(super) flow: flow::FlowKey,
    pub(super) owner: Owner,
    /// Whose packets come back by this key?
    pub(super) whose: &'o dyn Fn(&Key) -> Whose,
}

impl Observed<'_> {
    /// The recipe, or why there is none.
    pub(super) fn recipe(&self) -> Result<Recipe, Declined> {
        let mut recipe = Recipe::default();
        recipe.lines.push(CounterUpdate::Received(self.owner));
        let mut seat = None;
        let mut visited = None;
        self.arrive(&mut recipe, &mut seat)?;
        for noted in self.notes.iter().filter(|noted| noted.copy == 0) {
            self.follow(&noted.note, &mut recipe, &mut seat, &mut visited)?;
        }
        self.copies(&mut recipe, seat)?;
        self.depart(&mut recipe, visited)?;
        recipe.dependencies.sort_unstable();
        recipe.dependencies.dedup();
        Ok(recipe)
    }

    /// It may have come by a tunnel, on a path: the first that is decided there names it.
    fn arrive(&self, recipe: &mut Recipe, seat: &mut Option<PathRef>) -> Result<(), Declined> {
        if self.owner != Owner::Tunnels {
            return Ok(());
        }
        let own = self.notes.iter().filter(|noted| noted.copy == 0);
        let first = own.map(|noted| &noted.note).find_map(|note| match note {
            Note::Chosen { position, .. } | Note::Finished { position, .. } => Some(*position),
            Note::Branched { ended, .. } => Some(*ended),
            _ => None,
        });
        let Some(position) = first else { return Ok(()) };
        let here = self.counters.seat(position);
        recipe.lines.push(CounterUpdate::TunnelledIn(here));
        *seat = Some(here);
        self.on_path(position, recipe).map(|_| ())
    }

    /// One decision about the packet itself. `seat`: the path it is on now; `visited`: the position
    /// of the last choice.
    fn follow(
        &self,
        note: &Note,
        recipe: &mut Recipe,
        seat: &mut Option<PathRef>,
        visited: &mut Option<PathPosition>,
    ) -> Result<(), Declined> {
        match note {
            Note::Classified { start, .. } => {
                recipe.classified = Some(self.enter(*start, recipe, seat)?);
            }
            Note::Unclassified { port, .. } => {
                let network = self.tables.port(*port).entry.network;
                recipe.dependencies.push(Dependency::Ordinary(network));
            }
            Note::Branched { start, .. } => {
                recipe.lines.extend(seat.map(CounterUpdate::Finished));
                self.enter(*start, recipe, seat)?;
            }
            Note::Recalled { port, position } => self.recall(*port, *position, recipe, seat)?,
            Note::Chosen { position, .. } => *visited = Some(*position),
            Note::Finished { network, .. } => {
                recipe.lines.extend(seat.take().map(CounterUpdate::Finished));
                recipe.dependencies.push(self.network(*network));
            }
            Note::Switched { network, .. } => recipe.dependencies.push(self.network(*network)),
            Note::Leaves { .. } => {}
            Note::Sliced { .. } => return Err(Declined::Slices),
            Note::Bypassed { .. } => return Err(Declined::Bypassed),
            Note::Returned { .. } => return Err(Declined::AwareFunction),
            Note::OwnTraffic { .. } => return Err(Declined::OwnTraffic),
            Note::Answered { .. } => return Err(Declined::Answered),
            Note::Dropped { .. } => return Err(Declined::Dropped),
        }
        Ok(())
    }

    fn network(&self, index: crate::engine::packet::index::NetworkIndex) -> Dependency {
        Dependency::Network(self.tables.network(index).entry.id)
    }

    /// A path begins.
    fn enter(
        &self,
        start: PathPosition,
        recipe: &mut Recipe,
        seat: &mut Option<PathRef>,
    ) -> Result<PathId, Declined> {
        let entered = self.counters.seat(start);
        recipe.lines.push(CounterUpdate::Entered(entered));
        *seat = Some(entered);
        self.on_path(start, recipe)
    }

    /// The packet is on this path: may its flow be repeated there?
    fn on_path(&self, position: PathPosition, recipe: &mut Recipe) -> Result<PathId, Declined> {
        let place = self.tables.positions.place(position);
        let path = self.tables.path(place.path);
        if self.tables.is_pinned(path.id) {
            return Err(Declined::Pinned);
        }
        if position.is_of_slice() {
            return Err(Declined::Slices);
        }
        if !path.context.is_empty() || position.carries_metadata() {
            return Err(Declined::Metadata);
        }
        recipe.dependencies.push(Dependency::Path(path.id));
        Ok(path.id)
    }

    /// It came back from an unaware function, and is at this position now.
    fn recall(
        &self,
        port: PortIndex,
        position: PathPosition,
        recipe: &mut Recipe,
        seat: &mut Option<PathRef>,
    ) -> Result<(), Declined> {
        let table = self.tables.port(port);
        if table.is_shared() || table.is_met() {
            return Err(Declined::SharedFunction);
        }
        if table.keeps_mac() {
            return Err(Declined::Rewritten);
        }
        self.on_path(position, recipe)?;
        let place = self.tables.positions.place(position);
        let path = self.tables.path(place.path);
        let hop = place.hop.checked_sub(1).ok_or(Declined::Siblings)?;
        let senders = (0u32..)
            .zip(&path.local_instances)
            .filter(|(_, local)| local.hop == hop && local.egress == Some(port) && !local.is_tap);
        let mut senders = senders.map(|(number, local)| (number, local.watch));
        let (Some((local, watch)), None) = (senders.next(), senders.next()) else {
            // Which of them sent it, the memory knows for each packet.
            return Err(Declined::Siblings);
        };
        if watch.is_some() && self.flow.protocol != IpProtocol::TCP {
            // A probe looks like a packet of the flow, and must come up.
            return Err(Declined::Watched);
        }
        let came_back = self.counters.seat(position);
        recipe.lines.push(CounterUpdate::Returned(came_back, local));
        *seat = Some(came_back);
        let mut keys =
            rewrite::keys(table, self.slots.serial(port), (UNTOLD_NETWORK, self.flow), NOBODY);
        let known = keys.find_map(|key| match (self.whose)(&key) {
            Whose::Nobodys => None,
            known => Some(known),
        });
        let Some(Whose::Known(key)) = known else { return Err(Declined::Moved) };
        recipe.back = Some(key);
        Ok(())
    }

    /// What the copies of the packet mean: those of taps are lines, all else is too much.
    fn copies(&self, recipe: &mut Recipe, seat: Option<PathRef>) -> Result<(), Declined> {
        let copies = self.notes.iter().filter(|noted| noted.copy > 0);
        for noted in copies {
            match &noted.note {
                Note::Chosen { position, .. } => {
                    let place = self.tables.positions.place(*position);
                    let path = self.tables.path(place.path);
                    let hop = path.hops.get(usize::from(place.hop));
                    if hop.is_none_or(|hop| hop.kind != HopKind::Tap) {
                        return Err(Declined::Replicated);
                    }
                    let tapped = self.counters.seat(*position);
                    recipe.lines.push(CounterUpdate::Created(self.owner, Created::Tap));
                    recipe.lines.push(CounterUpdate::Tapped(tapped));
                }
                Note::Leaves { exit: Exit::Port(_), stage: Stage::Into(_), header }
                    if header.is_empty() => {}
                Note::Leaves { exit: Exit::Node(_), .. } => return Err(Declined::TapElsewhere),
                Note::Dropped { .. } => return Err(Declined::Dropped),
                _ => return Err(Declined::Replicated),
            }
        }
        debug_assert!(recipe.leaves.is_empty() && seat.is_none_or(|seat| seat.serial > 0));
        Ok(())
    }

    /// What left, and by which booking.
    fn depart(&self, recipe: &mut Recipe, visited: Option<PathPosition>) -> Result<(), Declined> {
        let own = self.notes.iter().filter(|noted| noted.copy == 0);
        let mut left = own.filter_map(|noted| match &noted.note {
            Note::Leaves { exit, stage, header } => Some((*exit, *stage, header)),
            _ => None,
        });
        let (Some((exit, stage, header)), None) = (left.next(), left.next()) else {
            return Err(Declined::Replicated);
        };
        match exit {
            Exit::Port(port) if header.is_empty() => {
                // The frames are in the order of the vector: the packet itself, then its copies.
                let (main, copies) = self.frames.split_first().ok_or(Declined::Dropped)?;
                if main.to != self.slots.of_index(port) || !self.datagrams.is_empty() {
                    return Err(Declined::Replicated);
                }
                for frame in copies.iter().chain([main]) {
                    self.leave(frame, recipe)?;
                }
                if let Stage::Into(local) = stage {
                    recipe.into = self.into(visited.ok_or(Declined::Moved)?, local)?;
                }
                Ok(())
            }
            Exit::Port(_) => Err(Declined::AwareFunction),
            Exit::Node(_) => {
                for frame in self.frames {
                    self.leave(frame, recipe)?;
                }
                self.leave_by_tunnel(header, recipe)
            }
        }
    }

    fn leave(&self, frame: &Frame, recipe: &mut Recipe) -> Result<(), Declined> {
        let bytes = frame.buffer.bytes();
        let destination: [u8; 6] = *bytes.first_chunk().ok_or(Declined::Rewritten)?;
        recipe.lines.push(self.line_of(frame.share)?);
        recipe
            .leaves
            .push(Leaf { destination: MacAddr(destination), target: Target::Port(frame.to) });
        Ok(())
    }

    /// What the frame or datagram with this share is counted by.
    fn line_of(&self, share: TxRef) -> Result<CounterUpdate, Declined> {
        self.batches.ends(share.batch).map(CounterUpdate::Sent).ok_or(Declined::Dropped)
    }

    fn leave_by_tunnel(&self, header: &[u8], recipe: &mut Recipe) -> Result<(), Declined> {
        let first = self.datagrams.first().ok_or(Declined::Dropped)?;
        let is_one_row = self.datagrams.iter().all(|other| {
            (other.to, other.kind, other.entropy) == (first.to, first.kind, first.entropy)
                && self.batches.are_alike(other.share.batch, first.share.batch)
        });
        let inner = first.buffer.bytes().strip_prefix(header);
        let Some(destination) = inner.and_then(|inner| inner.first_chunk::<6>()) else {
            return Err(Declined::Rewritten);
        };
        if !is_one_row {
            return Err(Declined::Replicated);
        }
        recipe.lines.push(self.line_of(first.share)?);
        recipe.leaves.push(Leaf {
            destination: MacAddr(*destination),
            target: Target::Node {
                to: first.to,
                kind: first.kind,
                entropy: first.entropy,
                header: header.to_vec(),
            },
        });
        Ok(())
    }

    /// What the proxy noted of a packet that went into a local instance; of a tap, where another
    /// node's copy ends, nothing.
    fn into(&self, visited: PathPosition, local: u32) -> Result<Option<Into>, Declined> {
        let tables = self.tables;
        let place = tables.positions.place(visited);
        let path = tables.path(place.path);
        let hop = path.hops.get(usize::from(place.hop)).ok_or(Declined::Moved)?;
        if hop.kind == HopKind::Tap {
            return Ok(None);
        }
        let instance = path.local_instances.get(local as usize).ok_or(Declined::Moved)?;
        let egress = instance.egress.ok_or(Declined::Moved)?;
        if tables.port(egress).is_shared() || tables.port(egress).is_met() {
            return Err(Declined::SharedFunction);
        }
        if hop.keeps_mac {
            return Err(Declined::Rewritten);
        }
        if hop.on_failure != FailurePolicy::Unwatched && self.flow.protocol != IpProtocol::TCP {
            return Err(Declined::Watched);
        }
        let visit = Visit {
            position: visited,
            path: path.id,
            serial: self.counters.seat(visited).serial,
            hop: place.hop,
            instance: instance.id,
            epoch: self.epoch,
        };
        let (egress, network) = (self.slots.serial(egress), path.network);
        let key = |flow| Key { egress, network, flow, user: NOBODY };
        let kept = hop.rewrites.as_ref().map(|entry| rewrite::kept(entry, self.flow));
        let flows = std::iter::once(self.flow).chain(kept);
        Ok(Some(Into { keys: flows.map(key).collect(), visit }))
    }
}
