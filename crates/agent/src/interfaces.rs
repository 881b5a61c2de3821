//! The interfaces behind ports: the way to order what is to become of them, their counters, and a word
//! when links change.
//!
//! Refuses to know programs and the data plane. Orders are carried out one after the other: a port that
//! is released and wanted again is open in the end.

mod desk;

use crate::Config;
use crate::discovery::patterns::Patterns;
use crate::discovery::{self, FoundLinks};
use crate::fast_path::{self, FastPath, FastPathError, LINK_FRAME_BYTES_MAX, SentUp};
use crate::holdings::{Holdings, Place};
use crate::link::Outgoing;
use crate::links::Links;
use crate::locator::WaysToLocators;
use crate::missed::{Baseline, Missed};
use crate::port_io::Given;
use crate::punt_watch::{self, PuntDevice};
use crate::underlay::{UNDERLAY_RETRY, Underlay};
use catena_kernel::KernelError;
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::{LinkChange, LinkWatch, Netlink};
use catena_model::NodeName;
use catena_model::account::InterfaceCounters;
use catena_model::id::PortId;
use catena_model::limits::NODE_PORTS_MAX;
use catena_model::program::PortEntry;
use catena_model::resource::Attachment;
use catena_model::topology::NodeRole;
use catena_protocol::message::{KernelPath, KernelUnderlay, State, to_dataplane};
use desk::Desk;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// How long a broken watch rests before it is opened again; ports are also looked for by time.
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// Orders that may wait: those of a program that gives all its ports back, and of one that takes
/// as many others.
const ORDERS_MAX: usize = 2 * NODE_PORTS_MAX;

/// What became of the search for a port's interface.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The port as it was asked for.
    pub(crate) entry: PortEntry,
    /// The interface and what the data plane is to be given of it; or what is missing.
    pub(crate) given: Result<(Place, Given), String>,
}

/// A port that a data plane has already.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) id: PortId,
    /// The interface that it has; none: the data plane does not know.
    pub(crate) place: Option<Place>,
    /// The port as the program has it; none: it is no port of the program.
    pub(crate) entry: Option<PortEntry>,
}

/// What was seen of an interface.
#[derive(Debug)]
pub(crate) enum Seen {
    Opened(Opened),
    /// A port of the program that a data plane has already; with the interface that is asked for?
    Found {
        entry: PortEntry,
        is_its_own: bool,
    },
}

enum Order {
    /// Open it; `by_kernel`: its frames go to the kernel's program, if there is one.
    Open {
        entry: PortEntry,
        by_kernel: bool,
    },
    Release(PortEntry),
    /// Let the host have what the port does not have any more.
    GiveBack(PortId),
    /// The data plane has these ports already: by another agent's work.
    Adopt(Vec<Found>),
    /// The port gives back what it has; another may have it.
    Leave(PortId),
    /// The data plane that had these ports does not answer any more.
    Lost(Vec<PortEntry>),
    /// A data plane answers; is it another one?
    Found {
        is_other: bool,
    },
}

/// The way to give orders; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Interfaces {
    node: Netlink,
    orders: mpsc::Sender<Order>,
    missed: Arc<Missed>,
    /// Set once it is known whether one is in the kernel already.
    fast_path: Arc<OnceLock<FastPath>>,
    wants_fast_path: bool,
    role: NodeRole,
    underlay: Underlay,
    /// By which interfaces the locators of other nodes are reached; none: nobody has looked yet.
    ways: watch::Sender<Option<WaysToLocators>>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open { entry, .. } => f.debug_tuple("Open").field(&entry.attachment).finish(),
            Self::Release(entry) => f.debug_tuple("Release").field(&entry.attachment).finish(),
            Self::GiveBack(id) => f.debug_tuple("GiveBack").field(id).finish(),
            Self::Adopt(found) => f.debug_tuple("Adopt").field(&found.len()).finish(),
            Self::Leave(id) => f.debug_tuple("Leave").field(id).finish(),
            Self::Lost(entries) => f.debug_tuple("Lost").field(&entries.len()).finish(),
            Self::Found { is_other } => f.debug_tuple("Found").field(is_other).finish(),
        }
    }
}

impl Interfaces {
    /// The interfaces of the network namespace that this process is in.
    ///
    /// # Errors
    /// When netlink cannot be opened there.
    pub(crate) async fn of_this_node(
        seen: mpsc::Sender<Seen>,
        config: &Config,
    ) -> Result<Self, KernelError> {
        let has_use = config.role == NodeRole::Host || !config.links.is_empty();
        let wants_fast_path = config.uses_fast_path && has_use;
        let node = Netlink::open(&NetNamespace::current()?)?;
        let fast_path = Arc::new(OnceLock::new());
        let (orders, queue) = mpsc::channel(ORDERS_MAX);
        let missed = Arc::new(Missed::default());
        let (baseline, counted) = (Baseline::default(), Arc::clone(&missed));
        let own = Arc::clone(&fast_path);
        let underlay = Underlay {
            // Two ways to write one address are one address.
            address: config.underlay_address.to_canonical(),
            segments: config.segments,
            devices: config.underlay_devices.clone(),
        };
        let desk = Desk {
            node: node.clone(),
            seen,
            baseline,
            missed: counted,
            fast_path: own,
            io: config.port_io,
            underlay: underlay.clone(),
            links: Patterns::new(&config.links),
            role: config.role,
            holdings: Holdings::default(),
            with_other_checksums: BTreeSet::new(),
        };
        tokio::spawn(desk.carry_out(queue));
        let role = config.role;
        let ways = watch::Sender::default();
        Ok(Self { node, orders, missed, fast_path, wants_fast_path, role, underlay, ways })
    }

    /// What a data plane needs to let the kernel repeat its decisions; none: it decides each packet.
    pub(crate) async fn give_fast_path(&self) -> Option<(KernelPath, Vec<OwnedFd>)> {
        if self.wants_fast_path && self.fast_path.get().is_none() {
            self.keep_fast_path(FastPath::load(&self.node, self.role).await);
        }
        let fast_path = self.fast_path.get()?;
        let given = fast_path.descriptors();
        let SentUp { ports, tunnels } = fast_path.take_unread();
        self.missed.at_ports.fetch_add(ports, Ordering::Relaxed);
        self.missed.at_tunnels.fetch_add(tunnels, Ordering::Relaxed);
        let given =
            given.inspect_err(|error| tracing::warn!("the kernel repeats nothing: {error}"));
        let message = KernelPath {
            tables: catena_fastpath::TABLES_COUNT as u32,
            identifiers: fast_path.identifiers().to_vec(),
            ports: fast_path.steered(),
            // What links bring is no super-frame, and a ring of those takes 69 MiB.
            frame_bytes_max: match self.role {
                NodeRole::Host => 0,
                NodeRole::Switch => LINK_FRAME_BYTES_MAX,
            },
        };
        Some((message, given.ok()?))
    }

    /// Takes over what the data plane of this state lets the kernel repeat; false: it is not ours.
    pub(crate) fn adopt_fast_path(&self, state: &State) -> bool {
        if self.wants_fast_path && self.fast_path.get().is_none() {
            self.keep_fast_path(FastPath::adopt(&self.node, state));
        }
        let own = self.fast_path.get();
        own.is_some_and(|own| own.identifiers() == state.kernel_identifiers)
    }

    fn keep_fast_path(&self, made: Result<FastPath, FastPathError>) {
        match made {
            // There is one node in a process, and it makes one after the other.
            Ok(fast_path) => self.fast_path.set(fast_path).unwrap_or_default(),
            Err(error) => tracing::warn!("every packet is decided one by one: {error}"),
        }
    }

    /// Keeps this node's locator, and looks for the ways to those of others.
    pub(crate) fn keep_locator(&self, own: &NodeName, programmed: watch::Receiver<Links>) {
        let (node, ways) = (self.node.clone(), self.ways.clone());
        tokio::spawn(crate::locator::keep(node, own.clone(), programmed, ways));
    }

    /// Follows the links between nodes.
    pub(crate) fn follow_links(
        &self,
        of: (&NodeName, Patterns),
        programmed: watch::Receiver<Links>,
    ) -> FoundLinks {
        discovery::follow(self.node.clone(), of, programmed)
    }

    /// Keeps the punt device up, and tells when it is not.
    pub(crate) fn follow_punt_device(&self) -> watch::Receiver<PuntDevice> {
        punt_watch::follow(self.node.clone(), Arc::clone(&self.fast_path))
    }

    /// Puts the kernel's program before the interface with the underlay's address, wherever that
    /// comes and goes, and tells the data plane, for as long as it listens.
    pub(crate) fn follow_underlay(
        &self,
        dataplane: mpsc::Sender<Outgoing>,
    ) -> Option<JoinHandle<()>> {
        self.fast_path.get()?;
        let (fast_path, underlay) = (Arc::clone(&self.fast_path), self.underlay.clone());
        let mut ways = self.ways.subscribe();
        Some(tokio::spawn(async move {
            let Some(fast_path) = fast_path.get() else { return };
            let (mut steered, mut told) = (None, None);
            let mut warned = String::new();
            while !dataplane.is_closed() {
                match fast_path.steer_underlay(&underlay, steered).await {
                    Ok(found) => steered = found.or(steered),
                    Err(error) if error.to_string() != warned => {
                        warned = error.to_string();
                        tracing::warn!("tunnel packets are decided one by one: {warned}");
                    }
                    Err(_) => {}
                }
                // Before anybody has looked, a data plane goes on by what it was told.
                let looked = ways.borrow_and_update().clone();
                let seen = steered.zip(looked).map(|(at, ways)| kernel_underlay(at, &ways));
                if let Some(message) = seen.filter(|seen| told.as_ref() != Some(seen)) {
                    told = Some(message.clone());
                    let message = to_dataplane::Message::KernelUnderlay(message);
                    let outgoing = Outgoing { message, sockets: Vec::new() };
                    // Whoever is gone is found out above.
                    dataplane.send(outgoing).await.ok();
                }
                tokio::select! {
                    () = tokio::time::sleep(UNDERLAY_RETRY) => {}
                    Ok(()) = ways.changed() => {}
                }
            }
        }))
    }

    /// Tells the data plane by which interfaces tunnels of other nodes come in, for as long as it
    /// listens.
    pub(crate) fn tell_underlay_devices(&self, dataplane: mpsc::Sender<Outgoing>) {
        tokio::spawn(self.underlay.clone().tell(self.node.clone(), dataplane));
    }

    /// Lets the sockets of the underlay have what comes in by the interface with its address.
    pub(crate) fn free_underlay(&self) {
        let (node, address) = (self.node.clone(), self.underlay.address);
        tokio::spawn(async move {
            if let Err(error) = fast_path::free_underlay(&node, address).await {
                tracing::warn!("an earlier agent's program stays before {address}: {error}");
            }
        });
    }

    /// Looks for the interface and opens it; the outcome comes through the channel. False: too many
    /// orders wait, nothing comes.
    pub(crate) fn open(&self, entry: PortEntry, by_kernel: bool) -> bool {
        // The task that carries orders out ends only with the last of its clones.
        self.orders.try_send(Order::Open { entry, by_kernel }).is_ok()
    }

    /// Lets the host's stack see the interface again.
    pub(crate) fn release(&self, entry: PortEntry) {
        let name = entry.name.clone();
        if self.orders.try_send(Order::Release(entry)).is_err() {
            tracing::warn!(port = name, "the interface is not given back: too many orders wait");
        }
    }

    /// Lets the host's stack see what the port has left.
    pub(crate) fn give_back(&self, id: PortId) {
        self.order_note(Order::GiveBack(id));
    }

    /// The data plane has these ports: what they have is taken. Whether that is what the program
    /// asks for comes through the channel. False: too many orders wait, nothing comes.
    pub(crate) fn adopt(&self, found: Vec<Found>) -> bool {
        self.orders.try_send(Order::Adopt(found)).is_ok()
    }

    /// The port will give back what it has: another may have it from now on.
    pub(crate) fn leave(&self, id: PortId) {
        self.order_note(Order::Leave(id));
    }

    /// Notes what the interfaces of these ports delivered until now: nobody takes more of it.
    pub(crate) fn lost(&self, mut entries: Vec<PortEntry>) {
        if let Some(fast_path) = self.fast_path.get() {
            // The kernel goes on with what it knows; what it sends up is missed.
            fast_path.unread_from_now();
            entries.retain(|entry| !fast_path.serves(entry.id));
        }
        self.order_note(Order::Lost(entries));
    }

    /// A data plane answers; what came before another one has its ports was missed.
    pub(crate) fn found(&self, is_other: bool) {
        self.order_note(Order::Found { is_other });
    }

    fn order_note(&self, order: Order) {
        if self.orders.try_send(order).is_err() {
            tracing::warn!("who has which interface is not noted: too many orders wait");
        }
    }

    /// Packets that came to ports, and datagrams to tunnels, while no data plane took them.
    pub(crate) fn missed(&self) -> (u64, u64) {
        let Missed { at_ports, at_tunnels } = &*self.missed;
        (at_ports.load(Ordering::Relaxed), at_tunnels.load(Ordering::Relaxed))
    }

    /// Says that links of the node changed; several changes may be told as one.
    pub(crate) fn watch(&self) -> mpsc::Receiver<()> {
        let (changes, told) = mpsc::channel(1);
        let node = self.node.clone();
        tokio::spawn(async move {
            while !changes.is_closed() {
                if let Err(error) = pass_on_changes(node.watch_links(), &changes).await {
                    tracing::warn!("links are not watched for now: {error}");
                }
                tokio::time::sleep(WATCH_RETRY).await;
            }
        });
        told
    }

    /// What the interface behind a port counted itself; none when it cannot be asked.
    pub(crate) async fn statistics(&self, attachment: &Attachment) -> Option<InterfaceCounters> {
        desk::statistics(&self.node, attachment).await
    }
}

async fn pass_on_changes(
    watch: Result<LinkWatch, KernelError>,
    changes: &mpsc::Sender<()>,
) -> Result<(), KernelError> {
    let mut watch = watch?;
    loop {
        match watch.next().await? {
            // What went away is reported by the data plane; what came may be a late port.
            LinkChange::Gone { .. } => {}
            LinkChange::Present(_) | LinkChange::Missed => {
                if let Err(mpsc::error::TrySendError::Closed(())) = changes.try_send(()) {
                    return Ok(());
                }
            }
        }
    }
}

/// What the data plane is told of the underlay before which the kernel's program stands.
fn kernel_underlay(interface: u32, ways: &WaysToLocators) -> KernelUnderlay {
    let by_it = ways.iter().filter(|(_, way)| **way == interface);
    let locators = by_it.map(|(locator, _)| locator.address().octets().to_vec()).collect();
    KernelUnderlay { interface, locators }
}
