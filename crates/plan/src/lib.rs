//! From what operators declare to what each node must run.
//!
//! Pure: the same intent, inventory and former blueprint give the same next blueprint, byte for
//! byte. Knows no clock, no store and no network. Deciding happens here and nowhere else: whoever
//! carries a blueprint out has no choice left.
//!
//! A path is made before the one it replaces is broken: first every node learns the new path, then
//! the classifiers turn to it, then the drained old path goes away. Each step is a blueprint.
#![forbid(unsafe_code)]

// The tests of the data plane share the world of these tests, and know this crate by its name.
#[cfg(test)]
extern crate self as catena_plan;

mod advance;
mod atlas;
mod blueprint;
mod borders;
mod cables;
mod check;
mod compare;
mod counts;
mod devices;
mod drain;
mod error;
mod flow_setup;
mod graph;
mod headers;
mod index;
mod intent;
mod inventory;
mod ledger;
mod link;
mod locators;
mod next;
mod observed;
mod onward;
mod openflow;
mod packing;
pub mod parallelism;
mod paths;
mod pins;
mod place;
mod placement;
pub mod policy;
mod port_numbers;
pub mod prediction;
mod preview;
mod programs;
pub mod queueing;
mod receipt;
mod reconcile;
mod render;
pub mod route;
mod routing;
mod segments;
mod selector;
mod sends;
mod slices;
mod status;
#[cfg(test)]
mod tests;
pub mod topology;
mod touched;
mod via;
mod way_detours;
mod way_mtus;
mod ways;

pub use blueprint::Blueprint;
pub use borders::{BorderBooks, NodeBorders, Stitch, StitchBooks, WayBorder};
pub use cables::{Cables, ToldLinks, cables, link_reports};
pub use compare::compare;
pub use devices::Devices;
pub use drain::{
    Asked, Counted, DRAIN_INTERVAL, DRAIN_INTERVAL_MIN, DRAIN_WAIT_MAX, DrainWatch, PIN_WAIT_MAX,
    rewriting,
};
pub use error::PlanError;
pub use flow_setup::answer_flow;
pub use headers::path_headers;
pub use index::{Index, IndexedIntent, Resource, overlap, tuples_overlap};
pub use intent::{Intent, Table};
pub use inventory::{Inventory, NodeFacts};
pub use ledger::{
    Direction, Ledger, PathPhase, PathRecord, Pin, PlacedPort, PlacedRule, SliceReach,
};
pub use next::{converged, draining, next};
pub use observed::{FunctionWatch, Observed, Silent};
pub use openflow::{PathFamilies, node_openflow, openflow, path_families};
pub use packing::{Assignment, Packed, SEARCHED_INSTANCES_MAX, Unplaced, packing, taken};
pub use paths::Paths;
pub use placement::{PLACEMENT_HOSTS_MAX, PROVED_FUNCTIONS_MAX, placements};
pub use port_numbers::{GivenPathlet, Identities, NumberBooks, PortNumbers, RestingNumber};
pub use preview::{is_for_operators, preview};
pub use programs::Programs;
pub use receipt::Changes;
pub use reconcile::{News, NodeNews, Planned, Reconciler};
pub use render::why_unbound;
pub use routing::path_routes;
pub use segments::{FunctionAt, InstanceAt};
pub use slices::{
    SliceBlock, SliceBook, SliceDrainWatch, SlicePath, SlicePhase, is_slice_withdrawn,
    slice_status, slices_draining,
};
pub use status::{can_be_laid, chain_status, drain_reason, is_withdrawn};
pub use way_detours::{DetourBooks, NodeDetours, WayDetour, WayDetours};
pub use way_mtus::{LinkMtus, MtuBooks, NodeMtus};
pub use ways::{NodeWays, WayBooks};
