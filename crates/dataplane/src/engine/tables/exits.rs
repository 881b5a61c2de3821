//! What the port numbers of source routes stand for at this node. Knows numbers, links and ports; refuses to know
//! chains.

use crate::engine::error::CompileError;
use catena_model::entry::Entries;
use catena_model::id::PortId;
use catena_model::program::{ExitPlace, IdentityEntry, Pathlet};
use catena_model::topology::PortNumber;
use catena_wire::source_route::polka::residues::Reducer;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What leaves a node on source routes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exits {
    /// Links in the order of their numbers.
    links: Vec<(PortNumber, String)>,
    ports: Vec<(PortNumber, PortId)>,
    /// The headers that this node writes in the place of others, in the order of their numbers.
    pathlets: Vec<(PortNumber, Arc<Pathlet>)>,
    /// What the node divides numbers of ways by, by pass.
    reducers: Arc<[Reducer]>,
}

impl Exits {
    /// Those of a program. `divides_as`: those before, if what the node divides by is the same.
    ///
    /// # Errors
    /// Two numbers are the same link's, one leads to a port that the program does not hold, or something that
    /// the node should divide by can be divided.
    pub(super) fn of(entries: &Entries, divides_as: Option<&Self>) -> Result<Self, CompileError> {
        let (mut exits, mut known) = (Self::default(), BTreeSet::new());
        for exit in entries.exits.values() {
            match &exit.to {
                ExitPlace::Port(port) if !entries.ports.contains_key(port) => {
                    let (number, port) = (exit.number, *port);
                    return Err(CompileError::ExitWithoutPort { number, port });
                }
                ExitPlace::Port(port) => exits.ports.push((exit.number, *port)),
                ExitPlace::Link(interface) if known.insert(interface) => {
                    exits.links.push((exit.number, interface.clone()));
                }
                ExitPlace::Link(interface) => {
                    return Err(CompileError::Twice { what: "link", id: interface.clone() });
                }
                ExitPlace::Pathlet(pathlet) => {
                    exits.pathlets.push((exit.number, Arc::new(pathlet.clone())));
                }
            }
        }
        exits.reducers = match divides_as {
            Some(former) => Arc::clone(&former.reducers),
            None => reducers(entries)?,
        };
        Ok(exits)
    }

    /// What the node divides numbers of ways by, by pass.
    pub(crate) fn reducers(&self) -> &Arc<[Reducer]> {
        &self.reducers
    }

    /// Each link: its number and the name of its interface.
    pub(crate) fn links(&self) -> impl Iterator<Item = (PortNumber, &str)> {
        self.links.iter().map(|(number, interface)| (*number, interface.as_str()))
    }

    /// Each port that frames may come out of: its number and its identity.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (PortNumber, PortId)> {
        self.ports.iter().copied()
    }

    /// Each header that this node writes where another is at its end: its number and what is in it.
    pub(crate) fn pathlets(&self) -> impl Iterator<Item = (PortNumber, &Arc<Pathlet>)> {
        self.pathlets.iter().map(|(number, pathlet)| (*number, pathlet))
    }

    /// The number of a port that frames may come out of.
    pub(crate) fn number_of(&self, port: PortId) -> Option<PortNumber> {
        self.ports().find(|(_, own)| *own == port).map(|(number, _)| number)
    }

    /// Has this number a link?
    pub(crate) fn is_link(&self, number: PortNumber) -> bool {
        self.links.binary_search_by_key(&number, |(number, _)| *number).is_ok()
    }

    /// Is this the identity of a link among the ports?
    pub(crate) fn has_link(&self, id: PortId) -> bool {
        self.links.iter().any(|(number, _)| number.link_id() == id)
    }
}

/// One for each pass, from the first on.
fn reducers(entries: &Entries) -> Result<Arc<[Reducer]>, CompileError> {
    let reducer = |(entry, expected): (&Arc<IdentityEntry>, u8)| {
        let polynomial = entry.identity.polynomial().filter(|_| entry.pass == expected);
        let refused = CompileError::Identity { pass: entry.pass, identity: entry.identity.0 };
        polynomial.map(Reducer::new).ok_or(refused)
    };
    entries.identities.values().zip(0..).map(reducer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tables::Tables;
    use catena_model::entry::Program;
    use catena_model::program::ExitEntry;
    use catena_model::source_route::NodeIdentity;
    use catena_model::{BlueprintNumber, NodeName};

    #[test]
    fn remainders_are_not_made_anew_while_a_node_divides_by_the_same() {
        let mut entries = Entries::default();
        let link = |entries: &mut Entries, number: u8| {
            let number = PortNumber::new(number).unwrap();
            let exit = ExitEntry { number, to: ExitPlace::Link(format!("eth{number}")) };
            entries.exits.insert(number, Arc::new(exit));
        };
        let identity = |place: usize| {
            let entry = IdentityEntry { pass: 0, identity: NodeIdentity::all()[place] };
            (entry.pass, Arc::new(entry))
        };
        link(&mut entries, 1);
        entries.identities.extend([identity(0)]);
        let follow = |tables: &Tables, entries: &Entries| {
            let number = BlueprintNumber(tables.number.0 + 1);
            tables.following(&Program::new(number, entries.clone())).unwrap()
        };
        let first = follow(&Tables::empty(NodeName::new("leaf1").unwrap()), &entries);
        assert_eq!(first.exits.reducers().len(), 1);
        link(&mut entries, 2);
        let second = follow(&first, &entries);
        assert_eq!(second.exits.links().count(), 2);
        assert!(Arc::ptr_eq(first.exits.reducers(), second.exits.reducers()));
        entries.identities.extend([identity(1)]);
        let third = follow(&second, &entries);
        assert!(!Arc::ptr_eq(second.exits.reducers(), third.exits.reducers()));
        entries.identities.clear();
        assert!(follow(&third, &entries).exits.reducers().is_empty());
    }
}
