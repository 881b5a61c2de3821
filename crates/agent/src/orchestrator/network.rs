//! The network of an instance: a namespace of its own, whose interfaces lead to the node. What comes in by one leaves
//! by the other, unless the instance says otherwise. Refuses to know what runs there.

use catena_kernel::namespace::{self, NAMED_NAMESPACES, NetNamespace};
use catena_kernel::netlink::{IpFamily, Netlink};
use catena_kernel::{Result, sysctl};
use catena_model::instance::{InstanceInterface, InstanceProgram, InstanceSpec, node_interface_of};
use catena_model::limits::TENANT_MTU_BYTES;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Routing table of the first interface; below the reserved 253 to 255.
const TABLE_FIRST: u32 = 101;
/// Priority of the rules «what came in by this interface»: before the main table (32,766), behind the local.
const RULE_PRIORITY: u32 = 1_000;

/// Before there are interfaces, which inherit them: what passes is forwarded, whatever way an answer would take, and
/// nobody is told of a shorter one.
const SETTINGS: [(&str, &str); 11] = [
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.arp_ignore", "1"),
    ("net.ipv4.conf.default.accept_redirects", "0"),
    ("net.ipv4.conf.default.send_redirects", "0"),
    ("net.ipv4.conf.all.send_redirects", "0"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.accept_redirects", "0"),
];

/// Where a bundled function takes every frame itself, the kernel is to see none.
const SILENCE: [(&str, &str); 2] =
    [("net.ipv4.ip_forward", "0"), ("net.ipv6.conf.default.disable_ipv6", "1")];

/// Makes the network of an instance; what is left of an earlier one goes first. `node`: the namespace of the node.
///
/// # Errors
/// The kernel refuses.
pub(super) async fn make(node: &Netlink, spec: &InstanceSpec) -> Result<NetNamespace> {
    unmake(node, spec).await?;
    let own = NetNamespace::create_named(Path::new(NAMED_NAMESPACES), &spec.namespace)?;
    let made = furnish(node, spec, &own).await;
    if made.is_err() {
        // What is made in part is of no use, and is tried again as a whole.
        unmake(node, spec)
            .await
            .unwrap_or_else(|error| tracing::warn!(instance = spec.name, "{error}"));
    }
    made.map(|()| own)
}

/// The network that an instance has already.
///
/// # Errors
/// It has none.
pub(super) fn find(spec: &InstanceSpec) -> Result<NetNamespace> {
    NetNamespace::open(&Path::new(NAMED_NAMESPACES).join(&spec.namespace))
}

/// Removes all of it, as far as it is there. The data plane sees the interfaces go.
///
/// # Errors
/// The kernel refuses.
pub(super) async fn unmake(node: &Netlink, spec: &InstanceSpec) -> Result<()> {
    for interface in &spec.interfaces {
        absent(node.delete_link(&node_interface_of(interface.port)).await)?;
    }
    absent(namespace::delete_named(Path::new(NAMED_NAMESPACES), &spec.namespace))
}

/// What is not there need not be removed.
fn absent(removed: Result<()>) -> Result<()> {
    removed.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
}

async fn furnish(node: &Netlink, spec: &InstanceSpec, own: &NetNamespace) -> Result<()> {
    let links = Netlink::open(own)?;
    links.set_up("lo").await?;
    let is_bundled = matches!(spec.program, InstanceProgram::Bundled(_));
    let settings: &[(&str, &str)] = if is_bundled { &SILENCE } else { &SETTINGS };
    settings.iter().try_for_each(|(key, value)| sysctl::write_in(own, key, value))?;
    for interface in &spec.interfaces {
        add(node, &links, own, interface).await?;
        if !is_bundled {
            address(&links, interface).await?;
        }
    }
    if is_bundled {
        return Ok(());
    }
    let passes = match spec.interfaces.as_slice() {
        [only] => vec![(only, only)],
        [one, other, ..] => vec![(one, other), (other, one)],
        [] => Vec::new(),
    };
    for ((came, goes), table) in passes.into_iter().zip(TABLE_FIRST..) {
        pass(&links, (came, goes), table).await?;
    }
    Ok(())
}

async fn add(
    node: &Netlink,
    links: &Netlink,
    own: &NetNamespace,
    interface: &InstanceInterface,
) -> Result<()> {
    let near = node_interface_of(interface.port);
    let (name, mtu) = (&interface.name, u32::from(TENANT_MTU_BYTES));
    node.add_veth(&near, name, own, mtu, None, Some(interface.mac.0)).await?;
    links.set_up(name).await?;
    node.set_up(&near).await
}

async fn address(links: &Netlink, interface: &InstanceInterface) -> Result<()> {
    for address in &interface.addresses {
        links.add_address(&interface.name, address.addr(), address.prefix_len()).await?;
    }
    Ok(())
}

/// What came in by one interface leaves by another, of each family that has addresses there.
async fn pass(
    links: &Netlink,
    (came, goes): (&InstanceInterface, &InstanceInterface),
    table: u32,
) -> Result<()> {
    let families: [(IpAddr, IpFamily); 2] = [
        (Ipv4Addr::UNSPECIFIED.into(), IpFamily::V4),
        (Ipv6Addr::UNSPECIFIED.into(), IpFamily::V6),
    ];
    for (everything, family) in families {
        let is_of = |address: &ipnet::IpNet| address.addr().is_ipv4() == everything.is_ipv4();
        if goes.addresses.iter().any(is_of) {
            links.add_route((everything, 0), None, &goes.name, Some(table)).await?;
            links.add_rule_iif(&came.name, table, family, RULE_PRIORITY).await?;
        }
    }
    Ok(())
}
