//! A thousand chains over two switches, with traffic on each: what the switches hold afterwards is what they held
//! before, in their program, their engines and the kernel's maps.

use crate::account;
use crate::house::{House, in_own_house};
use crate::patience::wait_for;
use crate::traffic::{Family, address};
use catena_model::dump::StateDump;
use serde_json::json;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const CHAINS: usize = 1_000;
const SWITCHES: [&str; 2] = ["a1", "a2"];
const FIRST_PORT: u16 = 10_000;
/// Datagrams of each chain: the first may go another way than those that follow.
const PACKETS: u64 = 3;
/// Between two datagrams, so that no queue is full.
const PAUSE: Duration = Duration::from_micros(200);

/// Orders of functions, each another, the shorter ones first.
fn orders(functions: usize) -> impl Iterator<Item = Vec<String>> {
    let longer = move |orders: &Vec<Vec<usize>>| {
        let with = |order: &Vec<usize>, next: usize| [&order[..], &[next]].concat();
        let grown = orders.iter().flat_map(|order| {
            (1..=functions).filter(|next| !order.contains(next)).map(move |next| with(order, next))
        });
        Some(grown.collect())
    };
    let by_length = std::iter::successors(Some(vec![Vec::new()]), longer).skip(1);
    by_length.flatten().map(|order| order.iter().map(|number| format!("v{number}")).collect())
}

fn document() -> String {
    let chain = |(index, functions): (usize, Vec<String>)| {
        json!({
            "name": format!("c{index}"), "source": "S", "destination": "D", "through": functions,
            "encapsulation": "source-route/native",
            "match_fields": {
                "protocol": "udp", "destination_port": usize::from(FIRST_PORT) + index,
            },
        })
    };
    let chains: Vec<_> = orders(7).take(CHAINS).enumerate().map(chain).collect();
    json!({ "chains": chains }).to_string()
}

fn dumps(house: &House) -> Vec<StateDump> {
    SWITCHES
        .map(|switch| house.client.dump(switch).unwrap_or_else(|error| panic!("{error}")))
        .into()
}

fn differences(before: &[StateDump], after: &[StateDump]) -> Vec<String> {
    before.iter().zip(after).flat_map(|(before, after)| before.differences(after)).collect()
}

/// All packets of every chain have left it.
fn wait_until_all_have_passed(house: &House) {
    wait_for("packets on every chain", || {
        let counters = account::counters(house);
        let finished = counters.iter().flat_map(|node| &node.chains);
        let whole = finished.filter(|path| path.finished.packets >= PACKETS).count();
        if whole == CHAINS { Ok(()) } else { Err(format!("{whole} chains have all of theirs")) }
    });
}

#[test]
fn a_thousand_chains_with_traffic_leave_switches_as_they_were() {
    in_own_house("row.yaml", |house| {
        let mut before = dumps(house);
        wait_for("switches at rest", || {
            let now = dumps(house);
            let differing = differences(&before, &now);
            before = now;
            if differing.is_empty() { Ok(()) } else { Err(differing.join(", ")) }
        });
        let host = house.client.dump("h1").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chains.json");
        std::fs::write(&file, document()).unwrap();
        let start = std::time::Instant::now();
        house.tell(&["apply", "--file", file.to_str().unwrap(), "--wait", "--timeout", "20"]);
        println!("{CHAINS} chains after {:.1} s", start.elapsed().as_secs_f64());
        let chains = house.client.chains().unwrap();
        assert_eq!(chains.len(), CHAINS);
        let waiting = chains.iter().find(|chain| chain.status.state.name() != "active");
        assert!(waiting.is_none(), "{:?}", waiting.map(|chain| &chain.status));
        assert_eq!(differences(&before, &dumps(house)), [""; 0], "before any packet");
        let socket = house.node("S").inside(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        for _ in 0..PACKETS {
            for index in 0..CHAINS as u16 {
                let to = SocketAddr::new(address("D", Family::V4), FIRST_PORT + index);
                socket.send_to(b"stateless", to).unwrap();
                std::thread::sleep(PAUSE);
            }
        }
        wait_until_all_have_passed(house);
        assert_eq!(differences(&before, &dumps(house)), [""; 0]);
        let now = house.client.dump("h1").unwrap();
        assert!(!host.differences(&now).is_empty(), "a host holds what it shall do");
    });
}
