//! Which interface a port of this node has, told by namespace and index, however people spell it:
//! two ports never have one interface, and each is given back as it was found. Pure: looks at and
//! changes no interface.

use catena_kernel::namespace::NamespaceId;
use catena_model::id::PortId;
use catena_protocol::message::InterfacePlace;
use std::collections::BTreeMap;

/// An interface, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) namespace: NamespaceId,
    pub(crate) interface: u32,
}

impl From<Place> for InterfacePlace {
    fn from(place: Place) -> Self {
        let NamespaceId { device, inode } = place.namespace;
        Self { namespace_device: device, namespace_inode: inode, interface: place.interface }
    }
}

impl From<InterfacePlace> for Place {
    fn from(told: InterfacePlace) -> Self {
        let namespace = NamespaceId { device: told.namespace_device, inode: told.namespace_inode };
        Self { namespace, interface: told.interface }
    }
}

/// What an interface was like when a port took it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// Its `disable_ipv6`; none: a kernel without IPv6, or an earlier agent took it.
    pub(crate) disable_ipv6: Option<String>,
    /// It had an ingress hook already.
    pub(crate) had_hook: bool,
}

#[derive(Debug)]
struct Holding {
    port: PortId,
    /// The port left the program, or has another interface there.
    is_leaving: bool,
    before: Before,
}

/// The interfaces of all ports.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    places: BTreeMap<Place, Holding>,
}

impl Holdings {
    /// The other port that has this interface and stays.
    pub(crate) fn other_holder(&self, place: Place, port: PortId) -> Option<PortId> {
        let holding = self.places.get(&place)?;
        (holding.port != port && !holding.is_leaving).then_some(holding.port)
    }

    /// Was it taken before, by this port or by one that leaves?
    pub(crate) fn is_held(&self, place: Place) -> bool {
        self.places.contains_key(&place)
    }

    /// The port has this interface from now on. One that leaves hands it over as it is: `before`
    /// counts only when nobody has it.
    pub(crate) fn take(&mut self, place: Place, port: PortId, before: Before) {
        let holding =
            self.places.entry(place).or_insert(Holding { port, is_leaving: false, before });
        (holding.port, holding.is_leaving) = (port, false);
    }

    /// Another may have what this port has.
    pub(crate) fn leaves(&mut self, port: PortId) {
        let own = self.places.values_mut().filter(|holding| holding.port == port);
        own.for_each(|holding| holding.is_leaving = true);
    }

    /// Takes out what this port leaves and nobody else has taken.
    pub(crate) fn take_left(&mut self, port: PortId) -> Vec<(Place, Before)> {
        let mut left = Vec::new();
        self.places.retain(|place, holding| {
            let stays = holding.port != port || !holding.is_leaving;
            if !stays {
                left.push((*place, std::mem::take(&mut holding.before)));
            }
            stays
        });
        left
    }

    /// What this port has.
    pub(crate) fn of(&self, port: PortId) -> Vec<Place> {
        let own = self.places.iter().filter(|(_, holding)| holding.port == port);
        own.map(|(place, _)| *place).collect()
    }

    /// Its interface is no more.
    pub(crate) fn forget(&mut self, place: Place) {
        self.places.remove(&place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_kernel::namespace::NetNamespace;
    use uuid::Uuid;

    fn port(number: u128) -> PortId {
        PortId(Uuid::from_u128(number))
    }

    fn place(interface: u32) -> Place {
        Place { namespace: NetNamespace::current().unwrap().id().unwrap(), interface }
    }

    #[test]
    fn an_interface_is_one_ports_until_that_leaves() {
        let mut holdings = Holdings::default();
        let before = Before { disable_ipv6: Some("0".into()), had_hook: true };
        holdings.take(place(7), port(1), before.clone());
        assert_eq!(holdings.other_holder(place(7), port(2)), Some(port(1)));
        assert_eq!(holdings.other_holder(place(7), port(1)), None);
        assert_eq!(holdings.other_holder(place(8), port(2)), None);
        holdings.leaves(port(1));
        assert_eq!(holdings.other_holder(place(7), port(2)), None);
        // Handed over, it is still to be given back as the first has found it.
        holdings.take(place(7), port(2), Before::default());
        assert_eq!(holdings.take_left(port(1)), []);
        assert_eq!(holdings.other_holder(place(7), port(1)), Some(port(2)));
        holdings.leaves(port(2));
        assert_eq!(holdings.take_left(port(2)), [(place(7), before)]);
        assert!(!holdings.is_held(place(7)));
    }

    #[test]
    fn a_port_that_comes_back_before_it_has_left_keeps_its_interface() {
        let mut holdings = Holdings::default();
        holdings.take(place(7), port(1), Before::default());
        holdings.leaves(port(1));
        holdings.take(place(7), port(1), Before::default());
        assert_eq!(holdings.take_left(port(1)), []);
        assert_eq!(holdings.of(port(1)), [place(7)]);
        // One that moved leaves the former interface alone.
        holdings.leaves(port(1));
        holdings.take(place(9), port(1), Before::default());
        assert_eq!(holdings.take_left(port(1)), [(place(7), Before::default())]);
        assert_eq!(holdings.of(port(1)), [place(9)]);
    }
}
