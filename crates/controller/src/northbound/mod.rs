//! The HTTP server: one server for networking-sfc (`/v2.0`), the native API (`/v1`) and metrics.
//!
//! Knows what it is made of. Refuses to know anything else: each dialect gives its routes, `gate` who
//! passes to them, `serve` the connections.

mod answers;
mod app;
mod body;
mod call;
mod drafts;
mod gate;
mod hosts;
mod names;
mod native;
mod networking_sfc;
pub(crate) mod otlp;
mod otlp_counters;
mod packing;
mod quotas;
mod routes;
mod rule_sets;
mod seats;
mod serve;
mod templates;

pub(crate) use app::App;
pub use gate::routes;
pub(crate) use quotas::Quotas;
pub use routes::{Access, Route};
pub(crate) use rule_sets::watch as watch_rule_sets;
pub(crate) use seats::Seats;
pub(crate) use serve::serve;
