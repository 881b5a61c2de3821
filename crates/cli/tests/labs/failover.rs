//! Functions die under traffic: their node finds it out by itself and treats their packets as
//! declared, while the stream goes on.

use crate::capture::{Capture, Frame};
use crate::house::{House, in_own_house};
use crate::patience::wait_for;
use crate::traffic::{Family, Receiver, Sender, address};
use catena_model::account::HopCounters;
use catena_model::resource::FailurePolicy;
use catena_model::status::{ChainState, Health};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PORT: u16 = 5_110;
/// Ten times the goal: beyond it the detection does not work, below it the machine was busy.
const DEATH_MAX: Duration = Duration::from_secs(3);
/// Long enough for a flow to be known and a probe to have come back.
const PROVEN_AFTER: Duration = Duration::from_millis(500);

fn destination() -> SocketAddr {
    SocketAddr::new(address("D", Family::V4), PORT)
}

/// The counters of an instance of the chain `watched`.
fn hop(house: &House, instance: &str) -> HopCounters {
    let nodes = house.chain("watched").nodes.into_iter();
    let mut hops = nodes.flat_map(|node| node.counters.hops);
    hops.find(|hop| hop.name == instance).unwrap_or_else(|| panic!("no hop {instance}"))
}

fn wait_health(house: &House, instance: &str, wanted: Health) {
    wait_for("the health of an instance", || {
        let nodes = house.nodes().into_iter().filter_map(|node| node.counters);
        let mut all = nodes.flat_map(|counters| counters.health);
        let found = all.find(|one| one.name == instance).map(|one| one.health);
        if found == Some(wanted) { Ok(()) } else { Err(format!("{instance} is {found:?}")) }
    });
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970")
}

/// From the death to the first packet that D got again, by the capture at D: the end of the longest
/// silence that began about then.
fn gap_after(death: Duration, frames: &[Frame]) -> Duration {
    let later: Vec<Duration> = frames.iter().map(|frame| frame.at).collect();
    let around = later.windows(2).filter(|pair| pair[1] > death);
    let longest = around.max_by_key(|pair| pair[1] - pair[0]);
    longest.expect("packets after the death")[1] - death
}

/// Runs a stream through the chain, lets its function die, and waits until `is_treated`; answers
/// the gap and how many packets were lost.
fn under_stream(
    house: &House,
    die: impl FnOnce(),
    is_treated: impl Fn() -> Result<(), String>,
) -> (Duration, u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let filter = format!("udp dst port {PORT}");
    let capture = Capture::start(&house.node("D"), "customer", &filter, folder.path());
    let receiver = Receiver::new(&house.node("D"), destination());
    let sending = Sender::new(&house.node("S"), destination()).keep_sending();
    std::thread::sleep(PROVEN_AFTER);
    let death = now();
    die();
    wait_for("packets treated as declared", is_treated);
    std::thread::sleep(PROVEN_AFTER);
    let sent = sending.stop();
    let came = receiver.stop(sent);
    assert!(came.values().all(|times| *times == 1), "a packet came twice");
    let lost = sent - u32::try_from(came.len()).expect("no more than sent");
    (gap_after(death, &capture.frames()), lost)
}

fn declare(house: &House, functions: &serde_json::Value, policy: FailurePolicy) {
    house.deploy(json!({
        "name": "watched", "source": "S", "destination": "D", "chain": functions,
        "match_fields": {"protocol": "udp", "destination_port": PORT},
    }));
    house.client.set_failure_policy("f", policy).unwrap_or_else(|error| panic!("{error}"));
    house.wait_settled();
}

fn say_and_check(what: &str, gap: Duration, lost: u32) {
    println!("{what}: first packet again {} ms after the death, {lost} lost", gap.as_millis());
    assert!(gap < DEATH_MAX, "{what}: {gap:?}");
    assert!(lost > 0, "{what}: nothing was on its way when it died?");
}

/// A function whose kernel stops forwarding answers ARP as before.
#[test]
fn a_function_that_hangs_is_bypassed_and_used_again_when_it_works() {
    in_own_house("house.yaml", |house| {
        let steps = json!([{"name": "f", "direction": "same", "instances": [{"name": "v8"}]}]);
        declare(house, &steps, FailurePolicy::Bypass);
        wait_health(house, "v8", Health::Alive);
        let (gap, lost) = under_stream(
            house,
            || house.node("v8").set("net/ipv4/ip_forward", "0"),
            || match hop(house, "v8").bypassed.packets {
                0 => Err("nothing is bypassed".into()),
                _ => Ok(()),
            },
        );
        say_and_check("hung, bypassed", gap, lost);
        wait_health(house, "v8", Health::Dead);
        wait_for("a degraded chain", || {
            let status = house.chain("watched").status;
            let is_told = status.reason == "instance 'v8' of function 'f' is dead: bypassed";
            if status.state == ChainState::Degraded && is_told {
                Ok(())
            } else {
                Err(status.reason)
            }
        });
        assert!(house.tell(&["chain", "show", "watched"]).contains("v8 dead"));
        house.node("v8").set("net/ipv4/ip_forward", "1");
        wait_health(house, "v8", Health::Alive);
        house.wait_active("watched");
        let before = hop(house, "v8").returned.packets;
        let mut sender = Sender::new(&house.node("S"), destination());
        let receiver = Receiver::new(&house.node("D"), destination());
        sender.send_many(100);
        receiver.assert_all(100);
        assert_eq!(hop(house, "v8").returned.packets, before + 100);
    });
}

#[test]
fn flows_of_an_instance_that_vanishes_go_to_another_host() {
    in_own_house("house.yaml", |house| {
        let instances = json!([{"name": "v8"}, {"name": "v11"}]);
        let steps = json!([{"name": "f", "direction": "same", "instances": instances}]);
        declare(house, &steps, FailurePolicy::Reroute);
        wait_health(house, "v8", Health::Alive);
        wait_health(house, "v11", Health::Alive);
        // The source port decides; whichever instance the stream meets is the one that dies.
        let met = || {
            let busy = |name: &&str| hop(house, name).delivered.packets > 100;
            ["v8", "v11"].into_iter().find(busy)
        };
        let victim = std::cell::Cell::new("");
        let (gap, lost) = under_stream(
            house,
            || {
                let name = met().expect("the stream meets an instance");
                victim.set(name);
                house.node(name).ip("link set customer down");
            },
            || {
                let other = if victim.get() == "v8" { "v11" } else { "v8" };
                match hop(house, other).delivered.packets {
                    0 => Err(format!("nothing reaches {other}")),
                    _ => Ok(()),
                }
            },
        );
        say_and_check(&format!("{} vanished, rerouted", victim.get()), gap, lost);
        wait_health(house, victim.get(), Health::Dead);
    });
}

#[test]
fn a_chain_is_checked_in_band_and_what_is_wrong_is_named() {
    in_own_house("house.yaml", |house| {
        let steps = ["v11", "v8"].map(|name| json!({"name": name, "direction": "same"}));
        house.deploy(json!({
            "name": "checked", "source": "S", "destination": "D", "chain": steps,
            "match_fields": {"protocol": "udp", "destination_port": PORT},
        }));
        let capture_folder = tempfile::tempdir().expect("a folder");
        let filter = format!("udp dst port {PORT}");
        let capture = Capture::start(&house.node("D"), "customer", &filter, capture_folder.path());
        let said = house.tell(&["chain", "check", "checked"]);
        assert!(said.contains("16 probes visited v11, v8 in order"), "{said}");
        assert!(said.contains("the largest of its network, passes"), "{said}");
        assert!(!said.contains('✗'), "{said}");
        assert!(capture.frames().is_empty(), "no probe reaches an endpoint");

        let wrong = |what: &str| {
            let output = house.catena(&["chain", "check", "checked"]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(4), "{said}");
            assert!(said.contains(what), "{said}");
        };
        house.node("v8").set("net/ipv4/ip_forward", "0");
        wrong("16 of 16 probes did not come back from instance 'v8' of 'v8'");
        house.node("v8").set("net/ipv4/ip_forward", "1");
        // The link to the other hosts is narrower than the agent was told.
        let host = house.node("host1");
        let data = host.ip("-o route get 172.30.0.2");
        let mut words = data.split_whitespace().skip_while(|word| *word != "dev");
        let device = words.nth(1).unwrap_or_else(|| panic!("no device in {data}"));
        host.ip(&format!("link set {device} mtu 1400"));
        wrong("frame");
        host.ip(&format!("link set {device} mtu 1500"));
        // Its agent looks at the link once a second.
        wait_for("a chain that is well", || {
            let output = house.catena(&["chain", "check", "checked"]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() { Ok(()) } else { Err(said) }
        });
    });
}
