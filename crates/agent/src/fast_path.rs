//! The kernel's program of this node: loads it, makes the punt device, and puts the program before
//! the ports. Knows the doors of `fastpath` and of the kernel; refuses to decide what is repeated:
//! that is the data plane's, which is given the tables.

use crate::node::parse_port;
use crate::underlay::Underlay;
use catena_fastpath::{Event, LoadError, PORT_NUMBER_MAX, Port, Program, Settings, Sizes, Tables};
use catena_kernel::netlink::Netlink;
use catena_kernel::{KernelError, packet, sysctl, tc};
use catena_model::id::PortId;
use catena_model::limits::{
    KERNEL_ACCOUNTS_MAX, KERNEL_EPOCHS_MAX, KERNEL_FLOWS_MAX, KERNEL_LINKS_MAX,
};
use catena_model::topology::{NodeRole, PortNumber};
use catena_protocol::message::{KernelPort, State};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The punt device: the kernel's program sends into the one end, the data plane reads the other.
pub(crate) const PUNT_IN: &str = "ct-punt0";
pub(crate) const PUNT_OUT: &str = "ct-punt1";
/// A veth carries what is no super-frame up to this.
const PUNT_MTU: u32 = 65_535;
/// Each processor keeps places of the table for itself; without more than are used, the kernel would
/// give flows up by itself before the table is full, whosever they are.
const SPARE_FLOWS: u32 = KERNEL_FLOWS_MAX / 16;
/// Longest frame of a link whose frames come by the program of a switch; what waits for its engine takes a slot
/// of as many bytes.
pub(crate) const LINK_FRAME_BYTES_MAX: u32 = 12_000;
/// Of every network namespace.
pub(crate) const LOOPBACK_INDEX: u32 = 1;

/// Why the kernel repeats nothing here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FastPathError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the punt device: {0}")]
    Device(#[from] KernelError),
    #[error("the kernel's tables: {0}")]
    Tables(#[from] std::io::Error),
}

/// How the kernel knows a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// In the tag of its frames.
    pub(crate) number: u16,
    /// Its interface on the node.
    pub(crate) interface: u32,
    /// The other end of its pair is in another namespace.
    pub(crate) has_peer: bool,
}

/// The program in the kernel.
pub(crate) struct FastPath {
    program: Program,
    tables: Tables,
    identifiers: Vec<u32>,
    node: Netlink,
    ports: Mutex<BTreeMap<PortId, Known>>,
    /// What it had sent up when the last data plane ended, while nobody reads it.
    unread: Mutex<Option<SentUp>>,
}

/// Frames that the program has sent up, by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentUp {
    /// From ports.
    pub(crate) ports: u64,
    /// From tunnels.
    pub(crate) tunnels: u64,
}

impl std::fmt::Debug for FastPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FastPath").finish_non_exhaustive()
    }
}

impl FastPath {
    /// Loads the program and makes its punt device; one that an earlier agent left goes.
    ///
    /// # Errors
    /// What the kernel lacks or refuses.
    pub(crate) async fn load(node: &Netlink, role: NodeRole) -> Result<Self, FastPathError> {
        let loaded = Self::of(Program::load(sizes(role))?, node)?;
        let punt_ifindex = make_punt_device(node).await?;
        loaded.tables.set_settings(Settings { punt_ifindex, ..Settings::default() });
        Ok(loaded)
    }

    /// Takes over what an earlier agent loaded and the data plane of this state uses: frames go on
    /// by it meanwhile.
    ///
    /// # Errors
    /// Another version loaded it, or the kernel refuses.
    pub(crate) fn adopt(node: &Netlink, state: &State) -> Result<Self, FastPathError> {
        let adopted = Self::of(Program::adopt(&state.kernel_identifiers)?, node)?;
        let known: BTreeMap<PortId, Known> = state.kernel_ports.iter().filter_map(known).collect();
        let mut strays = Vec::new();
        adopted.tables.walk_ports(|interface, _| {
            if known.values().all(|port| port.interface != interface) {
                strays.push(interface);
            }
        })?;
        // The data plane does not know them: their numbers may be given to others.
        for stray in strays {
            adopted.tables.clear_port(stray)?;
        }
        *adopted.ports() = known;
        Ok(adopted)
    }

    fn of(program: Program, node: &Netlink) -> Result<Self, FastPathError> {
        let given = program.tables().map(|table| table.try_clone_to_owned());
        let tables = Tables::open(given.collect::<Result<_, _>>()?)?;
        let (identifiers, node) = (program.identifiers()?, node.clone());
        let (ports, unread) = (Mutex::default(), Mutex::default());
        Ok(Self { program, tables, identifiers, node, ports, unread })
    }

    /// What the kernel calls its parts.
    pub(crate) fn identifiers(&self) -> &[u32] {
        &self.identifiers
    }

    /// The ports before which the program stands.
    pub(crate) fn steered(&self) -> Vec<KernelPort> {
        let told = |(id, known): (&PortId, &Known)| KernelPort {
            port_id: id.to_string(),
            number: u32::from(known.number),
            interface: known.interface,
            has_peer: known.has_peer,
        };
        self.ports().iter().map(told).collect()
    }

    /// What a data plane needs: tables and programs, and last a socket of the punt device.
    ///
    /// # Errors
    /// No descriptor is left, or the punt device is gone.
    pub(crate) fn descriptors(&self) -> Result<Vec<OwnedFd>, FastPathError> {
        let parts = self.program.parts().map(|part| part.try_clone_to_owned());
        let mut given = parts.collect::<Result<Vec<_>, _>>()?;
        given.push(packet::open_packet_socket(self.node.namespace(), PUNT_OUT)?);
        Ok(given)
    }

    /// Makes the punt device anew; whoever read the former one needs a socket of this one.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) async fn remake_punt_device(&self) -> Result<(), KernelError> {
        let punt_ifindex = make_punt_device(&self.node).await?;
        self.tables.set_punt_ifindex(punt_ifindex);
        Ok(())
    }

    /// The data plane has ended: what is sent up from now on nobody reads.
    pub(crate) fn unread_from_now(&self) {
        // Whoever comes next counts anew; until then nobody would give a place back.
        self.tables.queues().limit(0);
        let sent_up = self.sent_up();
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(sent_up);
    }

    /// There is a socket for what is sent up again; answers what was not read.
    pub(crate) fn take_unread(&self) -> SentUp {
        let before = self.unread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(before) = before else { return SentUp::default() };
        let now = self.sent_up();
        SentUp {
            ports: now.ports.saturating_sub(before.ports),
            tunnels: now.tunnels.saturating_sub(before.tunnels),
        }
    }

    fn sent_up(&self) -> SentUp {
        let all: u64 = Event::PUNTED.iter().map(|event| self.tables.events(*event)).sum();
        let tunnels = self.tables.events(Event::FromUnderlay);
        SentUp { ports: all.saturating_sub(tunnels), tunnels }
    }

    /// Do the frames of this port come by the program?
    pub(crate) fn serves(&self, id: PortId) -> bool {
        self.ports().contains_key(&id)
    }

    /// Lets the program decide about each frame that comes in by an interface.
    ///
    /// # Errors
    /// The kernel's refusal; none of its frames reaches the host's stack all the same, if the
    /// filter that was there before stays.
    pub(crate) async fn steer(
        &self,
        id: PortId,
        interface: u32,
        has_peer: bool,
    ) -> Result<Option<Known>, FastPathError> {
        let Some(known) = self.number(id, interface, has_peer) else { return Ok(None) };
        let port = Port { number: u32::from(known.number), is_watched: 0, link: 0 };
        self.tables.set_port(interface, port).map_err(std::io::Error::other)?;
        tc::steer_ingress(&self.node, interface, self.program.for_port().as_fd()).await?;
        Ok(Some(known))
    }

    /// Lets the program decide about the frames on source routes that a link brings; all others stay the host's.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) async fn steer_link(
        &self,
        link: PortNumber,
        interface: u32,
    ) -> Result<Option<Known>, FastPathError> {
        let Some(known) = self.number(link.link_id(), interface, false) else { return Ok(None) };
        let (number, link) = (u32::from(known.number), u32::from(link.get()));
        let port = Port { number, is_watched: 0, link };
        self.tables.set_port(interface, port).map_err(std::io::Error::other)?;
        tc::steer_ingress(&self.node, interface, self.program.for_link().as_fd()).await?;
        Ok(Some(known))
    }

    /// Lets the program decide about tunnel packets that come in by the interface with the address,
    /// where tunnels are taken from it; answers that interface, if it is not `former` already; 0:
    /// there is none.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) async fn steer_underlay(
        &self,
        underlay: &Underlay,
        former: Option<u32>,
    ) -> Result<Option<u32>, FastPathError> {
        let found = self.node.link_with_address(underlay.address).await?;
        let taken = underlay.interfaces(&self.node).await?;
        // What comes in by the loopback interface is not from another node.
        let found = found.filter(|index| *index != LOOPBACK_INDEX && taken.contains(index));
        let found = found.unwrap_or(0);
        if Some(found) == former {
            return Ok(None);
        }
        if let Some(former) = former.filter(|former| *former > 0) {
            // Of an interface that is gone nothing is left to be taken away.
            tc::release_steering(&self.node, former).await.ok();
        }
        if found > 0 {
            tc::steer_ingress(&self.node, found, self.program.for_underlay().as_fd()).await?;
        }
        Ok(Some(found))
    }

    /// The port is served no longer. Answers how it was known, if no other has taken its interface over.
    pub(crate) fn forget(&self, id: PortId) -> Option<Known> {
        let mut ports = self.ports();
        let former = ports.remove(&id)?;
        if ports.values().any(|other| other.interface == former.interface) {
            return None;
        }
        // An interface that is gone took its line with it for all that it matters.
        self.tables.clear_port(former.interface).ok();
        Some(former)
    }

    /// The number of a port, its own as long as it is here; none: all are taken.
    fn number(&self, id: PortId, interface: u32, has_peer: bool) -> Option<Known> {
        let own = self.ports().get(&id).copied();
        if let Some(own) = own
            && (own.interface, own.has_peer) == (interface, has_peer)
        {
            return Some(own);
        }
        self.forget(id);
        let mut ports = self.ports();
        let is_free = |number: &u16| ports.values().all(|known| known.number != *number);
        let number = (1..=PORT_NUMBER_MAX).find(is_free)?;
        let known = Known { number, interface, has_peer };
        ports.insert(id, known);
        Some(known)
    }

    fn ports(&self) -> MutexGuard<'_, BTreeMap<PortId, Known>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes away what an earlier agent put before the interface with this underlay address: what it
/// would send up nobody reads.
///
/// # Errors
/// The kernel's refusal.
pub(crate) async fn free_underlay(node: &Netlink, address: IpAddr) -> Result<(), KernelError> {
    match node.link_with_address(address).await? {
        Some(index) => tc::release_steering(node, index).await,
        None => Ok(()),
    }
}

/// What a node has room for: a host repeats flows, a switch passes on by links.
fn sizes(role: NodeRole) -> Sizes {
    match role {
        NodeRole::Host => Sizes {
            flows: KERNEL_FLOWS_MAX + SPARE_FLOWS,
            slots: KERNEL_EPOCHS_MAX,
            // Each flow in the table has one while it is there; gate 0 is no one's.
            gates: KERNEL_FLOWS_MAX + 1,
            accounts: KERNEL_ACCOUNTS_MAX,
            places: 0,
        },
        NodeRole::Switch => {
            let places = u32::from(KERNEL_LINKS_MAX);
            Sizes { flows: 1, slots: places + 1, gates: 1, accounts: 1, places }
        }
    }
}

/// A port as a data plane tells of it.
fn known(port: &KernelPort) -> Option<(PortId, Known)> {
    let number = u16::try_from(port.number).ok()?;
    let known = Known { number, interface: port.interface, has_peer: port.has_peer };
    Some((parse_port(&port.port_id)?, known))
}

/// Answers the index of the end that the program sends into.
async fn make_punt_device(node: &Netlink) -> Result<u32, KernelError> {
    if node.link(PUNT_IN).await?.is_some() {
        node.delete_link(PUNT_IN).await?;
    }
    node.add_veth(PUNT_IN, PUNT_OUT, node.namespace(), PUNT_MTU, None, None).await?;
    for end in [PUNT_IN, PUNT_OUT] {
        let setting = format!("net/ipv6/conf/{end}/disable_ipv6");
        match sysctl::write_in(node.namespace(), &setting, "1") {
            // A kernel without IPv6 has nothing to silence.
            Err(error) if !error.is_not_found() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let index = node.existing(end).await?.index;
        tc::swallow_ingress(node, index).await?;
        node.set_up(end).await?;
    }
    Ok(node.existing(PUNT_IN).await?.index)
}
