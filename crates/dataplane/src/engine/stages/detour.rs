//! What becomes of a packet whose instance is dead. Knows the policies and how a detour between
//! nodes ends without any agreement; refuses to know how death is found.
//!
//! Only the node of an instance knows that it is dead. It sends the flow to the next instance of
//! the rendezvous order, which may be on another node. That node sees a packet whose own choice
//! lies elsewhere, hence a detour, and serves it by its best live instance. If it has none, the
//! packet goes to the first instance of a node behind its own in the order of nodes by their best
//! instance: each further detour moves on in that order, so none comes round.

use crate::engine::state::health::Health;
use crate::engine::tables::path::{HopTable, InstancePlace, InstanceTable};
use catena_model::DropReason;
use catena_model::limits::FUNCTION_INSTANCES_MAX;
use catena_model::program::HopKind;
use catena_model::resource::FailurePolicy;

/// What is done with the chosen instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Visited: the flow belongs to it.
    Ordinary,
    /// Visited in place of another.
    Detour,
    /// Passed by: it is dead.
    Bypass,
}

/// Where a packet at a hop goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Index of the instance.
    pub(crate) instance: usize,
    pub(crate) turn: Turn,
}

/// Chooses for a flow. `by_tunnel`: another node has sent the packet here for this hop.
pub(crate) fn choose(
    hop: &HopTable,
    flow_hash: u64,
    by_tunnel: bool,
    health: &Health,
) -> Result<Choice, DropReason> {
    let first = hop.choose_index(flow_hash).ok_or(DropReason::NoInstance)?;
    let ordinary = Ok(Choice { instance: first, turn: Turn::Ordinary });
    let Some(instance) = hop.instances.get(first).filter(|_| hop.kind == HopKind::Through) else {
        return ordinary;
    };
    match (hop.on_failure, instance.place) {
        (FailurePolicy::Reroute, InstancePlace::There(_)) if by_tunnel => {
            serve_detour(hop, flow_hash, health)
        }
        (policy, InstancePlace::Here { .. }) if health.is_dead(instance.watch) => match policy {
            FailurePolicy::Unwatched => ordinary,
            FailurePolicy::Bypass => Ok(Choice { instance: first, turn: Turn::Bypass }),
            FailurePolicy::Block => Err(DropReason::FunctionDead),
            FailurePolicy::Reroute => {
                let is_left = |_: usize, other: &InstanceTable| !health.is_dead(other.watch);
                let next = hop.choose_among(flow_hash, is_left);
                let instance = next.ok_or(DropReason::FunctionDead)?;
                Ok(Choice { instance, turn: Turn::Detour })
            }
        },
        _ => ordinary,
    }
}

/// Another node has sent the packet here although the flow belongs to an instance elsewhere.
fn serve_detour(hop: &HopTable, flow_hash: u64, health: &Health) -> Result<Choice, DropReason> {
    let is_here = |instance: &InstanceTable| matches!(instance.place, InstancePlace::Here { .. });
    let is_live = |_: usize, other: &InstanceTable| is_here(other) && !health.is_dead(other.watch);
    if let Some(instance) = hop.choose_among(flow_hash, is_live) {
        return Ok(Choice { instance, turn: Turn::Detour });
    }
    let mut is_passed = [false; FUNCTION_INSTANCES_MAX];
    let mut has_passed_here = false;
    let is_left = |passed: &[bool], number: usize| passed.get(number) == Some(&false);
    while let Some(best) = hop.choose_among(flow_hash, |number, _| is_left(&is_passed, number)) {
        let node = hop.instances.get(best).map(|instance| instance.place);
        match node {
            Some(InstancePlace::There(_)) if has_passed_here => {
                return Ok(Choice { instance: best, turn: Turn::Detour });
            }
            Some(InstancePlace::There(node)) => {
                let same = |place| matches!(place, InstancePlace::There(other) if other == node);
                pass(hop, &mut is_passed, same);
            }
            _ => {
                has_passed_here |= matches!(node, Some(InstancePlace::Here { .. }));
                pass(hop, &mut is_passed, |place| !matches!(place, InstancePlace::There(_)));
            }
        }
    }
    // Without an instance here the node before sent it to the wrong place.
    Err(if has_passed_here { DropReason::FunctionDead } else { DropReason::PositionElsewhere })
}

fn pass(hop: &HopTable, is_passed: &mut [bool], is_same: impl Fn(InstancePlace) -> bool) {
    for (passed, instance) in is_passed.iter_mut().zip(&hop.instances) {
        *passed |= is_same(instance.place);
    }
}
