//! Whether the node itself needs an interface: a port takes an interface away from the node, so one
//! that the node needs is refused, whoever asks for it. Looks only; refuses to know ports.

use crate::fast_path::{PUNT_IN, PUNT_OUT};
use crate::open_error::OpenError;
use crate::underlay::Underlay;
use catena_kernel::KernelError;
use catena_kernel::attach::SwitchSide;
use catena_kernel::netlink::{LinkInfo, Netlink};
use std::net::IpAddr;

pub(crate) const LOOPBACK: &str = "lo";
/// Networks whose addresses a kernel gives an interface by itself (RFC 3927).
const LINK_LOCAL_V4: [u8; 2] = [169, 254];
/// Links that may lie below one another until it is taken for a circle.
const LOWER_LINKS_MAX: usize = 16;

/// Answers why the node's side of a port is not for ports.
///
/// # Errors
/// The reason, or that the kernel did not tell.
pub(crate) async fn check_not_needed(
    node: &Netlink,
    side: &SwitchSide,
    underlay: &Underlay,
) -> Result<(), OpenError> {
    let interface = || side.name.clone();
    if side.name == LOOPBACK {
        return Err(OpenError::Loopback);
    }
    if [PUNT_IN, PUNT_OUT].contains(&side.name.as_str()) {
        return Err(OpenError::Own { interface: interface(), what: "its way up from the kernel" });
    }
    let addresses = node.addresses(side.ifindex).await?;
    if let Some(address) = addresses.into_iter().find(|address| !is_link_local(*address)) {
        return Err(OpenError::OfTheNode { interface: interface(), address });
    }
    let link = node.existing(&side.name).await?;
    if let Some(master) = link.master_index {
        let master = node.link_at(master).await?;
        let master = master.map_or_else(|| "another one".into(), |link| link.name);
        return Err(OpenError::Member { interface: interface(), master });
    }
    if is_below_underlay(node, side.ifindex, underlay).await? {
        return Err(OpenError::Own { interface: interface(), what: "a link of its underlay" });
    }
    Ok(())
}

/// Do tunnels to other nodes go by this link, or by one that lies on it?
async fn is_below_underlay(
    node: &Netlink,
    index: u32,
    underlay: &Underlay,
) -> Result<bool, KernelError> {
    let mut tops: Vec<LinkInfo> = Vec::new();
    if let Some(own) = node.link_with_address(underlay.address).await? {
        tops.extend(node.link_at(own).await?);
    }
    for device in &underlay.devices {
        tops.extend(node.link(device).await?);
    }
    for top in tops {
        let mut next = Some(top);
        for _ in 0..LOWER_LINKS_MAX {
            let Some(link) = next else { break };
            if link.index == index {
                return Ok(true);
            }
            // The other end of a veth does not lie below it, and another namespace is not the node.
            let lower = link.peer_index.filter(|_| !link.is_veth() && link.peer_netns_id.is_none());
            next = match lower {
                Some(lower) => node.link_at(lower).await?,
                None => None,
            };
        }
    }
    Ok(false)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets().starts_with(&LINK_LOCAL_V4),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
