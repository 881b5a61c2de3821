//! Carries out what is ordered about interfaces: takes them from the host's stack, opens what the data
//! plane is to be given, gives them back. Refuses to know who orders it, and why.

use super::{Found, Opened, Order, Seen};
use crate::discovery::patterns::Patterns;
use crate::fast_path::{FastPath, Known, LINK_FRAME_BYTES_MAX};
use crate::holdings::{Before, Holdings, Place};
use crate::links::is_link;
use crate::missed::{Baseline, Missed, unheard_datagrams};
use crate::needed;
use crate::open_error::OpenError;
use crate::port_io::{self, Given, PortIo};
use crate::underlay::Underlay;
use catena_kernel::attach::{self, FunctionNamespace, SwitchSide};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::{LinkInfo, Netlink};
use catena_kernel::{KernelError, sysctl, tc};
use catena_model::account::{InterfaceCounters, Volume};
use catena_model::id::PortId;
use catena_model::program::PortEntry;
use catena_model::resource::{Attachment, NamespaceRef};
use catena_model::topology::{NodeRole, PortNumber};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

/// Who carries orders out.
pub(super) struct Desk {
    pub(super) node: Netlink,
    pub(super) seen: mpsc::Sender<Seen>,
    pub(super) baseline: Baseline,
    pub(super) missed: Arc<Missed>,
    pub(super) fast_path: Arc<OnceLock<FastPath>>,
    pub(super) io: PortIo,
    pub(super) underlay: Underlay,
    /// Interfaces that are links between nodes are no port's.
    pub(super) links: Patterns,
    pub(super) role: NodeRole,
    pub(super) holdings: Holdings,
    /// Ports whose functions finish checksums for our sake.
    pub(super) with_other_checksums: BTreeSet<PortId>,
}

impl Desk {
    /// One order after the other: what is given back must not be taken by the order before it.
    pub(super) async fn carry_out(mut self, mut queue: mpsc::Receiver<Order>) {
        while let Some(order) = queue.recv().await {
            match order {
                Order::Open { entry, by_kernel } => self.open(entry, by_kernel).await,
                Order::Release(entry) => self.release(entry).await,
                Order::GiveBack(id) => self.give_back(id).await,
                Order::Adopt(found) => {
                    for found in found {
                        self.adopt(found).await;
                    }
                }
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
        if given.as_ref().is_ok_and(|(_, given)| given.has_changed_checksums) {
            self.with_other_checksums.insert(entry.id);
        }
        if given.is_ok() && self.baseline.has(&entry.attachment) {
            let delivered = delivered(&self.node, &entry.attachment).await.unwrap_or_default();
            self.baseline.port_is_back(&entry.attachment, delivered, &self.missed);
        }
        // Nobody waits for it any more when the agent is stopping.
        self.seen.send(Seen::Opened(Opened { entry, given })).await.ok();
    }

    async fn try_open(
        &mut self,
        entry: &PortEntry,
        by_kernel: bool,
    ) -> Result<(Place, Given), OpenError> {
        if is_link(entry.id) {
            return self.open_link(entry, by_kernel).await;
        }
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
        self.check_no_link(&side)?;
        needed::check_not_needed(&self.node, &side, &self.underlay).await?;
        let before = match self.holdings.is_held(place) {
            true => Before::default(),
            false => before(&self.node, &side).await?,
        };
        self.holdings.take(place, entry.id, before);
        let fast_path = self.fast_path.get().filter(|_| by_kernel);
        let given = open(&self.node, (entry, &function), side, fast_path, self.io).await?;
        Ok((place, given))
    }

    /// A link stays the host's, with all that its stack does there.
    async fn open_link(
        &self,
        entry: &PortEntry,
        by_kernel: bool,
    ) -> Result<(Place, Given), OpenError> {
        let interface = entry.attachment.name();
        if !self.links.matches(interface) {
            return Err(OpenError::NoLink { interface: interface.to_owned() });
        }
        let link = self.node.existing(interface).await?;
        let known = self.steer_link(entry, &link, by_kernel).await;
        Ok((self.place(link.index)?, Given::link(self.node.namespace(), &link, known)?))
    }

    /// Lets the kernel's program of a switch have what a link brings. At a host the engine takes it off its source
    /// route anyway.
    async fn steer_link(
        &self,
        entry: &PortEntry,
        link: &LinkInfo,
        by_kernel: bool,
    ) -> Option<Known> {
        let number = PortNumber::of_link(entry.id).filter(|_| self.role == NodeRole::Switch)?;
        let is_short = port_io::longest_frame(link) <= LINK_FRAME_BYTES_MAX;
        if let Some(fast_path) = self.fast_path.get().filter(|_| by_kernel && is_short) {
            match fast_path.steer_link(number, link.index).await {
                Ok(known) => return known,
                Err(error) => {
                    tracing::warn!(link = link.name, "the kernel passes nothing on by it: {error}");
                    fast_path.forget(entry.id);
                }
            }
        }
        self.free_link(link.index).await;
        None
    }

    /// Takes away what stands before a link, if it is the kernel's program.
    async fn free_link(&self, interface: u32) {
        // Of an interface that is gone nothing is left to be taken away.
        if let Err(error) = tc::release_steering(&self.node, interface).await
            && !error.is_not_found()
        {
            tracing::warn!(interface, "the kernel's program stays before a link: {error}");
        }
    }

    async fn open_tap(
        &mut self,
        entry: &PortEntry,
        function: &FunctionNamespace,
    ) -> Result<(Place, Given), OpenError> {
        let interface = entry.attachment.name();
        let tap_of_the_node = || OpenError::TapOfTheNode { interface: interface.to_owned() };
        let namespace = function.open()?.ok_or_else(tap_of_the_node)?;
        if namespace.same_as(self.node.namespace())? {
            return Err(tap_of_the_node());
        }
        let links = Netlink::open(&namespace)?;
        if let Some(there) = links.link(interface).await? {
            self.check_free(place_in(&namespace, &there)?, entry)?;
        }
        let given = Given::tap(entry, &namespace).await?;
        let made = place_in(&namespace, &links.existing(interface).await?)?;
        self.holdings.take(made, entry.id, Before::default());
        Ok((made, given))
    }

    fn place(&self, interface: u32) -> Result<Place, KernelError> {
        Ok(Place { namespace: self.node.namespace().id()?, interface })
    }

    fn check_no_link(&self, side: &SwitchSide) -> Result<(), OpenError> {
        match self.links.matches(&side.name) {
            true => Err(OpenError::Link { interface: side.name.clone() }),
            false => Ok(()),
        }
    }

    fn check_free(&self, place: Place, entry: &PortEntry) -> Result<(), OpenError> {
        let Some(holder) = self.holdings.other_holder(place, entry.id) else { return Ok(()) };
        // Whose it is may be none of this owner's business.
        tracing::debug!(port = entry.name, %holder, "the interface is another port's");
        Err(OpenError::Taken { interface: entry.attachment.name().to_owned() })
    }

    /// What an earlier agent has opened for a port is that port's, until it is known to be another
    /// than the program asks for.
    async fn adopt(&mut self, found: Found) {
        let Found { id, place, entry } = found;
        let place = place.filter(|place| self.holdings.other_holder(*place, id).is_none());
        if let Some(place) = place.filter(|_| !is_link(id)) {
            self.holdings.take(place, id, Before { disable_ipv6: None, had_hook: false });
        }
        let own = match &entry {
            Some(entry) => self.find(entry).await.ok(),
            None => None,
        };
        let is_its_own = place.is_some() && place == own;
        if !is_its_own {
            self.holdings.leaves(id);
        }
        if let Some(entry) = entry {
            // Nobody waits for it any more when the agent is stopping.
            self.seen.send(Seen::Found { entry, is_its_own }).await.ok();
        }
    }

    /// Where the interface is that a port asks for.
    async fn find(&self, PortEntry { id, attachment, .. }: &PortEntry) -> Result<Place, OpenError> {
        if is_link(*id) {
            return Ok(self.place(self.node.existing(attachment.name()).await?.index)?);
        }
        if self.io == PortIo::Tap
            && let Some(namespace) = namespace_of(attachment).open()?
        {
            let links = Netlink::open(&namespace)?;
            return Ok(place_in(&namespace, &links.existing(attachment.name()).await?)?);
        }
        let side = resolve(&self.node, attachment).await?;
        self.check_no_link(&side)?;
        Ok(self.place(side.ifindex)?)
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
        if self.with_other_checksums.remove(&entry.id) {
            port_io::leave_checksums(&entry, &namespace_of(&entry.attachment));
        }
        self.give_back(entry.id).await;
    }

    async fn give_back(&mut self, id: PortId) {
        let left = self.holdings.take_left(id);
        if let Some(fast_path) = self.fast_path.get()
            && self.holdings.of(id).is_empty()
            && let Some(known) = fast_path.forget(id)
            && is_link(id)
        {
            self.free_link(known.interface).await;
        }
        let own = self.node.namespace().id().ok();
        // A TAP was never the node's: what the data plane has closed is gone, or who made it keeps it.
        for (place, before) in left.into_iter().filter(|(place, _)| Some(place.namespace) == own) {
            if let Err(error) = give_back(&self.node, place.interface, &before).await
                && !error.is_not_found()
            {
                tracing::warn!(port = %id, "the interface is not given back: {error}");
            }
        }
    }

    async fn note(&mut self, entries: Vec<PortEntry>) {
        self.baseline.note_tunnels(unheard_datagrams());
        for entry in entries.into_iter().filter(|entry| !is_link(entry.id)) {
            if let Some(delivered) = delivered(&self.node, &entry.attachment).await {
                self.baseline.note_port(entry.attachment, delivered);
            }
        }
    }
}

/// What the interface behind a port counted itself; none when it cannot be asked.
pub(super) async fn statistics(
    node: &Netlink,
    attachment: &Attachment,
) -> Option<InterfaceCounters> {
    let (namespace, interface) = (namespace_of(attachment), attachment.name());
    let counted = attach::function_statistics(node.namespace(), &namespace, interface);
    let counted = counted.await.ok()?;
    Some(InterfaceCounters {
        received: Volume { packets: counted.rx_packets, bytes: counted.rx_bytes },
        transmitted: Volume { packets: counted.tx_packets, bytes: counted.tx_bytes },
    })
}

/// Packets that came out of the endpoint or function behind a port.
async fn delivered(node: &Netlink, attachment: &Attachment) -> Option<u64> {
    statistics(node, attachment).await.map(|counted| counted.transmitted.packets)
}

fn place_in(namespace: &NetNamespace, link: &LinkInfo) -> Result<Place, KernelError> {
    Ok(Place { namespace: namespace.id()?, interface: link.index })
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
        PortIo::Xdp => Given::xdp(node.namespace(), &side, (function, entry.attachment.name()))?,
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
    let has_peer = entry.attachment.interface().is_some_and(|own| own.namespace.is_some());
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
    attach::resolve_switch_side(node.namespace(), &namespace, attachment.name()).await
}

fn namespace_of(attachment: &Attachment) -> FunctionNamespace {
    match attachment.interface().and_then(|own| own.namespace.as_ref()) {
        None => FunctionNamespace::Node,
        Some(NamespaceRef::Netns(name_or_path)) => FunctionNamespace::named(name_or_path),
        Some(NamespaceRef::Pid(pid)) => FunctionNamespace::Pid(*pid),
    }
}
