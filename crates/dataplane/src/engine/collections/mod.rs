//! Tables and lists that the engine keeps things in: persistent where copies share what they have in
//! common, bounded where others fill them, fair where several share one. Knows keys and numbers alone; refuses to
//! know packets and programs.

pub(crate) mod histogram;
pub(crate) mod lists;
pub(crate) mod pages;
pub(crate) mod places;
pub(crate) mod rendezvous;
pub(crate) mod shares;
pub(crate) mod sharing;
pub(crate) mod short_keys;
