//! Which fields beside the flow rules look at, by the place where they take packets: what is remembered of
//! a flow there is remembered of these, too. Knows bits of words; refuses to know what they stand for.

use super::rule::Rule;
use crate::engine::collections::rendezvous::mix;
use crate::engine::collections::sharing::{Counted, SharedMap};
use crate::engine::tables::slices::Scope;
use catena_model::classifier::FieldWord;

/// The fields, by place.
#[derive(Clone, Default)]
pub(super) struct FieldMasks {
    at: SharedMap<Scope, Counted<u32>, 64>,
    /// Rules that look at any.
    rules: u32,
    /// Grows whenever a place has other fields.
    turn: u64,
}

impl FieldMasks {
    /// Does no rule look at any?
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rules == 0
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// What rules at a place look at.
    pub(super) fn at(&self, place: Scope) -> u32 {
        let masks = self.at.get(&place).into_iter().flat_map(Counted::iter);
        masks.fold(0, |all, mask| all | mask)
    }

    pub(super) fn insert(&mut self, place: Scope, rule: &Rule) {
        self.edit(place, rule, Counted::add);
        self.rules += u32::from(!rule.fields.is_any());
    }

    pub(super) fn remove(&mut self, place: Scope, rule: &Rule) {
        self.edit(place, rule, |masks, mask| masks.remove(&mask));
        self.rules -= u32::from(!rule.fields.is_any());
    }

    fn edit(&mut self, place: Scope, rule: &Rule, change: impl FnOnce(&mut Counted<u32>, u32)) {
        if rule.fields.is_any() {
            return;
        }
        let before = self.at(place);
        let mut masks = self.at.get(&place).cloned().unwrap_or_default();
        change(&mut masks, rule.fields.mask());
        if masks.is_empty() {
            self.at.remove(&place);
        } else {
            self.at.insert(place, masks);
        }
        self.turn += u64::from(self.at(place) != before);
    }
}

/// The hash by which those packets of a flow are known that show these fields; where none is looked at, or
/// all are clear, that of the flow.
#[inline]
pub(crate) fn with_fields(hash: u64, word: FieldWord) -> u64 {
    if word == FieldWord::default() { hash } else { mix(hash ^ mix(word.0.into())) }
}
