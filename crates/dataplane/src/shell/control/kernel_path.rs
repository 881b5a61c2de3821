//! The kernel path as agents give it: mapped at once, opened when the ports are here whose frames come
//! by it, so that the kernel goes on with what a data plane before this one has decided. Refuses to
//! know what a transform says.

use super::ports::parse_port;
use super::{Attached, Control, DataplaneError};
use crate::engine::{KernelPort, UnderlayInterface};
use crate::shell::agent_connection::AgentConnection;
use crate::shell::kernel_tables::KernelTables;
use crate::shell::order::Order;
use catena_fastpath::Tables;
use catena_io::{PacketRing, RING_SLOT_BYTES_DEFAULT, RingConfig};
use catena_model::id::PortId;
use catena_model::limits::NODE_FRAMES_COMING_UP_MAX;
use catena_model::program::Locator;
use catena_protocol::message;
use rustix::event::Timespec;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Descriptors of the kernel's tables and programs in one message.
const KERNEL_PARTS_MAX: usize = 15;
/// The tag in front of frames that come up.
const PUNT_TAG_BYTES: u32 = 4;

/// The ring of all ports together, for frames of so many bytes; 0: for super-frames.
fn punt_ring(longest: u32) -> RingConfig {
    let slot_bytes = match longest {
        0 => RING_SLOT_BYTES_DEFAULT,
        longest => RingConfig::of_frames(longest.saturating_add(PUNT_TAG_BYTES)).slot_bytes,
    };
    RingConfig { slots: NODE_FRAMES_COMING_UP_MAX, slot_bytes }
}

/// How long the kernel path waits for ports: what it sends up waits with it.
const OPENING_MAX: Duration = Duration::from_secs(2);
/// How often this is looked at.
pub(super) const OPENING_REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What the kernel repeats decisions with.
pub(super) struct KernelPath {
    /// What it calls tables and programs: the word for an agent that comes later.
    pub(super) identifiers: Vec<u32>,
    /// Held, so that the kernel keeps them even while they stand before no port.
    _programs: Vec<OwnedFd>,
}

/// A kernel path that waits for its ports.
pub(super) struct Opening {
    tables: Tables,
    ring: Box<PacketRing>,
    /// The ports before which the program stands already, with their numbers.
    ports: HashMap<PortId, u16>,
    until: Instant,
}

impl Opening {
    fn is_whole(&self, attached: &BTreeMap<PortId, Attached>) -> bool {
        self.ports.keys().all(|port| attached.contains_key(port))
    }
}

impl Control {
    /// Answers why not.
    pub(super) fn take_kernel_path(
        &mut self,
        given: message::KernelPath,
        agent: &mut AgentConnection,
    ) -> Result<Option<String>, DataplaneError> {
        let identifiers = given.identifiers;
        let count = identifiers.len().min(KERNEL_PARTS_MAX);
        let mut tables: Vec<OwnedFd> = (0..count).filter_map(|_| agent.take_socket()).collect();
        let Some(socket) = agent.take_socket() else {
            return Ok(Some("the kernel's tables did not come beside the message".into()));
        };
        let workers = self.workers.count();
        if workers > 1 {
            return Ok(Some(format!(
                "{workers} workers decide them; only one alone can have the kernel repeat what it \
                 decides"
            )));
        }
        let programs = tables.split_off(tables.len().min(given.tables as usize));
        let ring = match PacketRing::map(socket, punt_ring(given.frame_bytes_max)) {
            Ok(ring) => Box::new(ring),
            Err(error) => return Ok(Some(format!("the punt ring cannot be made: {error}"))),
        };
        let tables = match Tables::open(tables) {
            Ok(tables) => tables,
            Err(error) => return Ok(Some(format!("the kernel's tables cannot be used: {error}"))),
        };
        let number = |port: &message::KernelPort| {
            Some((parse_port(&port.port_id)?, u16::try_from(port.number).ok()?))
        };
        let ports = given.ports.iter().filter_map(number).collect();
        let until = Instant::now() + OPENING_MAX;
        let opening = Opening { tables, ring, ports, until };
        if opening.is_whole(&self.attached) {
            if let Some(refusal) = self.open(opening)? {
                return Ok(Some(refusal));
            }
        } else {
            self.opening = Some(opening);
        }
        self.kernel_path = Some(KernelPath { identifiers, _programs: programs });
        Ok(None)
    }

    /// Opens a kernel path whose ports are here, or that has waited long enough for them.
    pub(super) fn open_if_ready(&mut self) -> Result<(), DataplaneError> {
        let attached = &self.attached;
        let is_ready =
            |opening: &mut Opening| opening.is_whole(attached) || opening.until <= Instant::now();
        let ready = self.opening.take_if(is_ready);
        self.open_at_last(ready)
    }

    /// What the kernel knows holds no more, whoever is here.
    pub(super) fn open_now(&mut self) -> Result<(), DataplaneError> {
        let waiting = self.opening.take();
        self.open_at_last(waiting)
    }

    /// The agent counts on it by now: a data plane that cannot have it begins anew.
    fn open_at_last(&mut self, opening: Option<Opening>) -> Result<(), DataplaneError> {
        let refusal = opening.map(|opening| self.open(opening)).transpose()?.flatten();
        refusal.map_or(Ok(()), |refusal| Err(DataplaneError::KernelPath(refusal)))
    }

    /// Answers why not.
    fn open(&mut self, opening: Opening) -> Result<Option<String>, DataplaneError> {
        let Opening { tables, ring, ports, .. } = opening;
        let queues = tables.queues();
        let kernel_tables = match KernelTables::open(tables) {
            Ok(kernel_tables) => Box::new(kernel_tables),
            Err(error) => return Ok(Some(format!("the kernel's tables cannot be used: {error}"))),
        };
        let numbers = ports.into_iter().map(|(port, number)| (number, port)).collect();
        let attached = self.attached.iter().filter_map(|(id, port)| Some((*id, port.kernel?)));
        let attached: Vec<(PortId, KernelPort)> = attached.collect();
        let turn = self.workers.order(|done| Order::KernelPath {
            kernel_tables,
            ring,
            queues,
            numbers,
            attached,
            done,
        })?;
        if let Err(error) = &turn.outcome {
            return Ok(Some(format!("the punt ring cannot be used: {error}")));
        }
        self.order_kernel_underlay()?;
        tracing::info!("the kernel repeats what is decided");
        Ok(None)
    }

    /// The kernel's program stands before this interface of the underlay, or before none.
    pub(super) fn serve_underlay(
        &mut self,
        told: message::KernelUnderlay,
    ) -> Result<(), DataplaneError> {
        let message::KernelUnderlay { interface, locators } = told;
        let locator = |octets: Vec<u8>| {
            let octets = <[u8; 16]>::try_from(octets).ok()?;
            Locator::of(octets.into()).ok()
        };
        let locators = locators.into_iter().filter_map(locator).collect();
        let place = UnderlayInterface { interface, locators };
        self.kernel_underlay = Some(place).filter(|place| place.interface > 0);
        self.order_kernel_underlay()
    }

    fn order_kernel_underlay(&mut self) -> Result<(), DataplaneError> {
        let place = self.kernel_underlay.clone();
        self.workers.order(|done| Order::KernelUnderlay { place, done })
    }
}
