//! What is expected of a chain, for people and for programs. Knows words and units; refuses to judge.

use super::{Expected, Run, Watched};
use catena_model::NodeName;
use catena_plan::prediction::{
    Ceiling, CoreLoad, Delay, EstimateSource, FunctionLoad, Quantiles, RateSource, ServiceEstimate,
    Shares,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// How means are calculated.
const MODEL: &str = "M/G/1, Pollaczek-Khinchine";
const RATE_SOURCES: [(RateSource, &str); 2] =
    [(RateSource::Given, "given"), (RateSource::Measured, "measured")];

/// For people, line by line.
pub(crate) fn lines(expected: &Expected) -> Vec<String> {
    let prediction = &expected.prediction;
    let rate = prediction.rate.map_or_else(String::new, |rate| {
        let by = source(rate.source);
        format!(" at {} packets a second ({by})", count(rate.per_second))
    });
    let mut lines = vec![format!("expected of chain {}{rate}", expected.chain)];
    let mut tell = |what: &str, text: String| lines.push(format!("  {what:<10} {text}"));
    tell("delay", delay(expected));
    if let Some(run) = &expected.simulated {
        tell("simulated", simulated(run));
    }
    if let Some(ceiling) = &prediction.ceiling {
        tell("ceiling", ceiling_in_words(ceiling, &prediction.untimed));
    }
    if !prediction.nodes.is_empty() {
        tell("processor", joined(prediction.nodes.iter().map(load)));
    }
    tell("times", times(expected));
    if let Some(watched) = &expected.watched {
        tell("measured", measured(watched));
    }
    lines
}

/// What is said beside several chains that come to the same nodes; none: no two do.
pub(crate) fn shared(all: &[Expected]) -> Option<String> {
    let mut chains: BTreeMap<&NodeName, usize> = BTreeMap::new();
    for load in all.iter().flat_map(|expected| &expected.prediction.nodes) {
        if let Some(node) = &load.node {
            *chains.entry(node).or_default() += 1;
        }
    }
    let several = chains.into_iter().filter(|(_, count)| *count > 1);
    let several: Vec<&str> = several.map(|(node, _)| node.as_str()).collect();
    let nodes = several.join(", ");
    (!several.is_empty()).then(|| {
        format!("several of these chains share {nodes}: each is told as if it had the node alone")
    })
}

fn source(source: RateSource) -> &'static str {
    RATE_SOURCES.iter().find(|(known, _)| *known == source).map_or("", |(_, name)| name)
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn delay(expected: &Expected) -> String {
    let prediction = &expected.prediction;
    match &prediction.delay {
        Delay::Known { mean_s, quantiles } => {
            let mean = format!("mean {} ({MODEL})", seconds(*mean_s));
            match quantiles {
                Quantiles::Exact(shares) => format!("{mean}, {} (exact)", quantities(shares)),
                Quantiles::Simulated { shares, packets, .. } => {
                    format!("{mean}, {} (of {packets} simulated packets)", quantities(shares))
                }
                Quantiles::Unknown(reason) => {
                    format!("{mean}; p50, p95 and p99 are not known: {}", reason.in_words())
                }
            }
        }
        Delay::NoRate if expected.watched.is_some() => {
            "none: no packet came while it was watched".into()
        }
        Delay::NoRate => {
            "none without a rate: say with --rate how many packets come a second".into()
        }
        Delay::Unstable => "none: more come than can be served, and queues grow for ever".into(),
        Delay::Untimed => {
            let names = prediction.untimed.join(", ");
            format!("none: nobody knows how long {names} takes; data planes time what is inside")
        }
    }
}

fn quantities(shares: &Shares) -> String {
    let Shares { p50_s, p95_s, p99_s } = *shares;
    format!("p50 {}, p95 {}, p99 {}", seconds(p50_s), seconds(p95_s), seconds(p99_s))
}

fn simulated(run: &Run) -> String {
    match &run.met {
        Ok((mean_s, shares)) => format!(
            "mean {}, {} (of {} packets, seed {})",
            seconds(*mean_s),
            quantities(shares),
            run.packets,
            run.seed
        ),
        Err(reason) => format!("not: {}", reason.in_words()),
    }
}

fn ceiling_in_words(ceiling: &Ceiling, untimed: &[String]) -> String {
    let Ceiling { per_second, node, thread, seconds: taken, function, function_s } = ceiling;
    let least = match untimed {
        [] => String::new(),
        some => format!(", or what {} carries, if that is less", some.join(", ")),
    };
    format!(
        "at most {} packets a second: {} is busy then, {} for each; of its functions {function} takes the most \
         ({}){least}",
        count(*per_second),
        match thread {
            Some(_) => format!("a thread of {}", host(node.as_ref())),
            None => host(node.as_ref()).to_owned(),
        },
        seconds(*taken),
        seconds(*function_s)
    )
}

fn host(node: Option<&NodeName>) -> &str {
    node.map_or("a core", NodeName::as_str)
}

fn load(load: &CoreLoad) -> String {
    let taken = seconds(load.seconds_per_packet);
    match load.busy_cores {
        Some(busy) => {
            format!("{} {} cores ({taken} a packet)", host(load.node.as_ref()), cores(busy))
        }
        None => format!("{} {taken} a packet", host(load.node.as_ref())),
    }
}

fn times(expected: &Expected) -> String {
    let functions = expected.load.stages.iter().flatten();
    let function = |function: &FunctionLoad| match &function.service {
        Some(service) => format!("{} {}", function.name, time(service)),
        None => format!("{} not known", function.name),
    };
    let steering = expected.load.steering.iter();
    let steering = steering.map(|service| format!("data plane {} a visit", time(service)));
    joined(functions.map(function).chain(steering))
}

fn time(service: &ServiceEstimate) -> String {
    let mean = seconds(service.mean_s);
    match service.source {
        EstimateSource::Measured { packets } => {
            format!("{mean} (measured, {packets} packets, scv {:.2})", service.scv.value())
        }
        EstimateSource::Default => format!("{mean} (default)"),
    }
}

/// What counters say, and what they should.
fn measured(watched: &Watched) -> String {
    let Watched { seen, .. } = watched;
    let rate = seen.rate.map(|rate| format!("{} packets a second", count(rate)));
    let busy = |(node, busy): (&String, &f64)| {
        let expected = watched.expected(node);
        let expected = expected.map(|busy| format!(" ({} expected)", cores(busy)));
        format!("functions at {node} {} cores{}", cores(*busy), expected.unwrap_or_default())
    };
    let told = joined(rate.into_iter().chain(seen.busy.iter().map(busy)));
    let told = if told.is_empty() { "no node told counters twice".into() } else { told };
    format!("{told}; the delay is not measured")
}

impl Watched {
    /// Cores that functions should keep busy at a node; none: nobody knows.
    fn expected(&self, node: &str) -> Option<f64> {
        let mut functions = self.functions.iter();
        let is_there = |load: &&CoreLoad| load.node.as_ref().map_or("-", NodeName::as_str) == node;
        functions.find(is_there)?.busy_cores
    }

    fn json(&self) -> Value {
        let busy = |(node, busy): (&String, &f64)| {
            let cores = json!({"measured": busy, "expected": self.expected(node)});
            (node.clone(), cores)
        };
        let functions: Map<String, Value> = self.seen.busy.iter().map(busy).collect();
        json!({"rate": self.seen.rate, "busy_cores_in_functions": functions, "delay": null})
    }
}

/// With four digits and a unit.
pub(crate) fn seconds(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
    let fits = |unit: &&(f64, &str)| value >= unit.0;
    let (unit, name) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    format!("{} {name}", digits(value / unit))
}

/// Cores that are busy, with five digits behind the point.
fn cores(busy: f64) -> String {
    trimmed(format!("{busy:.5}"))
}

/// With four digits, or all before the point.
fn digits(value: f64) -> String {
    let behind = match value {
        large if large >= 1_000.0 => 0,
        hundreds if hundreds >= 100.0 => 1,
        tens if tens >= 10.0 => 2,
        _ => 3,
    };
    trimmed(format!("{value:.behind$}"))
}

/// Without zeros at the end of what is behind a point.
fn trimmed(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A number of packets; beyond what is counted, by its power of ten.
fn count(value: f64) -> String {
    if value >= 1e12 { format!("{value:.3e}") } else { digits(value) }
}

impl Expected {
    /// For programs: rates in packets a second, times in seconds; what is not known is null.
    pub(crate) fn json(&self) -> Value {
        let prediction = &self.prediction;
        let (mean_s, shares, by) = match &prediction.delay {
            Delay::Known { mean_s, quantiles } => match quantiles {
                Quantiles::Exact(shares) => (Some(*mean_s), Some(shares), json!("exact")),
                Quantiles::Simulated { shares, packets, seed } => {
                    let by = json!({"packets": packets, "seed": seed});
                    (Some(*mean_s), Some(shares), json!({"simulated": by}))
                }
                Quantiles::Unknown(reason) => (Some(*mean_s), None, json!(reason.in_words())),
            },
            _ => (None, None, Value::Null),
        };
        let why = match &prediction.delay {
            Delay::Known { .. } => None,
            Delay::NoRate => Some("no_rate"),
            Delay::Unstable => Some("unstable"),
            Delay::Untimed => Some("untimed"),
        };
        json!({
            "chain": self.chain,
            "rate": prediction.rate.map(|rate| rate.per_second),
            "rate_source": prediction.rate.map(|rate| source(rate.source)),
            "model": MODEL,
            "mean_s": mean_s,
            "p50_s": shares.map(|shares| shares.p50_s),
            "p95_s": shares.map(|shares| shares.p95_s),
            "p99_s": shares.map(|shares| shares.p99_s),
            "quantiles": by,
            "no_delay": why,
            "ceiling": prediction.ceiling.as_ref().map(ceiling_in_json),
            "nodes": prediction.nodes.iter().map(load_in_json).collect::<Vec<_>>(),
            "times": self.load.stages.iter().flatten().map(time_in_json).collect::<Vec<_>>(),
            "steering": self.load.steering.as_ref().map(estimate_in_json),
            "simulated": self.simulated.as_ref().map(run_in_json),
            "measured": self.watched.as_ref().map(Watched::json),
        })
    }
}

fn ceiling_in_json(ceiling: &Ceiling) -> Value {
    json!({
        "per_second": ceiling.per_second,
        "node": ceiling.node,
        "thread": ceiling.thread,
        "function": ceiling.function,
        "seconds_per_packet": ceiling.seconds,
        "function_seconds_per_packet": ceiling.function_s,
    })
}

fn load_in_json(load: &CoreLoad) -> Value {
    json!({
        "node": load.node,
        "seconds_per_packet": load.seconds_per_packet,
        "busy_cores": load.busy_cores,
    })
}

fn estimate_in_json(service: &ServiceEstimate) -> Value {
    let (source, packets) = match service.source {
        EstimateSource::Measured { packets } => ("measured", Some(packets)),
        EstimateSource::Default => ("default", None),
    };
    json!({
        "mean_s": service.mean_s,
        "scv": service.scv.value(),
        "source": source,
        "packets": packets,
    })
}

fn time_in_json(function: &FunctionLoad) -> Value {
    json!({"function": function.name, "time": function.service.as_ref().map(estimate_in_json)})
}

fn run_in_json(run: &Run) -> Value {
    let shares = run.met.as_ref().ok().map(|(_, shares)| shares);
    json!({
        "packets": run.packets,
        "seed": run.seed,
        "mean_s": run.met.as_ref().ok().map(|(mean_s, _)| mean_s),
        "p50_s": shares.map(|shares| shares.p50_s),
        "p95_s": shares.map(|shares| shares.p95_s),
        "p99_s": shares.map(|shares| shares.p99_s),
        "not": run.met.as_ref().err().map(|reason| reason.in_words()),
    })
}
