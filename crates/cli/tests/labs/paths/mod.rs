//! Paths of chains that are made, changed and removed through the networking-sfc API alone, as an
//! OpenStack client does it, proved by captures at every function and end.

mod aware;
mod balance;
mod classifiers;
mod graphs;
mod nat;
mod reading;
mod scenarios;
mod stage;
mod witness;
