//! Links as agents and workers see them: which of them nothing is plugged into, and at which nobody is heard. Refuses
//! to know what is said there.

use super::Control;
use crate::engine::LinkBoard;
use crate::shell::order::Order;
use catena_model::topology::PortNumber;
use catena_protocol::message::{LinkCarriers, LinksUnheard, from_dataplane};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What this thread knows of links.
pub(super) struct Links {
    board: Arc<LinkBoard>,
    /// Those that the agent says nothing is plugged into.
    dark: BTreeSet<PortNumber>,
    /// What the agent was told last.
    pub(super) told: Option<LinksUnheard>,
}

impl Links {
    pub(super) fn new(board: Arc<LinkBoard>) -> Self {
        // Before there is a ring, nothing is plugged in.
        board.set_dark(&numbers().collect::<Vec<_>>());
        Self { board, dark: BTreeSet::new(), told: None }
    }

    fn unheard(&self) -> LinksUnheard {
        let numbers = self.board.unheard().into_iter().map(|number| number.get().into());
        LinksUnheard { numbers: numbers.collect() }
    }
}

fn numbers() -> impl Iterator<Item = PortNumber> {
    (1..=u8::MAX).filter_map(PortNumber::new)
}

impl Control {
    /// An agent says which links carry nothing.
    pub(super) fn take_carriers(&mut self, told: &LinkCarriers) -> LinksUnheard {
        let dark = told.dark.iter().filter_map(|dark| PortNumber::new(u8::try_from(*dark).ok()?));
        self.links.dark = dark.collect();
        self.darken_links();
        let unheard = self.links.unheard();
        self.links.told = Some(unheard.clone());
        unheard
    }

    /// Nothing is plugged into links without a ring, either.
    pub(super) fn darken_links(&self) {
        let is_dark = |number: &PortNumber| {
            self.links.dark.contains(number) || !self.attached.contains_key(&number.link_id())
        };
        let before = self.links.board.turns();
        self.links.board.set_dark(&numbers().filter(is_dark).collect::<Vec<_>>());
        // What the kernel passes on it must not go on with.
        if self.links.board.turns() != before && self.kernel_path.is_some() {
            (0..self.workers.count())
                .for_each(|worker| self.workers.tell(worker, Order::LinksTurned));
        }
    }

    /// Tells the agent at which links nobody is heard, if that is news.
    pub(super) fn tell_unheard(&mut self) {
        let unheard = self.links.unheard();
        let Some(agent) = &mut self.agent else { return };
        // Who has been told nothing knows of none.
        if self.links.told.clone().unwrap_or_default() == unheard {
            return;
        }
        match agent.send(from_dataplane::Message::LinksUnheard(unheard.clone())) {
            Ok(()) => self.links.told = Some(unheard),
            Err(end) => {
                tracing::info!("{end}; the data plane goes on");
                self.agent = None;
            }
        }
    }
}
