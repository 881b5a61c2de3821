//! Who is at the other end of each link, by the words that came in. Pure: time is an argument, and whose word
//! it is was found out before.

use super::word::{self, Signature};
use catena_model::discovery::{Neighbour, Trust};
use catena_model::limits::{LINK_NEIGHBOURS_MAX, NODE_LINKS_MAX};
use catena_model::topology::PortNumber;
use catena_wire::lldp::{LldpFrame, OwnTlv};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a node of ours that fell silent is still told of.
const STALE_FOR: Duration = Duration::from_secs(60);
/// Ports of nodes whose last words are remembered: as many as all links may have neighbours.
const LAST_WORDS_MAX: usize = NODE_LINKS_MAX * LINK_NEIGHBOURS_MAX;

/// A port of a node, as it calls itself.
type Sender = (String, u8);

/// The last word of a sender, and when it came.
#[derive(Clone, Copy, Debug)]
struct LastWord {
    boot: u64,
    sequence: u64,
    at: Instant,
}

#[derive(Debug)]
struct Entry {
    neighbour: Neighbour,
    until: Instant,
}

/// The neighbours of all links of a node.
#[derive(Debug)]
pub(crate) struct Neighbours {
    node: String,
    /// As this node tells it.
    boot: u64,
    links: BTreeMap<String, Vec<Entry>>,
    last_words: BTreeMap<Sender, LastWord>,
    /// Frames, by link, of one neighbour more than there is room for.
    refused: BTreeMap<String, u64>,
}

impl Neighbours {
    pub(crate) fn new(node: String, boot: u64) -> Self {
        let (links, last_words, refused) = Default::default();
        Self { node, boot, links, last_words, refused }
    }

    /// This node tells another start from now on.
    pub(crate) fn begin_again(&mut self, boot: u64) {
        self.boot = boot;
    }

    /// Takes a word that came in by a link.
    pub(crate) fn hear(
        &mut self,
        link: &str,
        frame: &LldpFrame<'_>,
        signature: Signature,
        now: Instant,
    ) {
        let chassis = word::chassis(frame);
        let trust = match (signature, &frame.own) {
            (Signature::Ours, Some(own)) => self.judge(&chassis, own, now),
            (Signature::Foreign, _) => Trust::Forged,
            _ => Trust::Unsigned,
        };
        let neighbour = Neighbour {
            port: word::port(frame),
            system: String::from_utf8_lossy(frame.system_name.unwrap_or_default()).into_owned(),
            number: frame.own.and_then(|own| PortNumber::new(own.port)),
            trust,
            chassis,
        };
        if trust == Trust::Ours {
            // A cable that was moved leads from its new place alone.
            for entries in self.links.values_mut() {
                entries.retain(|entry| {
                    !is_ours(&entry.neighbour)
                        || (&entry.neighbour.chassis, entry.neighbour.number)
                            != (&neighbour.chassis, neighbour.number)
                });
            }
        }
        let entries = self.links.entry(link.to_owned()).or_default();
        entries.retain(|entry| !is_same(&entry.neighbour, &neighbour));
        if frame.seconds == 0 {
            return;
        }
        if entries.len() >= LINK_NEIGHBOURS_MAX {
            *self.refused.entry(link.to_owned()).or_default() += 1;
            // Strangers keep no node of ours out.
            let stranger =
                entries.iter().position(|entry| trust == Trust::Ours && !is_ours(&entry.neighbour));
            let Some(stranger) = stranger else { return };
            entries.remove(stranger);
        }
        let until = now + Duration::from_secs(frame.seconds.into());
        entries.push(Entry { neighbour, until });
        entries.sort_by(|one, other| order(&one.neighbour).cmp(&order(&other.neighbour)));
    }

    /// What a word is that is signed by a node of this domain.
    fn judge(&mut self, chassis: &str, own: &OwnTlv, now: Instant) -> Trust {
        if chassis == self.node {
            return match own.boot {
                boot if boot == self.boot => Trust::Itself,
                boot if boot < self.boot => Trust::Replayed,
                _ => Trust::SameName,
            };
        }
        let sender = (chassis.to_owned(), own.port);
        let last = self.last_words.get(&sender);
        if last.is_some_and(|last| (own.boot, own.sequence) <= (last.boot, last.sequence)) {
            return Trust::Replayed;
        }
        if last.is_none() && self.last_words.len() >= LAST_WORDS_MAX {
            let oldest = self.last_words.iter().min_by_key(|(_, last)| last.at);
            if let Some(oldest) = oldest.map(|(sender, _)| sender.clone()) {
                self.last_words.remove(&oldest);
            }
        }
        let word = LastWord { boot: own.boot, sequence: own.sequence, at: now };
        self.last_words.insert(sender, word);
        Trust::Ours
    }

    /// Lets go of those whose word does not hold any more.
    pub(crate) fn expire(&mut self, now: Instant) {
        for entries in self.links.values_mut() {
            for entry in entries.iter_mut().filter(|entry| entry.until <= now) {
                if entry.neighbour.trust == Trust::Ours {
                    (entry.neighbour.trust, entry.until) = (Trust::Stale, entry.until + STALE_FOR);
                }
            }
            entries.retain(|entry| entry.until > now);
        }
    }

    /// Nobody is at the other end of a link: it carries nothing.
    pub(crate) fn unplug(&mut self, link: &str) {
        self.links.remove(link);
    }

    /// An interface is no link any more.
    pub(crate) fn forget(&mut self, link: &str) {
        self.unplug(link);
        self.refused.remove(link);
    }

    /// Who is at the other end of a link.
    pub(crate) fn of(&self, link: &str) -> impl Iterator<Item = &Neighbour> {
        self.links.get(link).into_iter().flatten().map(|entry| &entry.neighbour)
    }

    /// Frames of one neighbour more than a link may have.
    pub(crate) fn refused(&self, link: &str) -> u64 {
        self.refused.get(link).copied().unwrap_or_default()
    }
}

/// A node of this domain, heard lately or once.
fn is_ours(neighbour: &Neighbour) -> bool {
    matches!(neighbour.trust, Trust::Ours | Trust::Stale)
}

/// Is it the same one, taken for the same? Who only says that he is another takes nothing from that one.
fn is_same(one: &Neighbour, other: &Neighbour) -> bool {
    let is_taken_alike = one.trust == other.trust || (is_ours(one) && is_ours(other));
    (&one.chassis, &one.port) == (&other.chassis, &other.port) && is_taken_alike
}

fn order(neighbour: &Neighbour) -> (&str, &str, Trust) {
    (&neighbour.chassis, &neighbour.port, neighbour.trust)
}

#[cfg(test)]
mod tests;
