//! The configuration of a function that does nothing but work, for experiments: what it does with each packet, and
//! how long that takes.
//!
//! Knows keys and bounds. Refuses to draw, to wait and to compute: text in YAML or JSON comes in, a [`WorkConfig`]
//! or a [`RuleError`] goes out.

#[cfg(test)]
mod tests;

use crate::check;
use crate::error::RuleError;
use crate::options::ReadOptions;
use crate::refusal::Refusal;
use catena_model::limits::FUNCTION_HELD_PACKETS_MAX;
use serde::Deserialize;

/// The longest mean of a time: a minute.
const MEAN_NS_MAX: u64 = 60_000_000_000;
/// The most iterations for a packet in the mean: some seconds of a processor.
const MEAN_ITERATIONS_MAX: u64 = 10_000_000_000;

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkConfig {
    /// The work.
    pub work: Work,
    /// Where what is drawn begins.
    pub seed: u64,
}

/// What is done with each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It waits for a drawn time, in nanoseconds, one packet after the other.
    Waits {
        /// How long.
        draw: Draw,
        /// Packets that may be there at once; what comes then ends.
        queue: usize,
    },
    /// The processor is kept busy for a drawn number of iterations.
    Computes {
        /// How many.
        draw: Draw,
    },
}

/// What numbers are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The distribution.
    pub distribution: Distribution,
    /// Its mean.
    pub mean: u64,
}

/// Distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Always the mean.
    Fixed,
    /// That of the time between events that know nothing of one another.
    Exponential,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    waits: Option<WaitsText>,
    computes: Option<ComputesText>,
    #[serde(default)]
    seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitsText {
    distribution: Distribution,
    mean_ns: u64,
    queue: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ComputesText {
    distribution: Distribution,
    mean_iterations: u64,
}

/// Reads a configuration in YAML or JSON; `file` is what messages call it.
///
/// # Errors
/// When it is malformed, with its line; or when it says nothing to do, or too much.
pub fn read(text: &str, file: &str) -> Result<WorkConfig, RuleError> {
    let document: Document = check::document(text, file, "work")?;
    let options = ReadOptions { file: file.to_owned(), ..ReadOptions::default() };
    let seed = document.seed;
    let work = document.read().map_err(|refusal| refusal.at(0, &options))?;
    Ok(WorkConfig { work, seed })
}

impl Document {
    fn read(self) -> Result<Work, Refusal> {
        match (self.waits, self.computes) {
            (Some(WaitsText { distribution, mean_ns, queue }), None) => {
                let mean = within("mean_ns", mean_ns, MEAN_NS_MAX)?;
                within("queue", queue as u64, FUNCTION_HELD_PACKETS_MAX as u64)?;
                Ok(Work::Waits { draw: Draw { distribution, mean }, queue })
            }
            (None, Some(ComputesText { distribution, mean_iterations })) => {
                let mean = within("mean_iterations", mean_iterations, MEAN_ITERATIONS_MAX)?;
                Ok(Work::Computes { draw: Draw { distribution, mean } })
            }
            _ => Err(Refusal::wrong("it wants one thing to do", "write 'waits' or 'computes'")),
        }
    }
}

fn within(key: &str, number: u64, most: u64) -> Result<u64, Refusal> {
    if (1..=most).contains(&number) {
        return Ok(number);
    }
    Err(Refusal::wrong(format!("{key} is {number}"), format!("write 1 to {most}")))
}
