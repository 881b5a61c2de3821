//! From the effects that one packet had to what the kernel does with the others of its flow. Knows what a
//! transform cannot say, and names it; refuses to decide anything: it repeats.

use super::arrival::Arrival;
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::effects::{Effect, Leaving, Noted};
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::state::proxy_flows::{Key, Visit};
use crate::engine::tables::Tables;
use crate::engine::tables::descent::Dependency;
use crate::engine::tables::path::{HopTable, PathTable};
use crate::engine::vector::decision::{Exit, Stage};
use catena_model::PathId;
use catena_model::id::ChainId;
use catena_model::kernel::Declined;
use catena_model::program::HopKind;
use catena_model::resource::FailurePolicy;
use catena_wire::scalar::IpProtocol;

/// Nobody looks into tunnels here: flows that may hide users of slices are the engine's.
pub(super) const NOBODY: u64 = 0;

/// What goes into an unaware function: how the proxy's memory knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Into {
    pub(super) keys: Vec<Key>,
    pub(super) visit: Visit,
}

/// All that is to be done and noted for each packet of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Translation {
    /// How it leaves: copies first, the last is the packet itself.
    pub(super) leaves: Vec<Leaving>,
    pub(super) updates: Vec<CounterUpdate>,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) into: Option<Into>,
    /// By what the memory knew it when it came back.
    pub(super) back: Option<Key>,
    /// What brings packets of its path from other nodes, if it came back.
    pub(super) recalled: Option<Arrival>,
    /// The path that the classifier noted for the flow, and its chain.
    pub(super) classified: Option<(PathId, ChainId)>,
}

/// What is asked to translate the effects of a packet.
pub(super) struct Translator<'t> {
    pub(super) tables: &'t Tables,
    pub(super) protocol: IpProtocol,
}

impl Translator<'_> {
    /// The translation, or why there is none.
    pub(super) fn translate(&self, notes: &[Noted]) -> Result<Translation, Declined> {
        let mut made = Translation::default();
        let mut own = None;
        for Noted { copy, effect } in notes {
            match effect {
                Effect::Counted(update) => made.updates.push(*update),
                Effect::Leaves(leaving) if *copy == 0 && own.is_none() => own = Some(leaving),
                Effect::Leaves(leaving) if *copy > 0 => made.leaves.push(tapped(leaving)?),
                Effect::Chosen { position, .. } if *copy > 0 => {
                    if self.hop(*position).is_none_or(|hop| hop.kind != HopKind::Tap) {
                        return Err(Declined::Replicated);
                    }
                }
                effect if *copy == 0 => self.follow(effect, &mut made)?,
                Effect::Dropped { .. } => return Err(Declined::Dropped),
                _ => return Err(Declined::Replicated),
            }
        }
        let own = own.ok_or(Declined::Replicated)?;
        if own.source.is_some() {
            return Err(Declined::Rewritten);
        }
        if matches!(own.exit, Exit::Port(_)) && !own.header.is_empty() {
            return Err(Declined::AwareFunction);
        }
        if let (Some(into), Stage::Into(local)) = (&made.into, own.stage) {
            self.may_go_in(into, local)?;
        }
        made.leaves.push(own.clone());
        made.dependencies.sort_unstable();
        made.dependencies.dedup();
        Ok(made)
    }

    /// One effect on the packet itself.
    fn follow(&self, effect: &Effect, made: &mut Translation) -> Result<(), Declined> {
        match effect {
            Effect::Classified { port, start, .. } => {
                self.looks_at_flows_alone(*port)?;
                let path = self.on_path(*start, made)?;
                made.classified = Some((path, self.path(*start).chain));
            }
            Effect::Unclassified { port, .. } => {
                self.looks_at_flows_alone(*port)?;
                let network = self.tables.port(*port).entry.network;
                made.dependencies.push(Dependency::Ordinary(network));
            }
            Effect::Branched { ended, start, .. } => {
                self.leads_on_by_flows_alone(*ended)?;
                self.on_path(*ended, made)?;
                self.on_path(*start, made)?;
            }
            // By which user, nobody tells the kernel.
            Effect::Known { key } => made.back = Some(*key).filter(|key| key.user == NOBODY),
            Effect::Recalled { port, position } => self.recall(*port, *position, made)?,
            Effect::Chosen { position, .. } => {
                self.on_path(*position, made)?;
            }
            Effect::Finished { position, network, .. } => {
                self.leads_on_by_flows_alone(*position)?;
                self.on_path(*position, made)?;
                made.dependencies.push(self.network(*network));
            }
            Effect::Switched { network, .. } => made.dependencies.push(self.network(*network)),
            Effect::Remembered { keys, visit } => {
                let keys = keys.iter().map(|key| Key { user: NOBODY, ..*key });
                made.into = Some(Into { keys: keys.collect(), visit: *visit });
            }
            Effect::Counted(_) => {}
            Effect::Leaves(_) => return Err(Declined::Replicated),
            Effect::Asked { .. } => return Err(Declined::NotSetUp),
            Effect::Sliced { .. } => return Err(Declined::Slices),
            Effect::Judged { .. } => return Err(Declined::BundledFunction),
            Effect::Bypassed { .. } => return Err(Declined::Bypassed),
            Effect::Returned { .. } => return Err(Declined::AwareFunction),
            Effect::OwnTraffic { .. } => return Err(Declined::OwnTraffic),
            Effect::Answered { .. } => return Err(Declined::Answered),
            Effect::Dropped { .. } => return Err(Declined::Dropped),
        }
        Ok(())
    }

    /// The kernel looks at flows. Do the rules at a port?
    fn looks_at_flows_alone(&self, port: PortIndex) -> Result<(), Declined> {
        let network = self.tables.port(port).network;
        let fields = self.tables.rules.fields_at(port, Some(network));
        if fields == 0 { Ok(()) } else { Err(Declined::Fields) }
    }

    /// And those at the end of a path?
    fn leads_on_by_flows_alone(&self, ended: PathPosition) -> Result<(), Declined> {
        let path = self.tables.positions.place(ended).path;
        if self.tables.rules.fields_after(path) == 0 { Ok(()) } else { Err(Declined::Fields) }
    }

    fn network(&self, index: NetworkIndex) -> Dependency {
        Dependency::Network(self.tables.network(index).entry.id)
    }

    fn path(&self, position: PathPosition) -> &PathTable {
        self.tables.path(self.tables.positions.place(position).path)
    }

    fn hop(&self, position: PathPosition) -> Option<&HopTable> {
        let hop = self.tables.positions.place(position).hop;
        self.path(position).hops.get(usize::from(hop))
    }

    /// The packet is on this path: may its flow be repeated there?
    fn on_path(&self, position: PathPosition, made: &mut Translation) -> Result<PathId, Declined> {
        let path = self.path(position);
        if self.tables.is_pinned(path.id) {
            return Err(Declined::Pinned);
        }
        if position.is_of_slice() {
            return Err(Declined::Slices);
        }
        if path.entry.telemetry.is_some() || position.records().is_some() {
            return Err(Declined::Telemetry);
        }
        if !path.context.is_empty() || position.carries_metadata() {
            return Err(Declined::Metadata);
        }
        made.dependencies.push(Dependency::Path(path.id));
        Ok(path.id)
    }

    /// It came back from an unaware function, and is at this position now.
    fn recall(
        &self,
        port: PortIndex,
        position: PathPosition,
        made: &mut Translation,
    ) -> Result<(), Declined> {
        let table = self.tables.port(port);
        if table.is_shared() || table.is_met() {
            return Err(Declined::SharedFunction);
        }
        if table.keeps_mac() {
            return Err(Declined::Rewritten);
        }
        self.on_path(position, made)?;
        made.recalled = Some(Arrival::by(self.path(position).entry.encapsulation));
        let hop = self.tables.positions.place(position).hop.checked_sub(1);
        let hop = hop.ok_or(Declined::Siblings)?;
        let locals = self.path(position).local_instances.iter();
        let mut senders =
            locals.filter(|local| local.hop == hop && local.egress == Some(port) && !local.is_tap);
        let (Some(sender), None) = (senders.next(), senders.next()) else {
            // Which of them sent it, the memory knows for each packet.
            return Err(Declined::Siblings);
        };
        if sender.watch.is_some() && self.protocol != IpProtocol::TCP {
            // A probe looks like a packet of the flow, and must come up.
            return Err(Declined::Watched);
        }
        if made.back.is_none() { Err(Declined::Moved) } else { Ok(()) }
    }

    /// May the kernel take the flow past the memory, into the local instance with this number?
    fn may_go_in(&self, into: &Into, local: u32) -> Result<(), Declined> {
        let path = self.path(into.visit.position);
        let hop = self.hop(into.visit.position).ok_or(Declined::Moved)?;
        let instance = path.local_instances.get(local as usize).ok_or(Declined::Moved)?;
        let egress = self.tables.port(instance.egress.ok_or(Declined::Moved)?);
        if egress.is_shared() || egress.is_met() {
            return Err(Declined::SharedFunction);
        }
        if hop.on_failure != FailurePolicy::Unwatched && self.protocol != IpProtocol::TCP {
            return Err(Declined::Watched);
        }
        Ok(())
    }
}

/// How a copy leaves: those of taps on this node are clones, all else is too much.
fn tapped(leaving: &Leaving) -> Result<Leaving, Declined> {
    match (leaving.exit, leaving.stage) {
        (Exit::Port(_), Stage::Into(_)) if leaving.header.is_empty() => Ok(leaving.clone()),
        (Exit::Node(_) | Exit::Link(..), _) => Err(Declined::TapElsewhere),
        _ => Err(Declined::Replicated),
    }
}
