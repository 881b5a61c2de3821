//! The first stage: from what ports and tunnels brought to a vector of parsed frames. Knows
//! decapsulation, and which frames cannot be used at all; refuses to decide where any is going.

use super::segment_errors::SegmentErrors;
use super::telemetry;
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::action::execute::address;
use crate::engine::encap::{self, Carried, Headed, HeaderSide, Located, PathPosition};
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use crate::engine::packet::parse::{flow_hash, guess, parse_frame, settle};
use crate::engine::packet::{Arrived, Origin, Packet, trim_front};
use crate::engine::state::fragments::{FragmentVerdict, Fragments};
use crate::engine::tables::Tables;
use crate::engine::tables::path::LocalInstance;
use crate::engine::tables::port::PortTable;
use crate::engine::vector::owner::Owner;
use crate::engine::vector::{Source, Step, Work};
use catena_io::Buffer;
use catena_model::DropReason;
use catena_model::TunnelKind;
use catena_model::account::Created;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet;
use catena_wire::frame::FrameView;
use catena_wire::scalar::EtherType;
use catena_wire::source_route::sr_mpls;
use catena_wire::vxlan::VxlanHeader;

/// A packet whose payload is not looked at yet.
pub(crate) struct Arrival {
    buffer: Buffer,
    owner: Owner,
    lead: Result<Lead, DropReason>,
    located: Result<Located, DropReason>,
    /// The node that has sent it; none: it came by a port.
    sender: Option<NodeIndex>,
}

/// Packets whose payload is not looked at yet, and who was told of those that end so.
pub(crate) struct Arrivals {
    packets: Vec<Arrival>,
    errors: SegmentErrors,
}

impl Arrivals {
    /// With room for so many at once.
    pub(crate) fn with_capacity(packets: usize) -> Self {
        Self { packets: Vec::with_capacity(packets), errors: SegmentErrors::default() }
    }
}

/// What its way in says about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    Port(PortIndex),
    Network(NetworkIndex),
    Header(Encapsulation),
    /// A header whose way comes out at this port.
    Exit(Encapsulation, PortIndex),
}

impl Lead {
    /// Of what the header is that the frame begins with.
    fn encapsulation(self) -> Option<Encapsulation> {
        match self {
            Self::Header(encapsulation) | Self::Exit(encapsulation, _) => Some(encapsulation),
            Self::Port(_) | Self::Network(_) => None,
        }
    }
}

/// Takes packets in: accounts for them, takes tunnel headers off and parses the frames.
pub(crate) fn receive(
    packets: impl Iterator<Item = Packet>,
    arrivals: &mut Arrivals,
    fragments: &mut Fragments,
    vector: &mut Vec<Work>,
    context: &mut Context<'_>,
) {
    let Arrivals { packets: arrivals, errors } = arrivals;
    arrivals.extend(packets.map(|packet| arrive(packet, context)));
    locate(arrivals, context.tables, context.carried);
    for arrival in arrivals.drain(..) {
        parse(arrival, errors, fragments, vector, context);
    }
}

fn arrive(packet: Packet, context: &Context<'_>) -> Arrival {
    let mut buffer = packet.buffer;
    let (owner, lead, sender) = match packet.origin {
        Origin::Port(slot) => {
            let (owner, index) = context.slots.owner(slot);
            let lead = match packet.arrived {
                Arrived::AtExit(port) => exit_lead(port, &buffer),
                _ => index.map(Lead::Port).ok_or(DropReason::UnknownPort),
            };
            (owner, lead, None)
        }
        Origin::Tunnel { kind, source } => {
            let sender = context.tables.sender(kind, source);
            let lead = match sender {
                Some(_) => tunnel_lead(kind, &mut buffer, context.tables),
                None => Err(DropReason::UnknownTunnelSource),
            };
            (Owner::Tunnels, lead, sender)
        }
    };
    Arrival { buffer, owner, lead, located: Err(DropReason::NoPath), sender }
}

fn exit_lead(port: PortIndex, buffer: &Buffer) -> Result<Lead, DropReason> {
    let carrier = encap::on_link(buffer.bytes());
    carrier.map(|carrier| Lead::Exit(carrier, port)).ok_or(DropReason::UnsupportedEncapsulation)
}

fn tunnel_lead(kind: TunnelKind, buffer: &mut Buffer, tables: &Tables) -> Result<Lead, DropReason> {
    if let TunnelKind::Path(encapsulation) = kind {
        return Ok(Lead::Header(encap::carrier(encapsulation, buffer.bytes())));
    }
    let parsed = VxlanHeader::parse(buffer.bytes());
    let (header, _) = parsed.map_err(|_| DropReason::MalformedVxlan)?;
    let network = *tables.vnis.get(&header.vni).ok_or(DropReason::UnknownNetwork)?;
    if !trim_front(buffer, VxlanHeader::LEN) {
        return Err(DropReason::MalformedVxlan);
    }
    Ok(Lead::Network(network))
}

/// Reads the path headers of the vector, one encapsulation after the other.
fn locate(arrivals: &mut [Arrival], tables: &Tables, carried: &mut Carried) {
    for encapsulation in Encapsulation::ALL {
        let carrier = encap::of(encapsulation);
        {
            let frames = &mut headed(arrivals, encapsulation);
            carrier.locate(&tables.positions, carried, HeaderSide::Tunnel, frames);
        }
        carrier.keep(&tables.positions, carried, &mut kept(arrivals, encapsulation, tables));
        carrier.pop(HeaderSide::Tunnel, &mut headed(arrivals, encapsulation));
    }
}

fn headed(
    arrivals: &mut [Arrival],
    encapsulation: Encapsulation,
) -> impl Iterator<Item = Headed<'_>> {
    let is_its = move |lead: Lead| lead.encapsulation() == Some(encapsulation);
    let chosen = arrivals.iter_mut().filter(move |arrival| arrival.lead.is_ok_and(is_its));
    chosen.map(|arrival| Headed { buffer: &mut arrival.buffer, located: &mut arrival.located })
}

/// Those of them that may come so, on paths whose packets take records along.
fn kept<'a>(
    arrivals: &'a mut [Arrival],
    encapsulation: Encapsulation,
    tables: &'a Tables,
) -> impl Iterator<Item = Headed<'a>> {
    let is_its = move |lead: Lead| lead.encapsulation() == Some(encapsulation);
    let chosen = arrivals.iter_mut().filter(move |arrival| {
        let Ok(Located { position, .. }) = arrival.located else { return false };
        let place = tables.positions.place(position);
        let path = tables.path(place.path);
        let may_come = arrival.sender.is_none_or(|node| path.takes_from(node, place.hop));
        arrival.lead.is_ok_and(is_its) && path.entry.telemetry.is_some() && may_come
    });
    chosen.map(|arrival| Headed { buffer: &mut arrival.buffer, located: &mut arrival.located })
}

fn parse(
    mut arrival: Arrival,
    errors: &mut SegmentErrors,
    fragments: &mut Fragments,
    vector: &mut Vec<Work>,
    context: &mut Context<'_>,
) {
    let tables = context.tables;
    let step = arrival.lead.and_then(|lead| match lead {
        Lead::Port(port) if tables.port(port).is_function() => Ok(Step::FromFunction(port)),
        Lead::Port(port) => Ok(Step::FromEndpoint(port)),
        Lead::Network(network) => Ok(Step::Ordinary { network, from: Source::Tunnel }),
        Lead::Header(_) => {
            let position = arrival.located?.position;
            let place = tables.positions.place(position);
            let path = tables.path(place.path);
            if arrival.sender.is_some_and(|node| !path.takes_from(node, place.hop)) {
                return Err(DropReason::ForeignPath);
            }
            Ok(Step::OnPath { position, network: None })
        }
        Lead::Exit(carrier, port) => {
            let position = come_out(arrival.located?.position, port, tables)?;
            if !carrier.capabilities().keeps_frame {
                let (frame, mac) = (arrival.buffer.bytes_mut(), tables.port(port).entry.mac);
                address(frame, Some(mac), None)?;
            }
            Ok(Step::OnPath { position, network: None })
        }
    });
    let path = match step {
        Ok(Step::OnPath { position, .. }) => Some(context.counters.path_ref(position)),
        _ => None,
    };
    let owner = arrival.owner;
    let parsed = step.and_then(|step| {
        let view = parse_frame(arrival.buffer.bytes())?;
        let may_speak = match step {
            Step::FromEndpoint(_) => false,
            Step::FromFunction(port) => speaks_route(tables.port(port), &view),
            _ => true,
        };
        if !may_speak && is_on_source_route(arrival.buffer.bytes(), &view) {
            return Err(DropReason::ForeignChainHeader);
        }
        let volume = settle(&mut arrival.buffer, &view)?;
        Ok((step, view, volume))
    });
    let volume = parsed.map_or_else(|_| guess(&arrival.buffer), |(.., volume)| volume);
    if context.is_injected {
        context.count(0, CounterUpdate::Created(owner, Created::Probe), volume);
    } else {
        context.count(0, CounterUpdate::Received(owner), volume);
    }
    if let Some(path_ref) = path {
        context.count(0, CounterUpdate::TunnelledIn(path_ref), volume);
    }
    match parsed {
        Ok((step, view, volume)) => {
            let work = Work {
                user: context.inspection.into(arrival.buffer.bytes(), &view),
                flow_hash: 0,
                buffer: arrival.buffer,
                owner,
                view,
                volume,
                path,
                slice: None,
                copy: 0,
                new_destination: None,
                step,
            };
            pass_fragments(work, fragments, vector, context);
        }
        Err(reason) => {
            let by = arrival.lead.ok().and_then(Lead::encapsulation);
            if let (Some(by), Some(sender)) = (by, arrival.sender) {
                let packet = arrival.buffer.bytes();
                vector.extend(errors.about(packet, (by, reason), sender, context));
            }
            context.end(arrival.buffer, owner, path, reason, volume);
        }
    }
}

/// Where on its path a packet is that comes out at a port: before the function behind it.
///
/// # Errors
/// No function of the path is behind it, or two: the packet would be met for ever.
pub(crate) fn come_out(
    start: PathPosition,
    port: PortIndex,
    tables: &Tables,
) -> Result<PathPosition, DropReason> {
    let found = place_of(start, tables, |one| one.ingress == Some(port))?;
    found.ok_or(DropReason::PositionElsewhere)
}

/// Where on its path a packet is that says its path alone, and is given back by a port: behind the function there.
///
/// # Errors
/// No function of the path gives back by it, or two do.
pub(crate) fn come_back(
    start: PathPosition,
    port: PortIndex,
    tables: &Tables,
) -> Result<PathPosition, DropReason> {
    let gives_back = |one: &LocalInstance| one.egress == Some(port) && !one.is_tap;
    let visited = place_of(start, tables, gives_back)?.ok_or(DropReason::ForeignChainHeader)?;
    Ok(tables.positions.behind(visited))
}

/// The place of the one function of a path whose instances here are such; none: there is none.
fn place_of(
    start: PathPosition,
    tables: &Tables,
    is_it: impl Fn(&LocalInstance) -> bool,
) -> Result<Option<PathPosition>, DropReason> {
    let path = tables.path(tables.positions.place(start).path);
    let mut hops = path.local_instances.iter().filter(|one| is_it(one)).map(|one| one.hop);
    let Some(hop) = hops.next() else { return Ok(None) };
    if hops.any(|other| other != hop) {
        return Err(DropReason::NoInstance);
    }
    Ok(tables.positions.renew(start, tables.positions.id(start), hop))
}

/// Has a frame the look of one that a link brings, whatever its addresses are? No port may send such a frame: a node
/// that it reached would take its word for the way. A tag that says a priority alone is one, too.
/// Labels are a function's that speaks them, unless they name ports.
pub(super) fn is_on_source_route(frame: &[u8], view: &FrameView) -> bool {
    match view.ethertype {
        EtherType::SOURCE_ROUTE | EtherType::RESIDUE_ROUTE => true,
        EtherType::MPLS => {
            usize::from(view.l3_offset) > ethernet::HEADER_BYTES || sr_mpls::begins_with_port(frame)
        }
        _ => false,
    }
}

/// Is a frame a header of a function that reads source routes? What stands behind a tag is none.
fn speaks_route(port: &PortTable, view: &FrameView) -> bool {
    view.ethertype == EtherType::SOURCE_ROUTE
        && usize::from(view.l3_offset) == ethernet::HEADER_BYTES
        && Encapsulation::SPOKEN.iter().any(|one| one.is_source_route() && port.speaks(*one))
}

/// Lets a packet into the vector; a first fragment with those that waited for it, a later one only
/// when its first is known.
fn pass_fragments(
    mut work: Work,
    fragments: &mut Fragments,
    vector: &mut Vec<Work>,
    context: &mut Context<'_>,
) {
    match fragments.judge(&mut work, context) {
        Ok(FragmentVerdict::GoesOn) => enter(work, vector, context),
        Ok(FragmentVerdict::First(name)) => {
            enter(work, vector, context);
            while let Some((mut later, _)) = fragments.next_free(&name, context) {
                match fragments.judge(&mut later, context) {
                    Ok(_) => enter(later, vector, context),
                    Err(reason) => context.end_work(later, reason),
                }
            }
        }
        Ok(FragmentVerdict::Orphan(name)) => {
            let position = match work.step {
                Step::OnPath { position, .. } => Some(position),
                _ => None,
            };
            fragments.set_aside(work, name, position, context);
        }
        Err(reason) => context.end_work(work, reason),
    }
}

fn enter(mut work: Work, vector: &mut Vec<Work>, context: &mut Context<'_>) {
    if !context.captures.is_empty()
        && let Step::FromEndpoint(port) | Step::FromFunction(port) = work.step
    {
        let port = context.tables.port(port).entry.id;
        context.captures.look(context.now_ns, port, &work.buffer, &work.view);
    }
    work.flow_hash = flow_hash(&work.view, context.tables.choice_seed);
    if let Step::OnPath { position, .. } = work.step {
        work.choose_by_user(position, context.tables.choice_seed);
        telemetry::note(&work, position, context);
    }
    vector.push(work);
}
