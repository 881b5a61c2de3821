//! The stages that a vector passes, one after the other (`Engine::forward_vector` is the list): each reads
//! how far its packets have come, and takes them a step further. Here, and nowhere else, is decided what becomes of a
//! packet.

pub(crate) mod answer;
pub(crate) mod answer_inside;
pub(crate) mod branch;
pub(crate) mod classify;
pub(crate) mod coalesce;
pub(crate) mod detour;
pub(crate) mod flooding;
pub(crate) mod forwarder;
pub(crate) mod fragments;
pub(crate) mod functions;
pub(crate) mod inquiries;
pub(crate) mod prober;
pub(crate) mod proxy;
pub(crate) mod receive;
pub(crate) mod segment_errors;
mod segmentation;
pub(crate) mod setup;
pub(crate) mod shaping;
pub(crate) mod shared_functions;
pub(crate) mod side_by_side;
pub(crate) mod slices;
pub(crate) mod switch;
pub(crate) mod tap;
pub(crate) mod telemetry;
mod wants;
