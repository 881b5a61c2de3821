//! Fat trees in process, run by the real planner: every node tells what it finds and runs what it is told, at once.
//! Knows trees, tenants and chains; refuses to know what is measured.

mod domain;
mod tenants;
mod tree;

pub(crate) use domain::Domain;
pub(crate) use tenants::{Place, Tenants};
pub(crate) use tree::FatTree;
