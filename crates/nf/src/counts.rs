//! What the rules of a function have counted, carried by their content. Knows numbers, words and keys; refuses to
//! know what a rule is.

use crate::function::{RuleCount, StateEntry};
use crate::packet::Packet;
use crate::tracking::carry::Bytes;

/// The first byte of a count's key.
const ABOUT: u8 = b'r';

/// Rules with what they have counted, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    /// What it is known by, whatever its number is.
    content: String,
    /// It in its user's words.
    words: String,
    count: RuleCount,
    is_dirty: bool,
}

impl Counts {
    /// Adds a rule behind the others.
    pub(crate) fn add(&mut self, content: String, words: String) {
        let count = RuleCount::default();
        self.rules.push(Rule { content, words, count, is_dirty: false });
    }

    /// Counts a packet for a rule.
    pub(crate) fn count(&mut self, rule: u32, packet: &Packet<'_>) {
        let Some(rule) = self.rules.get_mut(rule as usize) else { return };
        rule.count.packets = rule.count.packets.saturating_add(packet.wire_packets.into());
        rule.count.bytes = rule.count.bytes.saturating_add(packet.wire_bytes);
        rule.is_dirty = true;
    }

    pub(crate) fn report(&self, into: &mut Vec<RuleCount>) {
        into.extend(self.rules.iter().map(|rule| rule.count));
    }

    pub(crate) fn words(&self, rule: u32) -> Option<String> {
        self.rules.get(rule as usize).map(|rule| rule.words.clone())
    }

    pub(crate) fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        for rule in &mut self.rules {
            if std::mem::take(&mut rule.is_dirty) || all {
                let RuleCount { packets, bytes } = rule.count;
                let value = [packets.to_be_bytes(), bytes.to_be_bytes()].concat();
                let key = [&[ABOUT], rule.content.as_bytes()].concat();
                into.push(StateEntry { key, value: Some(value) });
            }
        }
    }

    /// Takes a count over; none: the entry is none, or of a rule that is not there.
    pub(crate) fn import(&mut self, entry: &StateEntry) -> Option<()> {
        let (ABOUT, content) = entry.key.split_first().map(|(about, rest)| (*about, rest))? else {
            return None;
        };
        let mut value = Bytes(entry.value.as_deref()?);
        let count = RuleCount { packets: value.long()?, bytes: value.long()? };
        let rule = self.rules.iter_mut().find(|rule| rule.content.as_bytes() == content)?;
        (rule.count, rule.is_dirty) = (count, true);
        Some(())
    }
}
