//! The planner as a whole: what it makes of what is declared and of what nodes say.

mod changes;
mod detours;
mod fabric;
mod fields;
mod followed;
mod golden;
mod graphs;
mod index;
mod losses;
mod meetings;
mod oracle;
mod pins;
mod placement;
mod port_numbers;
mod preview;
mod profiles;
mod properties;
mod rig;
mod slice_checks;
mod slice_drain;
mod slices;
mod source_routes;
mod steps;
mod stored;
mod touched;
mod ways;
