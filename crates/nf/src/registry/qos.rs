//! What markers, policers and shapers are told, and whoever works for experiments. Refuses to know what classes mean.

use super::{Bundled, ConfigError, ELSEWHERE, File, Made, Surroundings, settings, waits};
use crate::marker::Marker;
use crate::policer::Policer;
use crate::shaper::Shaper;
use crate::work::Work;
use catena_model::limits::WORK_INSIDE_ITERATIONS_MAX;
use catena_rules::qos::{self, QosConfig, QosKind};
use catena_rules::work as rules;
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
    Ok(Bundled::of(Work::new(&read_work(config)?)))
}

/// One that a data plane has a turn for.
pub(super) fn work_inside(config: &str, surroundings: &Surroundings) -> Made {
    match read_work(config)?.work {
        rules::Work::Waits { .. } => Err(waits("work")),
        rules::Work::Computes { draw } if draw.mean > WORK_INSIDE_ITERATIONS_MAX => {
            let mean = draw.mean;
            Err(ConfigError(format!(
                "mean_iterations is {mean}, and a data plane has turns for at most {WORK_INSIDE_ITERATIONS_MAX}: \
                 say less, or {ELSEWHERE}"
            )))
        }
        rules::Work::Computes { .. } => work(config, surroundings),
    }
}

fn read_work(config: &str) -> Result<rules::WorkConfig, ConfigError> {
    let Settings { file: File { name, text } } = settings(config)?;
    rules::read(&text, &name).map_err(|error| ConfigError(error.to_string()))
}
