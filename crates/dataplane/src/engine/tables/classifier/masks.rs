//! Which fields beside the flow rules look at, by the place where they take packets: what is remembered of
//! a flow there is remembered of these, too. Knows bits of words; refuses to know what they stand for.

use crate::engine::collections::sharing::Counted;
use crate::engine::tables::slices::Scope;
use catena_model::classifier::FieldWord;
use catena_search::{Rule, SharedMap};
use catena_wire::flow::mix;

/// The fields that some rules look at.
#[derive(Clone, Debug, Default)]
struct Masks {
    each: Counted<u32>,
    all: u32,
}

impl Masks {
    fn edit(&mut self, change: impl FnOnce(&mut Counted<u32>)) {
        change(&mut self.each);
        self.all = self.each.iter().fold(0, |all, mask| all | mask);
    }
}

/// The fields, by place.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldMasks {
    at: SharedMap<Scope, Masks, 64>,
    anywhere: Masks,
}

impl FieldMasks {
    /// What rules look at, wherever they are; 0: nothing but flows.
    #[inline]
    pub(super) fn anywhere(&self) -> u32 {
        self.anywhere.all
    }

    /// What rules at a place look at.
    #[inline]
    pub(super) fn at(&self, place: Scope) -> u32 {
        self.at.get(&place).map_or(0, |masks| masks.all)
    }

    pub(super) fn insert(&mut self, place: Scope, rule: &Rule) {
        self.edit(place, rule, |masks| masks.add(rule.fields.mask()));
    }

    pub(super) fn remove(&mut self, place: Scope, rule: &Rule) {
        self.edit(place, rule, |masks| masks.remove(&rule.fields.mask()));
    }

    fn edit(&mut self, place: Scope, rule: &Rule, change: impl Fn(&mut Counted<u32>)) {
        if rule.fields.is_any() {
            return;
        }
        self.anywhere.edit(&change);
        let mut masks = self.at.get(&place).cloned().unwrap_or_default();
        masks.edit(&change);
        if masks.each.is_empty() {
            self.at.remove(&place);
        } else {
            self.at.insert(place, masks);
        }
    }
}

/// The hash by which those packets of a flow are known that show these fields; where none is looked at, that
/// of the flow.
#[inline]
pub(crate) fn with_fields(hash: u64, word: FieldWord) -> u64 {
    if word == FieldWord::default() { hash } else { mix(hash ^ mix(word.0.into())) }
}
