//! Headers of source routes, as the slow path would write them, for the latest frames that were alike: what is written
//! depends on the action, the path, the addresses and the type of the frame, what is left of the header that it
//! came with, and the instances that its flow meets further on.

use super::FastPath;
use super::context::FastPathContext;
use super::packet_meta::{Kind, PacketMeta, RouteRef};
use crate::engine::action::{Action, ActionExit, Rewrite};
use crate::engine::encap::{self, CarriedRef, Header, PathPosition};
use crate::engine::packet::Packet;
use crate::engine::state::link_board::Use;
use catena_model::PathId;
use catena_wire::ethernet::{ADDRESSES_BYTES, HEADER_BYTES};

/// Headers that are kept.
const KEPT: usize = 128;
/// An odd number without pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    /// The number of the action.
    action: u32,
    path: PathId,
    ethernet: [u8; HEADER_BYTES],
    rest: Option<CarriedRef>,
    /// The number of the header that leads to the instances of its flow; 0: all flows have one.
    of_flow: u64,
}

impl Question {
    fn place(&self) -> usize {
        let [a, b, c, d, e, f, g, h, others @ ..] = &self.ethernet;
        let addresses = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        let others = others.iter().fold(0_u64, |word, octet| word << 8 | u64::from(*octet));
        let own = u64::from(self.action) << 32 | u64::from(self.path.0);
        let rest = self.rest.map_or(0, CarriedRef::number);
        let words = [addresses, others, own, rest ^ self.of_flow.rotate_right(8)];
        let hash = words.iter().fold(0_u64, |hash, word| (hash ^ word).wrapping_mul(FACTOR));
        (hash >> 40) as usize % KEPT
    }
}

#[derive(Debug)]
struct Kept {
    question: Question,
    header: Header,
    /// How often the place has been filled.
    turn: u32,
}

/// Those of the latest questions.
#[derive(Debug, Default)]
pub(super) struct Routes(Box<[Option<Kept>]>);

impl Routes {
    /// Other tables are in force.
    pub(super) fn forget(&mut self) {
        self.0.fill_with(|| None);
    }

    /// The header with this name; none: another is in its place.
    #[inline]
    pub(super) fn get(&self, name: RouteRef) -> Option<&Header> {
        let kept = self.0.get(usize::from(name.place))?.as_ref()?;
        (kept.turn == name.turn).then_some(&kept.header)
    }

    fn name(
        &mut self,
        question: Question,
        answer: impl FnOnce() -> Option<Header>,
    ) -> Option<RouteRef> {
        if self.0.is_empty() {
            self.0 = std::iter::repeat_with(|| None).take(KEPT).collect();
        }
        let place = question.place();
        let kept = self.0.get_mut(place)?;
        let turn = match kept {
            Some(known) if known.question == question => known.turn,
            other => {
                let turn = other.as_ref().map_or(0, |other| other.turn.wrapping_add(1));
                *other = Some(Kept { question, header: answer()?, turn });
                turn
            }
        };
        Some(RouteRef { place: u16::try_from(place).ok()?, turn })
    }
}

impl FastPath {
    /// Can a packet leave by a link, on a route? Its header is made, if there is none yet; none: the slow path shall
    /// see to it.
    pub(super) fn routed(
        &mut self,
        packet: &Packet,
        meta: &mut PacketMeta,
        (number, action): (u32, &Action),
        context: &mut FastPathContext<'_>,
    ) -> Option<()> {
        let Rewrite::Route { header: own, instance, by_flow } = &action.rewrite else {
            return None;
        };
        let ActionExit::Link { number: link, .. } = &action.exit else { return None };
        // What another node has sent must not go on from here, nothing goes into a cable that is not sound, and nothing
        // overtakes what waits for a way to be flushed.
        if !action.is_repeated
            || matches!(meta.kind, Kind::Tunnel | Kind::Exit)
            || !context.flushes.is_empty()
            || context.links.use_of(link.get()) != Use::Sound
        {
            return None;
        }
        Self::ask_user(packet, meta, context)?;
        let frame = packet.buffer.bytes().get(usize::from(meta.header_bytes)..)?;
        let (position, tables) = (meta.position, context.tables);
        let path = tables.positions.id(position);
        let rest = position.carried().filter(|name| context.carried.holds(*name));
        let mut ethernet = *frame.first_chunk()?;
        if meta.is_given_back() {
            ethernet[..ADDRESSES_BYTES]
                .copy_from_slice(packet.buffer.bytes().get(..ADDRESSES_BYTES)?);
        }
        let at = (position, *instance);
        let of_flow = if *by_flow { of_flow(at, meta, context) } else { 0 };
        let flow_hash = meta.flow_hash;
        let question = Question { action: number, path, ethernet, rest, of_flow };
        let name = self.routes.name(question, || {
            let positions = &tables.positions;
            // Headers in which functions read their way ask no more of a frame.
            let frame = if meta.is_given_back() { &ethernet[..] } else { frame };
            let known = (positions, &*context.carried, &**tables.exits.reducers());
            let left = rest.and_then(|_| encap::go_on(known, position, frame, own));
            match left {
                Some((header, port)) => (port == *link).then_some(header),
                None => {
                    let whole = context.pathlets.header_of_flow(at, flow_hash, tables);
                    let route = whole.map_or(own, |(_, route)| route);
                    route.write(frame, path, positions.tag_key()).ok()
                }
            }
        })?;
        let header = self.routes.get(name)?;
        let mtu = header.mtu(context.gso.underlay_mtu(tables));
        let is_fit = frame.len() + header.longest_added() <= mtu + HEADER_BYTES
            && header.added_bytes() <= packet.buffer.headroom() + usize::from(meta.header_bytes);
        meta.route = Some(name);
        is_fit.then_some(())
    }
}

/// The number of the header that leads to the instances which the flow of a packet meets; 0: there is none beside
/// that of the way to the first of them. Apart, since few packets ask.
#[inline(never)]
fn of_flow(
    at: (PathPosition, u16),
    meta: &mut PacketMeta,
    context: &mut FastPathContext<'_>,
) -> u64 {
    let tables = context.tables;
    meta.flow_hash = meta.chosen_by(at.0, tables.choice_seed);
    let made = context.pathlets.header_of_flow(at, meta.flow_hash, tables);
    made.map_or(0, |(number, _)| number)
}
