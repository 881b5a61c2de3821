//! Makes what the wiring plan lists, in its order, by the doors of `kernel`. Has no choices: a
//! refusal of the kernel ends it, and the end of the namespaces removes what was made.

use super::address::SEGMENT_PREFIX_BITS;
use super::plan::{
    BRIDGE, Cable, DATA_INTERFACE, End, PolicyRoute, SegmentWiring, Setting, WiringPlan,
};
use crate::error::LabError;
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::{IpFamily, Netlink};
use catena_kernel::{KernelError, Result, sysctl};
use catena_model::program::Locator;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Priority of the rules «what came in by X»: before the main table (32,766), after the local.
const RULE_PRIORITY: u32 = 1_000;

/// The namespaces of a wired lab, by name.
pub(crate) type Namespaces = BTreeMap<String, NetNamespace>;

/// How a namespace comes into being, by its name.
pub(crate) type MakeNamespace<'m> = &'m dyn Fn(&str) -> Result<NetNamespace>;

/// Makes everything of the plan, and waits for it.
pub(crate) fn make(
    plan: &WiringPlan,
    namespace: MakeNamespace<'_>,
) -> crate::error::Result<Namespaces> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| LabError::io("start", "the netlink runtime", error))?;
    Ok(runtime.block_on(apply(plan, namespace))?)
}

async fn apply(plan: &WiringPlan, make: MakeNamespace<'_>) -> Result<Namespaces> {
    let mut wiring = Wiring { namespaces: Namespaces::new(), doors: BTreeMap::new() };
    for name in &plan.namespaces {
        wiring.add_namespace(name, make(name)?).await?;
    }
    wiring.set_all(&plan.settings)?;
    for name in &plan.bridges {
        wiring.forward_unfiltered(name)?;
        let door = wiring.door(name)?;
        let is_transparent = plan.transparent.contains(name);
        door.add_bridge(BRIDGE, if is_transparent { PASSES_LLDP } else { 0 }).await?;
        door.set_up(BRIDGE).await?;
    }
    for cable in &plan.cables {
        wiring.add_cable(cable).await?;
    }
    wiring.set_all(&plan.interface_settings)?;
    for place in &plan.segment_places {
        wiring.place_segments(place).await?;
    }
    for route in &plan.routes {
        let door = wiring.door(&route.namespace)?;
        let to = (route.to.addr(), route.to.prefix_len());
        door.add_route(to, Some(route.gateway), &route.interface, None).await?;
    }
    for route in &plan.policy_routes {
        wiring.add_policy_route(route).await?;
    }
    for route in &plan.default_routes {
        let door = wiring.door(&route.namespace)?;
        let all = everything(route.gateway.is_ipv4());
        door.add_route(all, Some(route.gateway), &route.interface, None).await?;
    }
    Ok(wiring.namespaces)
}

/// The bit of a bridge's mask of groups that stands for 01:80:c2:00:00:0e.
const PASSES_LLDP: u16 = 1 << 0x0e;

/// Packet filters that the kernel shows bridged frames to.
const FILTERS_OF_BRIDGES: [&str; 3] = ["arptables", "ip6tables", "iptables"];

struct Wiring {
    namespaces: Namespaces,
    doors: BTreeMap<String, Netlink>,
}

fn everything(is_v4: bool) -> (IpAddr, u8) {
    if is_v4 { (Ipv4Addr::UNSPECIFIED.into(), 0) } else { (Ipv6Addr::UNSPECIFIED.into(), 0) }
}

impl Wiring {
    async fn add_namespace(&mut self, name: &str, namespace: NetNamespace) -> Result<()> {
        let door = Netlink::open(&namespace)?;
        door.set_up("lo").await?;
        self.doors.insert(name.to_owned(), door);
        self.namespaces.insert(name.to_owned(), namespace);
        Ok(())
    }

    fn namespace(&self, name: &str) -> Result<&NetNamespace> {
        self.namespaces
            .get(name)
            .ok_or_else(|| KernelError::not_found_yet(format!("namespace {name} of the plan")))
    }

    fn door(&self, name: &str) -> Result<&Netlink> {
        self.doors
            .get(name)
            .ok_or_else(|| KernelError::not_found_yet(format!("namespace {name} of the plan")))
    }

    fn set_all(&self, settings: &[Setting]) -> Result<()> {
        settings.iter().try_for_each(|setting| {
            sysctl::write_in(self.namespace(&setting.namespace)?, &setting.key, setting.value)
        })
    }

    /// A switch shows no frame to the host's packet filter.
    fn forward_unfiltered(&self, switch: &str) -> Result<()> {
        FILTERS_OF_BRIDGES.iter().try_for_each(|filter| {
            let setting = format!("net/bridge/bridge-nf-call-{filter}");
            match sysctl::write_in(self.namespace(switch)?, &setting, "0") {
                // A kernel that has no such filter needs not be told.
                Err(error) if error.is_not_found() => Ok(()),
                other => other,
            }
        })
    }

    async fn add_cable(&self, cable: &Cable) -> Result<()> {
        let [near, far] = &cable.ends;
        let peer = self.namespace(&far.namespace)?;
        self.door(&near.namespace)?
            .add_veth(&near.interface, &far.interface, peer, cable.mtu, near.mac, far.mac)
            .await?;
        self.plug(near).await?;
        self.plug(far).await
    }

    async fn plug(&self, end: &End) -> Result<()> {
        let door = self.door(&end.namespace)?;
        if end.is_in_bridge {
            door.set_master(&end.interface, BRIDGE).await?;
        }
        for address in &end.addresses {
            door.add_address(&end.interface, address.addr(), address.prefix_len()).await?;
        }
        door.set_up(&end.interface).await
    }

    async fn place_segments(&self, place: &SegmentWiring) -> Result<()> {
        let door = self.door(&place.namespace)?;
        let own = place.own.address.into();
        door.add_address(DATA_INTERFACE, own, SEGMENT_PREFIX_BITS).await?;
        for (locator, address) in &place.others {
            let to = (locator.address().into(), Locator::BITS);
            door.add_route(to, Some((*address).into()), DATA_INTERFACE, None).await?;
        }
        Ok(())
    }

    async fn add_policy_route(&self, route: &PolicyRoute) -> Result<()> {
        let door = self.door(&route.namespace)?;
        for family in [IpFamily::V4, IpFamily::V6] {
            let all = everything(family == IpFamily::V4);
            door.add_rule_iif(&route.ingress, route.table, family, RULE_PRIORITY).await?;
            door.add_route(all, None, &route.egress, Some(route.table)).await?;
        }
        Ok(())
    }
}
