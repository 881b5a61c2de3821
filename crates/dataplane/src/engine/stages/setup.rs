//! Reactive set-up: flows that enter their chain only when the controller has answered for them. Knows which
//! flows are asked for, what becomes of their packets meanwhile, and which answers are for the tables in force;
//! refuses to know who waits for how long (see `setups`). What is held is in the account of its port and on no path.

use crate::engine::action::context::Context;
use crate::engine::action::effects::Effect;
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::PortIndex;
use crate::engine::state::affinity::FlowAffinity;
use crate::engine::state::setups::{NewFlow, Said};
use crate::engine::tables::Tables;
use crate::engine::vector::owner::Owner;
use crate::engine::vector::{Step, Work};
use catena_model::DropReason;
use catena_model::program::WhenAway;
use catena_model::setup::{FlowAnswer, legs_of};
use catena_wire::flow::FlowKey;
use std::collections::VecDeque;

/// May a packet enter its path?
pub(crate) enum Admission {
    /// It may.
    Enters,
    /// It is to wait until the controller has answered for its flow, and its step says so.
    Waits,
    /// Nobody answers for its flow.
    Unanswered(WhenAway),
}

/// Looks whether the flow of a packet may enter the path that a rule has found for it.
pub(crate) fn admit(
    work: &mut Work,
    (port, position): (PortIndex, PathPosition),
    flow: &FlowKey,
    affinity: &FlowAffinity,
    context: &mut Context<'_>,
) -> Admission {
    let tables = context.tables;
    let path = tables.path(tables.positions.place(position).path);
    let Some(away) = path.setup.filter(|_| context.said != Said::Yes) else {
        return Admission::Enters;
    };
    if affinity.is_set_up(context.now_ns, affinity.key(flow, path.chain)) {
        return Admission::Enters;
    }
    context.trace.note(work.copy, || Effect::Asked { port, start: position, away });
    if context.is_uncharged {
        return Admission::Enters;
    }
    if context.said == Said::NoAnswer || !context.setups.is_controller_there() {
        return Admission::Unanswered(away);
    }
    work.step = Step::AwaitsSetup { port, start: position };
    Admission::Waits
}

/// Takes those whose flows the controller is asked for out of a vector.
pub(crate) fn set_aside(
    vector: &mut Vec<Work>,
    affinity: &FlowAffinity,
    context: &mut Context<'_>,
) {
    if context.tables.entries.setups.is_empty() {
        return;
    }
    let waits = |work: &mut Work| matches!(work.step, Step::AwaitsSetup { .. });
    for work in vector.extract_if(.., waits) {
        let (owner, volume) = (work.owner, work.volume);
        let Some(new) = new_flow(&work, affinity, context) else {
            context.end_work(work, DropReason::MalformedIp);
            continue;
        };
        match context.setups.hold(context.now_ns, new, work) {
            None => context.counters.held(owner, volume.packets),
            Some((work, reason)) => context.end_work(work, reason),
        }
    }
}

fn new_flow(work: &Work, affinity: &FlowAffinity, context: &Context<'_>) -> Option<NewFlow> {
    let Step::AwaitsSetup { port, start } = work.step else { return None };
    let Owner::Port { slot, serial } = work.owner else { return None };
    let (tables, flow) = (context.tables, work.view.flow?);
    let path = tables.path(tables.positions.place(start).path);
    Some(NewFlow {
        key: affinity.key(&flow, path.chain),
        flow,
        chain: path.chain,
        path: path.id,
        port: tables.port(port).entry.id,
        place: (slot, serial),
    })
}

/// Is an answer made of what these tables say? Of a way that has turned meanwhile it is not.
pub(crate) fn fits(answer: &FlowAnswer, tables: &Tables) -> bool {
    let entries = &tables.entries;
    let path =
        entries.paths.get(&answer.path).filter(|_| entries.setups.contains_key(&answer.path));
    path.is_some_and(|path| legs_of(entries, path) == answer.legs)
}

/// Gives packets that have waited back to a vector, before the classifier.
pub(crate) fn give_back(works: VecDeque<Work>, vector: &mut Vec<Work>, context: &mut Context<'_>) {
    for work in works {
        context.counters.given_back(work.owner, work.volume.packets);
        before_classifier(work, vector, context);
    }
}

/// Puts a packet that was taken from a port before into a vector again.
pub(crate) fn before_classifier(mut work: Work, vector: &mut Vec<Work>, context: &mut Context<'_>) {
    let found = match work.owner {
        Owner::Port { slot, .. } => context.slots.owner(slot),
        Owner::Tunnels => (Owner::Tunnels, None),
    };
    match found {
        (owner, Some(port)) if owner == work.owner => {
            work.step = match context.tables.port(port).is_function() {
                true => Step::OwnTraffic(port),
                false => Step::FromEndpoint(port),
            };
            vector.push(work);
        }
        // Its port has left the program meanwhile.
        _ => context.end_work(work, DropReason::UnknownPort),
    }
}
