//! The numbers by which an edge knows the headers that it writes in the place of others. Each is that of one header as
//! long as a frame may carry it: the edge writes it also while its number rests. Knows headers; refuses to know ways.

use super::PortNumbers;
use crate::inventory::Inventory;
use catena_model::limits::NODE_LINKS_MAX;
use catena_model::program::{ExitPlace, Pathlet};
use catena_model::topology::PortNumber;
use catena_model::{BlueprintNumber, NodeName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A header with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenPathlet {
    /// The header.
    #[serde(flatten)]
    pub pathlet: Pathlet,
    /// Its number.
    pub number: PortNumber,
    /// The blueprint by which the edge was told of it.
    pub since: BlueprintNumber,
    /// The edge runs a program with it. One that is started anew is told the same again.
    #[serde(default)]
    pub is_known: bool,
}

impl PortNumbers {
    /// A header that the edge writes; none: it has no number.
    #[must_use]
    pub fn pathlet(&self, pathlet: &Pathlet) -> Option<&GivenPathlet> {
        self.pathlets.iter().find(|one| one.pathlet == *pathlet)
    }

    /// The header with this number; none: it has none, or that rests.
    #[must_use]
    pub fn pathlet_of(&self, number: PortNumber) -> Option<&GivenPathlet> {
        self.pathlets.iter().find(|one| one.number == number)
    }

    /// Is there a number for one header more? Half of all are kept for links and for ports of functions.
    fn has_room_for_pathlets(&self) -> bool {
        self.room() > NODE_LINKS_MAX / 2
    }

    /// Has this header a number, or could it get one?
    pub(crate) fn can_name(&self, pathlet: &Pathlet) -> bool {
        let place = ExitPlace::Pathlet(pathlet.clone());
        let is_left = || {
            self.resting.values().any(|resting| resting.of == place) || self.free(&place).is_some()
        };
        self.pathlet(pathlet).is_some() || (self.has_room_for_pathlets() && is_left())
    }

    pub(crate) fn has_pathlets(&self) -> bool {
        !self.pathlets.is_empty()
    }

    /// Notes which headers the edge knows by now. Answers whether it knows more of them.
    pub(crate) fn hear_pathlets(&mut self, edge: &NodeName, inventory: &Inventory) -> bool {
        let mut has_heard = false;
        for one in self.pathlets.iter_mut().filter(|one| !one.is_known) {
            one.is_known = inventory.has_acknowledged(edge, one.since);
            has_heard |= one.is_known;
        }
        has_heard
    }

    /// Brings the numbers to these headers, as long as many are left.
    pub(crate) fn follow_pathlets(&mut self, wanted: &BTreeSet<Pathlet>, number: BlueprintNumber) {
        self.rest(number, |of| matches!(of, ExitPlace::Pathlet(one) if !wanted.contains(one)));
        for pathlet in wanted {
            if self.pathlet(pathlet).is_some() {
                continue;
            }
            let place = ExitPlace::Pathlet(pathlet.clone());
            let mut resting = self.resting.values();
            let rested = resting.find(|resting| resting.of == place).and_then(|rest| rest.since);
            // Ways are also carried without: what cannot do without a number is given those that are left.
            if self.has_room_for_pathlets()
                && let Some(own) = self.take(&place)
            {
                let (pathlet, since) = (pathlet.clone(), rested.unwrap_or(number));
                self.pathlets.push(GivenPathlet { pathlet, number: own, since, is_known: false });
            }
        }
        self.pathlets.sort_by_key(|one| one.number);
    }

    /// Answers since when the edge was told of it.
    pub(super) fn drop_pathlet(&mut self, pathlet: &Pathlet) -> Option<BlueprintNumber> {
        let place = self.pathlets.iter().position(|one| one.pathlet == *pathlet)?;
        Some(self.pathlets.remove(place).since)
    }
}
