//! What a monitor is told. Refuses to know what flows are.

use super::{Bundled, ConfigError, Made, Surroundings, settings};
use crate::monitor::{Monitor, MonitorConfig};
use serde::Deserialize;

/// Bytes of a host's name at most (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 255;

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
    if let Some(collector) = &ipfix {
        check(collector)?;
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
    Ok(Bundled { collector: ipfix, ..Bundled::of(monitor) })
}

/// Is it a place that datagrams can be sent to?
fn check(collector: &str) -> Result<(), ConfigError> {
    let is_host = |host: &str| {
        let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        (1..=HOST_BYTES_MAX).contains(&host.len()) && host.bytes().all(is_named)
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let place = collector.rsplit_once(':').filter(|(host, port)| is_host(host) && is_port(port));
    place.map(drop).ok_or_else(|| {
        ConfigError(format!(
            "'ipfix' is '{collector}', which is no collector; give its host and its port of UDP, such as \
             collector:4739"
        ))
    })
}
