//! Which ends of links belong together, by what nodes tell of them. A cable is one that both of its ends tell of
//! alike. Knows words and numbers; refuses to know how nodes found them out.

use crate::inventory::Inventory;
use crate::port_numbers::NumberBooks;
use catena_model::NodeName;
use catena_model::discovery::{FarEnd, LinkCondition, LinkReport, LinkState, Neighbour, Trust};
use catena_model::topology::{Cable, CableEnd, PortNumber};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What nodes told of their links last, in the order of interfaces; none: that is not known now.
pub type ToldLinks = BTreeMap<NodeName, Arc<Vec<LinkState>>>;

/// The ends of cables, the lower first.
pub type Cables = BTreeSet<[CableEnd; 2]>;

/// The other end of each end.
pub(crate) fn far_ends(cables: &Cables) -> BTreeMap<&CableEnd, &CableEnd> {
    cables.iter().flat_map(|[one, other]| [(one, other), (other, one)]).collect()
}

/// What links carried lately, in thousandths of what they could.
pub(crate) fn loads(told: &ToldLinks) -> BTreeMap<(&NodeName, PortNumber), u16> {
    let links = told.iter().flat_map(|(node, links)| links.iter().map(move |link| (node, link)));
    links.filter_map(|(node, link)| Some(((node, link.number?), link.load_permille?))).collect()
}

/// The cables to go by: those that both their ends tell of, and of the `former` ones those that no end tells against.
/// Who is away, or was started anew and has heard nobody yet, says nothing.
pub(crate) fn remembered(former: &Cables, inventory: &Inventory, books: &NumberBooks) -> Cables {
    let fabric = Fabric { inventory, books, told: &inventory.told };
    let mut cables = fabric.cables();
    let taken: BTreeSet<CableEnd> = cables.iter().flatten().cloned().collect();
    let is_kept = |ends: &&[CableEnd; 2]| {
        let [one, other] = ends;
        !ends.iter().any(|end| taken.contains(end))
            && !fabric.denies(one, other)
            && !fabric.denies(other, one)
    };
    cables.extend(former.iter().filter(is_kept).cloned());
    cables
}

/// Those of the cables that an end doubts.
pub(crate) fn doubted(cables: &Cables, told: &ToldLinks) -> Cables {
    let doubted: BTreeSet<(&NodeName, PortNumber)> = told
        .iter()
        .flat_map(|(node, links)| links.iter().map(move |link| (node, link)))
        .filter(|(_, link)| link.is_doubted)
        .filter_map(|(node, link)| Some((node, link.number?)))
        .collect();
    let is_doubted = |end: &CableEnd| doubted.contains(&(&end.node, end.port));
    cables.iter().filter(|ends| ends.iter().any(is_doubted)).cloned().collect()
}

/// The cables without those that are doubted.
pub(crate) fn sound(cables: &Arc<Cables>, doubted: &Cables) -> Arc<Cables> {
    match doubted.is_empty() {
        true => Arc::clone(cables),
        false => Arc::new(cables.difference(doubted).cloned().collect()),
    }
}

/// Every link of every node, in their order.
#[must_use]
pub fn link_reports(
    inventory: &Inventory,
    books: &NumberBooks,
    told: &ToldLinks,
) -> Vec<LinkReport> {
    let fabric = Fabric { inventory, books, told };
    let mut nodes: Vec<&NodeName> = inventory.all().map(|(node, ..)| node).collect();
    nodes.sort();
    let links = nodes.into_iter().flat_map(|node| {
        let interfaces = fabric.interfaces(node);
        interfaces.into_iter().map(move |interface| (node, interface))
    });
    links.map(|(node, interface)| fabric.report(node, interface)).collect()
}

/// The cables among these links, each once.
#[must_use]
pub fn cables(links: &[LinkReport]) -> Vec<Cable> {
    let loads: BTreeMap<_, _> = links
        .iter()
        .filter_map(|link| {
            Some(((&link.node, link.number?), link.load_permille.unwrap_or_default()))
        })
        .collect();
    let cable = |link: &LinkReport| {
        let (far, number) = (link.cable.as_ref()?, link.number?);
        let ends = [
            CableEnd { node: link.node.clone(), port: number },
            CableEnd { node: far.node.clone(), port: far.number },
        ];
        let load = ends.iter().filter_map(|end| loads.get(&(&end.node, end.port))).max();
        let load_permille = load.copied().unwrap_or_default();
        (ends[0] < ends[1]).then_some(Cable { ends, is_up: true, load_permille })
    };
    links.iter().filter_map(cable).collect()
}

struct Fabric<'f> {
    inventory: &'f Inventory,
    books: &'f NumberBooks,
    told: &'f ToldLinks,
}

impl<'f> Fabric<'f> {
    /// The cables that both ends tell of alike.
    fn cables(&self) -> Cables {
        let mut cables = Cables::new();
        for (node, links) in self.told {
            for link in links.iter() {
                let Some(port) = self.number(node, &link.interface) else { continue };
                let (Some(far), _) = self.judge((node, port), link) else { continue };
                let own = CableEnd { node: node.clone(), port };
                let far = CableEnd { node: far.node, port: far.number };
                if own < far {
                    cables.insert([own, far]);
                }
            }
        }
        cables
    }

    /// Does an end tell against a cable from it to another?
    fn denies(&self, end: &CableEnd, far: &CableEnd) -> bool {
        let interface = self.books.get(&end.node).and_then(|book| book.interface(end.port));
        let Some(interface) = interface else { return true };
        let Some(state) = self.state(&end.node, interface) else { return false };
        if !state.is_up || (!state.hindrance.is_empty() && !state.is_doubted) {
            return true;
        }
        // It has been started anew.
        if state.number != Some(end.port) || state.neighbours.is_empty() {
            return false;
        }
        let mut heard = ours(state);
        let is_far =
            |one: &Neighbour| one.chassis == far.node.as_str() && one.number == Some(far.port);
        !heard.next().is_some_and(is_far) || heard.next().is_some()
    }

    /// Those that have a number, and those that it said are links.
    fn interfaces(&self, node: &NodeName) -> BTreeSet<&'f str> {
        let numbered = self.books.get(node).into_iter().flat_map(|book| book.links());
        let said = self.inventory.facts(node).and_then(|facts| facts.links.as_deref());
        let said = said.into_iter().flatten().map(String::as_str);
        numbered.map(|(interface, _)| interface).chain(said).collect()
    }

    fn state(&self, node: &NodeName, interface: &str) -> Option<&'f LinkState> {
        let links = self.told.get(node)?;
        let place = links.binary_search_by(|link| link.interface.as_str().cmp(interface)).ok()?;
        links.get(place)
    }

    fn number(&self, node: &NodeName, interface: &str) -> Option<PortNumber> {
        self.books.get(node)?.of(interface)
    }

    fn report(&self, node: &NodeName, interface: &str) -> LinkReport {
        let number = self.number(node, interface);
        let state = self.state(node, interface);
        let (cable, trouble) = match (number, state) {
            (None, _) => (None, self.books.get(node).map(|book| book.why_none(node, interface))),
            (Some(_), None) => (None, Some(self.why_unknown(node))),
            (Some(number), Some(state)) => self.judge((node, number), state),
        };
        let neighbours = state.map(|state| state.neighbours.clone()).unwrap_or_default();
        LinkReport {
            node: node.clone(),
            interface: interface.to_owned(),
            number,
            state: match (number, state) {
                (None, _) => LinkCondition::NoNumber,
                (Some(_), Some(state)) if state.is_up => LinkCondition::Up,
                (Some(_), _) => LinkCondition::Down,
            },
            cable,
            trouble: trouble.or_else(|| alarm(&neighbours)),
            load_permille: state.and_then(|state| state.load_permille),
            mtu: state.and_then(|state| state.mtu),
            flooded: state.map(|state| state.flooded).unwrap_or_default(),
            refused: state.map(|state| state.refused).unwrap_or_default(),
            neighbours,
        }
    }

    fn why_unknown(&self, node: &NodeName) -> String {
        match self.inventory.facts(node).is_some_and(|facts| facts.is_connected) {
            true => "its node has not told of it yet".into(),
            false => format!("node '{node}' is away: start its agent"),
        }
    }

    /// The cable at an end of a link, or why there is none.
    fn judge(
        &self,
        (node, number): (&NodeName, PortNumber),
        state: &LinkState,
    ) -> (Option<FarEnd>, Option<String>) {
        if !state.is_up {
            return (
                None,
                Some("it carries nothing: it is down, or unplugged at one of its ends".into()),
            );
        }
        if state.number != Some(number) {
            return (
                None,
                Some(format!(
                    "its node does not yet run the program that gives it number {number}"
                )),
            );
        }
        if !state.hindrance.is_empty() && !state.is_doubted {
            return (None, Some(state.hindrance.clone()));
        }
        let ours: Vec<&Neighbour> = ours(state).collect();
        let [neighbour] = ours[..] else {
            return (
                None,
                match ours.len() {
                    0 => alarm(&state.neighbours)
                        .or_else(|| state.neighbours.iter().find_map(complaint)),
                    several => Some(format!(
                        "{several} ports of nodes answer on it ({}): there is a hub or a bridge between them; join two \
                     ports by one cable",
                        ours.iter().map(|one| end_of(one)).collect::<Vec<_>>().join(", ")
                    )),
                },
            );
        };
        match self.far_end(neighbour) {
            Err(trouble) => (None, Some(trouble)),
            Ok(far) if self.hears(&far, (node, number)) => match self.doubt(state, &far) {
                Some(doubt) => (None, Some(doubt)),
                None => (Some(far), None),
            },
            Ok(far) => (
                None,
                Some(format!(
                    "one-way: {far} is heard here, and this port is not heard there; look at the cable, and at what \
                 filters LLDP on the way"
                )),
            ),
        }
    }

    /// The port that a neighbour says to be.
    fn far_end(&self, neighbour: &Neighbour) -> Result<FarEnd, String> {
        let says = end_of(neighbour);
        let node = NodeName::new(&neighbour.chassis).ok();
        let node = node.filter(|node| self.inventory.knows(node));
        let node = node
            .ok_or_else(|| format!("{says} is heard, a node that this controller does not know"))?;
        let named =
            neighbour.number.filter(|number| self.number(&node, &neighbour.port) == Some(*number));
        let number = named
            .ok_or_else(|| format!("{says} is heard, and that port has another number, or none"))?;
        Ok(FarEnd { node, number, interface: neighbour.port.clone() })
    }

    /// What one of both ends doubts of a cable.
    fn doubt(&self, state: &LinkState, far: &FarEnd) -> Option<String> {
        let other = self.state(&far.node, &far.interface);
        let mut doubted = [Some(state), other].into_iter().flatten().filter(|one| one.is_doubted);
        doubted.next().map(|one| one.hindrance.clone())
    }

    /// Does a far end hear this one, and nobody else of ours?
    fn hears(&self, far: &FarEnd, (node, number): (&NodeName, PortNumber)) -> bool {
        let state = self.state(&far.node, &far.interface);
        let is_whole = |state: &&LinkState| {
            let is_hindered = !state.hindrance.is_empty() && !state.is_doubted;
            state.is_up && state.number == Some(far.number) && !is_hindered
        };
        let Some(state) = state.filter(is_whole) else { return false };
        let mut heard = ours(state);
        let is_this = |one: &Neighbour| one.chassis == node.as_str() && one.number == Some(number);
        heard.next().is_some_and(is_this) && heard.next().is_none()
    }
}

fn ours(state: &LinkState) -> impl Iterator<Item = &Neighbour> {
    state.neighbours.iter().filter(|one| one.trust == Trust::Ours)
}

/// Is it to be told of beside a cable, too?
const fn is_alarming(trust: Trust) -> bool {
    matches!(trust, Trust::Forged | Trust::Replayed | Trust::Itself | Trust::SameName)
}

fn alarm(neighbours: &[Neighbour]) -> Option<String> {
    neighbours.iter().filter(|one| is_alarming(one.trust)).find_map(complaint)
}

fn end_of(neighbour: &Neighbour) -> String {
    let number = neighbour.number.map_or_else(|| "?".into(), |number| number.to_string());
    format!("{}:{number} ({})", neighbour.chassis, neighbour.port)
}

fn complaint(neighbour: &Neighbour) -> Option<String> {
    let complaint = neighbour.trust.complaint()?;
    Some(format!(
        "foreign neighbour '{}' at its port '{}': {complaint}",
        neighbour.chassis, neighbour.port
    ))
}

#[cfg(test)]
mod tests;
