//! The last stage does what was decided: rewrites, remembers, puts headers in front, copies for
//! groups, and hands frames and datagrams out. Knows operations; refuses to decide anything.

use super::context::Context;
use super::gso_batch::{GsoBatcher, Load, TooBig};
use super::output::{Frame, Output};
use super::too_big::{Answer, Teller};
use crate::engine::account::tx_batches::{Ends, TxCredit};
use crate::engine::encap::{self, Carried, Departing, Header, HeaderSide, PathPosition};
use crate::engine::packet::digests::Digests;
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::packet::segments::Segments;
use crate::engine::state::proxy_flows::{Key, Payer, ProxyFlows, Visit};
use crate::engine::state::rewrite;
use crate::engine::tables::Tables;
use crate::engine::vector::owner::{Owner, Passage};
use crate::engine::vector::trace::Note;
use crate::engine::vector::transform::{Exit, Operation, Stage, Transform, Verdict};
use crate::engine::vector::{Source, Step, Work};
use catena_io::{Buffer, SegmentationKind};
use catena_model::DropReason;
use catena_model::TunnelKind;
use catena_model::account::{Created, Volume};
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet::{self, EthernetHeader};
use catena_wire::scalar::{IpProtocol, Vni};
use catena_wire::vxlan::VxlanHeader;

/// A header that a packet will get, and what came of making it.
pub(crate) type Prepared = (Header, Result<(), DropReason>);

/// What the last stage keeps between vectors: working memory and the proxies' memory.
pub(crate) struct Egress {
    headers: Vec<Prepared>,
    gso: GsoBatcher,
    digests: Digests,
    teller: Teller,
}

impl Egress {
    pub(crate) fn new() -> Self {
        Self {
            headers: Vec::new(),
            gso: GsoBatcher::new(),
            digests: Digests::default(),
            teller: Teller::default(),
        }
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
        if self.headers.len() < vector.len() {
            self.headers.resize(vector.len(), (Header::EMPTY, Ok(())));
        }
        for (header, outcome) in &mut self.headers[..vector.len()] {
            header.clear();
            *outcome = Ok(());
        }
        push_headers(vector, &mut self.headers, context.tables, context.carried);
        self.gso.open();
        for (work, prepared) in vector.drain(..).zip(&self.headers) {
            let verdict = match work.step {
                Step::Decided(verdict) => verdict,
                // Every stage before leaves a verdict or the next one's step.
                _ => Verdict::Drop(DropReason::NoPath),
            };
            match verdict {
                Verdict::Drop(reason) => {
                    context.end_work(work, reason);
                }
                Verdict::Consume => context.consume(work),
                Verdict::Forward(transform) => {
                    let Self { gso, digests, teller, .. } = self;
                    let mut leaving = Leaving { memory, gso, digests, teller, context, out };
                    leaving.forward(work, &transform, prepared);
                }
                Verdict::Replicate { network, from } => {
                    let Self { gso, digests, teller, .. } = self;
                    let mut leaving = Leaving { memory, gso, digests, teller, context, out };
                    leaving.replicate(work, network, from);
                }
            }
        }
    }
}

/// Makes the headers of the whole vector, one encapsulation and door after the other.
fn push_headers(vector: &[Work], headers: &mut [Prepared], tables: &Tables, carried: &Carried) {
    for (work, prepared) in vector.iter().zip(headers.iter_mut()) {
        for operation in operations(work) {
            match operation {
                Operation::PushNetwork(vni) => *prepared = network_header(vni),
                Operation::PushPathOverEthernet { destination, position } => {
                    let carrier = tables.positions.encapsulation(position).capabilities();
                    let header =
                        EthernetHeader::untagged(destination, PROXY_MAC, carrier.ether_type);
                    let added = prepared.0.add(|room| header.emit(room));
                    prepared.1 = added.map_err(|_| DropReason::MalformedEthernet);
                }
                Operation::PushPath(_)
                | Operation::SetDestination(_)
                | Operation::SetSource(_)
                | Operation::Remember { .. } => {}
            }
        }
    }
    for encapsulation in Encapsulation::ALL {
        for door in [HeaderSide::Tunnel, HeaderSide::Function] {
            let pairs = vector.iter().zip(headers.iter_mut());
            let mut departing =
                pairs.filter_map(|(work, (header, outcome))| {
                    let position =
                        operations(work).find_map(|operation| pushed(operation, door))?;
                    (tables.positions.encapsulation(position) == encapsulation)
                        .then_some(Departing { position, header, outcome })
                });
            encap::of(encapsulation).push(&tables.positions, carried, door, &mut departing);
        }
    }
}

fn operations(work: &Work) -> impl Iterator<Item = Operation> {
    let transform = match work.step {
        Step::Decided(Verdict::Forward(transform)) => Some(transform),
        _ => None,
    };
    transform.into_iter().flat_map(Transform::operations)
}

/// The position that an operation writes for a door.
fn pushed(operation: Operation, door: HeaderSide) -> Option<PathPosition> {
    match (operation, door) {
        (Operation::PushPath(position), HeaderSide::Tunnel)
        | (Operation::PushPathOverEthernet { position, .. }, HeaderSide::Function) => {
            Some(position)
        }
        _ => None,
    }
}

fn network_header(vni: Vni) -> Prepared {
    let mut header = Header::EMPTY;
    let added = header.add(|room| VxlanHeader { vni }.emit(room));
    (header, added.map_err(|_| DropReason::MalformedVxlan))
}

/// The hands of the last stage while it works on one packet.
struct Leaving<'l, 'e> {
    memory: &'l mut ProxyFlows,
    gso: &'l mut GsoBatcher,
    digests: &'l mut Digests,
    teller: &'l mut Teller,
    context: &'l mut Context<'e>,
    out: &'l mut Output,
}

impl Leaving<'_, '_> {
    fn forward(&mut self, mut work: Work, transform: &Transform, prepared: &Prepared) {
        debug_assert_eq!(transform.epoch, self.context.epoch, "the verdict is of older tables");
        let applied = self.apply(&mut work, transform).and(prepared.1);
        if let Err(reason) = applied {
            self.context.end_work(work, reason);
            return;
        }
        let header = prepared.0.bytes();
        let Transform { exit, stage, .. } = *transform;
        let note = || Note::Leaves { exit, stage, header: header.to_vec() };
        self.context.trace.note(work.copy, note);
        match exit {
            Exit::Port(port) if header.is_empty() && !is_super_frame_in_tunnel(&work) => {
                self.leave_by_port(work, transform.stage, port);
            }
            Exit::Port(port) => self.leave_in_pieces(work, transform.stage, port, header),
            Exit::Node(node) => {
                let load = Load {
                    to: self.context.tables.node_address(node),
                    kind: tunnel(transform, self.context.tables),
                    passage: passage(&work, transform.stage),
                    header,
                };
                if let Some(large) = self.gso.pack(work, &load, self.context, self.out) {
                    self.refuse(large, transform);
                }
            }
        }
    }

    /// Ends a packet that is too big for its way, and tells its sender.
    fn refuse(&mut self, large: TooBig, transform: &Transform) {
        let asked = network_ahead(transform, self.context.tables);
        let reason = match self.teller.answer(&large, asked, self.context) {
            Ok(answer) => {
                self.send_answer(answer);
                DropReason::MtuExceeded
            }
            Err(reason) => reason,
        };
        self.context.end_work(large.work, reason);
    }

    fn send_answer(&mut self, Answer { work, exit, vni }: Answer) {
        match exit {
            Exit::Port(port) => self.leave_by_port(work, Stage::Ordinary, port),
            Exit::Node(node) => {
                let (header, outcome) = network_header(vni);
                let load = Load {
                    to: self.context.tables.node_address(node),
                    kind: TunnelKind::Vxlan,
                    passage: Passage::Ordinary,
                    header: header.bytes(),
                };
                let untold = match outcome {
                    Ok(()) => self.gso.pack(work, &load, self.context, self.out),
                    Err(reason) => return self.context.end_work(work, reason),
                };
                // An underlay too small even for this: nobody is told of an answer.
                if let Some(large) = untold {
                    self.context.end_work(large.work, DropReason::MtuExceeded);
                }
            }
        }
    }

    /// The operations that change the packet or the memory; headers come later.
    fn apply(&mut self, work: &mut Work, transform: &Transform) -> Result<(), DropReason> {
        for operation in transform.operations() {
            match operation {
                Operation::SetDestination(mac) => {
                    ethernet::set_destination(work.buffer.bytes_mut(), mac)
                        .map_err(|_| DropReason::MalformedEthernet)?;
                }
                Operation::SetSource(mac) => {
                    ethernet::set_source(work.buffer.bytes_mut(), mac)
                        .map_err(|_| DropReason::MalformedEthernet)?;
                }
                Operation::Remember { egress, visited, local } => {
                    self.remember(work, egress, visited, local)?;
                }
                Operation::PushPath(_)
                | Operation::PushPathOverEthernet { .. }
                | Operation::PushNetwork(_) => {}
            }
        }
        Ok(())
    }

    /// Notes that a packet goes into an unaware function; one by one, if what comes out of it could
    /// be on another path as well.
    fn remember(
        &mut self,
        work: &Work,
        egress: PortIndex,
        visited: PathPosition,
        local: u32,
    ) -> Result<(), DropReason> {
        let flow = work.view.flow.ok_or(DropReason::MalformedIp)?;
        let Context { tables, now_ns, epoch, .. } = *self.context;
        let place = tables.positions.place(visited);
        let path = tables.path(place.path);
        let visit = Visit {
            position: visited,
            path: tables.positions.id(visited),
            serial: self.context.counters.seat(visited).serial,
            hop: place.hop,
            instance: path.local_instances[local as usize].id,
            epoch,
        };
        let payer = payer(work, &visit, self.context);
        let serial = self.context.slots.serial(egress);
        let rewrites = path.hops.get(usize::from(place.hop)).and_then(|hop| hop.rewrites.as_ref());
        let kept = rewrites.map(|entry| rewrite::kept(entry, flow));
        let user = work.user.identity();
        // A user may be moved between chains while packets of his are inside.
        let is_shared = {
            let port = tables.port(egress);
            port.is_shared() || (user != 0 && port.is_shared_by_slices())
        };
        for flow in std::iter::once(flow).chain(kept) {
            let key = Key { egress: serial, network: path.network, flow, user };
            if is_shared {
                let digests = self.digests.of(&work.buffer, &work.view);
                self.memory.remember_each(now_ns, key, (visit, payer), digests)?;
            } else {
                self.memory.remember(now_ns, key, (visit, payer), work.volume.packets)?;
            }
        }
        Ok(())
    }

    /// A frame for a port, super-frames whole.
    fn leave_by_port(&mut self, work: Work, stage: Stage, port: PortIndex) {
        let passage = passage(&work, stage);
        self.hand_out(work.buffer, work.owner, passage, work.volume, port);
    }

    fn hand_out(
        &mut self,
        buffer: Buffer,
        owner: Owner,
        passage: Passage,
        volume: Volume,
        port: PortIndex,
    ) {
        let to = self.context.slots.owner_of_index(port);
        let booking = TxCredit { ends: Ends { owner, to, passage }, volume };
        self.context.counters.held(owner, volume.packets);
        let share = self.out.batches.enter(booking);
        let to = self.context.slots.of_index(port);
        self.out.frames.push(Frame { to, buffer, share });
    }

    /// Frames for a function that reads chain headers, and what is in a tunnel of its sender: no kernel
    /// segments what follows such headers when a socket hands it over, so that is done here.
    fn leave_in_pieces(&mut self, mut work: Work, stage: Stage, port: PortIndex, header: &[u8]) {
        let passage = passage(&work, stage);
        let segments = match Segments::of(&mut work.buffer, &work.view) {
            Ok(segments) => segments,
            Err(reason) => {
                self.context.end_work(work, reason);
                return;
            }
        };
        for index in 0..segments.count() {
            let bytes = segments.len(index) as u64;
            let volume = Volume { packets: 1, bytes };
            let buffer = self.context.take_buffer(work.owner).and_then(|mut buffer| {
                let is_whole = buffer.append(header)
                    && segments.append_to(work.buffer.bytes(), index, &mut buffer);
                if is_whole {
                    return Some(buffer);
                }
                self.context.pool.put(buffer);
                None
            });
            match buffer {
                Some(buffer) => self.hand_out(buffer, work.owner, passage, volume, port),
                None => {
                    let reason = DropReason::BuffersExhausted;
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
        let ports = network.ports.iter().filter(|port| !tables.is_same_machine(from, **port));
        let nodes = network.members.iter().filter(|_| from != Source::Tunnel);
        let exits = ports.map(|port| Exit::Port(*port)).chain(nodes.map(|node| Exit::Node(*node)));
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
            let transform = Transform::new(exit, Stage::Ordinary, self.context.epoch);
            match exit {
                Exit::Port(_) => self.forward(copy, &transform, &(Header::EMPTY, Ok(()))),
                Exit::Node(_) => {
                    let transform = transform.then(Operation::PushNetwork(network.vni));
                    self.forward(copy, &transform, &network_header(network.vni));
                }
            }
        }
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
fn network_ahead(transform: &Transform, tables: &Tables) -> Option<NetworkIndex> {
    transform.operations().find_map(|operation| match operation {
        Operation::PushNetwork(vni) => tables.vnis.get(&vni).copied(),
        Operation::PushPath(position) => {
            tables.path(tables.positions.place(position).path).destination
        }
        _ => None,
    })
}

/// The tunnel that the pushed header belongs to.
fn tunnel(transform: &Transform, tables: &Tables) -> TunnelKind {
    let path = transform.operations().find_map(|operation| pushed(operation, HeaderSide::Tunnel));
    path.map_or(TunnelKind::Vxlan, |p| TunnelKind::Path(tables.positions.encapsulation(p)))
}

fn passage(work: &Work, stage: Stage) -> Passage {
    match (stage, work.path) {
        (Stage::Between, Some(seat)) => Passage::Tunnelled(seat),
        (Stage::Into(local), Some(seat)) => Passage::Delivered(seat, local),
        _ => Passage::Ordinary,
    }
}
