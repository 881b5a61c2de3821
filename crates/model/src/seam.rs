//! Where headers over several functions end between two of them: at an edge, which writes the next one. Knows ways by
//! their ends; refuses to know which flows go along them.

use crate::entry::Entries;
use crate::id::{NodeName, PortId};
use crate::program::InstanceEntry;
use crate::resource::Encapsulation;
use crate::topology::PortNumber;
use serde::{Deserialize, Serialize};

/// The version of the protocol since which nodes end headers over several functions at edges.
pub const SEAMS_SINCE_PROTOCOL: u32 = 12;

/// An edge on the way to a function at which a header may end, because another one goes on there to that function, and
/// to those behind it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeamEntry {
    /// Where the way begins: at this node, or at another with the function before.
    pub from: NodeName,
    /// The ports of all functions that come before a header ends at one, the first of which the way is to. Only flows
    /// that meet these very instances go by it.
    pub to: Vec<(NodeName, PortId)>,
    /// Whose headers end there.
    pub encapsulation: Encapsulation,
    /// How many ports of the way are taken before the edge.
    pub at: u8,
    /// The number by which the edge knows the header that it writes: the last of the one before.
    pub number: PortNumber,
}

/// What a seam is found by.
pub type SeamKey = (NodeName, Vec<(NodeName, PortId)>, Encapsulation, u8);

impl SeamEntry {
    /// What it is found by.
    #[must_use]
    pub fn key(&self) -> SeamKey {
        (self.from.clone(), self.to.clone(), self.encapsulation, self.at)
    }

    /// Leads it to the first of these instances, and to no other than they are?
    #[must_use]
    pub fn leads_to(&self, met: &[&InstanceEntry]) -> bool {
        let is_same = |((node, port), one): (&(NodeName, PortId), &&InstanceEntry)| {
            (node, *port) == (&one.node, one.ingress)
        };
        self.to.len() <= met.len() && self.to.iter().zip(met).all(is_same)
    }
}

impl Entries {
    /// The seams on the way from a node to a port of another, whatever functions come behind.
    pub fn seams_to(
        &self,
        from: &NodeName,
        (node, port): (&NodeName, PortId),
        encapsulation: Encapsulation,
    ) -> impl Iterator<Item = &SeamEntry> {
        let first = (node.clone(), port);
        let least = (from.clone(), vec![first.clone()], Encapsulation::ALL[0], 0);
        let from = from.clone();
        let all = self.seams.range(least..).map(|(_, seam)| &**seam);
        all.take_while(move |seam| seam.from == from && seam.to.first() == Some(&first))
            .filter(move |seam| seam.encapsulation == encapsulation)
    }

    /// Those for flows that meet these instances.
    pub fn seams<'e>(
        &'e self,
        from: &NodeName,
        met: &'e [&InstanceEntry],
        encapsulation: Encapsulation,
    ) -> impl Iterator<Item = &'e SeamEntry> {
        let first = met.first().map(|one| (&one.node, one.ingress));
        let all = first.map(|first| self.seams_to(from, first, encapsulation));
        all.into_iter().flatten().filter(|seam| seam.leads_to(met))
    }
}
