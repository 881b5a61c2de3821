//! What a collector of OpenTelemetry is told: the figures of `/metrics`, and that a collector that fails holds up
//! nothing.

use crate::support::agent::FakeAgent;
use crate::support::{Controller, PATIENCE, eventually, loopback, open};
use catena_controller::Otlp;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use prost::Message;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const OK: &str = "200 OK";

/// A collector that answers each request by the next of these, and the last one for ever; and what it was told.
fn collector(answers: Vec<(&'static str, Vec<u8>)>) -> (String, Receiver<(String, Vec<u8>)>) {
    let listener: TcpListener = loopback();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (told, heard) = channel();
    std::thread::spawn(move || {
        let mut number = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            loop {
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if reader.read_line(&mut head).unwrap_or(0) == 0 {
                        break;
                    }
                }
                let length = head.lines().find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
                });
                let Some(length) = length else { break };
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let (status, answer) = &answers[number.min(answers.len() - 1)];
                number += 1;
                let head_back =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", answer.len());
                stream.write_all(head_back.as_bytes()).unwrap();
                stream.write_all(answer).unwrap();
                if told.send((head, body)).is_err() {
                    return;
                }
            }
        }
    });
    (url, heard)
}

fn text_of(value: &KeyValue) -> (&str, &str) {
    match &value.value {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => (&value.key, text),
        other => panic!("{other:?}"),
    }
}

/// Every figure as a line of the text form.
fn lines(request: &ExportMetricsServiceRequest) -> BTreeSet<String> {
    let metrics = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    let line = |name: &str, suffix: &str, point: &NumberDataPoint| {
        let labels = point.attributes.iter().map(|label| {
            let (key, value) = text_of(label);
            format!("{key}=\"{value}\"")
        });
        let labels = labels.collect::<Vec<_>>().join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let value = match point.value {
            Some(Number::AsInt(whole)) => whole.to_string(),
            other => panic!("{other:?}"),
        };
        format!("{name}{suffix}{labels} {value}")
    };
    let of = |data: &Option<Data>| match data {
        Some(Data::Sum(sum)) => ("_total", sum.data_points.clone()),
        Some(Data::Gauge(gauge)) => ("", gauge.data_points.clone()),
        other => panic!("{other:?}"),
    };
    let mut lines = BTreeSet::new();
    for metric in metrics.flat_map(|scope| &scope.metrics) {
        let (suffix, points) = of(&metric.data);
        lines.extend(points.iter().map(|point| line(&metric.name, suffix, point)));
    }
    lines
}

/// All figures of a scrape but those of what was told itself.
fn scraped(controller: &Controller) -> BTreeSet<String> {
    let (http, url) = controller.raw();
    let text = http.get(format!("{url}/metrics")).send().unwrap().text().unwrap();
    let of_others = |line: &&str| !line.starts_with('#') && !line.starts_with("catena_otlp");
    text.lines().filter(of_others).map(str::to_owned).collect()
}

fn told_by(controller: &Controller, result: &str) -> u64 {
    let (http, url) = controller.raw();
    let text = http.get(format!("{url}/metrics")).send().unwrap().text().unwrap();
    let line = format!("catena_otlp_requests_total{{result=\"{result}\"}} ");
    text.lines().find_map(|told| told.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
}

fn start(data: &std::path::Path, url: &str) -> Controller {
    let mut config = open(data);
    config.otlp = Some(Otlp::new(url, Duration::from_millis(50)).unwrap());
    Controller::start(config)
}

#[test]
fn a_collector_is_told_what_a_scrape_is() {
    let (url, heard) = collector(vec![(OK, Vec::new())]);
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), &url);
    let _agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    controller.create("/v2.0/networks", &json!({"name": "n"}));
    let expected = eventually("a node", || {
        let scraped = scraped(&controller);
        scraped.contains("catena_node_connected{node=\"host1\"} 1").then_some(scraped)
    });
    let mut told = BTreeSet::new();
    eventually("the same figures", || {
        let (head, body) = heard.recv_timeout(PATIENCE).unwrap();
        let head = head.to_lowercase();
        assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        let request = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
        let resource = request.resource_metrics[0].resource.as_ref().unwrap();
        assert_eq!(text_of(&resource.attributes[0]), ("service.name", "catena-controller"));
        told = lines(&request);
        told.retain(|line| !line.starts_with("catena_otlp"));
        (told == expected).then_some(())
    });
    assert!(told_by(&controller, "exported") > 0);
    assert_eq!(told_by(&controller, "failed"), 0);
}

fn warnings(controller: &Controller) -> Vec<String> {
    let (http, url) = controller.raw();
    let status = http.get(format!("{url}/v1/status")).send().unwrap().text().unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    serde_json::from_value(status["warnings"].clone()).unwrap()
}

#[test]
fn a_collector_that_fails_is_counted_and_holds_up_nothing() {
    let partial =
        ExportMetricsPartialSuccess { rejected_data_points: 3, error_message: "no".into() };
    let partial = ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    let busy = ("503 Service Unavailable", Vec::new());
    let answers = vec![busy, (OK, vec![0xff; 9]), (OK, partial), (OK, Vec::new())];
    let (url, heard) = collector(answers);
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), &url);
    for _ in 0..4 {
        heard.recv_timeout(PATIENCE).unwrap();
    }
    controller.create("/v2.0/networks", &json!({"name": "n"}));
    eventually("what failed, and what did not", || {
        let (failed, told) = (told_by(&controller, "failed"), told_by(&controller, "exported"));
        (failed == 2 && told >= 2).then_some(())
    });
    let (http, url) = controller.raw();
    let text = http.get(format!("{url}/metrics")).send().unwrap().text().unwrap();
    assert!(text.contains("\ncatena_otlp_points_total{result=\"rejected\"} 3\n"), "{text}");
    eventually("nothing is amiss any more", || warnings(&controller).is_empty().then_some(()));
}

#[test]
fn who_cannot_be_told_is_refused_with_the_reason() {
    let second = Duration::from_secs(1);
    for (wrong, why) in [
        ("127.0.0.1:4318", "relative URL"),
        ("https://127.0.0.1:4318", "plain http"),
        ("http://127.0.0.1:4318/?a=b", "plain http"),
        ("http://", "host"),
        ("http://admin:secret@127.0.0.1:4318", "user"),
    ] {
        let said = Otlp::new(wrong, second).unwrap_err().to_string();
        assert!(said.contains(why) && said.contains("--otlp-endpoint"), "{wrong}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
    assert!(Otlp::new("http://127.0.0.1:4318", Duration::ZERO).is_err());
    assert!(Otlp::new("http://[::1]:4318/otlp/", second).is_ok());
    // Nobody is there: the controller goes on, and says so.
    let data = tempfile::tempdir().unwrap();
    let nobody = loopback();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let controller = start(data.path(), &url);
    eventually("a failure", || (told_by(&controller, "failed") > 0).then_some(()));
    eventually("it is said", || {
        let said = warnings(&controller).pop()?;
        assert!(said.contains("--otlp-endpoint"), "{said}");
        Some(())
    });
}
