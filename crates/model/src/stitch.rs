//! Where headers over several functions end between two of them: at an edge, which stitches the next one to them (as
//! RFC 5150 stitches paths of labels). Knows ways by their ends; refuses to know which flows go along them.

use crate::entry::Entries;
use crate::id::{NodeName, PortId};
use crate::program::InstanceEntry;
use crate::resource::Encapsulation;
use crate::topology::PortNumber;
use serde::{Deserialize, Serialize};

/// The version of the protocol since which nodes end headers over several functions at edges.
pub const STITCHES_SINCE_PROTOCOL: u32 = 12;

/// An edge on the way to a function at which a header may end, because another one goes on there to that function, and
/// to those behind it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StitchEntry {
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

/// What a stitch is found by.
pub type StitchKey = (NodeName, Vec<(NodeName, PortId)>, Encapsulation, u8);

impl StitchEntry {
    /// What it is found by.
    #[must_use]
    pub fn key(&self) -> StitchKey {
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
    /// The stitches on the way from a node to a port of another, whatever functions come behind.
    pub fn stitches_to(
        &self,
        from: &NodeName,
        (node, port): (&NodeName, PortId),
        encapsulation: Encapsulation,
    ) -> impl Iterator<Item = &StitchEntry> {
        let first = (node.clone(), port);
        let least = (from.clone(), vec![first.clone()], Encapsulation::ALL[0], 0);
        let from = from.clone();
        let all = self.stitches.range(least..).map(|(_, stitch)| &**stitch);
        all.take_while(move |stitch| stitch.from == from && stitch.to.first() == Some(&first))
            .filter(move |stitch| stitch.encapsulation == encapsulation)
    }

    /// Those for flows that meet these instances.
    pub fn stitches<'e>(
        &'e self,
        from: &NodeName,
        met: &'e [&InstanceEntry],
        encapsulation: Encapsulation,
    ) -> impl Iterator<Item = &'e StitchEntry> {
        let first = met.first().map(|one| (&one.node, one.ingress));
        let all = first.map(|first| self.stitches_to(from, first, encapsulation));
        all.into_iter().flatten().filter(|stitch| stitch.leads_to(met))
    }
}
