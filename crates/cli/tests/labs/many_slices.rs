//! Slices by the thousand on two nodes: all of them are at both data planes, through the death of
//! any process; and slices that people put in at one node.

use crate::house::{House, in_own_house};
use crate::kills::{Victim, strike};
use crate::patience::{is_full, wait_for};
use crate::traffic::{Family, address};
use catena_model::id::SliceId;
use catena_model::limits::SLICE_COUNTERS_MAX;
use catena_model::slice::SliceDocument;
use serde_json::json;
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const GTP_PORT: u16 = 2_152;
/// A hundred thousand may take a while on a busy machine.
const MANY_WAIT: Duration = Duration::from_secs(300);
/// Users who send, spread over all slices.
const SAMPLE: u32 = 50;

fn chain(house: &House) -> String {
    let functions = json!([
        {"name": "v1", "direction": "same"}, {"name": "v2", "direction": "same"},
    ]);
    let chain = json!({
        "name": "web", "source": "S", "destination": "D", "chain": functions,
        "match_fields": {"protocol": "udp", "destination_port": 9},
    });
    house.deploy(chain).chain
}

fn slice(teid: u32) -> SliceDocument {
    SliceDocument {
        name: format!("user{teid}"),
        chain: "web".into(),
        source_port: Some("S@customer".into()),
        teid: Some(teid),
        ..SliceDocument::default()
    }
}

/// A packet of a user in a GTP-U tunnel (TS 29.281 section 5.1), from `S` to `D`.
fn send(socket: &UdpSocket, teid: u32) {
    let inner = [
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcf, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
        0, 7, 0, 7, 0, 8, 0, 0, // UDP
    ];
    let mut frame = vec![0x30, 0xff, 0, 28];
    frame.extend(teid.to_be_bytes());
    frame.extend(inner);
    let to = SocketAddr::new(address("D", Family::V4), GTP_PORT);
    socket.send_to(&frame, to).expect("a datagram leaves");
}

fn sender(house: &House) -> UdpSocket {
    house.node("S").inside(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket")
}

/// The slices that a data plane has paths of, page by page.
fn known(house: &House, host: &str) -> BTreeSet<SliceId> {
    let mut known = BTreeSet::new();
    loop {
        let last = known.last().copied();
        // An agent that has just been killed may still be on its way back.
        let page = wait_for("the slices of a node", || {
            let page = house.client.slices_at(host, SLICE_COUNTERS_MAX, last);
            page.map_err(|error| format!("{host}: {error}"))
        });
        if page.is_empty() {
            return known;
        }
        known.extend(page.iter().map(|counted| counted.slice));
    }
}

/// Waits until as many slices are in force as are declared; answers how long.
fn wait_in_force(house: &House, count: u32) {
    let start = Instant::now();
    loop {
        let status = house.client.status().unwrap_or_else(|error| panic!("{error}"));
        let slices = &status["slices"];
        if slices["classified"] == count && slices["behind"] == json!([]) {
            return;
        }
        assert!(start.elapsed() < MANY_WAIT, "{slices} of {count}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Each of some users sends a packet: it entered and finished his own slice, and no other counted it.
fn assert_carried(house: &House, count: u32) {
    let socket = sender(house);
    let users: Vec<u32> = (0..SAMPLE).map(|at| 1 + at * (count / SAMPLE)).collect();
    let counted = |teid: u32| {
        let report = house.client.slice(&format!("user{teid}")).expect("a slice");
        let sum = |of: &dyn Fn(&catena_model::slice::SliceAtNode) -> u64| -> u64 {
            report.nodes.iter().map(of).sum()
        };
        let entered = sum(&|at| at.counters.entered.packets);
        (entered, sum(&|at| at.counters.finished.packets))
    };
    let before: Vec<(u64, u64)> = users.iter().map(|teid| counted(*teid)).collect();
    users.iter().for_each(|teid| send(&socket, *teid));
    for (teid, (entered, finished)) in users.into_iter().zip(before) {
        wait_for("the packet of a user", || match counted(teid) {
            now if now == (entered + 1, finished + 1) => Ok(()),
            now => Err(format!("user {teid}: {now:?} after {:?}", (entered, finished))),
        });
    }
}

/// In `./test --full` a hundred thousand.
#[test]
fn slices_by_the_line_are_at_both_data_planes_and_outlive_every_death() {
    in_own_house("pair.yaml", |house| {
        let count = if is_full() { 100_000 } else { 5_000 };
        chain(house);
        let slices: Vec<SliceDocument> = (1..=count).map(slice).collect();
        let start = Instant::now();
        let made = house.client.create_slices(slices.iter()).expect("answers");
        assert_eq!((made.created, made.refused.as_slice()), (count as usize, [].as_slice()));
        wait_in_force(house, count);
        println!("{count} slices in force after {:?}", start.elapsed());
        let all = known(house, "host1");
        assert_eq!(all.len(), count as usize);
        assert_eq!(known(house, "host2"), all);
        assert_carried(house, count);
        let victims = [
            Victim::Controller,
            Victim::Agent("host1"),
            Victim::Dataplane("host1"),
            Victim::Dataplane("host2"),
        ];
        for (round, victim) in (1..).zip(victims) {
            // One that is acknowledged just before the end.
            house.client.create_slice(&slice(count + round)).expect("a slice");
            strike(house, victim);
            house.wait_settled();
            wait_in_force(house, count + round);
            let now = known(house, "host1");
            assert!(now.is_superset(&all), "{victim:?}: {} of {count}", now.len());
            assert_eq!(now.len() as u32, count + round, "{victim:?}");
            assert_eq!(known(house, "host2"), now, "{victim:?}");
            assert_carried(house, count);
        }
    });
}

#[test]
fn slices_put_in_by_hand_are_marked_take_packets_and_end() {
    in_own_house("pair.yaml", |house| {
        let web = chain(house);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("by-hand.yaml");
        let text = "slices: [{name: probe, chain: web, source_port: S@customer, teid: 77}]\n";
        std::fs::write(&file, text).expect("a file");
        let file = file.to_str().expect("a name");
        let inject = ["node", "set", "host1", "--inject", file];
        let entered = |house: &House| {
            let report = house.chain(&web);
            report.nodes.iter().map(|node| node.counters.entered.packets).sum::<u64>()
        };
        let socket = sender(house);
        let assert_taken = |house: &House, is_taken: bool| {
            let before = entered(house);
            send(&socket, 77);
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(entered(house) - before, u64::from(is_taken));
        };
        assert_taken(house, false);
        house.tell(&inject);
        assert_taken(house, true);
        let tables = house.tell(&["node", "show", "host1", "--tables"]);
        assert!(tables.contains("injected by hand") && tables.contains("probe"), "{tables}");
        assert!(house.tell(&["status"]).contains("1 slice is put in by hand"));
        // Its agent and other slices come and go.
        strike(house, Victim::Agent("host1"));
        house.wait_settled();
        house.client.create_slice(&slice(1)).expect("a slice");
        assert_taken(house, true);
        house.tell(&["node", "set", "host1", "--withdraw"]);
        assert_taken(house, false);
        house.tell(&inject);
        strike(house, Victim::Dataplane("host1"));
        house.wait_settled();
        wait_for("a data plane that answers", || {
            house.client.injected("host1").map_err(|error| error.to_string())
        });
        assert_eq!(house.client.injected("host1").expect("an answer"), []);
        // What would not be counted out of its chain is refused.
        let refused = house.refuse(&["node", "set", "host2", "--inject", file]);
        assert!(refused.contains("no rule of this node sends"), "{refused}");
    });
}
