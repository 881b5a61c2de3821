//! Links between nodes: what the program says of them goes to discovery, and what that finds to the controller.

use super::Node;
use crate::discovery::patterns::Patterns;
use catena_model::topology::PortNumber;
use catena_protocol::message::{LinkStates, from_agent};
use tokio::sync::watch;

impl Node {
    /// Follows the links of this node, if it is to have any.
    pub(super) fn follow_links(&self) -> watch::Receiver<LinkStates> {
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

    /// Tells the controller; a node that is to have no links has said so when it came.
    pub(super) fn tell_links(&mut self) {
        if self.config.links.is_empty() {
            return;
        }
        let mut states = self.links.clone();
        for link in &mut states.links {
            let number = u8::try_from(link.number).ok().and_then(PortNumber::new);
            let reason = number.and_then(|number| self.ports.reason(number.link_id()));
            link.hindrance = reason.unwrap_or_default().to_owned();
        }
        self.tell(from_agent::Message::LinkStates(states));
    }
}
