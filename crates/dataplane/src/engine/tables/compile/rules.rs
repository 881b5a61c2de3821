//! Rules and pins. Knows whose decisions end with one that comes, goes or changes; refuses to know how
//! a packet meets a rule.

use super::{Following, edits};
use crate::engine::error::CompileError;
use crate::engine::packet::index::PortIndex;
use crate::engine::tables::descent::Entered;
use crate::engine::tables::names::{Name, Referrer};
use crate::engine::tables::slices::Scope;
use crate::engine::tables::{Tables, dependency};
use catena_model::PathId;
use catena_model::program::{RuleEntry, RulePlace};
use std::collections::BTreeSet;

impl Following<'_> {
    pub(super) fn follow_rules(&mut self) -> Result<(), CompileError> {
        let edits = edits(&self.former.entries.rules, &self.entries.rules);
        let mut to_place = std::mem::take(&mut self.turned.rules);
        for number in &to_place {
            self.unplace(*number);
        }
        for (key, old, _) in &edits {
            let Some((old, number)) = old.zip(self.next.rules.number(key)) else { continue };
            self.unplace(number);
            to_place.remove(&number);
            self.next.rules.remove(key);
            for name in named(old) {
                self.next.names.unname(name, Referrer::Rule(number));
            }
        }
        for (key, _, now) in &edits {
            let Some(entry) = now else { continue };
            let number = self.next.rules.add(key, entry);
            for name in named(entry) {
                self.next.names.name(name, Referrer::Rule(number));
            }
            to_place.insert(number);
        }
        for number in &to_place {
            let Tables { rules, names, positions, paths, .. } = &mut self.next;
            rules.place(*number, names, positions, paths)?;
        }
        for number in to_place {
            self.note_joined(number);
            self.turned.places.extend(self.next.rules.place_of(number));
            self.changed.placed.push(number);
        }
        Ok(())
    }

    /// What a rule took goes elsewhere from now on.
    fn unplace(&mut self, number: u32) {
        self.note_joined(number);
        self.turned.places.extend(self.next.rules.place_of(number));
        dependency::taken_by_rule(&self.next, number, &mut self.changed.ruled);
        self.next.rules.unplace(number);
    }

    fn note_joined(&mut self, number: u32) {
        let Some(RuleEntry { path, matches, .. }) = self.next.rules.entry(number) else { return };
        if let RulePlace::After(ended) = matches.place {
            self.turned.joined.extend([*path, ended]);
            // Whether rules lead on behind it is part of how it is walked.
            self.changed.paths.extend(self.next.positions.index_of(ended));
        }
    }

    /// The packets that become something else where they come in.
    pub(super) fn note_entered(&mut self) {
        let (former, next) = (self.former, &self.next);
        let are_pins_same = edits(&former.entries.pins, &next.entries.pins).is_empty();
        if self.changed.is_all || former.has_slices() || next.has_slices() || !are_pins_same {
            self.changed.entered = Entered::All;
            return;
        }
        let networks = self.changed.networks.iter().filter_map(|id| next.names.network(*id));
        self.turned.places.extend(networks.map(Scope::network));
        for path in &self.changed.of_paths {
            let rules = next.names.referrers(Name::Path(*path)).filter_map(|user| match user {
                Referrer::Rule(number) => next.rules.place_of(number),
                _ => None,
            });
            self.turned.places.extend(rules);
        }
        let ports = self.turned.places.iter().flat_map(|place| next.ports_at(*place));
        let ports: BTreeSet<PortIndex> = ports.chain(self.changed.ports.iter().copied()).collect();
        self.changed.entered = Entered::By(ports);
    }

    pub(super) fn follow_pins(&mut self) {
        for (key, old, now) in edits(&self.former.entries.pins, &self.entries.pins) {
            self.turned.pins.insert(key.0);
            let paths = old.into_iter().chain(now).flat_map(|pin| [pin.old, pin.new]);
            self.changed.of_paths.extend(paths);
            if let Some(pin) = old {
                self.next.names.unname(Name::Path(pin.old), Referrer::Pins(pin.new));
            }
        }
        for path in std::mem::take(&mut self.turned.pins) {
            let all = self.entries.pins.range((path, 0)..=(path, u16::MAX));
            let pins: Vec<_> = all.map(|(_, pin)| pin).collect();
            for pin in &pins {
                self.next.names.name(Name::Path(pin.old), Referrer::Pins(path));
                self.next.names.name(Name::Path(path), Referrer::Pins(path));
            }
            if pins.is_empty() {
                self.next.names.unname(Name::Path(path), Referrer::Pins(path));
            }
            let Tables { pins: made, positions, paths, .. } = &mut self.next;
            made.set(path, &pins, positions, paths);
        }
    }
}

/// What a rule names.
fn named(rule: &RuleEntry) -> BTreeSet<Name> {
    let place = match rule.matches.place {
        RulePlace::Endpoints => None,
        RulePlace::Port(port) => Some(Name::Port(port)),
        RulePlace::After(ended) => Some(Name::Path(ended)),
    };
    place.into_iter().chain([Name::Path(rule.path)]).collect()
}

impl Tables {
    /// Does a pin speak of the path?
    pub(crate) fn is_pinned(&self, path: PathId) -> bool {
        self.names.referrers(Name::Path(path)).any(|user| matches!(user, Referrer::Pins(_)))
    }
}
