//! Functions that come with Catena, inside the data plane: asks each about the packets that are at it, and does what
//! it says. Knows which packets are asked about together and how each of them is counted; refuses to know what a
//! function does, and where packets go from behind it.
//!
//! Nothing is remembered of a packet that is asked about: it has never left.

use super::wants::Wants;
use super::{forwarder, inquiries, side_by_side};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::action::effects::Effect;
use crate::engine::action::execute::address;
use crate::engine::encap;
use crate::engine::packet::parse;
use crate::engine::stage::{Met, Silence, direction, packet, upper};
use crate::engine::state::affinity::FlowAffinity;
use crate::engine::state::functions::Functions;
use crate::engine::state::running::Running;
use crate::engine::tables::Tables;
use crate::engine::tables::path::{LocalInstance, PathTable};
use crate::engine::vector::decision::Verdict;
use crate::engine::vector::{InsideVisit, Source, Step, Work};
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::account::{Created, Volume};
use catena_model::program::PROXY_MAC;
use catena_nf::Function;
use catena_nf::bucket::ICMP_ERRORS;
use catena_nf::carry_out;
use catena_nf::function::Answer;
use catena_nf::outcome::{
    DropCause, Generated, GeneratedKind, Outcomes, Part, Patch, Verdict as Says,
};
use catena_nf::packet::{Metadata, Time};
use catena_wire::field::Field;
use catena_wire::frame::{FrameView, Network};
use std::ops::Range;

/// How functions are reached.
pub(crate) enum Access<'f> {
    /// They decide, and remember.
    Live(&'f mut Functions),
    /// Somebody asks what they would do; nothing changes.
    Asked(&'f Functions),
}

/// Takes packets on paths through forwarder and functions in turns, until none is at a function any more. A turn
/// takes each a hop further at least, so it ends with the longest path.
pub(crate) fn forward(
    vector: &mut Vec<Work>,
    affinity: &mut FlowAffinity,
    access: &mut Access<'_>,
    context: &mut Context<'_>,
) {
    forwarder::forward(vector, affinity, context);
    while ask(vector, access, context) {
        forwarder::forward(vector, affinity, context);
    }
}

/// Asks about all packets that are at functions, in their order; false: none was.
fn ask(vector: &mut Vec<Work>, access: &mut Access<'_>, context: &mut Context<'_>) -> bool {
    let is_inside = |work: &Work| matches!(work.step, Step::Inside(_));
    if !vector.iter().any(is_inside) {
        return false;
    }
    // Working memory: who only asks has none of his own.
    let (mut made, mut room) = match access {
        Access::Live(functions) => {
            (std::mem::take(&mut functions.made), std::mem::take(&mut functions.room))
        }
        Access::Asked(_) => Default::default(),
    };
    let mut from = 0;
    while let Some(ahead) = vector.get(from..).and_then(|rest| rest.iter().position(is_inside)) {
        let start = from + ahead;
        let Step::Inside(first) = vector[start].step else { break };
        let is_with = |work: &&Work| match work.step {
            Step::Inside(other) => go_the_same_way(&other, &first, context),
            _ => false,
        };
        let mut run = start..start + vector[start..].iter().take_while(is_with).count();
        if let Access::Live(functions) = access
            && side_by_side::is_lent(&first, functions, context)
        {
            from = side_by_side::lend(vector, run, functions, &mut room, context);
            continue;
        }
        // Through all functions of their hop before anybody behind them meets one: whoever asks them in another form
        // lets them meet packets in this order, too.
        while vector[run.clone()].iter().any(is_inside) {
            run = prepare(vector, run, access, &mut room, context);
            ask_once(&mut vector[run.clone()], access, &mut made, context);
        }
        from = run.end;
    }
    vector.append(&mut made);
    if let Access::Live(functions) = access {
        (functions.made, functions.room) = (made, room);
    }
    true
}

/// Asks the functions about packets that go the same way, each the one that it is at.
fn ask_once(
    works: &mut [Work],
    access: &mut Access<'_>,
    made: &mut Vec<Work>,
    context: &mut Context<'_>,
) {
    let is_inside = |work: &Work| matches!(work.step, Step::Inside(_));
    for works in works.chunk_by_mut(|one, other| is_inside(one) == is_inside(other)) {
        let Some(Step::Inside(first)) = works.first().map(|work| work.step) else { continue };
        match access {
            // A probe finds the way through functions, and is none of their affairs.
            _ if context.is_probe => {
                for work in works {
                    tell(work, Vec::new, (None, || false), context);
                    pass(work, context);
                }
            }
            Access::Live(functions) => decide(Batch { works, first, made }, functions, context),
            Access::Asked(functions) => {
                works.iter_mut().for_each(|work| rehearse(work, functions, context));
            }
        }
    }
}

/// What is no IP is asked nobody about.
pub(super) fn pass_unasked(works: &mut [Work], context: &mut Context<'_>) {
    let is_ip = |work: &Work| matches!(work.view.network, Network::Ipv4 | Network::Ipv6);
    for work in works.iter_mut().filter(|work| !is_ip(work)) {
        while matches!(work.step, Step::Inside(_)) {
            pass(work, context);
        }
    }
}

/// Makes packets what the functions take that they are at: as on the wire, where they want that. Answers where they are
/// now.
fn prepare(
    vector: &mut Vec<Work>,
    run: Range<usize>,
    access: &Access<'_>,
    room: &mut Vec<Work>,
    context: &mut Context<'_>,
) -> Range<usize> {
    let functions = match access {
        Access::Live(functions) => &**functions,
        Access::Asked(functions) => *functions,
    };
    let first = vector[run.clone()].iter().find_map(|work| match work.step {
        Step::Inside(visit) => functions.get(visit.function),
        _ => None,
    });
    let wants = Wants::of(first.into_iter());
    pass_unasked(&mut vector[run.clone()], context);
    wants.prepare(vector, run, room, context)
}

/// The instance that a packet is at.
pub(super) fn instance<'t>(
    visit: &InsideVisit,
    context: &Context<'t>,
) -> Option<(&'t PathTable, &'t LocalInstance)> {
    let path = context.tables.path(context.tables.positions.place(visit.position).path);
    path.local_instances.get(visit.local as usize).map(|local| (path, local))
}

/// Tells whoever listens what a function says of a packet. `becomes`: has it given it other ends?
pub(super) fn tell(
    work: &Work,
    rules: impl FnOnce() -> Vec<String>,
    (ends, becomes): (Option<DropReason>, impl FnOnce() -> bool),
    context: &mut Context<'_>,
) {
    if let Step::Inside(visit) = work.step {
        let InsideVisit { position, local, .. } = visit;
        context.trace.note(work.copy, || {
            let becomes = work.view.flow.filter(|_| ends.is_none() && becomes());
            Effect::Judged { position, local, rules: rules(), ends, becomes }
        });
    }
}

/// Does it change one of the ends of a packet?
fn is_of_ends(patch: &Patch) -> bool {
    matches!(
        patch.part,
        Part::Field(
            Field::Source
                | Field::Destination
                | Field::SourcePort
                | Field::DestinationPort
                | Field::IcmpIdentifier
        )
    )
}

/// Puts a packet on the position behind its function, or before the next one of the same hop.
fn pass(work: &mut Work, context: &mut Context<'_>) {
    let Step::Inside(visit) = work.step else { return };
    let Some((_, local)) = instance(&visit, context) else {
        return work.drop(DropReason::NoInstance);
    };
    if let Some(path_ref) = work.path {
        context.count(work.copy, CounterUpdate::Delivered(path_ref, visit.local), work.volume);
    }
    if local.is_tap {
        // It has looked on; nothing goes on from it.
        work.step = Step::Decided(Verdict::Consume);
        return;
    }
    if let Some(name) = visit.position.records() {
        context.carried.records.note_visit(name);
    }
    if let Some(path_ref) = work.path {
        context.count(work.copy, CounterUpdate::Returned(path_ref, visit.local), work.volume);
    }
    if is_addressed_to(work, local, context) {
        readdress(work);
    }
    if !matches!(work.step, Step::Inside(_)) {
        return;
    }
    work.step = behind(&visit, local, context.tables);
}

/// Where a packet is behind a function: at the next one of the same hop, or on the position behind it.
pub(super) fn behind(visit: &InsideVisit, local: &LocalInstance, tables: &Tables) -> Step {
    if let Some(function) = local.next {
        return Step::Inside(InsideVisit { function, local: visit.local + 1, ..*visit });
    }
    let network = local.egress.and_then(|port| tables.port(port).addressed_in());
    Step::Passed { position: encap::next(&tables.positions, visit.position), network }
}

/// Is a frame addressed to the function that it comes from? Who sends to it takes it for a router.
fn is_addressed_to(work: &Work, local: &LocalInstance, context: &Context<'_>) -> bool {
    let mut ports = [local.ingress, local.egress].into_iter().flatten();
    ports.any(|port| context.tables.port(port).entry.mac == work.view.destination)
}

/// Takes the word of a frame's MAC away, where it says nothing any more: behind its path the packet is delivered by its
/// address.
fn readdress(work: &mut Work) {
    match address(work.buffer.bytes_mut(), Some(PROXY_MAC), None) {
        Ok(()) => work.view.destination = PROXY_MAC,
        Err(reason) => work.drop(reason),
    }
}

/// The same, or its end there.
fn settle(work: &mut Work, ends: Option<DropReason>, context: &mut Context<'_>) {
    if let (Step::Inside(visit), Some(path_ref)) = (work.step, work.path)
        && ends == Some(DropReason::FunctionDenied)
    {
        context.count(work.copy, CounterUpdate::Denied(path_ref, visit.local), work.volume);
    }
    pass(work, context);
    if let Some(reason) =
        ends.filter(|_| matches!(work.step, Step::Passed { .. } | Step::Inside(_)))
    {
        work.drop(reason);
    }
}

const fn reason_of(says: Says) -> Option<DropReason> {
    match says {
        Says::Pass => None,
        // No packet waits here; kinds that let them wait stand in no chain (`registry::make`).
        Says::Hold => Some(DropReason::FunctionFailed),
        Says::Drop(DropCause::Rule(_)) => Some(DropReason::FunctionDenied),
        Says::Drop(DropCause::Full) => Some(DropReason::FunctionFull),
    }
}

/// Packets that are asked about together, and what is made because of them.
pub(super) struct Batch<'b> {
    pub(super) works: &'b mut [Work],
    pub(super) first: InsideVisit,
    pub(super) made: &'b mut Vec<Work>,
}

/// Asks a function, and does what it says.
fn decide(batch: Batch<'_>, functions: &mut Functions, context: &mut Context<'_>) {
    let now = functions.time(context.now_ns);
    let way = direction(batch.first.is_backward);
    let asked = batch.works.len();
    let Some((running, mut asking)) = functions.parts(batch.first.function) else {
        return fail(batch.works, context);
    };
    let (mut took_ns, mut silence) = (None, None);
    asking.ask(batch.works.iter().map(packet), |packets, outcomes| {
        let began = context.meter.map(|meter| meter());
        let ask = |function: &mut dyn Function| function.process(now, way, packets, outcomes);
        silence = match running.function.try_with(ask) {
            Ok(Some(())) => None,
            Ok(None) => Some(Silence::Dead),
            Err(why) => Some(Silence::Died(why)),
        };
        let ended = context.meter.map(|meter| meter());
        took_ns = ended.zip(began).map(|(ended, began)| ended.saturating_sub(began));
    });
    if let Some(took_ns) = took_ns {
        asking.stage.note_cost(batch.first.function, asked, took_ns);
        time(batch.works, took_ns, context);
    }
    if let Some(silence) = silence {
        let is_passed = running.outlive(silence, asked, now);
        return outlive(batch.works, is_passed, context);
    }
    if let Err(fault) = running.checked(asked, asking.outcomes, asking.messages) {
        tracing::error!(function = running.name(), "it breaks its profile: {fault}");
        return fail(batch.works, context);
    }
    carry_out(batch, running, asking.outcomes, context);
}

/// Packets end whose function gives no answer.
pub(super) fn fail(works: &mut [Work], context: &mut Context<'_>) {
    works.iter_mut().for_each(|work| settle(work, Some(DropReason::FunctionFailed), context));
}

/// Packets that a dead function says nothing of: `is_passed`, they pass it.
pub(super) fn outlive(works: &mut [Work], is_passed: bool, context: &mut Context<'_>) {
    if !is_passed {
        return fail(works, context);
    }
    works.iter_mut().for_each(|work| settle(work, None, context));
}

/// Does what a function has said about packets, as far as they are still at it.
pub(super) fn carry_out(
    Batch { works, first, made }: Batch<'_>,
    running: &mut Running,
    outcomes: &Outcomes,
    context: &mut Context<'_>,
) {
    if !first.is_backward && running.profile().generates {
        running.note_path(context.tables.positions.id(first.position));
    }
    generate(works, (running, outcomes), made, context);
    change(works, outcomes, context.tables.choice_seed);
    for (at, (work, says)) in works.iter_mut().zip(outcomes.verdicts()).enumerate() {
        if !matches!(work.step, Step::Inside(_)) {
            continue;
        }
        let rules = || match says {
            Says::Drop(DropCause::Rule(rule)) => vec![running.rule(*rule)],
            Says::Drop(DropCause::Full) | Says::Pass | Says::Hold => Vec::new(),
        };
        let becomes = || {
            let mut replaced = outcomes.replaced().iter();
            outcomes.patches_of(at).any(is_of_ends) || replaced.any(|(of, _)| *of as usize == at)
        };
        let ends = reason_of(*says);
        tell(work, rules, (ends, becomes), context);
        settle(work, ends, context);
    }
}

/// A call took so long: each packet in it has its share, on its path.
pub(super) fn time(works: &[Work], took_ns: u64, context: &mut Context<'_>) {
    let packets = |works: &[Work]| works.iter().map(|work| work.volume.packets).sum::<u64>();
    let all = packets(works);
    let each_ns = took_ns.checked_div(all).unwrap_or(0);
    let part = |some: u64| u128::from(took_ns) * u128::from(some) / u128::from(all.max(1));
    let place = |work: &Work| match work.step {
        Step::Inside(visit) => work.path.map(|path| (path, visit.local)),
        _ => None,
    };
    for same in works.chunk_by(|one, other| place(one) == place(other)) {
        if let Some(place) = same.first().and_then(place) {
            let some = packets(same);
            let together_ns = u64::try_from(part(some)).unwrap_or(u64::MAX);
            context.counters.timed(place, some, (together_ns, each_ns));
        }
    }
}

/// Changes packets that go on: what a packet ends with needs no change. One that cannot be changed as it is said ends.
fn change(works: &mut [Work], outcomes: &Outcomes, seed: u64) {
    // Side by side with it, one before it may have ended a packet.
    let is_at_it = |work: &&mut Work| matches!(work.step, Step::Inside(_));
    let goes_on = |at: u32| outcomes.verdicts().get(at as usize) == Some(&Says::Pass);
    let mut rest = outcomes.patches();
    while let Some((at, _)) = rest.first() {
        let count = rest.iter().take_while(|(other, _)| other == at).count();
        let (own, others) = rest.split_at(count);
        rest = others;
        if let Some(work) =
            works.get_mut(*at as usize).filter(|work| goes_on(*at) && is_at_it(work))
        {
            patch(work, own.iter().map(|(_, patch)| patch), seed);
        }
    }
    for (at, place) in outcomes.replaced().iter().filter(|(at, _)| goes_on(*at)) {
        if let Some(work) = works.get_mut(*at as usize).filter(|work| is_at_it(work)) {
            replace(work, outcomes.bytes(place.clone()), seed);
        }
    }
}

fn patch<'p>(work: &mut Work, patches: impl IntoIterator<Item = &'p Patch>, seed: u64) {
    let (view, upper) = (work.view, upper(work));
    // No tunnel of 5G is open here, so nobody asks for what one would say.
    let mut metadata = Metadata::default();
    let frame = (work.buffer.bytes_mut(), &view);
    if carry_out::apply(patches, frame, upper, &mut metadata).is_err() {
        return work.drop(DropReason::FunctionFailed);
    }
    look_again(work, &view, seed);
}

fn replace(work: &mut Work, bytes: &[u8], seed: u64) {
    if work.buffer.offload.segmentation.is_some() || !work.buffer.fill(bytes) {
        return work.drop(DropReason::FunctionFailed);
    }
    work.buffer.offload = Offload::default();
    work.volume.bytes = work.buffer.len() as u64;
    let former = work.view;
    look_again(work, &former, seed);
}

/// Reads a packet that is another now. If its address is, its MAC was that of the former, unless the function has said
/// another.
fn look_again(work: &mut Work, former: &FrameView, seed: u64) {
    let Ok(view) = parse::parse_frame(work.buffer.bytes()) else {
        return work.drop(DropReason::FunctionFailed);
    };
    work.view = view;
    let addresses = |view: &FrameView| view.flow.map(|flow| (flow.source, flow.destination));
    if addresses(&view) != addresses(former) && view.destination == former.destination {
        readdress(work);
    }
    // What chooses instances is what other nodes see of it.
    if let Step::Inside(visit) = work.step {
        work.flow_hash = parse::flow_hash(&work.view, seed);
        work.choose_by_user(visit.position, seed);
    }
}

/// Sends what a function has made on its way: back to where packets come from, as ordinary traffic. Errors are made as
/// many as there may be, however many packets of whoever ask for one.
fn generate(
    works: &[Work],
    (running, outcomes): (&mut Running, &Outcomes),
    made: &mut Vec<Work>,
    context: &mut Context<'_>,
) {
    for (at, generated) in outcomes.generated() {
        let Some(cause) = works.get(*at as usize) else { continue };
        // Who only looks on says nothing to those whom it looks at.
        let Step::Inside(visit) = cause.step else { continue };
        if instance(&visit, context).is_none_or(|(_, local)| local.is_tap) {
            continue;
        }
        let is_error = generated.kind.is_icmp_error();
        if is_error && !running.errors.take(&ICMP_ERRORS, Time(context.now_ns)) {
            running.errors_withheld += 1;
            continue;
        }
        let frame = outcomes.bytes(generated.frame.clone());
        if generated.kind == GeneratedKind::HealthProbe {
            let copy = cause.copy.saturating_add(1);
            inquiries::enter((running, copy), frame, made, context);
            continue;
        }
        let volume = Volume { packets: 1, bytes: frame.len() as u64 };
        context.count(cause.copy, CounterUpdate::Created(cause.owner, Created::Function), volume);
        if let Some(path_ref) = cause.path {
            let local = visit.local;
            context.count(cause.copy, CounterUpdate::Generated(path_ref, local), volume);
        }
        match make(cause, (generated, frame), &visit, context) {
            Ok(work) => made.push(work),
            Err(reason) => context.counters.dropped(cause.owner, None, reason, 1),
        }
    }
}

/// A packet that a function has made because of another.
fn make(
    cause: &Work,
    (generated, frame): (&Generated, &[u8]),
    visit: &InsideVisit,
    context: &mut Context<'_>,
) -> Result<Work, DropReason> {
    // On its path it would be a packet that has never entered there; no kind makes any because of another.
    if generated.direction == direction(visit.is_backward) {
        return Err(DropReason::FunctionFailed);
    }
    let view = parse::parse_frame(frame)?;
    let (_, local) = instance(visit, context).ok_or(DropReason::NoInstance)?;
    let port = local.ingress.ok_or(DropReason::UnknownPort)?;
    let network = context.tables.port(port).network;
    let new_destination = match generated.kind {
        // It is for another host than that which has sent to it.
        GeneratedKind::Hairpin => {
            let to = view.flow.map(|flow| flow.destination).ok_or(DropReason::NoNeighbour)?;
            Some(context.tables.network(network).next_hop(to).ok_or(DropReason::NoNeighbour)?)
        }
        _ => None,
    };
    let mut buffer = context.take_buffer(cause.owner).ok_or(DropReason::BuffersExhausted)?;
    if !buffer.fill(frame) {
        context.pool.put(buffer);
        return Err(DropReason::BuffersExhausted);
    }
    buffer.offload = Offload::default();
    Ok(Work {
        flow_hash: parse::flow_hash(&view, context.tables.choice_seed),
        buffer,
        view,
        volume: Volume { packets: 1, bytes: frame.len() as u64 },
        path: None,
        slice: None,
        copy: cause.copy.saturating_add(1),
        new_destination,
        step: Step::Ordinary { network, from: Source::Proxy },
        ..*cause
    })
}

/// What a function would do with a packet, done to this copy of it.
fn rehearse(work: &mut Work, functions: &Functions, context: &mut Context<'_>) {
    let Step::Inside(visit) = work.step else { return };
    let Some(running) = functions.get(visit.function) else {
        return settle(work, Some(DropReason::FunctionFailed), context);
    };
    let now = functions.time(context.now_ns);
    let way = direction(visit.is_backward);
    let answer = running.function.look(|function| function.ask(now, way, &packet(work)));
    let Some(Answer { verdict, patches, rules }) = answer else {
        return outlive(std::slice::from_mut(work), running.is_passed(), context);
    };
    let ends = reason_of(verdict);
    if ends.is_none() && !patches.is_empty() {
        patch(work, &patches, context.tables.choice_seed);
    }
    let rules = || rules.iter().map(|rule| running.rule(*rule)).collect();
    tell(work, rules, (ends, || patches.iter().any(is_of_ends)), context);
    if matches!(work.step, Step::Inside(_)) {
        settle(work, ends, context);
    }
}

/// The functions of its hop that a packet is still to meet, the one that it is at first.
pub(super) fn way(visit: &InsideVisit, context: &Context<'_>) -> impl Iterator<Item = Met> {
    let path = context.tables.path(context.tables.positions.place(visit.position).path);
    let locals = path.local_instances.get(visit.local as usize..).unwrap_or_default();
    let behind = locals.iter().map_while(|local| local.next);
    [visit.function].into_iter().chain(behind).map(|function| (function, visit.is_backward))
}

/// Do two packets meet the same functions, until they are behind their hop?
fn go_the_same_way(one: &InsideVisit, other: &InsideVisit, context: &Context<'_>) -> bool {
    let place = |visit: &InsideVisit| context.tables.positions.place(visit.position).path;
    let is_at = |visit: &InsideVisit| (visit.function, visit.is_backward);
    one == other
        || is_at(one) == is_at(other)
            && ((place(one), one.local) == (place(other), other.local)
                || way(one, context).eq(way(other, context)))
}
