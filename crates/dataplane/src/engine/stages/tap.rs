//! Taps (`HopKind::Tap`): copies for functions that look on. Knows that the packet itself waits for
//! no tap; refuses to know what the copy is good for.
//!
//! The node that holds the packet makes the copy, and the packet goes on in the same step. Nothing
//! is remembered: what a tap sends is its own traffic, as a function's that no path goes through
//! would be, and what it could only have copied ends by name (`proxy`).

use super::forwarder;
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::encap::{self, PathPosition};
use crate::engine::tables::Tables;
use crate::engine::tables::path::HopTable;
use crate::engine::vector::Work;
use catena_model::account::Created;
use catena_model::program::HopKind;

/// Copies a packet for the taps at its position and behind it, and answers where it goes on. Copies
/// stand decided at the end of the vector. `by_tunnel`: another node has sent it to this position.
pub(crate) fn pass(
    vector: &mut Vec<Work>,
    index: usize,
    position: PathPosition,
    by_tunnel: bool,
    context: &mut Context<'_>,
) -> PathPosition {
    // What a tunnel brings at a tap is the copy itself.
    if by_tunnel { position } else { copy(vector, index, position, context) }
}

fn copy(
    vector: &mut Vec<Work>,
    index: usize,
    mut position: PathPosition,
    context: &mut Context<'_>,
) -> PathPosition {
    let tables = context.tables;
    let mut number = vector[index].copy;
    while let Some(hop) = tap_at(tables, position) {
        number = number.saturating_add(1);
        let work = &vector[index];
        if let Some(path_ref) = work.path {
            context.count(number, CounterUpdate::Tapped(path_ref), work.volume);
        }
        if let Some(mut copy) = context.copy(work, number, Created::Tap, work.path) {
            // What is left of a source route, and what is recorded, leads to the functions behind.
            let own = tables.positions.of_copy(position);
            forwarder::reach(&mut copy, own, hop, false, context);
            vector.push(copy);
        }
        position = encap::next(&tables.positions, position);
    }
    position
}

fn tap_at(tables: &Tables, position: PathPosition) -> Option<&HopTable> {
    let place = tables.positions.place(position);
    let hop = tables.path(place.path).hops.get(usize::from(place.hop));
    hop.filter(|hop| hop.kind == HopKind::Tap)
}
