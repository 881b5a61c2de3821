//! Links between nodes: what the program says of them goes to discovery, and what that and the data plane find to the
//! controller.

use super::Node;
use crate::discovery::FoundLinks;
use crate::discovery::patterns::Patterns;
use crate::flaps::Flaps;
use catena_model::topology::PortNumber;
use catena_protocol::message::{
    LinkCarriers, LinkState, LinkStates, LinksUnheard, from_agent, to_dataplane,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a data plane that was started anew may take to hear its neighbours: nothing is made of that.
const GREETING: Duration = Duration::from_millis(500);

/// What is in the way of links, beside what discovery tells.
#[derive(Debug, Default)]
pub(super) struct LinkTroubles {
    /// The interfaces of those that nothing is plugged into.
    pub(super) dark: BTreeSet<Arc<str>>,
    /// Those of which the data plane was told so; none: it was told nothing.
    told_dark: Option<Vec<u32>>,
    /// Those at which the data plane hears nobody.
    unheard: BTreeSet<PortNumber>,
    flaps: Flaps,
    /// When this data plane answered, until what it hears is believed.
    begun: Option<Instant>,
}

impl LinkTroubles {
    /// Another data plane answers: it knows nothing, and nothing is known of it.
    pub(super) fn forget(&mut self) {
        self.told_dark = None;
        self.unheard.clear();
        self.begun = Some(Instant::now());
    }

    /// When a link that came and went is taken again.
    pub(super) fn next_release(&self) -> Option<Instant> {
        let greeted = self.begun.map(|begun| begun + GREETING);
        [self.flaps.next_release(), greeted].into_iter().flatten().min()
    }

    /// Is any taken again now?
    pub(super) fn release(&mut self, now: Instant) -> bool {
        let is_greeted = self.begun.take_if(|begun| *begun + GREETING <= now).is_some();
        self.flaps.release(now) | is_greeted
    }

    /// What is in the way of one, and is that a doubt alone? `of_port`: of its ring.
    fn hindrance(
        &mut self,
        link: &LinkState,
        of_port: Option<&str>,
        now: Instant,
    ) -> (String, bool) {
        let number = u8::try_from(link.number).ok().and_then(PortNumber::new);
        let is_begun = self.begun.is_some_and(|begun| begun + GREETING > now);
        let is_unheard = !is_begun && number.is_some_and(|number| self.unheard.contains(&number));
        let is_whole = link.is_up && !is_unheard;
        let flaps = self.flaps.note(&link.interface, is_whole, now);
        match of_port.filter(|reason| !reason.is_empty()) {
            Some(reason) => {
                (format!("the data plane of its node does not have it: {reason}"), false)
            }
            None if link.is_up && is_unheard => {
                ("the data plane at its other end is not heard by that of its node".into(), true)
            }
            None => (flaps.unwrap_or_default(), true),
        }
    }
}

impl Node {
    /// Follows the links of this node, if it is to have any.
    pub(super) fn follow_links(&self) -> FoundLinks {
        let patterns = Patterns::new(&self.config.links);
        self.interfaces.follow_links((&self.config.node, patterns), self.programmed.subscribe())
    }

    /// The links are otherwise now.
    pub(super) fn take_links(&mut self, links: LinkStates) {
        let names: Vec<String> = links.links.iter().map(|link| link.interface.clone()).collect();
        // Whoever is told of links by a session that is up need not be told by a new one; who has not come yet
        // waits for the first look.
        self.announce.send_if_modified(|announcement| announcement.links.replace(names).is_none());
        self.links = links;
        self.tell_links();
    }

    /// The data plane hears neighbours at others than before.
    pub(super) fn take_unheard(&mut self, told: &LinksUnheard) {
        let numbers = told.numbers.iter().map(|number| u8::try_from(*number).ok());
        let unheard = numbers.filter_map(|number| PortNumber::new(number?)).collect();
        if self.link_troubles.unheard != unheard {
            self.link_troubles.unheard = unheard;
            self.tell_links();
        }
    }

    /// Tells the data plane into which links nothing is plugged, if that is news.
    pub(super) fn tell_carriers(&mut self) {
        if self.config.links.is_empty() || self.link.is_none() {
            return;
        }
        let dark = {
            let programmed = self.programmed.borrow();
            let dark = self.link_troubles.dark.iter();
            let numbers = dark.filter_map(|name| programmed.number_of(name));
            numbers.map(|number| number.get().into()).collect::<Vec<u32>>()
        };
        if self.link_troubles.told_dark.as_ref() != Some(&dark) {
            let message = to_dataplane::Message::LinkCarriers(LinkCarriers { dark: dark.clone() });
            if self.send(message, Vec::new()) {
                self.link_troubles.told_dark = Some(dark);
            }
        }
    }

    /// Tells the controller; a node that is to have no links has said so when it came.
    pub(super) fn tell_links(&mut self) {
        if self.config.links.is_empty() {
            return;
        }
        let (mut states, now) = (self.links.clone(), Instant::now());
        for link in &mut states.links {
            let number = u8::try_from(link.number).ok().and_then(PortNumber::new);
            let reason = number.and_then(|number| self.ports.reason(number.link_id()));
            (link.hindrance, link.is_doubted) = self.link_troubles.hindrance(link, reason, now);
            link.is_doubted &= !link.hindrance.is_empty();
        }
        self.tell(from_agent::Message::LinkStates(states));
    }
}
