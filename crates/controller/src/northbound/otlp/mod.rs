//! Tells a collector of OpenTelemetry at intervals what `/metrics` says (OTLP over HTTP, protobuf). Knows where it is
//! and what it answers; refuses to know what the figures mean.
//!
//! Counters are cumulative: what a collector misses of one telling is in the next, so nothing is kept for it.

mod convert;

use super::app::App;
use super::native::metrics;
use crate::config::Otlp;
use crate::error::ControllerError;
use crate::wall_clock;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

const PROTOBUF: &str = "application/x-protobuf";
/// How long a collector may take to answer (the default of the specification's exporters).
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Most of an answer that is read.
const ANSWER_BYTES_MAX: usize = 4_096;

/// Exports until the returned future is dropped; where nobody is to be told, it waits for ever.
pub(crate) async fn export(app: Arc<App>, otlp: Option<Otlp>) -> Result<(), ControllerError> {
    let Some(Otlp { endpoint, interval }) = otlp else { return std::future::pending().await };
    let http = Client::builder().timeout(ANSWER_WAIT).no_proxy();
    let http = http.redirect(reqwest::redirect::Policy::none()).build();
    let wrong = |reason: String| ControllerError::Otlp { endpoint: endpoint.to_string(), reason };
    let http = http.map_err(|error| wrong(error.to_string()))?;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = None;
    loop {
        ticks.tick().await;
        let outcome = export_once(&app, &http, &endpoint).await;
        let counters = &app.otlp;
        match &outcome {
            Ok(Taken { rejected, .. }) => counters.took(*rejected),
            Err(_) => counters.failed(),
        }
        let said = match &outcome {
            Ok(Taken { rejected: 0, .. }) => Ok(()),
            Ok(Taken { why, .. }) => Err(format!("it rejected some of the figures: {why}")),
            Err(why) => Err(why.clone()),
        };
        // Once for each change, and not once for each interval.
        if before.as_ref() != Some(&said) {
            match &said {
                Ok(()) => tracing::info!(%endpoint, "metrics are exported by OTLP"),
                Err(why) => tracing::warn!(%endpoint, "metrics are not exported by OTLP: {why}"),
            }
            counters.say(said.as_ref().err().cloned());
            before = Some(said);
        }
    }
}

/// What a collector said of a request that it took.
struct Taken {
    rejected: u64,
    why: String,
}

async fn export_once(app: &App, http: &Client, endpoint: &Url) -> Result<Taken, String> {
    let text = metrics::text(&metrics::Known::now(app)).await;
    let request = convert::request(&text, wall_clock::now_ns());
    let body = request.encode_to_vec();
    let asked = http.post(endpoint.clone()).header(CONTENT_TYPE, PROTOBUF).body(body);
    let mut answer = asked.send().await.map_err(|error| reasons(&error))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("it answers {status}"));
    }
    let mut said = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|error| reasons(&error))? {
        said.extend_from_slice(&part);
        if said.len() > ANSWER_BYTES_MAX {
            return Err("its answer is none of OTLP".into());
        }
    }
    let said = ExportMetricsServiceResponse::decode(said.as_slice());
    let said = said.map_err(|_| "its answer is none of OTLP".to_owned())?;
    let partial = said.partial_success.unwrap_or_default();
    let rejected = u64::try_from(partial.rejected_data_points).unwrap_or(0);
    let printable = |character: &char| !character.is_control();
    let why = partial.error_message.chars().filter(printable).take(200).collect();
    Ok(Taken { rejected, why })
}

/// An error with what it comes from.
fn reasons(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
