//! What headers of all nodes lead to, by what nodes run at a moment: whatever programs they have, and whatever cables
//! carry. Knows programs; refuses to know frames.

use crate::checks::program_of;
use crate::frames;
use crate::world::World;
use catena_model::NodeProgram;
use catena_model::id::{NodeName, PortId};
use catena_model::program::{BorderEntry, ExitPlace, Pathlet, StitchEntry};
use catena_model::topology::{NodeRole, PortNumber};

/// Where a header leads: to ports of nodes, in their order.
type Visited<'w> = Vec<(&'w NodeName, PortId)>;

/// How a walk along the ports of a header ended.
enum End {
    /// There are no more of them.
    Whole,
    /// At something that nobody knows now: a frame ends there too.
    Nowhere,
    /// A node that should write the next header knows none by this number.
    Unwritten(usize, PortNumber),
}

impl World {
    /// A header that leads elsewhere than it is for, in words.
    pub(crate) fn misled(&self) -> Option<String> {
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(program) = program_of(node) else { continue };
            let routes = program.routes.iter().flat_map(|route| {
                frames::ways(route).map(move |way| (way, vec![(route.node.clone(), route.to)]))
            });
            let borders = program.borders.iter().filter_map(|border| bordered(program, border));
            let stitches = program.stitches.iter().filter_map(|stitch| stitched(program, stitch));
            let from_here = routes.chain(borders).map(|walk| (index, walk));
            let from_there = stitches.filter_map(|(from, walk)| {
                Some((self.nodes.iter().position(|node| node.name == *from)?, walk))
            });
            for (from, (way, wanted)) in from_here.chain(from_there) {
                if let Some(fault) = self.fault_of(from, &way, &wanted) {
                    return Some(format!("by what {} knows, {fault}", node.name));
                }
            }
        }
        self.endless()
    }

    /// What is wrong with a way from a node to these ports.
    fn fault_of(
        &self,
        from: usize,
        way: &[PortNumber],
        wanted: &[(NodeName, PortId)],
    ) -> Option<String> {
        let (visited, end) = self.walked(from, way);
        let start = self.name(from);
        let mut wanted = wanted.iter();
        for (node, port) in visited {
            let next = wanted.next().map(|(node, port)| (node, *port));
            if next != Some((node, port)) {
                let meant = next.map(|(node, port)| format!("port {port} of {node}"));
                let meant = meant.unwrap_or_else(|| "nothing more".to_owned());
                return Some(format!(
                    "a header from {start} to {meant} comes out of port {port} of {node}"
                ));
            }
        }
        match (end, wanted.next()) {
            (End::Unwritten(edge, number), _) => Some(format!(
                "a header from {start} leads to {number} of {}, which writes none for it",
                self.name(edge)
            )),
            (End::Whole, Some((node, port))) => {
                Some(format!("a header from {start} ends before port {port} of {node}"))
            }
            (End::Whole | End::Nowhere, _) => None,
        }
    }

    /// Where a header leads, by what nodes run.
    fn walked<'w>(&'w self, from: usize, way: &'w [PortNumber]) -> (Visited<'w>, End) {
        let (mut at, mut left, mut visited) = (from, way, Vec::new());
        while let Some((number, behind)) = left.split_first() {
            let Some(node) = self.nodes.get(at) else { return (visited, End::Nowhere) };
            let Some(dataplane) = &node.dataplane else { return (visited, End::Nowhere) };
            left = behind;
            let is_end = behind.is_empty();
            match dataplane.exit(*number) {
                Some(ExitPlace::Pathlet(next)) if is_end => left = &next.ports,
                // No header ends at a switch but where the next one begins.
                _ if is_end && node.role == NodeRole::Switch => {
                    return (visited, End::Unwritten(at, *number));
                }
                Some(ExitPlace::Link(interface)) => match self.far_plug(at, interface) {
                    Some((far, _)) => at = *far,
                    None => return (visited, End::Nowhere),
                },
                Some(ExitPlace::Port(port)) => visited.push((&node.name, *port)),
                Some(ExitPlace::Pathlet(_)) | None => return (visited, End::Nowhere),
            }
        }
        (visited, End::Whole)
    }

    /// Edges write headers that end with lower numbers than their own: so there is an end of them.
    fn endless(&self) -> Option<String> {
        self.nodes.iter().find_map(|node| {
            let exits = program_of(node)?.exits.iter();
            let mut headers = exits.filter_map(|exit| match &exit.to {
                ExitPlace::Pathlet(next) => Some((exit.number, next)),
                ExitPlace::Link(_) | ExitPlace::Port(_) => None,
            });
            let is_lower = |(number, next): &(PortNumber, &Pathlet)| {
                next.ports.last().is_some_and(|last| last < number)
            };
            let (number, _) = headers.find(|header| !is_lower(header))?;
            Some(format!(
                "{} shall write a header for {number} that ends with no lower one",
                node.name
            ))
        })
    }
}

/// The ports of a header, and of nodes that it leads to.
type Walk = (Vec<PortNumber>, Vec<(NodeName, PortId)>);

/// The header that ends at a border.
fn bordered(program: &NodeProgram, border: &BorderEntry) -> Option<Walk> {
    let key = (&border.node, border.to);
    let route = program.routes.iter().find(|route| (&route.node, route.to) == key)?;
    let way = route.up_to(border).ports;
    Some((way, vec![(border.node.clone(), border.to)]))
}

/// The part of a header up to a stitch, from where the way there begins.
fn stitched<'p>(program: &'p NodeProgram, stitch: &'p StitchEntry) -> Option<(&'p NodeName, Walk)> {
    let StitchEntry { from, to, at, number, .. } = stitch;
    let (node, port) = to.first()?;
    let ports = if *from == program.node {
        let mut routes = program.routes.iter();
        &routes.find(|route| (&route.node, route.to) == (node, *port))?.ports
    } else {
        let mut onward = program.onward.iter();
        &onward.find(|way| (&way.from, &way.node, way.to) == (from, node, *port))?.ports
    };
    let before = ports.get(..usize::from(*at))?.iter().copied();
    Some((from, (before.chain([*number]).collect(), to.clone())))
}
