//! What the program says of the node's links: which number each has, and the key by which nodes know each
//! other; and of where segments lead. Refuses to know what is at their other ends.

use crate::ports::PortEdit;
use catena_model::discovery::DiscoveryKey;
use catena_model::entry::Change;
use catena_model::id::{NetworkId, NodeName, PortId};
use catena_model::program::{Locator, PortEntry, PortRole};
use catena_model::resource::{Attachment, InterfaceRef};
use catena_model::topology::PortNumber;
use catena_wire::scalar::MacAddr;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// The links of the program that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    key: Option<DiscoveryKey>,
    interfaces: BTreeMap<PortNumber, String>,
    /// The locators of nodes, this one's among them.
    locators: BTreeMap<NodeName, Locator>,
    /// A program has said all that.
    is_told: bool,
}

impl Links {
    /// Takes what differs from the program before.
    pub(crate) fn edit(&mut self, changes: &[Change]) {
        self.is_told = true;
        for change in changes {
            match change {
                Change::Node((), edit) => self.key = edit.entry().and_then(|own| own.discovery_key),
                Change::Exit(number, edit) => {
                    match edit.entry().and_then(|exit| exit.link()) {
                        Some(interface) => self.interfaces.insert(*number, interface.to_owned()),
                        None => self.interfaces.remove(number),
                    };
                }
                Change::Locator(node, edit) => {
                    match edit.entry() {
                        Some(entry) => self.locators.insert(node.clone(), entry.place.locator),
                        None => self.locators.remove(node),
                    };
                }
                _ => {}
            }
        }
    }

    /// Has a program said what is here?
    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    /// The locators of nodes, this one's among them.
    pub(crate) fn locators(&self) -> impl Iterator<Item = (&NodeName, Locator)> {
        self.locators.iter().map(|(node, locator)| (node, *locator))
    }

    /// What becomes of them as ports of the data plane.
    pub(crate) fn port_edits(changes: &[Change]) -> Vec<PortEdit> {
        let edit = |change: &Change| match change {
            Change::Exit(number, edit) => {
                let link = edit.entry().and_then(|exit| exit.link());
                Some((number.link_id(), link.map(|interface| Arc::new(port(*number, interface)))))
            }
            _ => None,
        };
        changes.iter().filter_map(edit).collect()
    }

    /// The key of the domain; none: no program has told it yet.
    pub(crate) fn key(&self) -> Option<DiscoveryKey> {
        self.key
    }

    /// The number of an interface.
    pub(crate) fn number_of(&self, interface: &str) -> Option<PortNumber> {
        let mut numbered = self.interfaces.iter();
        numbered.find(|(_, name)| *name == interface).map(|(number, _)| *number)
    }
}

/// A link as the data plane is given it: among ports, in no network.
fn port(number: PortNumber, interface: &str) -> PortEntry {
    PortEntry {
        id: number.link_id(),
        name: format!("link {interface}"),
        network: NetworkId(Uuid::nil()),
        mac: MacAddr([0; 6]),
        role: PortRole::Endpoint,
        attachment: Attachment::Interface(InterfaceRef {
            namespace: None,
            interface: interface.to_owned(),
        }),
        own_sources: None,
    }
}

/// Is it a link's, and no port's?
pub(crate) fn is_link(id: PortId) -> bool {
    PortNumber::of_link(id).is_some()
}
