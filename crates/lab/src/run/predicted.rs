//! What is expected of chains whose datagrams are timed, as `catena chain show` tells it to anybody. Knows its answer;
//! refuses to calculate.

use crate::error::{LabError, Result};
use crate::up::RunningLab;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

const NS: f64 = 1e9;

/// What is expected of a chain at a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PredictedDelay {
    /// How its functions that stand together are asked: the words of the forms that hosts tell.
    pub forms: BTreeSet<String>,
    /// Mean delay, in nanoseconds; none: there is none.
    pub mean_ns: Option<f64>,
    /// Half of all packets take no longer, in nanoseconds.
    pub p50_ns: Option<f64>,
    /// 99 of 100 take no longer, in nanoseconds.
    pub p99_ns: Option<f64>,
    /// Packets a second that the chain carries at most.
    pub ceiling: Option<f64>,
    /// Is the time of each function measured, and not a default?
    pub is_measured: bool,
    /// Why there is no delay, in the word of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_delay: Option<String>,
}

/// Of a chain that stands, at so many packets a second.
pub(super) fn ask(running: &RunningLab, chain: &str, per_second: f64) -> Result<PredictedDelay> {
    let failed = |problem: String| LabError::Tool {
        tool: format!("catena chain show {chain}"),
        problem,
        advice: "call it while the lab is up (catena lab up), and read what it says".into(),
    };
    let program = std::env::current_exe()
        .map_err(|error| LabError::io("find", "this program's file", error))?;
    let mut command = Command::new(program);
    command.args(["--url", &format!("http://{}", running.api()), "chain", "show", chain]);
    command.args(["--why", "--rate", &per_second.to_string(), "--output", "json"]);
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("ended with {}: {}", output.status, said.trim())));
    }
    let told: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(format!("its answer is no JSON: {error}")))?;
    Ok(PredictedDelay::read(&told))
}

impl PredictedDelay {
    fn read(told: &Value) -> Self {
        let expected = &told["prediction"];
        let ns = |key: &str| expected[key].as_f64().map(|seconds| seconds * NS);
        let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let times = each(&expected["times"]);
        let ways = each(&told["why"]["ways"]).into_iter();
        let hops = ways.flat_map(|way| each(&way["hops"]));
        let hosts = hops.flat_map(|hop| each(&hop["forms"]));
        let form = |host: Value| host["choice"]["form"].as_str().map(str::to_owned);
        Self {
            forms: hosts.filter_map(form).collect(),
            mean_ns: ns("mean_s"),
            p50_ns: ns("p50_s"),
            p99_ns: ns("p99_s"),
            ceiling: expected["ceiling"]["per_second"].as_f64(),
            is_measured: !times.is_empty()
                && times.iter().all(|one| one["time"]["source"] == "measured"),
            no_delay: expected["no_delay"].as_str().map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_answer_is_read() {
        let times = json!([
            {"function": "ids", "time": {"source": "measured", "mean_s": 1e-3}},
            {"function": "edge", "time": {"source": "default", "mean_s": 1e-6}},
        ]);
        let mut told = json!({
            "prediction": {"mean_s": 0.002, "p50_s": 0.0015, "p99_s": null, "no_delay": null,
                "ceiling": {"per_second": 990.5}, "times": times},
            "why": {"ways": [{"hops": [
                {"forms": [{"choice": {"form": "fork"}}, {"choice": null}]}, {"forms": []}]}]},
        });
        let read = PredictedDelay::read(&told);
        assert_eq!((read.mean_ns, read.p50_ns, read.p99_ns), (Some(2e6), Some(1.5e6), None));
        assert_eq!((read.ceiling, read.no_delay.as_deref()), (Some(990.5), None));
        assert_eq!(read.forms.iter().collect::<Vec<_>>(), ["fork"]);
        assert!(!read.is_measured);
        told["prediction"]["times"][1]["time"]["source"] = json!("measured");
        assert!(PredictedDelay::read(&told).is_measured);
        assert_eq!(PredictedDelay::read(&json!({})), PredictedDelay::default());
    }
}
