//! Where a function port is taken from: the end of a veth pair that lies on the node's side.
//! It refuses to change anything; it looks, checks from both sides, and says what is missing.

use std::path::{Path, PathBuf};

use crate::namespace::{NAMED_NAMESPACES, NetNamespace};
use crate::netlink::{LinkInfo, LinkStatistics, MacBytes, Netlink};
use crate::{KernelError, Result};

/// Where the function's own interface lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionNamespace {
    /// No other namespace is named: the interface is on the node itself, and packets are taken
    /// from it directly.
    Node,
    /// A namespace by its path.
    Path(PathBuf),
    /// The namespace of a process.
    Pid(u32),
}

impl FunctionNamespace {
    /// A namespace as people write it: an absolute path, or a name as `ip netns` has it.
    pub fn named(name_or_path: &str) -> Self {
        if name_or_path.contains('/') {
            Self::Path(PathBuf::from(name_or_path))
        } else {
            Self::Path(Path::new(NAMED_NAMESPACES).join(name_or_path))
        }
    }

    /// Opens it; nothing for [`FunctionNamespace::Node`].
    ///
    /// # Errors
    /// [`KernelError::NotFoundYet`] if it is missing, [`KernelError::Invalid`] if the path is
    /// relative or leads to anything but a network namespace.
    pub fn open(&self) -> Result<Option<NetNamespace>> {
        match self {
            Self::Node => Ok(None),
            Self::Path(path) if path.is_relative() => Err(KernelError::invalid(
                format!("network namespace {}", path.display()),
                "it must be a name or an absolute path",
            )),
            Self::Path(path) => NetNamespace::open(path).map(Some),
            Self::Pid(pid) => NetNamespace::open_pid(*pid).map(Some),
        }
    }
}

/// The interface on the node's side from which a function's frames are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchSide {
    /// Index in the node's namespace.
    pub ifindex: u32,
    /// Name in the node's namespace.
    pub name: String,
    /// MAC address of the function's own end: what a kernel-routing function must be addressed
    /// by. None where the other end cannot be seen (hardware, a TAP).
    pub function_mac: Option<MacBytes>,
    /// Largest frame payload the function's own end takes, in bytes.
    pub function_mtu: u32,
}

/// Finds the node's side of a port.
///
/// With a namespace, `interface` is the function's own end and its veth peer must be in `node`,
/// which is checked from both ends. Without one, `interface` itself is taken.
///
/// # Errors
/// [`KernelError::NotFoundYet`] if the namespace or the interface is missing,
/// [`KernelError::NotVeth`] and [`KernelError::PeerElsewhere`] if it can never be the node's.
pub async fn resolve_switch_side(
    node: &NetNamespace,
    function: &FunctionNamespace,
    interface: &str,
) -> Result<SwitchSide> {
    let node_links = Netlink::open(node)?;
    let Some(function_namespace) = function.open()? else {
        return interface_of_node(&node_links, interface).await;
    };
    let function_links = Netlink::open(&function_namespace)?;
    let own = function_links.existing(interface).await?;
    let peer_index = peer_of_veth(&own)?;
    let elsewhere = || KernelError::PeerElsewhere {
        interface: format!("{interface} in network namespace {}", function_namespace.name()),
        expected: format!("network namespace {}", node.name()),
    };
    if !lies_in(&own, &function_links, node).await? {
        return Err(elsewhere());
    }
    let side = node_links.link_at(peer_index).await?.ok_or_else(elsewhere)?;
    // An index means nothing outside its namespace: the peer must point back.
    let points_back = side.is_veth()
        && side.peer_index == Some(own.index)
        && lies_in(&side, &node_links, &function_namespace).await?;
    if !points_back {
        return Err(elsewhere());
    }
    Ok(SwitchSide {
        ifindex: side.index,
        name: side.name,
        function_mac: own.mac,
        function_mtu: own.mtu,
    })
}

/// Counters of the function's own end, as its own kernel view has them: `rx` is what it was given.
///
/// # Errors
/// As [`resolve_switch_side`]; without a namespace the interface must be a veth, since only then
/// its other end can be seen.
pub async fn function_statistics(
    node: &NetNamespace,
    function: &FunctionNamespace,
    interface: &str,
) -> Result<LinkStatistics> {
    let own = match function.open()? {
        Some(namespace) => Netlink::open(&namespace)?.existing(interface).await?,
        None => {
            let node_links = Netlink::open(node)?;
            let side = node_links.existing(interface).await?;
            far_end(&node_links, &side, peer_of_veth(&side)?).await?
        }
    };
    Ok(own.statistics)
}

async fn interface_of_node(node_links: &Netlink, interface: &str) -> Result<SwitchSide> {
    let side = node_links.existing(interface).await?;
    let (function_mac, function_mtu) = match peer_of_veth(&side) {
        Ok(peer_index) => {
            let own = far_end(node_links, &side, peer_index).await?;
            (own.mac, own.mtu)
        }
        Err(_) => (None, side.mtu),
    };
    Ok(SwitchSide { ifindex: side.index, name: side.name, function_mac, function_mtu })
}

/// The other end of a veth, wherever it lives.
async fn far_end(links: &Netlink, near: &LinkInfo, index: u32) -> Result<LinkInfo> {
    let far = match near.peer_netns_id {
        Some(namespace) => links.link_in(namespace, index).await?,
        None => links.link_at(index).await?,
    };
    far.ok_or_else(|| KernelError::not_found_yet(format!("the peer of interface {}", near.name)))
}

fn peer_of_veth(link: &LinkInfo) -> Result<u32> {
    match link.peer_index {
        Some(index) if link.is_veth() => Ok(index),
        _ => {
            let kind = if link.kind.is_empty() { "device of its own" } else { &link.kind };
            Err(KernelError::NotVeth { interface: link.name.clone(), kind: kind.to_owned() })
        }
    }
}

/// Whether the peer of `link` (seen through `links`) lives in `expected`. The kernel numbers the
/// peer's namespace when it describes the link, so the number exists by now.
async fn lies_in(link: &LinkInfo, links: &Netlink, expected: &NetNamespace) -> Result<bool> {
    match link.peer_netns_id {
        None => links.namespace().same_as(expected),
        Some(id) => Ok(links.id_of(expected).await? == Some(id)),
    }
}
