//! The vocabulary of lab files: from a YAML file to a lab that makes sense, or to an error that
//! names file, line, key and remedy. Knows no addresses and runs nothing.

mod beside;
mod bundled;
mod check;
mod compared;
mod document;
mod error;
mod faults;
mod lab;
mod links;
mod load;
mod ordered;
mod programs;
mod routers;
mod rule_sets;
mod switches;
mod threads;
mod topology;
mod units;
mod updates;
mod users;
mod validate;
mod validate_run;
mod validate_traffic;

pub use bundled::Bundled;
pub(crate) use bundled::denies_beside;
pub use check::{Claim, FunctionCount, Metric, Relation, Statement};
pub(crate) use compared::{chains_with, counts_what_ends, ports_of, rules_of, tells};
pub use error::LabFileError;
pub use faults::{CableFault, Ending, FaultKind, Kill};
pub(crate) use lab::Families;
pub use lab::{
    Arrivals, Endpoint, Equipment, Function, Lab, LabChain, Link, LinkEnd, Load, LoadShare,
    Network, NodeCable, Plot, PlotKind, Sweep, Tool, Traffic,
};
pub use ordered::Ordered;
pub use programs::{Call, CommandLine, Expectation, Program, Sign};
pub(crate) use routers::Subnets;
pub use rule_sets::RuleSet;
pub use threads::FunctionThreads;
pub use units::{BitRate, Seconds};
pub use updates::{ChangeKind, Updates, Version};
pub(crate) use users::HOPS_OF_SLICE;
pub use users::{Flood, Plain, Tenant, Users};

use std::path::Path;

#[cfg(test)]
mod tests;

impl Lab {
    /// Reads a lab file and all that it extends; with `is_full`, its `full:` part laid over.
    ///
    /// # Errors
    /// What is wrong with it, where, and what to do.
    pub fn read(file: &Path, is_full: bool) -> Result<Self, LabFileError> {
        Self::understand(&load::load(file, is_full)?, file)
    }

    /// Reads what [`Lab::merged`] holds, without the files that it came from.
    pub(crate) fn reread(file: &Path, merged: String) -> Result<Self, LabFileError> {
        Self::understand(&load::reload(file, merged)?, file)
    }

    fn understand(loaded: &load::Loaded, file: &Path) -> Result<Self, LabFileError> {
        validate::lab_of(loaded, file).map_err(|fault| {
            // The file that knows the longest part of the key sets it; of two, the extending one.
            let place = loaded
                .sources
                .iter()
                .rev()
                .filter_map(|(file, text)| Some((file, error::line_of(text, &fault.key)?)))
                .max_by_key(|(_, (depth, _))| *depth);
            LabFileError {
                file: place.map_or_else(|| file.to_path_buf(), |(file, _)| file.clone()),
                line: place.map(|(_, (_, line))| line),
                key: fault.key,
                problem: fault.problem,
                advice: fault.advice,
            }
        })
    }
}
