//! The interfaces behind ports: takes them from the host's stack, opens their packet sockets, gives
//! them back, reads their counters, and notices when links change.
//!
//! Knows the kernel's doors. Refuses to know programs and the data plane. Orders are carried out one
//! after the other: a port that is released and wanted again is open in the end.

use catena_kernel::attach::{self, FunctionNamespace, SwitchSide};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::{LinkChange, LinkWatch, Netlink};
use catena_kernel::{KernelError, packet, sysctl, tc};
use catena_model::account::{InterfaceCounters, Volume};
use catena_model::program::PortEntry;
use catena_model::resource::{Attachment, NamespaceRef};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::sync::mpsc;

const LOOPBACK: &str = "lo";
/// Networks whose addresses a kernel gives an interface by itself (RFC 3927).
const LINK_LOCAL_V4: [u8; 2] = [169, 254];

/// How long a broken watch rests before it is opened again; ports are also looked for by time.
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// What became of the search for a port's interface.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The port as it was asked for.
    pub(crate) entry: PortEntry,
    /// Its packet socket, or what is missing.
    pub(crate) socket: Result<OwnedFd, String>,
}

enum Order {
    Open(PortEntry),
    Release(PortEntry),
}

/// The way to give orders; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Interfaces {
    node: Netlink,
    // Bounded by those who order: ports being attached, and answers of the data plane to detach.
    orders: mpsc::UnboundedSender<Order>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, entry) = match self {
            Self::Open(entry) => ("Open", entry),
            Self::Release(entry) => ("Release", entry),
        };
        f.debug_tuple(name).field(&entry.attachment).finish()
    }
}

impl Interfaces {
    /// The interfaces of the network namespace that this process is in.
    ///
    /// # Errors
    /// When netlink cannot be opened there.
    pub(crate) fn of_this_node(opened: mpsc::Sender<Opened>) -> Result<Self, KernelError> {
        let node = Netlink::open(&NetNamespace::current()?)?;
        let (orders, queue) = mpsc::unbounded_channel();
        tokio::spawn(carry_out(node.clone(), queue, opened));
        Ok(Self { node, orders })
    }

    /// Looks for the interface and opens it; the outcome comes through the channel.
    pub(crate) fn open(&self, entry: PortEntry) {
        // The task that carries orders out ends only with the last of its clones.
        self.orders.send(Order::Open(entry)).ok();
    }

    /// Lets the host's stack see the interface again.
    pub(crate) fn release(&self, entry: PortEntry) {
        self.orders.send(Order::Release(entry)).ok();
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
        let (namespace, interface) = (namespace_of(attachment), &attachment.interface);
        let counted = attach::function_statistics(self.node.namespace(), &namespace, interface);
        let counted = counted.await.ok()?;
        Some(InterfaceCounters {
            received: Volume { packets: counted.rx_packets, bytes: counted.rx_bytes },
            transmitted: Volume { packets: counted.tx_packets, bytes: counted.tx_bytes },
        })
    }
}

/// One order after the other: what is given back must not be taken by the order before it.
async fn carry_out(
    node: Netlink,
    mut queue: mpsc::UnboundedReceiver<Order>,
    opened: mpsc::Sender<Opened>,
) {
    while let Some(order) = queue.recv().await {
        match order {
            Order::Open(entry) => {
                let socket = open(&node, &entry).await.map_err(|error| error.to_string());
                // Nobody waits for it any more when the agent is stopping.
                opened.send(Opened { entry, socket }).await.ok();
            }
            Order::Release(entry) => {
                if let Err(error) = release(&node, &entry).await
                    && !error.is_not_found()
                {
                    tracing::warn!(port = entry.name, "the interface is not given back: {error}");
                }
            }
        }
    }
}

/// Why an interface is not taken.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("'{LOOPBACK}' is the loopback interface of the node itself")]
    Loopback,
    #[error(
        "interface '{interface}' carries the node's own address {address}, and a port takes an \
         interface away from the node: name the function's namespace (netns or pid) and its \
         interface there, or remove the address"
    )]
    OfTheNode { interface: String, address: IpAddr },
}

/// The filter comes first: the host's stack must not see a single frame of a tenant.
async fn open(node: &Netlink, entry: &PortEntry) -> Result<OwnedFd, OpenError> {
    let side = resolve(node, &entry.attachment).await?;
    if entry.attachment.namespace.is_none() {
        check_not_needed(node, &side).await?;
    }
    tc::swallow_ingress(node, side.ifindex).await?;
    silence_ipv6(node, &side.name, true);
    node.set_up(&side.name).await?;
    let socket = packet::open_packet_socket(node.namespace(), &side.name)?;
    if let Some(mac) = side.function_mac.filter(|mac| *mac != entry.mac.0) {
        let [a, b, c, d, e, f] = mac;
        tracing::warn!(
            port = entry.name,
            "the interface has the MAC {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} and not \
             the port's {}: it will drop what is addressed to the port; make them equal",
            entry.mac
        );
    }
    Ok(socket)
}

/// Without a namespace any interface of the node can be named, the one to its controller too.
async fn check_not_needed(node: &Netlink, side: &SwitchSide) -> Result<(), OpenError> {
    if side.name == LOOPBACK {
        return Err(OpenError::Loopback);
    }
    let addresses = node.addresses(side.ifindex).await?;
    match addresses.into_iter().find(|address| !is_link_local(*address)) {
        Some(address) => Err(OpenError::OfTheNode { interface: side.name.clone(), address }),
        None => Ok(()),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets().starts_with(&LINK_LOCAL_V4),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Without it the node's stack sends router solicitations and group reports of its own into the
/// tenant's network. Given back, an interface is as a new one would be.
fn silence_ipv6(node: &Netlink, interface: &str, is_silent: bool) {
    let place = node.namespace();
    let write = || {
        let value = if is_silent {
            "1".into()
        } else {
            sysctl::read_in(place, "net/ipv6/conf/default/disable_ipv6")?
        };
        sysctl::write_in(place, &format!("net/ipv6/conf/{interface}/disable_ipv6"), &value)
    };
    match write() {
        // A kernel without IPv6 has nothing to silence.
        Err(error) if !error.is_not_found() => {
            tracing::warn!(interface, "the node may send IPv6 of its own there: {error}");
        }
        Ok(()) | Err(_) => {}
    }
}

async fn release(node: &Netlink, entry: &PortEntry) -> Result<(), KernelError> {
    let side = resolve(node, &entry.attachment).await?;
    silence_ipv6(node, &side.name, false);
    tc::release_ingress(node, side.ifindex).await
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
