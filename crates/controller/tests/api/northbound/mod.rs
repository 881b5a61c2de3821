//! What the API answers, over real HTTP: networking-sfc and the native one, what nodes hear of it, and
//! crowds of clients.

mod bulk;
mod bundled;
mod changes;
mod concurrency;
mod connections;
mod delays;
mod envelope;
mod explain;
mod fields;
mod forget;
mod graphs;
mod instances;
mod links;
mod lists;
mod model;
mod moves;
mod native;
mod observed;
mod origins;
mod packing;
mod places;
mod plans;
mod quotas;
mod recorded_client;
mod roles;
mod rule_sets;
mod setups;
mod slices;
mod stamps;
mod steering;
mod surprises;
mod telemetry;
mod telling;
mod translators;
mod validation;
