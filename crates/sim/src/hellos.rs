//! What a data plane knows of its links by the hellos of its neighbours: a model of the engine's board of
//! links, without names, sequences and keys. Knows periods; refuses to know cables.

use catena_model::limits::HELLO_MISSES_MAX;
use catena_model::topology::PortNumber;
use catena_protocol::message::{LinksUnheard, from_dataplane};
use std::collections::{BTreeMap, BTreeSet};

/// Misses after which it is not known any more who is plugged in.
const FORGOTTEN_MISSES: u8 = 40;

/// What a link is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is as it should be.
    Sound,
    /// Its neighbour is silent.
    Doubted,
    /// Nothing goes this way.
    Dead,
}

#[derive(Clone, Debug, Default)]
struct Heard {
    interface: String,
    is_known: bool,
    missed: u8,
    is_dark: bool,
}

impl Heard {
    fn usage(&self) -> Use {
        match self.is_known && !self.is_dark {
            false => Use::Dead,
            true if self.missed >= HELLO_MISSES_MAX => Use::Doubted,
            true => Use::Sound,
        }
    }
}

/// The links of one data plane, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Hellos {
    links: BTreeMap<PortNumber, Heard>,
    told: BTreeSet<PortNumber>,
}

impl Hellos {
    /// Lines up with the links of a program.
    pub(crate) fn align<'l>(&mut self, links: impl Iterator<Item = (PortNumber, &'l str)>) {
        let mut former = std::mem::take(&mut self.links);
        for (number, interface) in links {
            let kept = former.remove(&number).filter(|heard| heard.interface == interface);
            let new = || Heard { interface: interface.to_owned(), ..Heard::default() };
            self.links.insert(number, kept.unwrap_or_else(new));
        }
    }

    /// A period is over in which these interfaces have brought hellos. Answers with what is told of that, if it is
    /// otherwise than before.
    pub(crate) fn period(
        &mut self,
        has_brought: impl Fn(&str) -> bool,
    ) -> Option<from_dataplane::Message> {
        for heard in self.links.values_mut() {
            if has_brought(&heard.interface) {
                (heard.is_known, heard.missed, heard.is_dark) = (true, 0, false);
            } else if heard.is_known {
                heard.missed += 1;
                heard.is_known = heard.missed < FORGOTTEN_MISSES;
            }
        }
        let former = self.told.clone();
        let told = self.unheard();
        (former != self.told).then_some(told)
    }

    /// The links that something is plugged into, and at which nobody is heard.
    pub(crate) fn unheard(&mut self) -> from_dataplane::Message {
        let is_unheard = |heard: &Heard| heard.usage() != Use::Sound && !heard.is_dark;
        let unheard = self.links.iter().filter(|(_, heard)| is_unheard(heard));
        self.told = unheard.map(|(number, _)| *number).collect();
        let numbers = self.told.iter().map(|number| number.get().into()).collect();
        from_dataplane::Message::LinksUnheard(LinksUnheard { numbers })
    }

    /// Nothing is plugged into these links, and something into all others.
    pub(crate) fn set_dark(&mut self, dark: &BTreeSet<PortNumber>) {
        for (number, heard) in &mut self.links {
            let is_dark = dark.contains(number);
            if heard.is_dark != is_dark {
                (heard.is_dark, heard.is_known, heard.missed) = (is_dark, false, 0);
            }
        }
    }

    /// What a link is good for; none: the program has no such link.
    pub(crate) fn use_of(&self, number: PortNumber) -> Option<Use> {
        self.links.get(&number).map(Heard::usage)
    }

    /// Is the neighbour at an interface heard now?
    pub(crate) fn is_sound(&self, interface: &str) -> bool {
        let mut links = self.links.values();
        links.any(|heard| heard.interface == interface && heard.usage() == Use::Sound)
    }

    /// Does it say hello at an interface?
    pub(crate) fn speaks_at(&self, interface: &str) -> bool {
        self.links.values().any(|heard| heard.interface == interface)
    }

    /// Is the neighbour at an interface known, so that what he sends is taken?
    pub(crate) fn is_known(&self, interface: &str) -> bool {
        let mut links = self.links.values();
        links.any(|heard| heard.interface == interface && heard.is_known)
    }
}
