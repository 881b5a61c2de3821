//! Sends the probes of watched instances and takes in what comes back from them. Knows how a probe
//! is made into a packet of ours and told from a tenant's; refuses to judge what an answer, or
//! none, means.
//!
//! A probe is created here, by name, and consumed here: no path, rule or switch ever sees one.

use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::parse;
use crate::engine::state::health::Due;
use crate::engine::tables::path::{InstancePlace, InstanceTable};
use crate::engine::vector::decision::{ActionRef, Decision, Verdict};
use crate::engine::vector::{Step, Work};
use catena_model::account::Created;
use catena_model::program::PROXY_MAC;
use catena_wire::probe::{self, ProbeCarrier, ProbeFrame, ProbeMark};
use catena_wire::scalar::MacAddr;

/// Makes the probes that are due, ready to be sent.
pub(crate) fn make(due: &mut Vec<Due>, vector: &mut Vec<Work>, context: &mut Context<'_>) {
    for due in due.drain(..) {
        let made = vector.len();
        let mut has_failed = false;
        if due.asks_link {
            has_failed |= make_question(&due, vector, context).is_none();
        }
        if let Some(way) = due.way {
            let carrier = ProbeCarrier::beside(&way.flow);
            let frame = ProbeFrame {
                destination: way.ingress_mac,
                source: PROXY_MAC,
                flow: way.flow,
                carrier,
                varying: carrier.varying(),
                mark: due.mark,
                packet_bytes: 0,
            };
            has_failed |= make_transit(&due, &frame, vector, context).is_none();
        }
        // Without a buffer nothing was asked, and silence says nothing.
        if vector.len() > made || !has_failed {
            context.health.sent(due.watch, context.now_ns);
        }
    }
}

fn make_question(due: &Due, vector: &mut Vec<Work>, context: &mut Context<'_>) -> Option<()> {
    let instance = context.tables.watched.find(due.watch)?;
    let (port, mac) = (instance.ingress, instance.ingress_mac);
    let addresses = &instance.addresses;
    let Some(address) = addresses.iter().find(|a| a.is_ipv4()).or(addresses.first()) else {
        return Some(());
    };
    let emit = |into: &mut [u8]| probe::emit_question(PROXY_MAC, mac, *address, into);
    let decision = Decision::ordinary(ActionRef::Port(port), context.epoch);
    vector.push(make_work(port, emit, decision, context)?);
    Some(())
}

fn make_transit(
    due: &Due,
    frame: &ProbeFrame,
    vector: &mut Vec<Work>,
    context: &mut Context<'_>,
) -> Option<()> {
    let way = due.way?;
    let port = way.ingress(context.slots)?;
    let mut decision = Decision::ordinary(ActionRef::Port(port), context.epoch);
    if let Some((path, hop)) = way.headed {
        let tables = context.tables;
        decision.position = tables.positions.renew(tables.positions.start(path)?, path, hop)?;
        let place = tables.positions.place(decision.position);
        let hop = tables.path(place.path).hops.get(usize::from(place.hop))?;
        let is_it = |one: &InstanceTable| matches!(one.place, InstancePlace::Here { ingress, .. } if ingress == port);
        let instance = hop.instances.iter().position(is_it)?;
        let (number, _) = context.actions.to_instance((place.path, place.hop), instance).ok()?;
        decision.action = ActionRef::Hop(number);
    }
    vector.push(make_work(port, |into| frame.emit(into), decision, context)?);
    Some(())
}

/// Room for every probe of an instance.
const FRAME_BYTES_MAX: usize = 128;

fn make_work(
    port: PortIndex,
    emit: impl FnOnce(&mut [u8]) -> Option<usize>,
    decision: Decision,
    context: &mut Context<'_>,
) -> Option<Work> {
    let mut room = [0; FRAME_BYTES_MAX];
    let length = emit(&mut room)?;
    let bytes = room.get(..length)?;
    let view = parse::parse_frame(bytes).ok()?;
    let mut buffer = context.pool.take()?;
    if !buffer.fill(bytes) {
        context.pool.put(buffer);
        return None;
    }
    let owner = context.slots.owner_of_index(port);
    let seed = context.tables.choice_seed;
    let work = Work::made((buffer, view), owner, seed, Verdict::Forward(decision));
    context.count(0, CounterUpdate::Created(owner, Created::Probe), work.volume);
    Some(work)
}

/// Takes probes and their answers out of what came from functions, as far as they come bare.
pub(crate) fn receive(vector: &mut [Work], context: &mut Context<'_>) {
    if !context.health.has_probed() {
        return;
    }
    for work in vector {
        let Step::FromFunction(port) = work.step else { continue };
        if answers_link(work, port, context) || is_own(work, port, context) {
            work.step = Step::Decided(Verdict::Consume);
        }
    }
}

fn answers_link(work: &Work, port: PortIndex, context: &mut Context<'_>) -> bool {
    const US: MacAddr = PROXY_MAC;
    let (view, bytes) = (&work.view, work.buffer.bytes());
    let answered = probe::find_answer(US, view, bytes);
    if answered.is_none() && !probe::is_question_of(US, view, bytes) {
        return false;
    }
    context.health.saw_link(context.tables, port, answered);
    true
}

/// Is it a probe of ours that an instance has let through?
pub(crate) fn is_own(work: &Work, port: PortIndex, context: &mut Context<'_>) -> bool {
    if !context.health.has_probed() {
        return false;
    }
    let mark = ProbeMark::find(&work.view, work.buffer.bytes());
    mark.is_some_and(|mark| context.health.saw_mark(mark, context.tables, port))
}

/// Ends a probe that would leave its path, or never entered one.
pub(crate) fn consume(vector: &mut [Work]) {
    for work in vector {
        let is_leaving = match work.step {
            Step::Decided(Verdict::Forward(decision)) => decision.is_ordinary(),
            Step::Decided(Verdict::Replicate { .. }) => true,
            _ => false,
        };
        if is_leaving {
            work.step = Step::Decided(Verdict::Consume);
        }
    }
}
