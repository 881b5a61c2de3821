//! The kernel's fast path: what the engine has decided for a flow, repeated by a tc program at the
//! ports, so that packets between kernel-attached functions never leave the kernel.
//!
//! Knows a list of at most [`OPERATIONS_MAX`] operations and nothing else. Refuses to know rules,
//! paths and networks: there is one implementation of the semantics, the engine's.
//!
//! The privileged side loads the [`Program`], attaches it to interfaces and gives the descriptors of
//! its tables away; the other side builds [`Tables`] from them and alone writes transforms.

mod dump;
mod header;
#[cfg(feature = "program")]
mod loader;
mod maps;
mod punt;
mod queues;
mod records;
pub mod reference;
mod sight;
mod tables;
mod template;
mod transform;
mod transits;

pub use header::header;
#[cfg(feature = "program")]
pub use loader::{Hook, LoadError, Program, Rehearsal, Sizes, Verdict};
pub use punt::{PuntTag, PuntedFrom};
pub use queues::Queues;
pub use records::{
    Account, Entry, Event, GATE_OPEN, PORT_NUMBER_MAX, Port, Queue, Settings, Slot, Transit,
    UNDERLAY_NUMBER, UNDERLAY_SHARES,
};
pub use sight::{Sight, TunnelFrame};
pub use tables::{Gate, TABLE_NAMES, TABLES_COUNT, TableError, Tables};
pub use template::{OuterHeader, segments_template};
pub use transform::{
    FLAG_COUNTED, FLAG_PUSHES, FLAG_UNMARKED_ONLY, FLAG_UNTAGGED_ONLY, FlowKey, GUARDS_MAX, Guard,
    HEADER_BYTES_MAX, KERNEL_TAG, Kind, OPERATIONS_MAX, Operation, Origin, TEMPLATE_BYTES_MAX,
    Transform, TransformError,
};
pub use transits::{PASSES_MAX, Transits, Way};
