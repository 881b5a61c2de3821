//! From the text that Prometheus scrapes to the messages of OTLP: the same figures under the same names and labels.
//! Knows both forms; refuses to know what is counted.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

const SERVICE: &str = "catena-controller";
/// What counters have behind their name in the text, and not in OTLP.
const COUNTER_SUFFIX: &str = "_total";
/// Units that names end with, by UCUM.
const UNITS: [(&str, &str); 2] = [("_seconds", "s"), ("_nanoseconds", "ns")];

/// What a collector is told of a text in the form of OpenMetrics, which was true at this time, in nanoseconds since
/// 1970.
///
/// When counters began is not said: nodes have counted since they started, and each of them another time.
pub(super) fn request(text: &str, now_ns: u64) -> ExportMetricsServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let attributes =
        vec![attribute("service.name", SERVICE), attribute("service.version", version)];
    let scope = InstrumentationScope {
        name: SERVICE.into(),
        version: version.into(),
        ..InstrumentationScope::default()
    };
    let scope_metrics = ScopeMetrics {
        scope: Some(scope),
        metrics: metrics(text, now_ns),
        ..ScopeMetrics::default()
    };
    let resource = Resource { attributes, ..Resource::default() };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![scope_metrics],
            ..ResourceMetrics::default()
        }],
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.into())) });
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}

fn metrics(text: &str, now_ns: u64) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for line in text.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            let (name, description) = said.split_once(' ').unwrap_or((said, ""));
            metrics.push(Metric {
                name: name.into(),
                description: description.into(),
                unit: unit(name).into(),
                ..Metric::default()
            });
        } else if let (Some(said), Some(metric)) =
            (line.strip_prefix("# TYPE "), metrics.last_mut())
        {
            metric.data = Some(match said.rsplit_once(' ') {
                Some((_, "counter")) => Data::Sum(Sum {
                    data_points: Vec::new(),
                    aggregation_temporality: AggregationTemporality::Cumulative.into(),
                    is_monotonic: true,
                }),
                _ => Data::Gauge(Gauge { data_points: Vec::new() }),
            });
        } else if !line.starts_with('#')
            && let Some(metric) = metrics.last_mut()
            && let Some(point) = point(&metric.name, line, now_ns)
        {
            match &mut metric.data {
                Some(Data::Sum(sum)) => sum.data_points.push(point),
                Some(Data::Gauge(gauge)) => gauge.data_points.push(point),
                _ => {}
            }
        }
    }
    // A metric that nobody has a figure of is none.
    metrics.retain(|metric| match &metric.data {
        Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
        _ => false,
    });
    metrics
}

fn unit(name: &str) -> &'static str {
    let found = UNITS.iter().find(|(suffix, _)| name.ends_with(suffix));
    found.map(|(_, unit)| *unit).unwrap_or_default()
}

/// A line of a metric: its labels and its value.
fn point(name: &str, line: &str, now_ns: u64) -> Option<NumberDataPoint> {
    let rest = line.strip_prefix(name)?;
    let rest = rest.strip_prefix(COUNTER_SUFFIX).unwrap_or(rest);
    let (attributes, value) = match rest.strip_prefix('{') {
        Some(labels) => labels_of(labels)?,
        None => (Vec::new(), rest),
    };
    let value = value.trim();
    let number = match value.parse::<i64>() {
        Ok(whole) => Number::AsInt(whole),
        Err(_) => Number::AsDouble(value.parse().ok()?),
    };
    Some(NumberDataPoint {
        attributes,
        time_unix_nano: now_ns,
        value: Some(number),
        ..NumberDataPoint::default()
    })
}

/// Labels up to the closing brace, and what follows it.
fn labels_of(mut rest: &str) -> Option<(Vec<KeyValue>, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (key, quoted) = rest.split_once("=\"")?;
        let (value, after) = unquoted(quoted)?;
        labels.push(attribute(key, &value));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
}

/// A value up to its closing quotation mark, and what follows that.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP catena_port_received_packets Taken from the port.
# TYPE catena_port_received_packets counter
catena_port_received_packets_total{node="h1",port="a\"} 7\n\\b, c=\"{"} 12
catena_port_received_packets_total{node="h2",port=""} 18446744073709551615
# HELP catena_unaccounted_packets What is left over.
# TYPE catena_unaccounted_packets gauge
catena_unaccounted_packets -3
# HELP catena_hop_delay_seconds How long.
# TYPE catena_hop_delay_seconds gauge
catena_hop_delay_seconds{quantile="0.5"} 0.000012
# HELP catena_links Nobody has any.
# TYPE catena_links counter
# EOF
"#;

    #[test]
    fn names_labels_and_figures_are_those_of_the_text() {
        let request = request(TEXT, 7);
        let [resource] = &request.resource_metrics[..] else { panic!("one resource") };
        let [scope] = &resource.scope_metrics[..] else { panic!("one scope") };
        let named: Vec<(&str, &str)> =
            scope.metrics.iter().map(|metric| (&*metric.name, &*metric.unit)).collect();
        let expected = [
            ("catena_port_received_packets", ""),
            ("catena_unaccounted_packets", ""),
            ("catena_hop_delay_seconds", "s"),
        ];
        assert_eq!(named, expected);
        let Some(Data::Sum(sum)) = &scope.metrics[0].data else { panic!("a counter") };
        assert_eq!((sum.is_monotonic, sum.aggregation_temporality), (true, 2));
        let [one, other] = &sum.data_points[..] else { panic!("two ports") };
        let labels = [("node", "h1"), ("port", "a\"} 7\n\\b, c=\"{")];
        assert_eq!(one.attributes, labels.map(|(key, value)| attribute(key, value)));
        assert_eq!((one.value, one.time_unix_nano), (Some(Number::AsInt(12)), 7));
        // More than a whole number of theirs holds.
        assert_eq!(other.value, Some(Number::AsDouble(u64::MAX as f64)));
        let gauges = scope.metrics[1..].iter().map(|metric| match &metric.data {
            Some(Data::Gauge(gauge)) => gauge.data_points[0].value,
            other => panic!("{other:?}"),
        });
        let expected = [Number::AsInt(-3), Number::AsDouble(0.000_012)].map(Some);
        assert_eq!(gauges.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_text_makes_it_panic() {
        for end in 0..TEXT.len() {
            let text = TEXT.get(..end).unwrap_or_default();
            request(text, 0);
        }
        for line in ["{", "a{", "a{b", "a{b=\"", "a{b=\"\\", "a{b=\"c\"", "a{b=\"c\"} x", "a x"] {
            let text = format!("# HELP a b\n# TYPE a counter\n{line}\n");
            assert!(request(&text, 0).resource_metrics[0].scope_metrics[0].metrics.is_empty());
        }
    }
}
