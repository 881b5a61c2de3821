//! The SFC proxy (RFC 7665 section 4.6): finds the path again of what comes back from functions.
//! Knows the memory of flows for unaware functions and who may send a chain header; refuses to
//! decide where a path leads.
//!
//! An unaware function's packet is known by the port it comes out of and its five-tuple; where two
//! versions of a path share the function, also by its bytes or its order (`apart`). Where paths of
//! two networks do, the packet says its own by its MAC if the function keeps that (`network_mac`);
//! else it goes in only with an address of its own network, and what could have come from either
//! goes nowhere. Of a function that is declared to rewrite, by what it leaves of the tuple as well
//! (`rewrite`). What is not remembered may be the function's own traffic: an ICMP error, what never
//! leaves its link, or what comes from an address of the function. That is ordinary traffic of its
//! network, unless a chain begins at the port and takes what the function sends from its own
//! addresses. All else was rewritten, came too late or was only routed by the function; as long as a
//! path goes through the port it ends here by name, since it could be a path's packet on its way past
//! the functions that remain.
//!
//! A function that speaks the encapsulation has moved its header on itself. It may only say that
//! it has been visited: the position must be the one behind a hop that it serves, by this port. Of a source route it
//! says the path alone, and the port says the position.
//! From a tap nothing returns: what it sends is its own traffic by the same rules, and a chain
//! header of a tap is foreign.

use super::receive::{come_back, is_on_source_route};
use super::shared_functions::SharedFunctions;
use super::{detour, prober, telemetry};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::action::effects::Effect;
use crate::engine::encap::{self, Headed, HeaderSide, Located, PathPosition};
use crate::engine::packet::index::{PortIndex, UNTOLD_NETWORK};
use crate::engine::packet::{parse, trim_front};
use crate::engine::state::fragments::{FragmentVerdict, Fragments};
use crate::engine::state::health::ProbeWay;
use crate::engine::state::proxy_flows::{Key, ProxyFlows, Recalled, Visit, Whose};
use crate::engine::state::{network_mac, rewrite, sojourns};
use crate::engine::tables::Tables;
use crate::engine::tables::path::{InstancePlace, LocalInstance, PathTable};
use crate::engine::tables::port::PortTable;
use crate::engine::vector::decision::Verdict;
use crate::engine::vector::{Source, Step, Work};
use catena_model::DropReason;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::flow::FlowKey;

/// Puts what returns from functions back on its path. `apart` and `located` are working memory.
pub(crate) fn receive_returned(
    vector: &mut Vec<Work>,
    memory: &mut ProxyFlows,
    apart: &mut SharedFunctions,
    fragments: &mut Fragments,
    located: &mut Vec<Result<Located, DropReason>>,
    context: &mut Context<'_>,
) {
    if memory.watches() {
        apart.tell(vector, memory, context);
    }
    for work in vector.iter_mut() {
        let Step::FromFunction(port) = work.step else { continue };
        match encap::by_ether_type(work.view.ethertype) {
            Some(encapsulation) => uncover(work, port, encapsulation, context.tables),
            None => recall(work, port, memory, context),
        }
    }
    advance(vector, context);
    located.clear();
    located.resize(vector.len(), Err(DropReason::NoPath));
    for encapsulation in Encapsulation::ALL {
        let carrier = encap::of(encapsulation);
        let positions = &context.tables.positions;
        {
            let frames = &mut headed(vector, located, encapsulation);
            carrier.locate(positions, context.carried, HeaderSide::Function, frames);
        }
        carrier.pop(HeaderSide::Function, &mut headed(vector, located, encapsulation));
    }
    stand(vector, located, context.tables);
    admit_all(vector, fragments, located, context);
}

/// Finds out where those are whose header says no more than their path.
fn stand(vector: &[Work], located: &mut [Result<Located, DropReason>], tables: &Tables) {
    for (work, located) in vector.iter().zip(located) {
        let Step::Headed { port, encapsulation } = work.step else { continue };
        if let Ok(found) = *located
            && encapsulation.is_source_route()
        {
            let position = come_back(found.position, port, tables);
            *located = position.map(|position| Located { position, ..found });
        }
    }
}

/// Lets frames from aware functions back on their paths; a first fragment with those that waited
/// for it, a later one only when its first is known.
fn admit_all(
    vector: &mut Vec<Work>,
    fragments: &mut Fragments,
    located: &mut Vec<Result<Located, DropReason>>,
    context: &mut Context<'_>,
) {
    let mut index = 0;
    while let (Some(work), Some(found)) = (vector.get_mut(index), located.get(index)) {
        index += 1;
        let Step::Headed { port, encapsulation } = work.step else { continue };
        match admit(work, (port, encapsulation), *found, fragments, context) {
            Ok(FragmentVerdict::GoesOn) => {}
            Ok(FragmentVerdict::First(name)) => {
                while let Some((later, position)) = fragments.next_free(&name, context) {
                    vector.push(later);
                    let found = position.map(|position| Located { position, header_bytes: 0 });
                    located.push(found.ok_or(DropReason::NoPath));
                }
            }
            Ok(FragmentVerdict::Orphan(name)) => {
                index -= 1;
                let position = found.as_ref().ok().map(|found| found.position);
                let _ = located.remove(index);
                fragments.set_aside(vector.remove(index), name, position, context);
            }
            Err(reason) => work.drop(reason),
        }
    }
}

/// Takes the Ethernet header off that stands before a chain header, if the port may send one. That of a source route
/// is the frame's own.
fn uncover(work: &mut Work, port: PortIndex, encapsulation: Encapsulation, tables: &Tables) {
    let port_table = tables.port(port);
    if port_table.speaks_nothing() {
        work.drop(DropReason::ForeignChainHeader);
    } else if !port_table.speaks(encapsulation) {
        work.drop(DropReason::UnsupportedEncapsulation);
    } else if encapsulation.is_source_route()
        || trim_front(&mut work.buffer, usize::from(work.view.l3_offset))
    {
        work.step = Step::Headed { port, encapsulation };
    } else {
        work.drop(DropReason::UnsupportedOffload);
    }
}

fn recall(work: &mut Work, port: PortIndex, memory: &mut ProxyFlows, context: &mut Context<'_>) {
    let egress = context.slots.serial(port);
    let packets = work.volume.packets;
    let entry = context.tables.port(port);
    let now_ns = context.now_ns;
    let network = network_mac::told_by(entry, work.view.source);
    let whose = work.view.flow.map_or(Whose::Nobodys, |flow| {
        let told = (network.unwrap_or(UNTOLD_NETWORK), flow);
        let mut keys = rewrite::keys(entry, egress, told, work.user.identity());
        let known = keys.find_map(|key| match memory.whose(now_ns, key) {
            Whose::Nobodys => None,
            known => Some(known),
        });
        known.unwrap_or(Whose::Nobodys)
    });
    let visit = match whose {
        Whose::Known(key) if network.is_some() => {
            context.trace.note(work.copy, || Effect::Known { key });
            memory.recall(now_ns, key, packets)
        }
        Whose::Known(_) | Whose::Nobodys | Whose::Several => None,
    };
    let Some(visit) = visit else {
        if whose != Whose::Nobodys || !may_be_own(work, entry) {
            let is_declared = entry.is_on_path();
            let (unknown, undeclared) = (DropReason::UnknownReturn, DropReason::UndeclaredPort);
            work.drop(if is_declared { unknown } else { undeclared });
            return;
        }
        context.trace.note(work.copy, || Effect::OwnTraffic { port });
        context.counters.created_by_function(work.owner, work.volume.packets);
        work.step = Step::OwnTraffic(port);
        return;
    };
    let recalled = [Recalled::surely(visit)];
    if let (Whose::Known(key), Some(local)) = (whose, resume(work, port, &recalled, context)) {
        time(work, (&key, &visit), local, memory, context);
    }
}

/// Notes how long a frame was with the local instance with this number of its path, if it is one that is timed.
pub(crate) fn time(
    work: &Work,
    (key, visit): (&Key, &Visit),
    local: u32,
    memory: &mut ProxyFlows,
    context: &mut Context<'_>,
) {
    let Some(path_ref) = work.path else { return };
    let telling = || sojourns::telling(&work.view, work.buffer.bytes());
    let Context { counters, now_ns, .. } = context;
    memory.time(*now_ns, key, visit, (telling, work.volume.packets), |sojourn| {
        counters.sojourned(path_ref, local, sojourn, *now_ns);
    });
}

/// The position of a visit in the tables in force; none when its path has gone.
pub(crate) fn renewed(visit: &Visit, context: &Context<'_>) -> Option<PathPosition> {
    if visit.epoch == context.epoch {
        return Some(visit.position);
    }
    context.renewed(visit.position, (visit.path, visit.serial), visit.hop)
}

/// Puts a packet back on its path at the visit that is known of it; of a super-frame's wire
/// packets, all on the same visit. Answers which local
/// instance of the path it was.
pub(crate) fn resume(
    work: &mut Work,
    port: PortIndex,
    recalled: &[Recalled],
    context: &mut Context<'_>,
) -> Option<u32> {
    let Recalled { visit, .. } = recalled.first()?;
    let Some(position) = renewed(visit, context) else {
        work.drop(DropReason::PathRemoved);
        return None;
    };
    telemetry::come_back(position, recalled, context);
    let sender = book_return(work, position, context, |local| {
        local.hop == visit.hop && local.id == visit.instance
    });
    if let (Some(path_ref), Some(local)) = (work.path, sender) {
        let count =
            |is: fn(&Recalled) -> bool| recalled.iter().filter(|one| is(one)).count() as u64;
        let rewritten = count(|one| one.is_rewritten);
        let ambiguous = count(|one| one.is_ambiguous);
        context.counters.returned_unlike(path_ref, local, rewritten, ambiguous);
    }
    work.choose_by_user(position, context.tables.choice_seed);
    work.step = Step::Visited { port, position };
    sender
}

/// May a packet that no path expects have been made by the machine behind the port? Of a machine
/// that is no function's, anything may.
pub(crate) fn may_be_own(work: &Work, port: &PortTable) -> bool {
    if network_mac::is_marked(port, work.view.source) {
        return false;
    }
    has_own_source(work, port)
        || work.view.flow.is_none_or(|flow| flow.source.is_unspecified())
        || work.view.is_icmp_error()
        || work.view.is_from_link_local()
        || parse::is_never_classified(&work.view)
}

/// Does a packet come from an address of the machine behind the port? Of a machine that is no
/// function's, any address may be.
pub(crate) fn has_own_source(work: &Work, port: &PortTable) -> bool {
    let own_sources = port.entry.own_sources.as_deref();
    if !port.is_on_path() && own_sources.is_none() {
        return true;
    }
    let is_own = |flow: FlowKey| {
        port.own_addresses.contains(&flow.source)
            || own_sources.is_some_and(|own| own.contains(&flow.source))
    };
    work.view.flow.is_some_and(is_own)
}

/// Counts a packet as come back from the first local instance of its path that may be the sender,
/// and says which; none when there is none.
fn book_return(
    work: &mut Work,
    position: PathPosition,
    context: &mut Context<'_>,
    is_sender: impl Fn(&LocalInstance) -> bool,
) -> Option<u32> {
    let path_ref = context.counters.path_ref(position);
    let path = context.tables.path(context.tables.positions.place(position).path);
    let locals = &path.local_instances;
    let sender = locals.iter().position(is_sender);
    let local = sender.and_then(|place| u32::try_from(place).ok())?;
    work.path = Some(path_ref);
    context.count(work.copy, CounterUpdate::Returned(path_ref, local), work.volume);
    if let Some(watch) = locals.get(local as usize).and_then(|local| local.watch) {
        context.health.saw_return(watch, || way(work, path, local, context.tables));
    }
    Some(local)
}

/// How a packet came through a local instance.
fn way(work: &Work, path: &PathTable, local: u32, tables: &Tables) -> Option<ProbeWay> {
    let hop = path.local_instances.get(local as usize)?.hop;
    let entry = path.hops.get(usize::from(hop))?;
    // What went in looked otherwise.
    let mut instances = entry.instances.iter().filter(|_| entry.rewrites.is_none());
    let flow = work.view.flow?;
    instances.find_map(|instance| match instance.place {
        InstancePlace::Here { ingress, ingress_mac, speaks, local: own, .. } if own == local => {
            let ingress = tables.port(ingress).entry.id;
            let headed = speaks.map(|_| (path.id, hop));
            Some(ProbeWay { flow, ingress, ingress_mac, headed })
        }
        _ => None,
    })
}

/// Ordinary traffic of a function; what it sends to the proxy's MAC goes where the paths through
/// it deliver.
pub(crate) fn own_traffic(work: &mut Work, port: PortIndex, tables: &Tables) {
    let entry = tables.port(port);
    if work.view.destination != PROXY_MAC {
        work.switch_from_port(entry.network, port);
        return;
    }
    let destination = work.view.flow.map(|flow: FlowKey| flow.destination);
    let found = destination.and_then(|address| {
        let known = entry
            .reaches()
            .filter_map(|index| Some((index, tables.network(index).lines.neighbour(address)?)));
        // Of several the same, whatever came first.
        known.min_by_key(|(index, _)| tables.network(*index).entry.id)
    });
    match found {
        Some((network, mac)) => {
            work.new_destination = Some(mac);
            work.step = Step::Ordinary { network, from: Source::Proxy };
        }
        None => work.drop(DropReason::NoNeighbour),
    }
}

/// Moves every recalled position on, one encapsulation after the other.
fn advance(vector: &mut [Work], context: &mut Context<'_>) {
    let tables = context.tables;
    for encapsulation in Encapsulation::ALL {
        let visited = vector.iter_mut().filter_map(|work| match &mut work.step {
            Step::Visited { position, .. } => Some(position),
            _ => None,
        });
        let mut of_this = visited.filter(|p| tables.positions.encapsulation(**p) == encapsulation);
        encap::of(encapsulation).advance(&tables.positions, &mut of_this);
    }
    for work in vector {
        if let Step::Visited { port, position } = work.step {
            context.trace.note(work.copy, || Effect::Recalled { port, position });
            let network = tables.port(port).addressed_in();
            work.step = Step::OnPath { position, network };
        }
    }
}

fn headed<'v>(
    vector: &'v mut [Work],
    located: &'v mut [Result<Located, DropReason>],
    encapsulation: Encapsulation,
) -> impl Iterator<Item = Headed<'v>> {
    let pairs = vector.iter_mut().zip(located);
    pairs.filter_map(move |(work, located)| match work.step {
        Step::Headed { encapsulation: own, .. } if own == encapsulation => {
            Some(Headed { buffer: &mut work.buffer, located })
        }
        _ => None,
    })
}

/// Lets a frame from an aware function back on its path, if it says only what the function may.
fn admit(
    work: &mut Work,
    (port, encapsulation): (PortIndex, Encapsulation),
    located: Result<Located, DropReason>,
    fragments: &mut Fragments,
    context: &mut Context<'_>,
) -> Result<FragmentVerdict, DropReason> {
    let mut position = located?.position;
    let tables = context.tables;
    let next = tables.positions.place(position).hop;
    let visited = next.checked_sub(1);
    let visited = visited.ok_or(DropReason::ForeignChainHeader)?;
    work.view = parse::parse_frame(work.buffer.bytes())?;
    if is_on_source_route(work.buffer.bytes(), &work.view) {
        return Err(DropReason::ForeignChainHeader);
    }
    work.volume = parse::settle(&mut work.buffer, &work.view)?;
    work.user = context.inspection.into(work.buffer.bytes(), &work.view);
    let sight = fragments.judge_headed(work, (port, position), context)?;
    if let FragmentVerdict::Orphan(_) = sight {
        return Ok(sight);
    }
    work.flow_hash = parse::flow_hash(&work.view, tables.choice_seed);
    work.choose_by_user(position, tables.choice_seed);
    if prober::is_own(work, port, context) {
        work.step = Step::Decided(Verdict::Consume);
        return Ok(sight);
    }
    let path = tables.path(tables.positions.place(position).path);
    let serves =
        |local: &LocalInstance| local.hop == visited && local.egress == Some(port) && !local.is_tap;
    // Of siblings that share the port, the one that the flow meets.
    let hop = &path.hops[usize::from(visited)];
    let flow_hash = hop.hash(&work.view, work.flow_hash, tables.choice_seed);
    let chosen = match detour::choose(hop, flow_hash, false, context.health) {
        Ok(choice) => hop.instances.get(choice.instance).map(|instance| instance.place),
        Err(_) => None,
    };
    let chosen = match chosen {
        Some(InstancePlace::Here { local, .. }) => path.local_instances.get(local as usize),
        _ => None,
    };
    let chosen = chosen.filter(|local| serves(local)).map(|local| local.id);
    let is_sender = |local: &LocalInstance| serves(local) && chosen.is_none_or(|id| id == local.id);
    if book_return(work, position, context, is_sender).is_none() {
        return Err(DropReason::ForeignChainHeader);
    }
    // A function that serves the next hop too and sends back what it was given would get it again
    // for ever: such a packet ages.
    if path.local_instances.iter().any(|local| local.hop == next && local.egress == Some(port)) {
        position = position.older()?;
    }
    context.trace.note(work.copy, || Effect::Returned { port, position });
    let entry = tables.port(port);
    // The addresses of a frame on a source route are those by which it was given to the function.
    let network = match encapsulation.is_source_route() {
        true => entry.addressed_in(),
        false => Some(entry.network),
    };
    work.step = Step::OnPath { position, network };
    Ok(sight)
}
