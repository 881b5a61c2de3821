//! How long functions take, as engines measure it, of flows that the kernel repeats and of those that it does not:
//! asked for as people do, while packets pass, none of which is lost for it.

use crate::account;
use crate::deaths::document;
use crate::house::{House, in_own_house_with};
use crate::patience::wait_for;
use crate::traffic::{Family, Receiver, Sender, address};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 5_031;
/// Samples of each function that are waited for.
const SAMPLES: u64 = 4;

fn instances(house: &House) -> Vec<Value> {
    let told = house.tell(&["chain", "delays", "timed", "--output", "json"]);
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    assert_eq!(told["paths"], json!([]), "it takes no records along");
    told["instances"].as_array().expect("a list").clone()
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name} of {of}"))
}

/// How many transforms of the kernel were taken out for it.
fn let_up(house: &House) -> u64 {
    let nodes = account::counters(house);
    let kernels = nodes.iter().filter_map(|node| node.dataplane.kernel.as_ref());
    kernels.map(|kernel| kernel.let_up).sum()
}

fn check(house: &House, is_repeated: bool) {
    let to = SocketAddr::new(address("D", Family::V4), PORT);
    let chain = house.deploy(document("timed", PORT, &["v1", "v2"]));
    let receiver = Receiver::new(&house.node("D"), to);
    let sender = Sender::new(&house.node("S"), to).every(Duration::from_millis(2));
    let sending = sender.keep_sending();
    wait_for("samples of both functions", || {
        let told = instances(house);
        let is_enough = |one: &Value| one["samples"].as_u64() >= Some(SAMPLES);
        let is_told = told.len() == 2 && told.iter().all(is_enough);
        // The first samples are of packets from before the kernel had the flow.
        if is_told && (!is_repeated || let_up(house) > 0) {
            Ok(())
        } else {
            Err(json!(told).to_string())
        }
    });
    let sent = sending.stop();
    let came = receiver.stop(sent);
    assert_eq!((came.len(), came.values().all(|times| *times == 1)), (sent as usize, true));
    for one in instances(house) {
        assert_eq!(one["measured"], json!("sojourn"), "{one}");
        let quantiles = ["p50_ns", "p95_ns", "p99_ns"].map(|name| number(&one, name));
        assert!(quantiles.is_sorted(), "{one}");
        // Through a veth pair, a kernel and another pair; a second is the longest that is timed.
        assert!(quantiles[0] > 1_000 && quantiles[2] < 1_200_000_000, "{one}");
        let counts = ["samples", "timed", "sampled"].map(|name| number(&one, name));
        assert!(counts.is_sorted(), "{one}");
        // How well few samples stand for all is chance; `marks_stand_for_all_packets_…` has many.
        assert!(number(&one, "represented") >= number(&one, "timed"), "{one}");
        assert_eq!(number(&one, "delivered"), u64::from(sent), "{one}");
    }
    let told = house.tell(&["chain", "show", "timed"]);
    assert_eq!(told.matches("until back").count(), 2, "{told}");
    account::assert_holds(house);
    house.undeploy(&chain.chain);
}

#[test]
fn functions_are_timed_whether_the_kernel_repeats_their_flows_or_not() {
    for options in [&[][..], &["--no-fastpath"]] {
        in_own_house_with("pair.yaml", options, |house| {
            check(house, options.is_empty());
            assert_eq!(let_up(house) > 0, options.is_empty());
        });
    }
}
