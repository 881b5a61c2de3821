//! The last stage does what was decided, for whatever packets there are: super-frames, metadata, packets
//! that are too big, copies for groups. Knows how an action is carried out for all wire packets of a
//! frame; refuses to decide anything.

mod flush;

use super::Action;
use super::context::Context;
use super::effects::{Effect, Leaving};
use super::execute::Subject;
use super::gso_batch::{GsoBatcher, GsoKey, Load, TooBig};
use super::output::Output;
use super::too_big::{Answer, Teller};
use super::{ActionExit, Instance, Memory, Rewrite, execute, segment_lists};
use crate::engine::account::tx_batches::{Ends, TxCredit};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::encap::{
    self, Detoured, Header, PathPosition, RouteHeader, SegmentsHeader, Template,
};
use crate::engine::packet::digests::Digests;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use crate::engine::packet::segments::Segments;
use crate::engine::packet::{PortSlot, trim_front};
use crate::engine::state::link_board::Use;
use crate::engine::state::proxy_flows::{Key, Payer, ProxyFlows, Visit};
use crate::engine::state::{rewrite, sojourns};
use crate::engine::tables::Tables;
use crate::engine::tables::path::HopTable;
use crate::engine::vector::decision::{ActionRef, Decision, Verdict};
use crate::engine::vector::owner::{Owner, Passage};
use crate::engine::vector::{Source, Step, Work};
use catena_io::{Buffer, SegmentationKind};
use catena_model::account::{Created, Volume};
use catena_model::topology::PortNumber;
use catena_model::{DropReason, TunnelKind};
use catena_wire::ethernet;
use catena_wire::scalar::IpProtocol;

/// What the last stage keeps between vectors: working memory.
pub(crate) struct Egress {
    gso: GsoBatcher,
    digests: Digests,
    teller: Teller,
}

impl Egress {
    pub(crate) fn new() -> Self {
        Self { gso: GsoBatcher::new(), digests: Digests::default(), teller: Teller::default() }
    }

    /// What packs datagrams: the fast path packs into the same rows.
    pub(crate) fn gso(&mut self) -> &mut GsoBatcher {
        &mut self.gso
    }

    /// What [`GsoBatcher::limit_to`] was told last.
    pub(crate) fn underlay_limit(&self) -> u16 {
        self.gso.limit()
    }

    /// Carries out the verdicts of a vector and empties it.
    pub(crate) fn emit(
        &mut self,
        vector: &mut Vec<Work>,
        memory: &mut ProxyFlows,
        context: &mut Context<'_>,
        out: &mut Output,
    ) {
        self.gso.open();
        let Self { gso, digests, teller } = self;
        let mut executor = Executor { memory, gso, digests, teller, context, out };
        for work in vector.drain(..) {
            match work.step {
                Step::Decided(Verdict::Drop(reason)) => executor.context.end_work(work, reason),
                Step::Decided(Verdict::Consume) => executor.context.consume(work),
                Step::Decided(Verdict::Forward(decision)) => executor.forward(work, &decision),
                Step::Decided(Verdict::Tell(node)) => executor.tell(work, node),
                Step::Decided(Verdict::Replicate { network, from }) => {
                    executor.replicate(work, network, from);
                }
                // Every stage before leaves a verdict or the next one's step.
                _ => executor.context.end_work(work, DropReason::NoPath),
            }
        }
    }
}

/// What carries the action of one packet out.
struct Executor<'l, 'e> {
    memory: &'l mut ProxyFlows,
    gso: &'l mut GsoBatcher,
    digests: &'l mut Digests,
    teller: &'l mut Teller,
    context: &'l mut Context<'e>,
    out: &'l mut Output,
}

impl Executor<'_, '_> {
    fn forward(&mut self, work: Work, decision: &Decision) {
        debug_assert_eq!(decision.epoch, self.context.epoch, "the verdict is of older tables");
        let (actions, tables) = (self.context.actions, self.context.tables);
        let made;
        let action = match decision.action {
            ActionRef::Hop(number) => actions.action(number),
            other => {
                made = Action::ordinary(other, tables, self.context.slots).ok();
                made.as_ref()
            }
        };
        match action {
            Some(action) if self.may_wait(action) => self.act_in_turn(work, action, decision),
            Some(action) => self.act(work, action, decision),
            None => self.context.end_work(work, DropReason::NoPath),
        }
    }

    /// By which link a packet leaves, and with which header, whose own link is dead or doubted.
    fn go_round(
        &self,
        number: PortNumber,
        (action, packets): (&Action, u64),
        header: &Header,
    ) -> Result<Option<(Action, Header)>, DropReason> {
        let Context { links, slots, tables, .. } = &*self.context;
        let detour = Detoured::of(header.bytes(), tables.positions.tag_key())?;
        let detour = detour.and_then(|detour| {
            let other = PortNumber::new(detour.port)?;
            let slot = slots.of_port(other.link_id()).filter(|slot| slots.is_link(*slot))?;
            (links.use_of(detour.port) == Use::Sound).then_some((detour, other, slot))
        });
        let Some((detour, other, slot)) = detour else {
            // Silence alone is no proof, and there is no other way.
            let is_dead = links.use_of(number.get()) == Use::Dead;
            return if is_dead { Err(DropReason::LinkDead) } else { Ok(None) };
        };
        links.detoured(number.get(), packets);
        Ok(Some((self.by_link(action, (other, slot)), header.with(detour.bytes()))))
    }

    /// The same by another link, with what has been written.
    fn by_link(&self, action: &Action, (number, slot): (PortNumber, PortSlot)) -> Action {
        let (owner, _) = self.context.slots.owner(slot);
        let exit = action.exit.by_link(number, slot, owner);
        Action { exit, rewrite: Rewrite::Nothing, is_repeated: false }
    }

    fn act(&mut self, work: Work, action: &Action, decision: &Decision) {
        let mut subject =
            Written { executor: self, work, decision, header: Header::EMPTY, link: None };
        let written = execute::write(action, &mut subject, decision.destination);
        let Written { work, mut header, link, .. } = subject;
        if let Err(reason) = written {
            return self.context.end_work(work, reason);
        }
        let onward = link.map(|link| self.by_link(action, link));
        let (mut action, other) = (onward.as_ref().unwrap_or(action), &mut None);
        if let ActionExit::Link { number, .. } = action.exit
            && self.context.links.use_of(number.get()) != Use::Sound
        {
            match self.go_round(number, (action, work.volume.packets), &header) {
                Ok(Some((round, round_header))) => {
                    header = round_header;
                    action = other.insert(round);
                }
                Ok(None) => {}
                Err(reason) => return self.context.end_work(work, reason),
            }
        }
        let ends = action.ends(work.owner, work.path);
        self.note(&work, action, decision, (&header, link.is_some()));
        self.context.trace.note(work.copy, || Effect::Counted(CounterUpdate::Sent(ends)));
        match &action.exit {
            ActionExit::Node { to, tunnel, .. } => {
                let load = Load { to: *to, kind: *tunnel, ends, header: &header };
                if let Some(large) = self.gso.pack(work, &load, self.context, self.out) {
                    self.refuse(large, decision);
                }
            }
            ActionExit::Link { slot, .. } => {
                self.leave_by_link(work, ends, *slot, &header, decision);
            }
            ActionExit::Instance(Instance { slot, .. }) | ActionExit::Port { slot, .. } => {
                if header.bytes().is_empty() && !is_super_frame_in_tunnel(&work) {
                    self.hand_out(work.buffer, ends, work.volume, *slot);
                } else {
                    self.leave_in_pieces(work, ends, *slot, &header);
                }
            }
        }
    }

    /// `goes_on`: its header is what is left of another.
    fn note(
        &mut self,
        work: &Work,
        action: &Action,
        decision: &Decision,
        (header, goes_on): (&Header, bool),
    ) {
        self.context.trace.note(work.copy, || {
            let (destination, source) = action.macs(decision.destination);
            let tunnel = match action.exit {
                ActionExit::Node { tunnel, .. } => tunnel,
                ActionExit::Instance(_) | ActionExit::Port { .. } | ActionExit::Link { .. } => {
                    TunnelKind::Vxlan
                }
            };
            let (exit, stage, replaces) = (action.exit(), action.stage(), header.replaces());
            let (header, flow_hash) = (header.in_front_of(work.buffer.len()), work.flow_hash);
            Effect::Leaves(Leaving {
                exit,
                stage,
                tunnel,
                header,
                replaces,
                goes_on,
                destination,
                source,
                flow_hash,
            })
        });
    }

    /// Ends a packet that is too big for its way, and tells its sender.
    fn refuse(&mut self, large: TooBig, decision: &Decision) {
        let asked = network_ahead(decision, self.context.tables);
        let reason = match self.teller.answer(&large, asked, self.context) {
            Ok(answer) => {
                self.send_answer(answer);
                DropReason::MtuExceeded
            }
            Err(reason) => reason,
        };
        self.context.end_work(large.work, reason);
    }

    /// Sends a packet of IPv6 to another node by the underlay, as it is.
    fn tell(&mut self, mut work: Work, node: NodeIndex) {
        let tunnel = encap::SEGMENTED;
        let Some(to) = self.context.tables.node_end(node, tunnel) else {
            return self.context.end_work(work, DropReason::NoSegments);
        };
        let ends = Ends { owner: work.owner, to: Owner::Tunnels, passage: Passage::Ordinary };
        if !trim_front(&mut work.buffer, ethernet::HEADER_BYTES) {
            return self.context.end_work(work, DropReason::MalformedEthernet);
        }
        let Self { gso, context, out, .. } = self;
        if !gso.fits((to, tunnel), work.buffer.len(), context.tables) {
            return context.end_work(work, DropReason::MtuExceeded);
        }
        let (batch, flow_hash) = (out.batches.open(ends), work.flow_hash);
        let key = GsoKey { flow_hash, to, kind: tunnel, batch };
        let batch = gso.pack_plain(work.buffer, work.volume, key, context.pool, out);
        out.batches.add(batch, work.volume);
        context.counters.held(work.owner, 1);
    }

    fn send_answer(&mut self, Answer { work, action }: Answer) {
        let slots = self.context.slots;
        let Ok(action) = Action::ordinary(action, self.context.tables, slots) else {
            return self.context.end_work(work, DropReason::MalformedVxlan);
        };
        let ends = action.ends(work.owner, None);
        match (&action.exit, &action.rewrite) {
            (ActionExit::Port { slot, .. }, _) => {
                self.hand_out(work.buffer, ends, work.volume, *slot);
            }
            (ActionExit::Node { to, tunnel, .. }, Rewrite::Header(header)) => {
                let load = Load { to: *to, kind: *tunnel, ends, header: &header.as_header() };
                // An underlay too small even for this: nobody is told of an answer.
                if let Some(large) = self.gso.pack(work, &load, self.context, self.out) {
                    self.context.end_work(large.work, DropReason::MtuExceeded);
                }
            }
            _ => self.context.end_work(work, DropReason::NoPath),
        }
    }

    /// Notes that a packet goes into an unaware function; one by one, if what comes out of it could
    /// be on another path as well.
    fn remember(
        &mut self,
        work: &Work,
        memory: &Memory,
        instance: &Instance,
        decision: &Decision,
    ) -> Result<(), DropReason> {
        let flow = work.view.flow.ok_or(DropReason::MalformedIp)?;
        let Context { tables, now_ns, epoch, .. } = *self.context;
        let position = decision.position;
        let path = (tables.positions.id(position), self.context.counters.path_ref(position).serial);
        let visit = execute::visit(instance, position, path, tables, epoch);
        let payer = payer(work, &visit, self.context);
        let hops = &tables.path(tables.positions.place(position).path).hops;
        let rewrites = hops.get(usize::from(visit.hop)).and_then(|hop| hop.rewrites.as_ref());
        let kept = rewrites.map(|entry| rewrite::kept(entry, flow));
        let user = work.user.identity();
        let Memory { egress, serial, network } = *memory;
        // A user may be moved between chains while packets of his are inside.
        let is_shared = {
            let port = tables.port(egress);
            port.is_shared() || (user != 0 && port.is_shared_by_slices())
        };
        // Each packet with records has a header of its own, and others of its path must not be taken for one.
        let has_records =
            tables.path(tables.positions.place(position).path).entry.telemetry.is_some();
        let is_shared = is_shared || has_records;
        if let Some(name) = position.records() {
            self.context.carried.records.note_visit(name);
        }
        let flows = std::iter::once(flow).chain(kept);
        let keys = flows.map(|flow| Key { egress: serial, network, flow, user });
        for key in keys.clone() {
            if is_shared {
                let digests = self.digests.of(&work.buffer, &work.view);
                self.memory.remember_each(now_ns, key, (visit, payer), digests)?;
            } else {
                self.memory.remember(now_ns, key, (visit, payer), work.volume.packets)?;
            }
        }
        // What comes out of a function that rewrites is known by its order at best.
        if rewrites.is_none() && !self.context.is_probe {
            let key = Key { egress: serial, network, flow, user };
            self.mark(work, &key, (position, instance.local));
        }
        self.context.trace.note(work.copy, || Effect::Remembered { keys: keys.collect(), visit });
        Ok(())
    }

    /// Times a packet that goes into the instance with this number, if it is due.
    fn mark(&mut self, work: &Work, key: &Key, (position, local): (PathPosition, u32)) {
        let Context { now_ns, counters, .. } = &mut *self.context;
        let path = counters.path_ref(position);
        // With the first of a flow, as the fast path does: to time packets asks for no memory.
        counters.make_room(path, local);
        let packets = work.volume.packets;
        if !self.memory.is_due(key.egress, packets) {
            return;
        }
        let telling = sojourns::telling(&work.view, work.buffer.bytes());
        if self.memory.mark(*now_ns, key, telling, packets) {
            counters.sampled(path, local);
        }
    }

    /// A frame for a port, super-frames whole.
    fn hand_out(&mut self, buffer: Buffer, ends: Ends, volume: Volume, to: PortSlot) {
        self.context.counters.held(ends.owner, volume.packets);
        let share = self.out.batches.enter(TxCredit { ends, volume });
        execute::hand_out(buffer, to, share, self.out);
    }

    /// Frames on a source route, which grow by it.
    fn leave_by_link(
        &mut self,
        mut work: Work,
        ends: Ends,
        to: PortSlot,
        header: &Header,
        decision: &Decision,
    ) {
        let segments = match Segments::of(&mut work.buffer, &work.view) {
            Ok(segments) => segments,
            Err(reason) => return self.context.end_work(work, reason),
        };
        let mtu = header.mtu(self.gso.underlay_mtu(self.context.tables));
        let frame_bytes_max = (mtu + ethernet::HEADER_BYTES).saturating_sub(header.longest_added());
        if frame_bytes_max < segments.len(0) {
            return self.refuse(TooBig { work, segments, frame_bytes_max }, decision);
        }
        self.leave_cut(work, &segments, ends, to, header);
    }

    /// Frames for a function that reads chain headers, and what is in a tunnel of its sender: no kernel
    /// segments what follows such headers when a socket hands it over, so that is done here.
    fn leave_in_pieces(&mut self, mut work: Work, ends: Ends, to: PortSlot, header: &Header) {
        match Segments::of(&mut work.buffer, &work.view) {
            Ok(segments) => self.leave_cut(work, &segments, ends, to, header),
            Err(reason) => self.context.end_work(work, reason),
        }
    }

    fn leave_cut(
        &mut self,
        work: Work,
        segments: &Segments,
        ends: Ends,
        to: PortSlot,
        header: &Header,
    ) {
        for index in 0..segments.count() {
            let bytes = segments.len(index) as u64;
            let volume = Volume { packets: 1, bytes };
            let buffer = self.context.take_buffer(work.owner).and_then(|mut buffer| {
                if header.append_to(&mut buffer, index, |buffer| {
                    segments.append_to(work.buffer.bytes(), index, buffer)
                }) {
                    return Some(buffer);
                }
                self.context.pool.put(buffer);
                None
            });
            match buffer {
                Some(buffer) => self.hand_out(buffer, ends, volume, to),
                None => {
                    let reason = DropReason::BuffersExhausted;
                    self.context.trace.note(work.copy, || Effect::Dropped { reason });
                    self.context.counters.dropped(work.owner, work.path, reason, 1);
                }
            }
        }
        self.context.pool.put(work.buffer);
    }

    /// A copy to everybody in the network; the frame itself goes to the last of them.
    fn replicate(&mut self, work: Work, index: NetworkIndex, from: Source) {
        let tables = self.context.tables;
        let network = tables.network(index);
        let may_hear = |port: &&PortIndex| {
            !tables.port(**port).is_inside() && !tables.is_same_machine(from, **port)
        };
        let ports = network.ports.iter().filter(may_hear);
        let nodes = network.members.iter().filter(|_| from != Source::Tunnel);
        let nodes = nodes.map(|node| ActionRef::Network(index, *node));
        let exits = ports.map(|port| ActionRef::Port(*port)).chain(nodes);
        let mut exits = exits.peekable();
        if exits.peek().is_none() {
            let reason = DropReason::UnknownMac;
            self.context.end_work(work, reason);
            return;
        }
        let mut original = Some(work);
        let mut number = 0;
        while let Some(exit) = exits.next() {
            let is_last = exits.peek().is_none();
            let copy = if is_last {
                original.take()
            } else {
                original
                    .as_ref()
                    .and_then(|work| self.context.copy(work, number, Created::Replica, None))
            };
            let own_number = number;
            number = number.saturating_add(1);
            let Some(mut copy) = copy else { continue };
            copy.copy = own_number;
            self.forward(copy, &Decision::ordinary(exit, self.context.epoch));
        }
    }
}

/// A packet of any kind, and the header that will stand in front of each of its wire packets.
struct Written<'w, 'l, 'e> {
    executor: &'w mut Executor<'l, 'e>,
    work: Work,
    decision: &'w Decision,
    header: Header,
    /// The link that it leaves by; none: that of the action.
    link: Option<(PortNumber, PortSlot)>,
}

impl Subject for Written<'_, '_, '_> {
    fn frame(&mut self) -> &mut [u8] {
        self.work.buffer.bytes_mut()
    }

    fn put_header(&mut self, template: &Template) -> Result<(), DropReason> {
        let Context { tables, carried, .. } = &*self.executor.context;
        self.header = template.header(&tables.positions, carried, self.decision.position)?;
        Ok(())
    }

    /// What is left of the header that the packet came with leads on; else one is written, over as many functions as
    /// the flow's is good for.
    fn put_route(&mut self, route: &RouteHeader, instance: u16) -> Result<(), DropReason> {
        let Self { work, decision, executor, .. } = self;
        let Context { tables, carried, pathlets, slots, .. } = &mut *executor.context;
        let (frame, position) = (work.buffer.bytes(), decision.position);
        let known = (&tables.positions, &**carried, &**tables.exits.reducers());
        let left = encap::go_on(known, position, frame, route);
        let onward = left.and_then(|(header, number)| {
            let slot = slots.of_port(number.link_id()).filter(|slot| slots.is_link(*slot))?;
            Some((header, (number, slot)))
        });
        if let Some((header, link)) = onward {
            self.header = header;
            self.link = Some(link);
            return Ok(());
        }
        let flow = (&work.view, work.flow_hash);
        let route = pathlets.header((position, instance), flow, tables).unwrap_or(route);
        let positions = &tables.positions;
        self.header = route.write(frame, positions.id(position), positions.tag_key())?;
        Ok(())
    }

    fn put_segments(
        &mut self,
        segments: Option<&SegmentsHeader>,
        instance: u16,
    ) -> Result<(), DropReason> {
        let Self { work, decision, executor, .. } = self;
        let (tables, position) = (executor.context.tables, decision.position);
        let of_flow;
        let segments = match segments {
            Some(segments) => segments,
            None => {
                let chosen = |hop: &HopTable| {
                    hop.choose_index(hop.hash(&work.view, work.flow_hash, tables.choice_seed))
                };
                of_flow = segment_lists::header((position, instance.into()), chosen, tables)?;
                &of_flow
            }
        };
        let says = (tables.positions.id(position), position.ttl());
        let leaving = position.records().and_then(|name| {
            let recorder = executor.context.recorder();
            executor.context.carried.records.leave(name, work.volume.packets, recorder)
        });
        self.header = segments.write(work.buffer.bytes(), says, work.flow_hash, leaving)?;
        Ok(())
    }

    fn give(&mut self) -> Result<(), DropReason> {
        let Context { tables, carried, .. } = &*self.executor.context;
        let frame = self.work.buffer.bytes();
        self.header = encap::give((&tables.positions, carried), self.decision.position, frame)?;
        Ok(())
    }

    fn remember(&mut self, instance: &Instance, memory: &Memory) -> Result<(), DropReason> {
        self.executor.remember(&self.work, memory, instance, self.decision)
    }
}

/// Who pays for what is remembered of a packet.
fn payer(work: &Work, visit: &Visit, context: &Context<'_>) -> Payer {
    let Owner::Port { slot, serial } = work.owner else { return Payer::Path(visit.serial) };
    match context.slots.owner(slot) {
        (owner, Some(port))
            if owner == work.owner
                && !visit.position.is_of_slice()
                && !context.tables.port(port).is_function() =>
        {
            Payer::Port(serial)
        }
        _ => Payer::Path(visit.serial),
    }
}

/// Is it a super-frame of TCP inside a tunnel that its sender has made?
fn is_super_frame_in_tunnel(work: &Work) -> bool {
    let segmentation = work.buffer.offload.segmentation;
    work.view.protocol == Some(IpProtocol::UDP)
        && segmentation.is_some_and(|one| one.kind != SegmentationKind::UdpL4)
}

/// The network in which the packet is delivered in the end, if it is here.
fn network_ahead(decision: &Decision, tables: &Tables) -> Option<NetworkIndex> {
    match decision.action {
        ActionRef::Network(network, _) => Some(network),
        ActionRef::Hop(_) => {
            tables.path(tables.positions.place(decision.position).path).destination
        }
        ActionRef::Port(_) => None,
    }
}
