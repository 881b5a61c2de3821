//! The interfaces behind ports: takes them from the host's stack, opens their packet sockets, gives
//! them back, reads their counters, and notices when links change.
//!
//! Knows the kernel's doors. Refuses to know programs and the data plane. Orders are carried out one
//! after the other: a port that is released and wanted again is open in the end.

use crate::Config;
use crate::fast_path::{self, FastPath, FastPathError, Known, SentUp};
use crate::holdings::{Before, Holdings, Place};
use crate::link::Outgoing;
use crate::missed::{Baseline, Missed, unheard_datagrams};
use crate::needed;
use crate::open_error::OpenError;
use crate::port_io::{self, Given, PortIo};
use crate::punt_watch::{self, PuntDevice};
use crate::underlay::{UNDERLAY_RETRY, Underlay};
use catena_kernel::attach::{self, FunctionNamespace, SwitchSide};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::{LinkChange, LinkInfo, LinkWatch, Netlink};
use catena_kernel::{KernelError, sysctl, tc};
use catena_model::account::{InterfaceCounters, Volume};
use catena_model::id::PortId;
use catena_model::limits::NODE_PORTS_MAX;
use catena_model::program::PortEntry;
use catena_model::resource::{Attachment, NamespaceRef};
use catena_protocol::message::{KernelPath, KernelUnderlay, State, to_dataplane};
use std::collections::BTreeSet;
use std::net::IpAddr;
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
    /// What the data plane is to be given of it; or what is missing.
    pub(crate) given: Result<Given, String>,
}

enum Order {
    /// Open it; `by_kernel`: its frames go to the kernel's program, if there is one.
    Open {
        entry: PortEntry,
        by_kernel: bool,
    },
    Release(PortEntry),
    /// The data plane has these ports already: by another agent's work.
    Hold(Vec<PortEntry>),
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
    underlay: Underlay,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open { entry, .. } => f.debug_tuple("Open").field(&entry.attachment).finish(),
            Self::Release(entry) => f.debug_tuple("Release").field(&entry.attachment).finish(),
            Self::Hold(entries) => f.debug_tuple("Hold").field(&entries.len()).finish(),
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
        opened: mpsc::Sender<Opened>,
        config: &Config,
    ) -> Result<Self, KernelError> {
        let wants_fast_path = config.uses_fast_path;
        let node = Netlink::open(&NetNamespace::current()?)?;
        let fast_path = Arc::new(OnceLock::new());
        let (orders, queue) = mpsc::channel(ORDERS_MAX);
        let missed = Arc::new(Missed::default());
        let (baseline, counted) = (Baseline::default(), Arc::clone(&missed));
        let own = Arc::clone(&fast_path);
        let desk = Desk {
            node: node.clone(),
            opened,
            baseline,
            missed: counted,
            fast_path: own,
            io: config.port_io,
            underlay: (config.underlay_address, config.underlay_devices.clone()),
            holdings: Holdings::default(),
            with_other_checksums: BTreeSet::new(),
        };
        tokio::spawn(desk.carry_out(queue));
        let underlay =
            Underlay { address: config.underlay_address, devices: config.underlay_devices.clone() };
        Ok(Self { node, orders, missed, fast_path, wants_fast_path, underlay })
    }

    /// What a data plane needs to let the kernel repeat its decisions; none: it decides each packet.
    pub(crate) async fn give_fast_path(&self) -> Option<(KernelPath, Vec<OwnedFd>)> {
        if self.wants_fast_path && self.fast_path.get().is_none() {
            self.keep_fast_path(FastPath::load(&self.node).await);
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

    /// Keeps the punt device up, and tells when it is not.
    pub(crate) fn follow_punt_device(&self) -> watch::Receiver<PuntDevice> {
        punt_watch::follow(self.node.clone(), Arc::clone(&self.fast_path))
    }

    /// Puts the kernel's program before the interface with this underlay address, wherever that
    /// comes and goes, and tells the data plane, for as long as it listens.
    pub(crate) fn follow_underlay(
        &self,
        address: IpAddr,
        dataplane: mpsc::Sender<Outgoing>,
    ) -> Option<JoinHandle<()>> {
        self.fast_path.get()?;
        let fast_path = Arc::clone(&self.fast_path);
        let underlay = Underlay { address, ..self.underlay.clone() };
        Some(tokio::spawn(async move {
            let Some(fast_path) = fast_path.get() else { return };
            let mut told = None;
            let mut warned = String::new();
            while !dataplane.is_closed() {
                match fast_path.steer_underlay(&underlay, told).await {
                    Ok(Some(interface)) => {
                        told = Some(interface);
                        let message = KernelUnderlay { interface };
                        let message = to_dataplane::Message::KernelUnderlay(message);
                        let outgoing = Outgoing { message, sockets: Vec::new() };
                        // Whoever is gone is found out above.
                        dataplane.send(outgoing).await.ok();
                    }
                    Err(error) if error.to_string() != warned => {
                        warned = error.to_string();
                        tracing::warn!("tunnel packets are decided one by one: {warned}");
                    }
                    Ok(None) | Err(_) => {}
                }
                tokio::time::sleep(UNDERLAY_RETRY).await;
            }
        }))
    }

    /// Tells the data plane by which interfaces tunnels of other nodes come in, for as long as it
    /// listens.
    pub(crate) fn tell_underlay_devices(&self, dataplane: mpsc::Sender<Outgoing>) {
        tokio::spawn(self.underlay.clone().tell(self.node.clone(), dataplane));
    }

    /// Lets the sockets of the underlay have what comes in by the interface with this address.
    pub(crate) fn free_underlay(&self, address: IpAddr) {
        let node = self.node.clone();
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

    /// The data plane has these ports: what they have is taken.
    pub(crate) fn hold(&self, entries: Vec<PortEntry>) {
        self.order_note(Order::Hold(entries));
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
        statistics(&self.node, attachment).await
    }
}

async fn statistics(node: &Netlink, attachment: &Attachment) -> Option<InterfaceCounters> {
    let (namespace, interface) = (namespace_of(attachment), &attachment.interface);
    let counted = attach::function_statistics(node.namespace(), &namespace, interface);
    let counted = counted.await.ok()?;
    Some(InterfaceCounters {
        received: Volume { packets: counted.rx_packets, bytes: counted.rx_bytes },
        transmitted: Volume { packets: counted.tx_packets, bytes: counted.tx_bytes },
    })
}

/// Who carries orders out.
struct Desk {
    node: Netlink,
    opened: mpsc::Sender<Opened>,
    baseline: Baseline,
    missed: Arc<Missed>,
    fast_path: Arc<OnceLock<FastPath>>,
    io: PortIo,
    /// Own address on the data network, and the devices named for it.
    underlay: (IpAddr, Vec<String>),
    holdings: Holdings,
    /// Ports whose functions finish checksums for our sake.
    with_other_checksums: BTreeSet<PortId>,
}

impl Desk {
    /// One order after the other: what is given back must not be taken by the order before it.
    async fn carry_out(mut self, mut queue: mpsc::Receiver<Order>) {
        while let Some(order) = queue.recv().await {
            match order {
                Order::Open { entry, by_kernel } => self.open(entry, by_kernel).await,
                Order::Release(entry) => self.release(entry).await,
                Order::Hold(entries) => self.hold(entries).await,
                Order::Leave(id) => self.holdings.leaves(id),
                Order::Lost(entries) => self.note(entries).await,
                Order::Found { is_other: true } => {
                    self.baseline.tunnels_are_back(unheard_datagrams(), &self.missed);
                }
                // It took everything all the while.
                Order::Found { is_other: false } => self.baseline = Baseline::default(),
            }
        }
    }

    async fn open(&mut self, entry: PortEntry, by_kernel: bool) {
        let opened = self.try_open(&entry, by_kernel).await;
        let given = opened.map_err(|error| error.to_string());
        if given.as_ref().is_ok_and(|given| given.has_changed_checksums) {
            self.with_other_checksums.insert(entry.id);
        }
        if given.is_ok() && self.baseline.has(&entry.attachment) {
            let delivered = delivered(&self.node, &entry.attachment).await.unwrap_or_default();
            self.baseline.port_is_back(&entry.attachment, delivered, &self.missed);
        }
        // Nobody waits for it any more when the agent is stopping.
        self.opened.send(Opened { entry, given }).await.ok();
    }

    async fn try_open(&mut self, entry: &PortEntry, by_kernel: bool) -> Result<Given, OpenError> {
        let function = namespace_of(&entry.attachment);
        if self.io == PortIo::Tap {
            return self.open_tap(entry, &function).await;
        }
        let side = match resolve(&self.node, &entry.attachment).await {
            Ok(side) => side,
            Err(error) => {
                self.forget_gone(entry.id).await;
                return Err(error.into());
            }
        };
        let place = self.place(side.ifindex)?;
        self.check_free(place, entry)?;
        let (underlay, devices) = &self.underlay;
        needed::check_not_needed(&self.node, &side, (*underlay, devices)).await?;
        let before = match self.holdings.is_held(place) {
            true => Before::default(),
            false => before(&self.node, &side).await?,
        };
        self.holdings.take(place, entry.id, before);
        let fast_path = self.fast_path.get().filter(|_| by_kernel);
        open(&self.node, (entry, &function), side, fast_path, self.io).await
    }

    async fn open_tap(
        &mut self,
        entry: &PortEntry,
        function: &FunctionNamespace,
    ) -> Result<Given, OpenError> {
        let interface = &entry.attachment.interface;
        let tap_of_the_node = || OpenError::TapOfTheNode { interface: interface.clone() };
        let namespace = function.open()?.ok_or_else(tap_of_the_node)?;
        if namespace.same_as(self.node.namespace())? {
            return Err(tap_of_the_node());
        }
        let links = Netlink::open(&namespace)?;
        let place = |link: LinkInfo| -> Result<Place, OpenError> {
            Ok(Place { namespace: namespace.id()?, interface: link.index })
        };
        if let Some(there) = links.link(interface).await? {
            self.check_free(place(there)?, entry)?;
        }
        let given = Given::tap(entry, &namespace).await?;
        let made = place(links.existing(interface).await?)?;
        self.holdings.take(made, entry.id, Before::default());
        Ok(given)
    }

    fn place(&self, interface: u32) -> Result<Place, KernelError> {
        Ok(Place { namespace: self.node.namespace().id()?, interface })
    }

    fn check_free(&self, place: Place, entry: &PortEntry) -> Result<(), OpenError> {
        let Some(holder) = self.holdings.other_holder(place, entry.id) else { return Ok(()) };
        // Whose it is may be none of this owner's business.
        tracing::debug!(port = entry.name, %holder, "the interface is another port's");
        Err(OpenError::Taken { interface: entry.attachment.interface.clone() })
    }

    /// What an earlier agent has opened for these ports is theirs, wherever it is found now.
    async fn hold(&mut self, entries: Vec<PortEntry>) {
        if self.io == PortIo::Tap {
            return;
        }
        for entry in entries {
            if let Ok(side) = resolve(&self.node, &entry.attachment).await
                && let Ok(place) = self.place(side.ifindex)
                && self.holdings.other_holder(place, entry.id).is_none()
            {
                let before = Before { disable_ipv6: None, had_hook: false };
                self.holdings.take(place, entry.id, before);
            }
        }
    }

    /// Of a port whose interface is not found any more, holds only what is still on the node.
    async fn forget_gone(&mut self, id: PortId) {
        for place in self.holdings.of(id) {
            if let Ok(None) = self.node.link_at(place.interface).await {
                self.holdings.forget(place);
            }
        }
    }

    async fn release(&mut self, entry: PortEntry) {
        self.baseline.forget(&entry.attachment);
        let left = self.holdings.take_left(entry.id);
        if let Some(fast_path) = self.fast_path.get()
            && self.holdings.of(entry.id).is_empty()
        {
            fast_path.forget(entry.id);
        }
        if self.with_other_checksums.remove(&entry.id) {
            port_io::leave_checksums(&entry, &namespace_of(&entry.attachment));
        }
        if self.io == PortIo::Tap {
            // It was never the node's: what the data plane has closed is gone, or who made it keeps it.
            return;
        }
        for (place, before) in left {
            if let Err(error) = give_back(&self.node, place.interface, &before).await
                && !error.is_not_found()
            {
                tracing::warn!(port = entry.name, "the interface is not given back: {error}");
            }
        }
    }

    async fn note(&mut self, entries: Vec<PortEntry>) {
        self.baseline.note_tunnels(unheard_datagrams());
        for entry in entries {
            if let Some(delivered) = delivered(&self.node, &entry.attachment).await {
                self.baseline.note_port(entry.attachment, delivered);
            }
        }
    }
}

/// Packets that came out of the endpoint or function behind a port.
async fn delivered(node: &Netlink, attachment: &Attachment) -> Option<u64> {
    statistics(node, attachment).await.map(|counted| counted.transmitted.packets)
}

/// What an interface is like that no port has.
async fn before(node: &Netlink, side: &SwitchSide) -> Result<Before, KernelError> {
    // A kernel without IPv6 has nothing to give back.
    let disable_ipv6 = sysctl::read_in(node.namespace(), &ipv6_setting(&side.name)).ok();
    Ok(Before { disable_ipv6, had_hook: !tc::make_hook(node, side.ifindex).await? })
}

/// The filter comes first: the host's stack must not see a single frame of a tenant.
async fn open(
    node: &Netlink,
    (entry, function): (&PortEntry, &FunctionNamespace),
    side: SwitchSide,
    fast_path: Option<&FastPath>,
    io: PortIo,
) -> Result<Given, OpenError> {
    let known = match fast_path {
        Some(fast_path) => steer(fast_path, entry, &side).await,
        None => None,
    };
    if known.is_none() {
        tc::swallow_ingress(node, side.ifindex).await?;
    }
    set_ipv6(node, &side.name, SILENT);
    node.set_up(&side.name).await?;
    let given = match io {
        PortIo::Xdp => {
            Given::xdp(node.namespace(), &side, (function, &entry.attachment.interface))?
        }
        PortIo::PacketRing | PortIo::Tap => Given::packet_socket(node.namespace(), &side, known)?,
    };
    if let Some(mac) = side.function_mac.filter(|mac| *mac != entry.mac.0) {
        let [a, b, c, d, e, f] = mac;
        tracing::warn!(
            port = entry.name,
            "the interface has the MAC {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} and not \
             the port's {}: it will drop what is addressed to the port; make them equal",
            entry.mac
        );
    }
    Ok(given)
}

/// Lets the kernel's program decide about the frames of a port. Where it cannot, the port works all
/// the same: each frame is then decided one by one.
async fn steer(fast_path: &FastPath, entry: &PortEntry, side: &SwitchSide) -> Option<Known> {
    let has_peer = entry.attachment.namespace.is_some();
    match fast_path.steer(entry.id, side.ifindex, has_peer).await {
        Ok(known) => known,
        Err(error) => {
            tracing::warn!(port = entry.name, "the kernel repeats nothing for it: {error}");
            fast_path.forget(entry.id);
            None
        }
    }
}

/// Without it the node's stack sends router solicitations and group reports of its own into the
/// tenant's network.
const SILENT: &str = "1";

fn ipv6_setting(interface: &str) -> String {
    format!("net/ipv6/conf/{interface}/disable_ipv6")
}

fn set_ipv6(node: &Netlink, interface: &str, value: &str) {
    match sysctl::write_in(node.namespace(), &ipv6_setting(interface), value) {
        // A kernel without IPv6 has nothing to silence.
        Err(error) if !error.is_not_found() => {
            tracing::warn!(interface, "its IPv6 cannot be set to disabled={value}: {error}");
        }
        Ok(()) | Err(_) => {}
    }
}

/// As it was found, but down: while it is up, the host's stack would answer whoever is behind it,
/// and take what it sends for its own.
async fn give_back(node: &Netlink, interface: u32, before: &Before) -> Result<(), KernelError> {
    let Some(link) = node.link_at(interface).await? else { return Ok(()) };
    node.set_down(&link.name).await?;
    let as_new = || sysctl::read_in(node.namespace(), "net/ipv6/conf/default/disable_ipv6").ok();
    if let Some(value) = before.disable_ipv6.clone().or_else(as_new) {
        set_ipv6(node, &link.name, &value);
    }
    tc::release_ingress(node, interface).await?;
    if before.had_hook { Ok(()) } else { tc::remove_hook(node, interface).await }
}

async fn resolve(node: &Netlink, attachment: &Attachment) -> Result<SwitchSide, KernelError> {
    let namespace = namespace_of(attachment);
    attach::resolve_switch_side(node.namespace(), &namespace, &attachment.interface).await
}

fn namespace_of(attachment: &Attachment) -> FunctionNamespace {
    match &attachment.namespace {
        None => FunctionNamespace::Node,
        Some(NamespaceRef::Netns(name_or_path)) => FunctionNamespace::named(name_or_path),
        Some(NamespaceRef::Pid(pid)) => FunctionNamespace::Pid(*pid),
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
