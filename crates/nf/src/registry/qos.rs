//! What markers, policers and shapers are told, and whoever works for experiments. Refuses to know what classes mean.

use super::{Bundled, ConfigError, File, Made, Surroundings, settings};
use crate::marker::Marker;
use crate::policer::Policer;
use crate::shaper::Shaper;
use crate::work::Work;
use catena_rules::qos::{self, QosConfig, QosKind};
use catena_rules::work;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    file: File,
}

fn read(config: &str, kind: QosKind) -> Result<QosConfig, ConfigError> {
    let Settings { file: File { name, text } } = settings(config)?;
    qos::read(&text, &name, kind).map_err(|error| ConfigError(error.to_string()))
}

pub(super) fn marker(config: &str, _: &Surroundings) -> Made {
    Ok(Bundled::of(Marker::new(&read(config, QosKind::Marker)?)))
}

pub(super) fn policer(config: &str, _: &Surroundings) -> Made {
    Ok(Bundled::of(Policer::new(&read(config, QosKind::Policer)?)))
}

pub(super) fn shaper(config: &str, _: &Surroundings) -> Made {
    Ok(Bundled::of(Shaper::new(&read(config, QosKind::Shaper)?)))
}

pub(super) fn work(config: &str, _: &Surroundings) -> Made {
    let Settings { file: File { name, text } } = settings(config)?;
    let config = work::read(&text, &name).map_err(|error| ConfigError(error.to_string()))?;
    Ok(Bundled::of(Work::new(&config)))
}
