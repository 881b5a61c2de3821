//! Who makes values of functions: whoever forwards packets has no time to, and starts no processes. Refuses to know
//! what a function does.

use catena_model::bundle::Configuration;
use catena_nf::Function;
use catena_nf::registry::Surroundings;
use std::fmt::Debug;

/// Makes values of functions for engines.
pub trait Makers: Debug + Send + Sync {
    /// A function in a process of its own, which runs.
    ///
    /// # Errors
    /// No process can be started, or it refuses the configuration: why, in words for people.
    fn beside(
        &self,
        configuration: &Configuration,
        surroundings: &Surroundings,
    ) -> Result<Box<dyn Function>, String>;

    /// Does this soon, on a thread of its own; false: it has failed, and nothing is tried for a while.
    fn soon(&self, task: Box<dyn FnOnce() -> bool + Send>);
}
