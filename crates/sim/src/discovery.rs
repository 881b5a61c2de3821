//! What an agent finds out of its links and tells of them: a model of the agent's discovery, without frames, keys and
//! sequences. Knows words and times; refuses to know cables.

use catena_model::discovery::Trust;
use catena_model::entry::Change;
use catena_model::limits::NODE_PORTS_MAX;
use catena_model::topology::PortNumber;
use catena_protocol::message::{
    LinkCarriers, LinkState, LinkStates, LinksUnheard, Neighbour, from_agent, to_dataplane,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How long a word holds.
const HOLDS: Duration = Duration::from_secs(4);
/// How long a node that fell silent is still told of.
const STALE_FOR: Duration = Duration::from_secs(60);
/// How long nothing is made of what a data plane hears that was started anew.
const GREETING: Duration = Duration::from_millis(500);
/// So many times gone within the window, and a link is left out until it has stayed for as long.
const GONE_MAX: usize = 3;
const WINDOW: Duration = Duration::from_secs(10);

/// What an agent says of itself at a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) node: String,
    pub(crate) interface: String,
    pub(crate) number: PortNumber,
}

#[derive(Debug, Default)]
struct Link {
    is_up: bool,
    /// Who said a word last, until when that holds, and whether it has held.
    heard: Option<(Word, Duration, bool)>,
    is_whole: bool,
    gone: VecDeque<Duration>,
    /// Until when it is left out for coming and going.
    held: Option<Duration>,
}

/// The links of an agent's node.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    links: BTreeMap<String, Link>,
    /// Have the interfaces been looked at?
    has_looked: bool,
    /// By the program that runs.
    numbers: BTreeMap<PortNumber, String>,
    unheard: BTreeSet<PortNumber>,
    told_dark: Option<Vec<u32>>,
    /// When this data plane answered, until what it hears is believed.
    begun: Option<Duration>,
    told: Option<LinkStates>,
}

impl Discovery {
    /// The interfaces that are links; none: nobody has looked yet.
    pub(crate) fn interfaces(&self) -> Option<Vec<String>> {
        self.has_looked.then(|| self.links.keys().cloned().collect())
    }

    /// A new session has been told nothing.
    pub(crate) fn begin_session(&mut self) {
        self.told = None;
    }

    /// Another data plane answers: it knows nothing, and nothing is known of it.
    pub(crate) fn begin_dataplane(&mut self, now: Duration) {
        self.numbers.clear();
        self.unheard.clear();
        self.told_dark = None;
        self.begun = Some(now);
    }

    /// Takes what differs from the program before.
    pub(crate) fn edit(&mut self, edits: &[u8]) {
        for change in Change::read_all(edits, 2 * NODE_PORTS_MAX).unwrap_or_default() {
            let Change::Exit(number, edit) = change else { continue };
            match edit.entry().and_then(|exit| exit.link()) {
                Some(interface) => self.numbers.insert(number, interface.to_owned()),
                None => self.numbers.remove(&number),
            };
        }
    }

    /// Takes the interfaces that are links, and which of them have a carrier.
    pub(crate) fn look(&mut self, found: &BTreeMap<String, bool>) {
        self.has_looked = true;
        self.links.retain(|interface, _| found.contains_key(interface));
        for (interface, is_up) in found {
            let link = self.links.entry(interface.clone()).or_default();
            link.is_up = *is_up;
            if !is_up {
                link.heard = None;
            }
        }
    }

    /// The word at an interface; none: nothing is said there.
    pub(crate) fn word(&self, node: &str, interface: &str) -> Option<Word> {
        let is_up = self.links.get(interface).is_some_and(|link| link.is_up);
        let number = self.number_of(interface).filter(|_| is_up)?;
        Some(Word { node: node.to_owned(), interface: interface.to_owned(), number })
    }

    pub(crate) fn hear(&mut self, interface: &str, word: Word, now: Duration) {
        if let Some(link) = self.links.get_mut(interface).filter(|link| link.is_up) {
            link.heard = Some((word, now + HOLDS, false));
        }
    }

    pub(crate) fn take_unheard(&mut self, told: &LinksUnheard) {
        let numbers = told.numbers.iter().map(|number| u8::try_from(*number).ok());
        self.unheard = numbers.filter_map(|number| PortNumber::new(number?)).collect();
    }

    /// When something is otherwise though nothing comes.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let greeted = self.begun.map(|begun| begun + GREETING);
        let held = self.links.values().filter_map(|link| link.held);
        let heard = self.links.values().filter_map(|link| link.heard.as_ref());
        held.chain(greeted).chain(heard.map(|(_, until, _)| *until)).min()
    }

    /// Tells the data plane into which links nothing is plugged, if that is news.
    pub(crate) fn order(&mut self) -> Option<to_dataplane::Message> {
        let is_dark =
            |interface: &String| self.links.get(interface).is_some_and(|link| !link.is_up);
        let dark = self.numbers.iter().filter(|(_, interface)| is_dark(interface));
        let dark: Vec<u32> = dark.map(|(number, _)| number.get().into()).collect();
        if self.told_dark.as_ref() == Some(&dark) {
            return None;
        }
        self.told_dark = Some(dark.clone());
        Some(to_dataplane::Message::LinkCarriers(LinkCarriers { dark }))
    }

    /// Tells the controller how links are, if that is news.
    pub(crate) fn tell(&mut self, now: Duration) -> Option<from_agent::Message> {
        if !self.has_looked {
            return None;
        }
        let is_begun = self.begun.is_some();
        let mut states = Vec::new();
        for (interface, link) in &mut self.links {
            let number = number_of(&self.numbers, interface);
            let is_unheard = !is_begun && number.is_some_and(|own| self.unheard.contains(&own));
            let hindrance = link.hindrance(is_unheard, now);
            states.push(LinkState {
                interface: interface.clone(),
                number: number.map(|number| number.get().into()).unwrap_or_default(),
                is_up: link.is_up,
                neighbours: link.heard.iter().map(neighbour).collect(),
                is_doubted: !hindrance.is_empty(),
                hindrance,
                ..LinkState::default()
            });
        }
        let states = LinkStates { links: states };
        if self.told.as_ref() == Some(&states) {
            return None;
        }
        self.told = Some(states.clone());
        Some(from_agent::Message::LinkStates(states))
    }

    /// Lets go of what has lasted for long enough.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.begun.take_if(|begun| *begun + GREETING <= now);
        for link in self.links.values_mut() {
            if link.held.is_some_and(|until| until <= now) {
                link.held = None;
                link.gone.clear();
            }
            let Some((_, until, is_stale)) = &mut link.heard else { continue };
            if *until > now {
                continue;
            }
            if *is_stale {
                link.heard = None;
            } else {
                (*until, *is_stale) = (*until + STALE_FOR, true);
            }
        }
    }

    fn number_of(&self, interface: &str) -> Option<PortNumber> {
        number_of(&self.numbers, interface)
    }
}

impl Link {
    /// Why it is doubted; empty: it is not.
    fn hindrance(&mut self, is_unheard: bool, now: Duration) -> String {
        let is_whole = self.is_up && !is_unheard;
        if std::mem::replace(&mut self.is_whole, is_whole) && !is_whole {
            self.gone.push_back(now);
            while self.gone.front().is_some_and(|at| now.saturating_sub(*at) > WINDOW) {
                self.gone.pop_front();
            }
            if self.held.is_some() || self.gone.len() >= GONE_MAX {
                self.held = Some(now + WINDOW);
            }
        }
        match self.held {
            _ if self.is_up && is_unheard => "nobody is heard".into(),
            Some(_) => "it has come and gone".into(),
            None => String::new(),
        }
    }
}

fn number_of(numbers: &BTreeMap<PortNumber, String>, interface: &str) -> Option<PortNumber> {
    let mut numbers = numbers.iter();
    numbers.find(|(_, own)| *own == interface).map(|(number, _)| *number)
}

fn neighbour((word, _, is_stale): &(Word, Duration, bool)) -> Neighbour {
    let trust = if *is_stale { Trust::Stale } else { Trust::Ours };
    Neighbour {
        chassis: word.node.clone(),
        port: word.interface.clone(),
        system: String::new(),
        number: word.number.get().into(),
        trust: trust.word().into(),
    }
}
