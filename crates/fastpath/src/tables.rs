//! The doors to the kernel's tables for the one who decides: flows, epochs, gates, accounts, ports.
//! Knows what each table is for; refuses to know why a flow is treated as it is.
//!
//! Built from descriptors that [`crate::Program`] gives away; needs no capability.

use crate::maps::{HashMap, SharedArray};
use crate::queues::{QUEUE_WORDS, Queues};
use crate::records::{Entry, Event, GATE_OPEN, Port, Settings};
use crate::transform::{FlowKey, Guard, Transform, TransformError};
use crate::transits::Transits;
use catena_model::account::Volume;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables there are: so many descriptors travel, in the order of [`TABLE_NAMES`].
pub const TABLES_COUNT: usize = 11;
/// Words of the record of settings.
pub(crate) const SETTING_WORDS: usize = 3;
/// The names of the tables in the program.
pub const TABLE_NAMES: [&str; TABLES_COUNT] = [
    "flows", "ports", "sources", "slots", "gates", "accounts", "events", "settings", "queues",
    "transits", "numbers",
];

/// Why something cannot be put into the tables.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The transform is no list that the program would follow.
    #[error(transparent)]
    Transform(#[from] TransformError),
    /// A number beyond the table.
    #[error("there is no {what} {number}: the table has {count}")]
    Number {
        /// What was named.
        what: &'static str,
        /// Its number.
        number: u32,
        /// Rows there are.
        count: usize,
    },
    /// The kernel refused.
    #[error("the kernel's tables: {0}")]
    System(#[from] io::Error),
}

/// The tables of one node's program.
#[derive(Debug)]
pub struct Tables {
    flows: HashMap<FlowKey, Entry>,
    ports: HashMap<u32, Port>,
    sources: HashMap<[u8; 16], u32>,
    slots: SharedArray<2>,
    gates: SharedArray<1>,
    accounts: SharedArray<2>,
    events: SharedArray<1>,
    settings: Arc<SharedArray<SETTING_WORDS>>,
    queues: Arc<SharedArray<QUEUE_WORDS>>,
    transits: Transits,
    cpus: usize,
}

impl Tables {
    /// Takes the descriptors of the tables, in the order of [`TABLE_NAMES`].
    ///
    /// # Errors
    /// Another number of descriptors, or maps of another layout.
    pub fn open(fds: Vec<OwnedFd>) -> io::Result<Self> {
        let wrong = |_| io::Error::new(io::ErrorKind::InvalidInput, "another number of tables");
        let fds: [OwnedFd; TABLES_COUNT] = fds.try_into().map_err(wrong)?;
        let [flows, ports, sources, slots, gates, accounts, events, settings, queues, rest @ ..] =
            fds;
        let [transits, numbers] = rest;
        let events = SharedArray::map(events.as_fd())?;
        Ok(Self {
            flows: HashMap::open(flows)?,
            ports: HashMap::open(ports)?,
            sources: HashMap::open(sources)?,
            slots: SharedArray::map(slots.as_fd())?,
            gates: SharedArray::map(gates.as_fd())?,
            accounts: SharedArray::map(accounts.as_fd())?,
            // Each processor has rows of its own.
            cpus: (events.rows() / Event::ALL.len()).max(1),
            events,
            settings: Arc::new(SharedArray::map(settings.as_fd())?),
            queues: Arc::new(SharedArray::map(queues.as_fd())?),
            transits: Transits::map(transits.as_fd(), numbers.as_fd())?,
        })
    }

    /// Makes a flow known, or gives it another transform; its counts start from zero. With a gate
    /// that is not open the flow's frames still go up, and the gate counts them.
    ///
    /// The epochs in the guards must have been read before the decision was made, so that a change
    /// in between makes the transform stale from its start.
    ///
    /// # Errors
    /// The transform is no legal list, names an account, slot or gate that is not there, or the
    /// kernel refuses.
    pub fn install(
        &self,
        key: &FlowKey,
        transform: &Transform,
        gate: Option<u32>,
    ) -> Result<(), TableError> {
        transform.check()?;
        for Guard { slot, .. } in transform.guards {
            in_table("slot", slot, self.slots.rows())?;
        }
        let accounts = self.accounts_max() as usize;
        for operation in transform.operations() {
            if operation.kind == crate::Kind::Count as u8 {
                in_table("account", operation.number, accounts)?;
            }
        }
        in_table("gate", gate.unwrap_or(0), self.gates.rows())?;
        let (gate, transform) = (gate.unwrap_or(0), *transform);
        Ok(self.flows.set(key, &Entry { gate, transform, ..Entry::default() })?)
    }

    /// Forgets a flow; false if it is not known (any more).
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove(&self, key: &FlowKey) -> io::Result<bool> {
        self.flows.remove(key)
    }

    /// A flow as it stands in the table.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn entry(&self, key: &FlowKey) -> io::Result<Option<Entry>> {
        self.flows.get(key)
    }

    /// Visits every flow in the table.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn walk(&self, visit: impl FnMut(&FlowKey, &Entry)) -> io::Result<()> {
        self.flows.walk(visit)
    }

    /// Flows that the table holds at most; when it is full, those unused for longest make room.
    #[must_use]
    pub fn flows_max(&self) -> u32 {
        self.flows.elements_max()
    }

    /// Slots of epochs there are; slot 0 never changes.
    #[must_use]
    pub fn slots_max(&self) -> u32 {
        self.slots.rows() as u32
    }

    /// The guard that holds as long as the slot is not bumped.
    #[must_use]
    pub fn guard(&self, slot: u32) -> Guard {
        let word = self.slots.row(slot as usize).map(|[epoch, _]| epoch.load(Ordering::Acquire));
        Guard { slot, epoch: word.unwrap_or(0) as u32 }
    }

    /// Makes every transform that depends on the slot invalid, at once.
    pub fn bump(&self, slot: u32) {
        if slot == 0 {
            return;
        }
        if let Some([epoch, _]) = self.slots.row(slot as usize) {
            epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Makes every transform invalid that depends on anything.
    pub fn bump_all(&self) {
        (1..self.slots_max()).for_each(|slot| self.bump(slot));
    }

    /// Frames that met a transform made stale by this slot.
    #[must_use]
    pub fn stale(&self, slot: u32) -> u64 {
        self.slots.row(slot as usize).map_or(0, |[_, stale]| stale.load(Ordering::Relaxed))
    }

    /// Gates there are; gate 0 is none.
    #[must_use]
    pub fn gates_max(&self) -> u32 {
        self.gates.rows() as u32
    }

    /// A gate; none beyond the table.
    #[must_use]
    pub fn gate(&self, number: u32) -> Option<Gate<'_>> {
        let [word] = self.gates.row(number as usize).filter(|_| number != 0)?;
        Some(Gate { word })
    }

    /// Accounts there are.
    #[must_use]
    pub fn accounts_max(&self) -> u32 {
        (self.accounts.rows() / self.cpus) as u32
    }

    /// What an account has gathered since the program was loaded; it only grows.
    #[must_use]
    pub fn account(&self, number: u32) -> Volume {
        let accounts = self.accounts_max() as usize;
        if number as usize >= accounts {
            return Volume::default();
        }
        let rows = (0..self.cpus).filter_map(|cpu| {
            let [packets, bytes] = self.accounts.row(cpu * accounts + number as usize)?;
            let (packets, bytes) = (packets.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
            Some(Volume { packets, bytes })
        });
        rows.fold(Volume::default(), |mut sum, volume| {
            sum.merge(volume);
            sum
        })
    }

    /// How often something has happened since the program was loaded, in frames.
    #[must_use]
    pub fn events(&self, event: Event) -> u64 {
        let rows = (0..self.cpus)
            .filter_map(|cpu| self.events.row(cpu * Event::ALL.len() + event as usize));
        rows.map(|[count]| count.load(Ordering::Relaxed)).sum()
    }

    /// Serves the port behind an interface.
    ///
    /// # Errors
    /// The table is full, or the kernel refuses.
    pub fn set_port(&self, ifindex: u32, port: Port) -> Result<(), TableError> {
        let numbers = usize::from(crate::PORT_NUMBER_MAX) + 1;
        in_table("port", port.number, numbers)?;
        Ok(self.ports.set(&ifindex, &port)?)
    }

    /// Serves the interface no longer: its frames are swallowed.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn clear_port(&self, ifindex: u32) -> io::Result<bool> {
        self.ports.remove(&ifindex)
    }

    /// Visits every interface whose port is served.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn walk_ports(&self, mut visit: impl FnMut(u32, Port)) -> io::Result<()> {
        self.ports.walk(|ifindex, port| visit(*ifindex, *port))
    }

    /// Accepts what this node sends by tunnels, or from this address by segments; the keys hold its number.
    ///
    /// # Errors
    /// The table is full, or the kernel refuses.
    pub fn add_source(&self, node: IpAddr, number: u16) -> io::Result<()> {
        self.sources.set(&octets(node), &u32::from(number))
    }

    /// Leaves packets from this address to the engine, which names what is wrong with them.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove_source(&self, node: IpAddr) -> io::Result<bool> {
        self.sources.remove(&octets(node))
    }

    /// The addresses whose packets are accepted, with the numbers of their nodes in keys.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn sources(&self) -> io::Result<BTreeMap<Ipv6Addr, u32>> {
        let mut sources = BTreeMap::new();
        self.sources.walk(|node, number| {
            sources.insert(Ipv6Addr::from(*node), *number);
        })?;
        Ok(sources)
    }

    /// What is on its way up to the engine, by port.
    #[must_use]
    pub fn queues(&self) -> Queues {
        Queues::new(Arc::clone(&self.queues), Arc::clone(&self.settings))
    }

    /// What becomes of frames that only pass.
    #[must_use]
    pub fn transits(&self) -> &Transits {
        &self.transits
    }

    /// What holds for all packets.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let Some([first, second, third]) = self.settings.row(0) else { return Settings::default() };
        let (punt_ifindex, is_off) = halves(first.load(Ordering::Acquire));
        let (underlay_address, queue_frames) = halves(second.load(Ordering::Acquire));
        let (locator_high, rest) = halves(third.load(Ordering::Acquire));
        let [a, b, c, d] = rest.to_ne_bytes();
        let (locator_low, has_locator) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
        Settings {
            punt_ifindex,
            is_off,
            underlay_address,
            queue_frames,
            locator_high,
            locator_low,
            has_locator,
        }
    }

    /// Sets by which interface frames go up; the data plane, which owns the rest, may set that at the
    /// same time.
    pub fn set_punt_ifindex(&self, punt_ifindex: u32) {
        let Some([first, ..]) = self.settings.row(0) else { return };
        let replaced = |word| Some(joined(punt_ifindex, halves(word).1));
        // The closure always answers.
        let _ = first.fetch_update(Ordering::AcqRel, Ordering::Acquire, replaced);
    }

    /// Sets what holds for all packets.
    pub fn set_settings(&self, settings: Settings) {
        let Some([first, second, third]) = self.settings.row(0) else { return };
        let ([a, b], [c, d]) =
            (settings.locator_low.to_ne_bytes(), settings.has_locator.to_ne_bytes());
        let rest = u32::from_ne_bytes([a, b, c, d]);
        third.store(joined(settings.locator_high, rest), Ordering::Release);
        second.store(joined(settings.underlay_address, settings.queue_frames), Ordering::Release);
        first.store(joined(settings.punt_ifindex, settings.is_off), Ordering::Release);
    }
}

/// An address as the table of sources has it: one of IPv4 is mapped.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Two fields of a record as they lie in a word.
pub(crate) fn joined(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

pub(crate) fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

fn in_table(what: &'static str, number: u32, count: usize) -> Result<(), TableError> {
    if (number as usize) < count {
        return Ok(());
    }
    Err(TableError::Number { what, number, count })
}

/// Holds the frames of a flow back from the kernel's path until those that went up before have
/// passed the engine, so that none overtakes another.
///
/// While it is closed each frame of the flow is counted here and punted with
/// [`Event::Waiting`] in its tag. The engine counts those that it has sent on. A frame that went
/// up before the flow was installed is not counted; but frames arrive in order, so the first one
/// that is shows that all those have passed. Hence the rule: open once at least one counted frame
/// has been sent on, and as many as the gate says. Kernel and engine change the same word in one
/// step each, so no frame slips between the engine's look and its word.
///
/// A frame that is lost on its way up is never seen: then give the flow a fresh gate.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'t> {
    pub(crate) word: &'t AtomicU64,
}

impl Gate<'_> {
    /// Closes it and counts from zero. Only for a gate that no flow in the table names.
    pub fn reset(&self) {
        self.word.store(0, Ordering::Release);
    }

    /// Closes it and goes on counting.
    pub fn close(&self) {
        self.word.fetch_and(!GATE_OPEN, Ordering::AcqRel);
    }

    /// Frames that it has sent up.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.word.load(Ordering::Acquire) & !GATE_OPEN
    }

    /// Is it open?
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.word.load(Ordering::Acquire) & GATE_OPEN != 0
    }

    /// Opens it if it has sent up exactly `passed` frames; false if there are more on their way.
    #[must_use]
    pub fn open_after(&self, passed: u64) -> bool {
        self.word
            .compare_exchange(passed, passed | GATE_OPEN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}
