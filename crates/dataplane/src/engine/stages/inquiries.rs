//! What functions inside ask others of their own accord, as a balancer does that checks its servers. Knows where such a
//! packet enters: behind whoever asks, on a path that leads through it; refuses to know what is asked.
//!
//! Answers come back as those to anybody do: by a rule of the way back, whose last function they meet is the one that
//! has asked.

use super::functions::behind;
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::encap;
use crate::engine::packet::parse;
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::state::functions::Functions;
use crate::engine::state::running::Running;
use crate::engine::tables::Tables;
use crate::engine::tables::path::{InstancePlace, PathTable};
use crate::engine::vector::owner::Owner;
use crate::engine::vector::{InsideVisit, Work};
use catena_io::Offload;
use catena_model::account::{Created, Volume};
use catena_model::{DropReason, PathId};
use catena_wire::nsh::UserContext;
use std::cmp::Reverse;

/// What is due now, on its way.
pub(crate) fn send(functions: &mut Functions, into: &mut Vec<Work>, context: &mut Context<'_>) {
    functions.inquire(context.now_ns, |running, outcomes| {
        for (_, generated) in outcomes.generated() {
            enter((running, 0), outcomes.bytes(generated.frame.clone()), into, context);
        }
    });
}

/// Puts what a function asks on the path behind it. One that no path leads through asks nobody. `copy`: which copy of
/// the packet that made it ask it is, for whoever follows that.
pub(crate) fn enter(
    (running, copy): (&mut Running, u16),
    frame: &[u8],
    into: &mut Vec<Work>,
    context: &mut Context<'_>,
) {
    let Some(visit) = way(running, context) else { return };
    let path = context.tables.path(context.tables.positions.place(visit.position).path);
    let ingress = path.local_instances.get(visit.local as usize).and_then(|local| local.ingress);
    let Some(owner) = ingress.map(|port| context.slots.owner_of_index(port)) else { return };
    let volume = Volume { packets: 1, bytes: frame.len() as u64 };
    context.count(copy, CounterUpdate::Created(owner, Created::Function), volume);
    match make((frame, copy), (visit, path), (owner, volume), context) {
        Ok(work) => into.push(work),
        Err(reason) => context.counters.dropped(owner, None, reason, 1),
    }
}

fn make(
    (frame, copy): (&[u8], u16),
    (visit, path): (InsideVisit, &PathTable),
    (owner, volume): (Owner, Volume),
    context: &mut Context<'_>,
) -> Result<Work, DropReason> {
    let tables = context.tables;
    let view = parse::parse_frame(frame)?;
    let local = path.local_instances.get(visit.local as usize).ok_or(DropReason::NoInstance)?;
    let flow_id = || parse::flow_hash(&view, 0);
    let entered = (&tables.positions, &path.context);
    let shown = UserContext::default();
    let position = encap::enter(entered, visit.position, flow_id, shown, context.carried)?;
    let mut buffer = context.take_buffer(owner).ok_or(DropReason::BuffersExhausted)?;
    if !buffer.fill(frame) {
        context.pool.put(buffer);
        return Err(DropReason::BuffersExhausted);
    }
    buffer.offload = Offload::default();
    let path_ref = context.counters.path_ref(position);
    context.count(copy, CounterUpdate::Entered(path_ref), volume);
    context.count(copy, CounterUpdate::Generated(path_ref, visit.local), volume);
    Ok(Work {
        flow_hash: parse::flow_hash(&view, tables.choice_seed),
        buffer,
        owner,
        view,
        volume,
        path: Some(path_ref),
        user: Subscriber::Unknown,
        slice: None,
        copy,
        new_destination: None,
        step: behind(&InsideVisit { position, ..visit }, local, tables),
    })
}

/// A visit to it on the path that packets took through it last, found once for all tables. Where none has come yet, or
/// that path has gone, on one that leads through it; this one then stays it.
fn way(running: &mut Running, context: &Context<'_>) -> Option<InsideVisit> {
    if running.way.as_ref().is_none_or(|(epoch, _)| *epoch != context.epoch) {
        let (tables, function) = (context.tables, running.number());
        let taken = running.taken.and_then(|path| on_path(tables, path, function));
        let found = taken.or_else(|| find(tables, function));
        running.taken = found.map(|visit| tables.positions.id(visit.position));
        running.way = Some((context.epoch, found));
    }
    running.way.as_ref().and_then(|(_, way)| *way)
}

/// On the newest path of one chain.
fn find(tables: &Tables, function: u32) -> Option<InsideVisit> {
    let leads = |path: &&PathTable| through(path, function).is_some();
    let paths = tables.paths.iter().map(|(_, path)| path).filter(leads);
    let path = paths.max_by_key(|path| (Reverse(path.chain), path.id))?;
    on_path(tables, path.id, function)
}

fn on_path(tables: &Tables, path: PathId, function: u32) -> Option<InsideVisit> {
    let start = tables.positions.start(path)?;
    let (hop, local) = through(tables.path(tables.positions.place(start).path), function)?;
    let position = tables.positions.renew(start, path, hop)?;
    Some(InsideVisit { position, function, is_backward: false, local })
}

/// Where a path leads through it in the order of its ports: the hop, and the local instance. Through no tap, since
/// nothing goes on from there.
fn through(path: &PathTable, function: u32) -> Option<(u16, u32)> {
    (0..).zip(&path.hops).find_map(|(hop, table)| {
        let found = table.instances.iter().find_map(|instance| {
            let inside = instance.inside.filter(|inside| !inside.is_backward)?;
            let InstancePlace::Here { local, .. } = instance.place else { return None };
            member(path, (inside.function, local), function)
        });
        found.map(|local| (hop, local))
    })
}

/// The local instance at which a function is asked, among those that are asked behind the first of a hop.
fn member(path: &PathTable, (first, local): (u32, u32), function: u32) -> Option<u32> {
    let members = path.local_instances.get(local as usize..)?;
    let mut asked = Some(first);
    for (place, member) in (local..).zip(members) {
        if asked? == function {
            return Some(place).filter(|_| !member.is_tap);
        }
        asked = member.next;
    }
    None
}
