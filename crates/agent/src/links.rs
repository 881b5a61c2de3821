//! What the program says of the node's links: which number each has, and the key by which nodes know each
//! other. Refuses to know what is at their other ends.

use catena_model::discovery::DiscoveryKey;
use catena_model::entry::Change;
use catena_model::topology::PortNumber;
use std::collections::BTreeMap;

/// The links of the program that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    key: Option<DiscoveryKey>,
    interfaces: BTreeMap<PortNumber, String>,
}

impl Links {
    /// Takes what differs from the program before.
    pub(crate) fn edit(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Node((), edit) => self.key = edit.entry().and_then(|own| own.discovery_key),
                Change::Exit(number, edit) => {
                    match edit.entry().and_then(|exit| exit.link()) {
                        Some(interface) => self.interfaces.insert(*number, interface.to_owned()),
                        None => self.interfaces.remove(number),
                    };
                }
                _ => {}
            }
        }
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
