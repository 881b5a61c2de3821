//! `explain`: what the engine would do with a packet. A rehearsal is an engine of its own with the
//! tables in force, scratch counters and a scratch memory; its stages are the engine's, and tell their
//! decisions. What the live engine knows beside its tables is lent to it and never changed.
//!
//! Knows what has to be assumed: what comes out of a function. An unaware one gives the packet back
//! as it got it, and so does one that reads source routes; another aware one moves its header on, as RFC 8300
//! section 2.3 asks; a tap returns nothing (docs/adr/0008-explain-rehearses.md). Refuses to forward anything, and to
//! know names: they are `render`'s.

mod lend;
mod links;

use crate::engine::LinkBoard;
use crate::engine::action::effects::{Effect, Leaving, Noted, Trace};
use crate::engine::action::output::{Datagram, Frame, Output};
use crate::engine::config::{EngineConfig, FLOOD_FRAMES_PER_SECOND};
use crate::engine::encap::{self, Carried, Header, PathPosition};
use crate::engine::observe::render::{self, Event};
use crate::engine::observe::{describe, why_not};
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::{Packet, PortSlot};
use crate::engine::state::health::WatchDuty;
use crate::engine::tables::Tables;
use crate::engine::vector::decision::{Exit, Stage};
use crate::engine::{Engine, Passing};
use catena_io::{Buffer, BufferPool};
use catena_model::TunnelKind;
use catena_model::explain::{
    Departure, DepartureBy, ExplainAt, ExplainReply, ExplainRequest, ExplainStep, FrameBytes,
};
use catena_model::program::HopKind;
use catena_model::{DropReason, NodeName};
use catena_wire::ethernet;
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

/// Times that the packet may enter the engine at one node: once more for each function it visits.
const PASSES_MAX: usize = 128;
/// Buffers of a rehearsal: for the packet and its copies.
const BUFFERS: usize = 64;
/// Flows that its proxies remember: those of one packet.
const FLOWS: usize = 256;

/// By which way the live engine's shell would send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of a port, by its slot in the live engine.
    Port(PortSlot),
    /// By a tunnel of this kind.
    Tunnel(TunnelKind),
}

/// One packet on its way through the engine of one node, without a trace in anything that lives.
pub struct Rehearsal {
    engine: Engine,
    pool: BufferPool,
    request: ExplainRequest,
    story: Vec<Event>,
    departures: Vec<Departure>,
    copies: u16,
}

impl Rehearsal {
    /// Prepares one, which takes time in proportion to the tables.
    #[must_use]
    pub fn new(node: NodeName, tables: Arc<Tables>, request: ExplainRequest) -> Self {
        let mut engine = Engine::new(EngineConfig {
            has_fast_path: false,
            has_functions: false,
            node,
            is_coalescing: false,
            flows_max: FLOWS,
            inside_max: FLOWS,
            records_max: FLOWS,
            classified_max: FLOWS,
            flow_seed: 0,
            slice_bits_per_second: None,
            flood_frames_per_second: FLOOD_FRAMES_PER_SECOND,
            probe_secret: 0,
            watch_duty: WatchDuty::Alone,
            links: Arc::new(LinkBoard::new(0)),
            began: None,
            functions_epoch_seconds: 0,
            functions_began_ns: 0,
            meter: None,
            functions_keep: None,
        });
        engine.replace_tables(tables);
        Self {
            engine,
            pool: BufferPool::new(BUFFERS),
            request,
            story: Vec::new(),
            departures: Vec::new(),
            copies: 0,
        }
    }

    /// Takes the packet through the stages until it leaves the node or ends. `live` is the engine
    /// that it is asked about, with the same tables; `refuses` says which way out is closed, and
    /// by which name a packet ends there. Takes microseconds.
    pub fn run(&mut self, live: &Engine, now_ns: u64, refuses: &dyn Fn(Way) -> Option<DropReason>) {
        debug_assert!(Arc::ptr_eq(&live.tables, &self.engine.tables), "the tables are others");
        lend::lend(&mut self.engine, live, &self.request, now_ns);
        let mut next = self.first().and_then(|packet| self.pass_on(packet, live, refuses));
        for _ in 0..PASSES_MAX {
            let Some(packet) = next.take() else { return };
            next = self.pass(now_ns, packet, live, refuses);
        }
        if let Some(packet) = next {
            self.pool.put(packet.buffer);
            self.story.push(Event::Stopped);
        }
    }

    /// What happened, in the user's names.
    ///
    /// # Errors
    /// The request cannot be answered: why, for people.
    pub fn reply(self) -> Result<ExplainReply, String> {
        let (tables, request) = (self.tables(), &self.request);
        let (mut first, mut why_not) = (Vec::new(), Vec::new());
        match &request.at {
            ExplainAt::Port(id) => {
                let port = tables.names.port(*id).ok_or_else(|| {
                    format!(
                        "port {id} is not in program {} of this node; wait until the node has \
                         acknowledged the program that brings it",
                        tables.number
                    )
                })?;
                if let Some(chain) = request.why_not {
                    why_not = why_not::of_chain(tables, chain, port, &request.frame.0);
                }
            }
            ExplainAt::Link(_) => {}
            ExplainAt::Tunnel { tunnel, source } => {
                let action = render::received(tables, *tunnel, *source, &request.frame.0);
                first.push(ExplainStep::new(0, action));
            }
        }
        let steps = render::steps(tables, first, &self.story);
        if steps.is_empty() {
            return Err(format!("a frame of {} bytes fits no buffer", request.frame.0.len()));
        }
        let departures = self.departures.clone();
        Ok(ExplainReply { program: tables.number, steps, departures, why_not })
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.engine.tables
    }

    /// The packet as it is asked about; none when its port is not there, or it fits no buffer.
    fn first(&mut self) -> Option<Packet> {
        let slot = match &self.request.at {
            ExplainAt::Port(id) => Some(self.engine.slots.of_port(*id)?),
            ExplainAt::Link(number) => Some(self.engine.slots.of_port(number.link_id())?),
            ExplainAt::Tunnel { .. } => None,
        };
        let buffer = filled(&mut self.pool, &[&self.request.frame.0])?;
        Some(match (&self.request.at, slot) {
            (ExplainAt::Tunnel { tunnel, source }, _) => {
                Packet::from_tunnel(*tunnel, *source, buffer)
            }
            (ExplainAt::Port(_) | ExplainAt::Link(_), slot) => Packet::from_port(slot?, buffer),
        })
    }

    /// Once through the engine; answers the packet as it comes back from a function.
    fn pass(
        &mut self,
        now_ns: u64,
        packet: Packet,
        live: &Engine,
        refuses: &dyn Fn(Way) -> Option<DropReason>,
    ) -> Option<Packet> {
        let (mut notes, mut out) = (Vec::new(), Output::default());
        let trace = Trace::listening(&mut notes);
        let asks = Some(&live.functions);
        let passing = Passing { trace, is_asked: true, asks, ..Passing::default() };
        self.engine.forward_vector(now_ns, iter::once(packet), &mut self.pool, &mut out, passing);
        let mut left = Left::of(out, &mut self.engine, &mut self.pool);
        let mut positions = BTreeMap::new();
        let mut back = None;
        let before = self.copies;
        for mut noted in notes {
            let copy = noted.copy;
            if copy > 0 {
                noted.copy += before;
                self.copies = self.copies.max(noted.copy);
            }
            let number = noted.copy;
            let effect = noted.effect.clone();
            self.story.push(Event::Noted(noted));
            match effect {
                Effect::Chosen { position, .. } => {
                    positions.insert(copy, position);
                }
                Effect::Leaves(Leaving { exit: Exit::Port(port), stage, header, .. }) => {
                    let Some(bytes) = left.frame(self.engine.slots.of_index(port), &header) else {
                        continue;
                    };
                    if let Some(reason) = refuses(Way::Port(live.slots.of_index(port))) {
                        self.end(number, reason);
                    } else if let (Stage::Into(local), 0) = (stage, copy) {
                        let position = *positions.get(&copy)?;
                        back = self.come_back(position, local, &header, &bytes);
                    }
                }
                Effect::Leaves(Leaving { exit: Exit::Link(_, link), header, .. }) => {
                    let slot = self.engine.slots.of_port(link.link_id());
                    let Some(frame) = slot.and_then(|slot| left.frame(slot, &header)) else {
                        continue;
                    };
                    self.depart_by(link, (number, frame), live, refuses);
                }
                Effect::Leaves(Leaving { exit: Exit::Node(node), tunnel, header, .. }) => {
                    let Some(to) = self.tables().node_end(node, tunnel) else { continue };
                    let Some((tunnel, payload)) = left.payload(to, &header) else { continue };
                    if let Some(reason) = refuses(Way::Tunnel(tunnel)) {
                        self.end(number, reason);
                    } else {
                        let place = self.tables().node_segments(node);
                        let payload = match place.filter(|_| tunnel.is_segmented()) {
                            Some(place) => encap::led_on(payload, place.locator),
                            None => payload,
                        };
                        let (by, payload) =
                            (DepartureBy::Tunnel { to, tunnel }, FrameBytes(payload));
                        self.departures.push(Departure { copy: number, by, payload });
                    }
                }
                _ => {}
            }
        }
        back
    }

    fn end(&mut self, copy: u16, reason: DropReason) {
        self.story.push(Event::Noted(Noted { copy, effect: Effect::Dropped { reason } }));
    }

    /// The packet as the function is assumed to give it back; none when it does not, or by no port
    /// of the program.
    fn come_back(
        &mut self,
        position: PathPosition,
        local: u32,
        header: &[u8],
        bytes: &[u8],
    ) -> Option<Packet> {
        let tables = Arc::clone(&self.engine.tables);
        let place = tables.positions.place(position);
        let hop = tables.path(place.path).hops.get(usize::from(place.hop))?;
        if hop.kind == HopKind::Tap {
            return None;
        }
        let egress: PortIndex =
            tables.path(place.path).local_instances.get(local as usize)?.egress?;
        let slot = self.engine.slots.of_index(egress);
        let is_as_given =
            header.is_empty() || tables.positions.encapsulation(position).is_source_route();
        let (buffer, index) = if is_as_given {
            (filled(&mut self.pool, &[bytes])?, None)
        } else {
            let (moved, next) = moved_on(&tables, &self.engine.carried, position)?;
            let ethernet = header.get(..ethernet::HEADER_BYTES)?;
            let parts = [ethernet, moved.bytes(), bytes.get(header.len()..)?];
            (filled(&mut self.pool, &parts)?, describe::index(&tables, next))
        };
        self.story.push(Event::Assumed { position, local, index });
        Some(Packet::from_port(slot, buffer))
    }
}

/// The chain header behind a function that has been visited, and where it says the packet is.
fn moved_on(
    tables: &Tables,
    carried: &Carried,
    visited: PathPosition,
) -> Option<(Header, PathPosition)> {
    let carrier = encap::of(tables.positions.encapsulation(visited));
    let mut position = visited;
    carrier.advance(&tables.positions, &mut iter::once(&mut position));
    Some((describe::header_of(tables, carried, position)?, position))
}

/// A buffer with these bytes; none when they are too many.
fn filled(pool: &mut BufferPool, parts: &[&[u8]]) -> Option<Buffer> {
    let mut buffer = pool.take()?;
    buffer.clear();
    if parts.iter().all(|part| buffer.append(part)) {
        return Some(buffer);
    }
    pool.put(buffer);
    None
}

/// What one pass wants sent, until each piece has found the note that tells of it.
struct Left {
    frames: Vec<(PortSlot, Vec<u8>)>,
    payloads: Vec<(std::net::IpAddr, TunnelKind, Vec<u8>)>,
}

impl Left {
    /// Takes the bytes, and gives buffers and credits back as if all had been sent.
    fn of(out: Output, engine: &mut Engine, pool: &mut BufferPool) -> Self {
        let mut left = Self { frames: Vec::new(), payloads: Vec::new() };
        let Output { frames, datagrams, mut batches } = out;
        engine.settle(&mut batches);
        for Frame { to, buffer, .. } in frames {
            left.frames.push((to, buffer.bytes().to_vec()));
            pool.put(buffer);
        }
        for Datagram { to, kind, segment_bytes, buffer, .. } in datagrams {
            let size = segment_bytes.map_or(buffer.len(), usize::from).max(1);
            let rows = buffer.bytes().chunks(size);
            left.payloads.extend(rows.map(|row| (to, kind, row.to_vec())));
            pool.put(buffer);
        }
        left
    }

    fn frame(&mut self, to: PortSlot, header: &[u8]) -> Option<Vec<u8>> {
        let is_it = |(port, bytes): &(PortSlot, Vec<u8>)| *port == to && bytes.starts_with(header);
        let place = self.frames.iter().position(is_it)?;
        Some(self.frames.remove(place).1)
    }

    fn payload(&mut self, to: std::net::IpAddr, header: &[u8]) -> Option<(TunnelKind, Vec<u8>)> {
        let found = self
            .payloads
            .iter()
            .position(|(address, _, bytes)| *address == to && bytes.starts_with(header))?;
        let (_, kind, bytes) = self.payloads.remove(found);
        Some((kind, bytes))
    }
}
