//! What nodes tell of their links, as it was told last. Knows what may be told; refuses to know which ends
//! belong together.

use catena_model::NodeName;
use catena_model::discovery::{LinkState, Neighbour, Trust};
use catena_model::limits::{LINK_NEIGHBOURS_MAX, NODE_LINKS_TOLD_MAX};
use catena_model::text::escaped;
use catena_model::topology::PortNumber;
use catena_plan::ToldLinks;
use catena_protocol::message;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;

/// Octets of an interface's name, as Linux has them.
const INTERFACE_NAME_MAX: usize = 15;
/// Octets of a neighbour's text: an identifier of LLDP has no more (IEEE 802.1AB-2016 section 8.5.2).
const TEXT_MAX: usize = 255;

/// What was told last, by node.
#[derive(Debug)]
pub(crate) struct LinkBoard {
    told: watch::Sender<Board>,
}

/// The links of nodes, and the session that told of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    pub(crate) links: ToldLinks,
    sessions: std::collections::BTreeMap<NodeName, u64>,
}

impl Default for LinkBoard {
    fn default() -> Self {
        Self { told: watch::Sender::new(Board::default()) }
    }
}

impl LinkBoard {
    /// Takes what a session tells of its node. Whoever follows is woken if it is news: load and counters are
    /// none.
    pub(crate) fn tell(&self, node: &NodeName, session: u64, links: Vec<LinkState>) {
        self.told.send_if_modified(|board| {
            let known = board.sessions.entry(node.clone()).or_default();
            if session < *known {
                return false;
            }
            *known = session;
            let former = board.links.get(node).map(|former| former.as_slice());
            let is_news =
                former.is_none_or(|former| !former.iter().map(matter).eq(links.iter().map(matter)));
            board.links.insert(node.clone(), Arc::new(links));
            is_news
        });
    }

    /// A session is over: what it told is not known any more.
    pub(crate) fn lost(&self, node: &NodeName, session: u64) {
        self.told.send_if_modified(|board| {
            board.sessions.get(node) == Some(&session) && board.links.remove(node).is_some()
        });
    }

    /// What was told last.
    pub(crate) fn told(&self) -> ToldLinks {
        self.told.borrow().links.clone()
    }

    /// What was told last, and a word when there is news.
    pub(crate) fn follow(&self) -> watch::Receiver<Board> {
        self.told.subscribe()
    }
}

/// What is news when it differs.
fn matter(link: &LinkState) -> (&str, Option<PortNumber>, bool, &str, &[Neighbour]) {
    (&link.interface, link.number, link.is_up, &link.hindrance, &link.neighbours)
}

/// The interfaces that a node says are links.
///
/// # Errors
/// Why nobody can have said so.
pub(super) fn interfaces(told: Vec<String>) -> Result<BTreeSet<String>, String> {
    if told.len() > NODE_LINKS_TOLD_MAX {
        return Err(format!(
            "the node tells of {} links, and {NODE_LINKS_TOLD_MAX} are the most; make fewer interfaces links (--link)",
            told.len()
        ));
    }
    let count = told.len();
    let is_name = |name: &String| {
        (1..=INTERFACE_NAME_MAX).contains(&name.len())
            && escaped(name) == name.as_str()
            && !name.contains(['/', ' '])
    };
    if let Some(other) = told.iter().find(|name| !is_name(name)) {
        return Err(format!("'{}' is no interface", escaped(other)));
    }
    let interfaces: BTreeSet<String> = told.into_iter().collect();
    match interfaces.len() == count {
        true => Ok(interfaces),
        false => Err("the node tells of a link twice".into()),
    }
}

/// What a node tells of its links.
///
/// # Errors
/// Why no node can have said so.
pub(super) fn states(told: message::LinkStates) -> Result<Vec<LinkState>, String> {
    interfaces(told.links.iter().map(|link| link.interface.clone()).collect())?;
    let mut states = told.links.into_iter().map(state).collect::<Result<Vec<_>, String>>()?;
    states.sort_by(|one, other| one.interface.cmp(&other.interface));
    Ok(states)
}

fn state(told: message::LinkState) -> Result<LinkState, String> {
    let interface = told.interface;
    if told.neighbours.len() > LINK_NEIGHBOURS_MAX {
        return Err(format!("link '{interface}' has more than {LINK_NEIGHBOURS_MAX} neighbours"));
    }
    let neighbours = told.neighbours.iter().map(neighbour).collect::<Result<_, String>>()?;
    Ok(LinkState {
        number: number(told.number)?,
        is_up: told.is_up,
        load_permille: told.load_permille.map(|load| u16::try_from(load).unwrap_or(u16::MAX)),
        // Longer than any IP packet is as good as that.
        mtu: (told.mtu > 0).then(|| u16::try_from(told.mtu).unwrap_or(u16::MAX)),
        flooded: told.flooded,
        refused: told.refused,
        hindrance: harmless(&told.hindrance),
        is_doubted: told.is_doubted,
        neighbours,
        interface,
    })
}

fn number(told: u32) -> Result<Option<PortNumber>, String> {
    let number = u8::try_from(told).map_err(|_| format!("{told} is no port number"))?;
    Ok(PortNumber::new(number))
}

fn neighbour(told: &message::Neighbour) -> Result<Neighbour, String> {
    let trust = Trust::of_word(&told.trust);
    let trust =
        trust.ok_or_else(|| format!("'{}' says nothing of a neighbour", escaped(&told.trust)))?;
    Ok(Neighbour {
        chassis: harmless(&told.chassis),
        port: harmless(&told.port),
        system: harmless(&told.system),
        number: number(told.number)?,
        trust,
    })
}

/// A stranger's text, of bounded length and with all that is unseen spelled out.
fn harmless(text: &str) -> String {
    let mut cuts = (0..=TEXT_MAX.min(text.len())).rev();
    let whole = cuts.find_map(|cut| text.get(..cut)).unwrap_or_default();
    escaped(whole).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(interface: &str) -> message::LinkState {
        message::LinkState { interface: interface.into(), number: 1, ..Default::default() }
    }

    #[test]
    fn what_a_stranger_calls_himself_is_cut_and_spelled_out() {
        let neighbour = message::Neighbour {
            chassis: format!("a\u{1b}[2J\n{}", "é".repeat(200)),
            trust: "forged".into(),
            ..Default::default()
        };
        let told = message::LinkState { neighbours: vec![neighbour], ..link("eth1") };
        let states = states(message::LinkStates { links: vec![told] }).unwrap();
        let chassis = &states[0].neighbours[0].chassis;
        assert!(chassis.starts_with("a\\u{1b}[2J\\né") && chassis.len() < 300, "{chassis}");
    }

    #[test]
    fn what_no_node_can_say_of_links_is_refused() {
        let refusal =
            |links: Vec<message::LinkState>| states(message::LinkStates { links }).unwrap_err();
        assert!(refusal(vec![link("eth1"), link("eth1")]).contains("twice"));
        assert!(refusal(vec![link("eth\u{1b}[2J")]).contains("is no interface"));
        let many = (0..=NODE_LINKS_TOLD_MAX).map(|at| link(&format!("eth{at}"))).collect();
        assert!(refusal(many).contains("513 links"));
        assert!(
            refusal(vec![message::LinkState { number: 256, ..link("eth1") }])
                .contains("no port number")
        );
        let neighbour = message::Neighbour { trust: "friend".into(), ..Default::default() };
        let told = message::LinkState { neighbours: vec![neighbour.clone()], ..link("eth1") };
        assert!(refusal(vec![told]).contains("'friend'"));
        let told = message::LinkState { neighbours: vec![neighbour; 9], ..link("eth1") };
        assert!(refusal(vec![told]).contains("more than 8"));
    }

    #[test]
    fn load_is_no_news_and_the_word_of_a_former_session_does_not_count() {
        let board = LinkBoard::default();
        let node = NodeName::new("host1").unwrap();
        let mut follower = board.follow();
        let told = |load: u32, is_up: bool| {
            let link = message::LinkState { load_permille: Some(load), is_up, ..link("eth1") };
            states(message::LinkStates { links: vec![link] }).unwrap()
        };
        let mut is_news = || {
            let is_news = follower.has_changed().unwrap();
            follower.mark_unchanged();
            is_news
        };
        board.tell(&node, 2, told(1, true));
        assert!(is_news());
        board.tell(&node, 2, told(999, true));
        assert!(!is_news());
        assert_eq!(board.follow().borrow().links[&node][0].load_permille, Some(999));
        board.tell(&node, 1, told(1, false));
        board.lost(&node, 1);
        assert!(!is_news() && board.follow().borrow().links[&node][0].is_up);
        board.tell(&node, 2, told(999, false));
        assert!(is_news());
        board.lost(&node, 2);
        assert!(is_news() && board.follow().borrow().links.is_empty());
    }
}
