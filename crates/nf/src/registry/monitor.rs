//! What a monitor is told. Refuses to know what flows are.

use super::{Bundled, ConfigError, Made, Surroundings, settings};
use crate::monitor::{Monitor, MonitorConfig};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Where its messages shall go.
    #[serde(default)]
    ipfix: Option<String>,
    /// The observation domain of its messages.
    #[serde(default)]
    domain: Option<u32>,
    /// Seconds from which on a record ends though packets come.
    #[serde(default)]
    active_seconds: Option<u32>,
    /// Seconds without a packet behind which a record ends.
    #[serde(default)]
    idle_seconds: Option<u32>,
}

pub(super) fn make(config: &str, surroundings: &Surroundings) -> Made {
    let Settings { ipfix, domain, active_seconds, idle_seconds } = settings(config)?;
    if let Some(collector) = ipfix {
        // Nothing carries messages out of a data plane: a collector that waits for them would wait for ever.
        return Err(ConfigError(format!(
            "'ipfix' names the collector {collector}, and nothing sends messages of functions of a chain to \
             collectors yet; leave it out, or run `catena nf run monitor --ipfix {collector}` between two interfaces"
        )));
    }
    let defaults = MonitorConfig::default();
    let monitor = Monitor::new(MonitorConfig {
        domain: domain.unwrap_or(defaults.domain),
        active_seconds: active_seconds.unwrap_or(defaults.active_seconds),
        idle_seconds: idle_seconds.unwrap_or(defaults.idle_seconds),
        epoch_seconds: surroundings.epoch_seconds,
        seed: surroundings.seed,
        ..defaults
    });
    let monitor = monitor.map_err(|error| ConfigError(error.to_string()))?;
    Ok(Bundled { function: Box::new(monitor), remarks: Vec::new() })
}
