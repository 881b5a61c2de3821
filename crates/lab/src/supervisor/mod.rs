//! The life of a lab: started from outside (`start`), built and held from inside (`inside`,
//! `roles`, `control`), visited by its abstract socket (`visit`). Cleanup is by construction: all
//! of it lives in namespaces that end with their first process.

mod control;
mod inside;
mod protocol;
mod roles;
mod start;
mod state;
mod trust;
mod visit;

pub use inside::{init_main, supervise_main};
pub use protocol::{LabNode, LabProcess, LabStatus};
pub use start::{StartOptions, Started};
pub use visit::{Doorway, down, find, list, shell, status};
