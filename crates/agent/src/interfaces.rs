//! The interfaces behind ports: takes them from the host's stack, opens their packet sockets, gives
//! them back, reads their counters, and notices when links change.
//!
//! Knows the kernel's doors. Refuses to know programs and the data plane. Orders are carried out one
//! after the other: a port that is released and wanted again is open in the end.

use catena_kernel::attach::{self, FunctionNamespace, SwitchSide};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::{LinkChange, LinkWatch, Netlink};
use catena_kernel::{KernelError, packet, tc};
use catena_model::account::{InterfaceCounters, Volume};
use catena_model::program::PortEntry;
use catena_model::resource::{Attachment, NamespaceRef};
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::sync::mpsc;

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
    // Never longer than the ports of two programs.
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

/// One order after the other: what is asked of the kernel for one port is answered before the next,
/// since a netlink connection makes one list at a time.
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

/// The filter comes first: the host's stack must not see a single frame of a tenant.
async fn open(node: &Netlink, entry: &PortEntry) -> Result<OwnedFd, KernelError> {
    let side = resolve(node, &entry.attachment).await?;
    tc::swallow_ingress(node, side.ifindex).await?;
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

async fn release(node: &Netlink, entry: &PortEntry) -> Result<(), KernelError> {
    let side = resolve(node, &entry.attachment).await?;
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
