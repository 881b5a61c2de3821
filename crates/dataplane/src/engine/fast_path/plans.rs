//! What the slow path decides at each hop for packets without anything special: made once for each
//! tables, by the slow path itself, so that it need not be made for each packet. Knows transforms;
//! refuses to decide: where the answer depends on more than path and hop, the plan says so.

use crate::engine::account::slots::Slots;
use crate::engine::encap::{self, Carried, Departing, Header, HeaderSide, PathPosition};
use crate::engine::packet::PortSlot;
use crate::engine::packet::index::PortIndex;
use crate::engine::stages::forwarder;
use crate::engine::tables::Tables;
use crate::engine::tables::path::{HopTable, InstanceTable, PathTable};
use crate::engine::tables::port::PortTable;
use crate::engine::tables::slices::Scope;
use crate::engine::vector::owner::Owner;
use crate::engine::vector::transform::{Epoch, Exit, Operation, Stage, Transform};
use catena_io::Buffer;
use catena_model::TunnelKind;
use catena_model::id::InstanceId;
use catena_model::program::{Balance, HopKind, PROXY_MAC};
use catena_wire::ethernet::EthernetHeader;
use catena_wire::plain::PlainNsh;
use catena_wire::scalar::MacAddr;
use std::collections::HashMap;
use std::net::IpAddr;

/// Bytes of the longest header of a plan: Ethernet and NSH.
const HEADER_BYTES_MAX: usize = 14 + PlainNsh::LEN;

/// Where a packet goes at a hop.
#[derive(Clone)]
pub(super) enum Plan {
    /// As the slow path says: it depends on more than path and hop.
    SlowPath,
    /// To another node, behind this header.
    Node { to: IpAddr, tunnel: TunnelKind, header: Template },
    /// Into a function that reads headers.
    Aware { door: Instance, header: Template },
    /// Into a function that does not.
    Bare { door: Instance, macs: Macs, egress: u32, network: u32 },
    /// To one of those with these numbers, by the hash of the flow.
    Choose { first: u32, count: u32 },
    /// The path ends here; where slices take packets then.
    End { end: Option<Scope> },
}

/// What is written over the MACs of a frame.
#[derive(Clone, Copy)]
pub(super) struct Macs {
    pub(super) destination: MacAddr,
    /// None: the source stays.
    pub(super) source: Option<MacAddr>,
}

/// A local instance.
#[derive(Clone, Copy)]
pub(super) struct Instance {
    /// The port towards it.
    pub(super) slot: PortSlot,
    pub(super) owner: Owner,
    /// Its number among those of the path.
    pub(super) local: u32,
    pub(super) id: InstanceId,
    /// Index among those that are watched.
    pub(super) watch: Option<u32>,
    /// The port that it sends from, if the program has it.
    pub(super) egress: Option<PortIndex>,
    /// What comes back by that port may be of another network, or of a user who is on another path.
    pub(super) is_met: bool,
    pub(super) is_shared_by_slices: bool,
}

/// A header but for path, time to live and what follows from them.
#[derive(Clone, Copy)]
pub(super) struct Template {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
    /// Where the NSH begins.
    nsh: u8,
}

impl Template {
    fn new(header: &[u8], nsh: usize) -> Option<Self> {
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes.get_mut(..header.len())?.copy_from_slice(header);
        // Metadata would make it longer.
        let is_plain =
            PlainNsh::parse(header.get(nsh..)?).is_some() && header.len() == nsh + PlainNsh::LEN;
        let (len, nsh) = (u8::try_from(header.len()).ok()?, u8::try_from(nsh).ok()?);
        is_plain.then_some(Self { bytes, len, nsh })
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Puts the header in front of a frame, with a path and a time to live.
    #[inline]
    pub(super) fn put_before(&self, buffer: &mut Buffer, spi: u32, ttl: u8) {
        let Some(room) = buffer.prepend(self.len()) else {
            debug_assert!(false, "a frame whose header was taken off has room for another");
            return;
        };
        // Of a length that the compiler knows, a copy is two instructions and no call.
        const TUNNELLED: usize = PlainNsh::GPE_LEN + PlainNsh::LEN;
        match room.len() {
            TUNNELLED => room.copy_from_slice(&self.bytes[..TUNNELLED]),
            HEADER_BYTES_MAX => room.copy_from_slice(&self.bytes[..HEADER_BYTES_MAX]),
            len => room.copy_from_slice(&self.bytes[..len]),
        }
        if let Some(nsh) = room.get_mut(usize::from(self.nsh)..) {
            PlainNsh::patch(nsh, spi, ttl);
        }
    }
}

/// The plans of all hops, and of their instances where there are several: those of one path in a row.
#[derive(Default)]
pub(super) struct Plans {
    plans: Vec<Plan>,
    of_path: Vec<Row>,
    /// Rows that no path has any more, by how many plans there are in them.
    free: HashMap<u32, Vec<u32>>,
}

/// The plans of one path.
#[derive(Clone, Copy, Default)]
struct Row {
    first: u32,
    /// Those of its hops and of its end, which come first.
    hops: u32,
    len: u32,
}

/// What plans are made with.
pub(super) struct With<'t> {
    pub(super) tables: &'t Tables,
    pub(super) slots: &'t Slots,
    pub(super) epoch: Epoch,
}

impl Plans {
    /// Makes those of the path with this index anew; of a path that has gone, or is a slice's, there are
    /// none.
    pub(super) fn make(&mut self, own: u32, with: &With<'_>) {
        let place = own as usize;
        let former = self.of_path.get_mut(place).map(std::mem::take).filter(|row| row.len > 0);
        if let Some(Row { first, len, .. }) = former {
            self.free.entry(len).or_default().push(first);
        }
        let Some(path) = with.tables.paths.find(own) else { return };
        let Some(start) = with.tables.positions.start(path.id) else { return };
        let carried = &Carried::new(0, 0);
        let maker = Maker { with, path, start, carried };
        let mut made = vec![Plan::SlowPath; path.hops.len() + 1];
        for hop in 0..=path.hops.len() {
            made[hop] = maker.plan(hop, &mut made);
        }
        if self.of_path.len() <= place {
            self.of_path.resize(place + 1, Row::default());
        }
        self.of_path[place] = self.put(made, number(path.hops.len() + 1));
    }

    fn put(&mut self, made: Vec<Plan>, hops: u32) -> Row {
        let len = number(made.len());
        let first = self.free.get_mut(&len).and_then(Vec::pop).unwrap_or_else(|| {
            let first = number(self.plans.len());
            self.plans.resize(self.plans.len() + made.len(), Plan::SlowPath);
            first
        });
        let room = self.plans.iter_mut().skip(first as usize);
        for (place, plan) in room.zip(made) {
            *place = match plan {
                // Numbers were counted from the first of the row.
                Plan::Choose { first: among, count } => {
                    Plan::Choose { first: first + among, count }
                }
                other => other,
            };
        }
        Row { first, hops, len }
    }

    /// The number of the plan of a hop of the path with this index; behind the last hop: that of
    /// the end.
    #[inline]
    pub(super) fn at(&self, shape: u32, hop: u16) -> Option<u32> {
        let row = self.of_path.get(shape as usize)?;
        (u32::from(hop) < row.hops).then(|| row.first + u32::from(hop))
    }

    /// The plan with this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Plan> {
        self.plans.get(number as usize)
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Makes the plans of one path.
struct Maker<'t> {
    with: &'t With<'t>,
    path: &'t PathTable,
    start: PathPosition,
    /// Nothing: packets of plans carry no metadata.
    carried: &'t Carried,
}

impl Maker<'_> {
    /// The plan of a hop; those of its instances are added to `more`.
    fn plan(&self, hop_number: usize, more: &mut Vec<Plan>) -> Plan {
        // Labels have no plain form here, and declared metadata is written by the slow path.
        if self.path.encapsulation != encap::PLAIN || !self.path.context.is_empty() {
            return Plan::SlowPath;
        }
        let Some(hop) = self.path.hops.get(hop_number) else {
            let leads_on = self.with.tables.rules.leads_on(self.start.path());
            let end = self.path.chain_end.map(Scope::after);
            return if leads_on { Plan::SlowPath } else { Plan::End { end } };
        };
        if hop.kind != HopKind::Through {
            return Plan::SlowPath;
        }
        match hop.instances.as_slice() {
            [only] if only.weight > 0 => self.into(hop_number, hop, only),
            all @ [_, _, ..] if hop.balance == Balance::Flow => {
                let first = number(more.len());
                more.extend(all.iter().map(|one| self.into(hop_number, hop, one)));
                Plan::Choose { first, count: number(all.len()) }
            }
            _ => Plan::SlowPath,
        }
    }

    fn into(&self, hop_number: usize, hop: &HopTable, instance: &InstanceTable) -> Plan {
        let reached = u16::try_from(hop_number).ok();
        let position =
            reached.and_then(|hop| self.with.tables.positions.renew(self.start, self.path.id, hop));
        let decided = position.and_then(|position| {
            let With { tables, epoch, .. } = *self.with;
            forwarder::visit(true, position, hop.kind, instance.place, tables, epoch).ok()
        });
        let plan = decided.and_then(|transform| self.plan_of(&transform, hop, instance));
        plan.unwrap_or(Plan::SlowPath)
    }

    /// The plan that does what the slow path's transform does; none: it does something else as well.
    fn plan_of(
        &self,
        transform: &Transform,
        hop: &HopTable,
        instance: &InstanceTable,
    ) -> Option<Plan> {
        let source = transform.operations().find_map(|operation| match operation {
            Operation::SetSource(mac) => Some(mac),
            _ => None,
        });
        let is_other = |operation: &Operation| !matches!(operation, Operation::SetSource(_));
        let mut operations = transform.operations().filter(is_other);
        let steps = (operations.next(), operations.next(), operations.next());
        match (transform.exit, transform.stage, steps) {
            (
                Exit::Node(node),
                Stage::Between,
                (Some(Operation::PushPath(position)), None, None),
            ) => {
                let header = self.header(HeaderSide::Tunnel, Header::EMPTY, position)?;
                Some(Plan::Node {
                    to: self.with.tables.node_address(node),
                    tunnel: TunnelKind::Path(self.path.encapsulation),
                    header: Template::new(header.bytes(), PlainNsh::GPE_LEN)?,
                })
            }
            (
                Exit::Port(port),
                Stage::Into(local),
                (Some(Operation::PushPathOverEthernet { destination, position }), None, None),
            ) => {
                let mut before = Header::EMPTY;
                let carrier = self.path.encapsulation.capabilities().ether_type;
                let ethernet = EthernetHeader::untagged(destination, PROXY_MAC, carrier);
                before.add(|room| ethernet.emit(room)).ok()?;
                let header = self.header(HeaderSide::Function, before, position)?;
                let door = self.door(port, local, instance)?;
                Some(Plan::Aware { door, header: Template::new(header.bytes(), 14)? })
            }
            (
                Exit::Port(port),
                Stage::Into(local),
                (
                    Some(Operation::SetDestination(destination)),
                    Some(Operation::Remember { egress, .. }),
                    None,
                ),
            ) if hop.rewrites.is_none() && !self.with.tables.port(egress).is_shared() => {
                let door = self.door(port, local, instance)?;
                let (egress, network) = (self.with.slots.serial(egress), self.path.network);
                Some(Plan::Bare { door, macs: Macs { destination, source }, egress, network })
            }
            _ => None,
        }
    }

    fn door(&self, port: PortIndex, local: u32, instance: &InstanceTable) -> Option<Instance> {
        let own = self.path.local_instances.get(local as usize)?;
        let back = own.egress.map(|egress| self.with.tables.port(egress));
        Some(Instance {
            slot: self.with.slots.of_index(port),
            owner: self.with.slots.owner_of_index(port),
            local,
            id: own.id,
            watch: instance.watch,
            egress: own.egress,
            is_met: back.is_none_or(PortTable::is_met),
            is_shared_by_slices: back.is_none_or(PortTable::is_shared_by_slices),
        })
    }

    /// The header as the slow path makes it.
    fn header(
        &self,
        door: HeaderSide,
        mut header: Header,
        position: PathPosition,
    ) -> Option<Header> {
        let mut outcome = Ok(());
        let departing = Departing { position, header: &mut header, outcome: &mut outcome };
        let carrier = encap::of(self.path.encapsulation);
        carrier.push(
            &self.with.tables.positions,
            self.carried,
            door,
            &mut std::iter::once(departing),
        );
        outcome.ok().map(|()| header)
    }
}
