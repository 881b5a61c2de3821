//! What markers and policers are told. Refuses to know what classes mean.

use super::{Bundled, ConfigError, File, Made, Surroundings, settings};
use crate::marker::Marker;
use crate::policer::Policer;
use catena_rules::qos::{self, QosConfig, QosKind};
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
