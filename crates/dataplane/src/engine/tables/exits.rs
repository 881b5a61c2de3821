//! What the port numbers of source routes stand for at this node. Knows numbers, links and ports; refuses to know
//! chains.

use crate::engine::error::CompileError;
use catena_model::entry::Entries;
use catena_model::id::PortId;
use catena_model::program::ExitPlace;
use catena_model::topology::PortNumber;
use std::collections::BTreeSet;

/// The links of a node, in the order of their numbers.
#[derive(Clone, Default)]
pub(crate) struct Exits {
    links: Vec<(PortNumber, String)>,
}

impl Exits {
    /// Those of a program.
    ///
    /// # Errors
    /// Two numbers are the same link's, or one leads to a port that the program does not hold.
    pub(super) fn of(entries: &Entries) -> Result<Self, CompileError> {
        let (mut links, mut known) = (Vec::new(), BTreeSet::new());
        for exit in entries.exits.values() {
            match &exit.to {
                ExitPlace::Port(port) if !entries.ports.contains_key(port) => {
                    let (number, port) = (exit.number, *port);
                    return Err(CompileError::ExitWithoutPort { number, port });
                }
                ExitPlace::Port(_) => {}
                ExitPlace::Link(interface) if known.insert(interface) => {
                    links.push((exit.number, interface.clone()));
                }
                ExitPlace::Link(interface) => {
                    return Err(CompileError::Twice { what: "link", id: interface.clone() });
                }
            }
        }
        Ok(Self { links })
    }

    /// Each link: its number and the name of its interface.
    pub(crate) fn links(&self) -> impl Iterator<Item = (PortNumber, &str)> {
        self.links.iter().map(|(number, interface)| (*number, interface.as_str()))
    }

    /// Is this the identity of a link among the ports?
    pub(crate) fn has_link(&self, id: PortId) -> bool {
        self.links.iter().any(|(number, _)| number.link_id() == id)
    }
}
