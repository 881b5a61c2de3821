//! Packets whose way has just turned, and wait until the former one is flushed. Knows which way a packet goes by, and
//! how it goes on under other tables than those that it was decided by; refuses to know for how long it waits.

use super::{Egress, Executor};
use crate::engine::action::context::Context;
use crate::engine::action::output::Output;
use crate::engine::action::{Action, ActionExit, Rewrite};
use crate::engine::state::flushes::{NoRoom, Waiting};
use crate::engine::state::proxy_flows::ProxyFlows;
use crate::engine::tables::Tables;
use crate::engine::vector::Work;
use crate::engine::vector::decision::{ActionRef, Decision};
use catena_model::DropReason;
use catena_model::program::InstanceEntry;
use std::collections::VecDeque;

impl Egress {
    /// Lets packets go that have waited, in their order.
    pub(crate) fn release(
        &mut self,
        works: VecDeque<Waiting>,
        memory: &mut ProxyFlows,
        context: &mut Context<'_>,
        out: &mut Output,
    ) {
        self.gso.open();
        let Self { gso, digests, teller } = self;
        let mut executor = Executor { memory, gso, digests, teller, context, out };
        works.into_iter().for_each(|waiting| executor.go(waiting));
    }
}

impl Executor<'_, '_> {
    /// Could a packet that meets this action have to wait? A probe is alone, and overtakes nobody.
    #[inline]
    pub(super) fn may_wait(&self, action: &Action) -> bool {
        !self.context.flushes.is_empty()
            && matches!(action.rewrite, Rewrite::Route { .. })
            && !self.context.is_probe
    }

    /// Does what was decided for a packet with a source route, or lets it wait.
    pub(super) fn act_in_turn(&mut self, work: Work, action: &Action, decision: &Decision) {
        let Context { tables, counters, flushes, pool, .. } = &mut *self.context;
        let instance = instance(action, decision, tables);
        let Some(instance) = instance.filter(|one| flushes.is_flushing(one.ingress)) else {
            return self.act(work, action, decision);
        };
        let position = decision.position;
        let path = (tables.positions.id(position), counters.path_ref(position).serial);
        let (owner, packets) = (work.owner, work.volume.packets);
        let waiting = Waiting { work, decision: *decision, path, instance: instance.id };
        match flushes.hold(instance.ingress, waiting, pool.free()) {
            Ok(()) => counters.held(owner, packets),
            Err(no_room) => {
                let NoRoom { before, own } = *no_room;
                let earlier: u64 = before.iter().map(|one| one.work.volume.packets).sum();
                if let ActionExit::Link { number, .. } = action.exit {
                    self.context.links.unflushed(number.get(), earlier + packets);
                }
                before.into_iter().for_each(|waiting| self.go(waiting));
                self.act(own.work, action, decision);
            }
        }
    }

    /// Does what was decided for a packet that has waited.
    fn go(&mut self, mut waiting: Waiting) {
        let Work { owner, volume, .. } = waiting.work;
        self.context.counters.given_back(owner, volume.packets);
        let decided = renewed(&mut waiting, self.context);
        let (work, actions) = (waiting.work, self.context.actions);
        let action = decided.and_then(|decision| {
            match decision.action {
                ActionRef::Hop(number) => actions.action(number).map(|action| (action, decision)),
                _ => None,
            }
            .ok_or(DropReason::NoPath)
        });
        match action {
            Ok((action, decision)) => self.act(work, action, &decision),
            Err(reason) => self.context.end_work(work, reason),
        }
    }
}

/// The instance that a packet's way leads to.
fn instance<'t>(
    action: &Action,
    decision: &Decision,
    tables: &'t Tables,
) -> Option<&'t InstanceEntry> {
    let Rewrite::Route { instance, .. } = action.rewrite else { return None };
    let place = tables.positions.place(decision.position);
    let hop = tables.path(place.path).entry.hops.get(usize::from(place.hop))?;
    hop.instances.get(usize::from(instance))
}

/// What is decided for a packet under the tables in force: it goes to the instance that was chosen for it, as if it
/// were on its way.
///
/// # Errors
/// The name of what has gone.
fn renewed(waiting: &mut Waiting, context: &Context<'_>) -> Result<Decision, DropReason> {
    let Waiting { work, decision, path, instance } = waiting;
    let Context { epoch, tables, actions, counters, .. } = context;
    if decision.epoch == *epoch {
        return Ok(*decision);
    }
    let hop = tables.positions.place(decision.position).hop;
    work.path = None;
    let position = context.renewed(decision.position, *path, hop);
    let position = position.ok_or(DropReason::PathRemoved)?;
    work.path = Some(counters.path_ref(position));
    let place = tables.positions.place(position);
    let entry = tables.path(place.path).entry.hops.get(usize::from(hop));
    let mut instances = entry.into_iter().flat_map(|hop| &hop.instances);
    let found = instances.position(|one| one.id == *instance).ok_or(DropReason::NoInstance)?;
    let (number, _) = actions.to_instance((place.path, hop), found)?;
    Ok(Decision { action: ActionRef::Hop(number), position, destination: None, epoch: *epoch })
}
