//! Slices over four hosts, through the API, with real GTP-in-VXLAN packets: who is taken, what is
//! counted of them, what moves and what is bounded.

use crate::account;
use crate::house::{House, in_shared_house};
use crate::patience::wait_for;
use crate::traffic::{Family, address};
use catena_client::deploy::Deployment;
use catena_lab::user_frames::{Content, Ends, Mark, Template, User, mark_of};
use catena_model::DropReason;
use catena_model::account::SliceCounters;
use catena_model::program::SliceRate;
use catena_model::slice::{Qfi, SliceDocument, Teid, Vni};
use catena_model::status::ChainState;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

const VXLAN_PORT: u16 = 4_789;
/// Ethernet, IPv4 and UDP: the sending socket puts its own in front.
const OUTER_BYTES: usize = 14 + 20 + 8;
/// Of a user's packet, from its own IP header on.
const PACKET_BYTES: usize = 300;
const BURST: u32 = 20;
const PAUSE: Duration = Duration::from_millis(4);
/// Silence after which what is missing is lost.
const SILENCE: Duration = Duration::from_secs(1);
const BUFFER_BYTES: usize = 16 * 1024 * 1024;

/// Users at S, and who takes their packets at D.
struct Users {
    sender: UdpSocket,
    receiver: UdpSocket,
    ends: Ends,
    next: u32,
}

fn v4(name: &str) -> Ipv4Addr {
    match address(name, Family::V4) {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => panic!("{name} has no such address"),
    }
}

fn user(vni: u32, teid: u32, qfi: Option<u32>) -> User {
    User {
        vni: Vni::new(vni).expect("24 bits"),
        teid: Teid(teid),
        qfi: qfi.map(|qfi| Qfi::new(qfi).expect("6 bits")),
        tunnel_end: Ipv4Addr::new(192, 0, 2, 1),
        address: User::address_in(Teid(teid)),
    }
}

impl Users {
    fn new(house: &House) -> Self {
        let to = (v4("D"), VXLAN_PORT);
        let receiver = house.node("D").inside(|| UdpSocket::bind(to)).expect("a free port");
        set_socket_recv_buffer_size_force(&receiver, BUFFER_BYTES).expect("a large buffer");
        receiver.set_read_timeout(Some(PAUSE)).expect("a timeout");
        let sender = house.node("S").inside(|| UdpSocket::bind((v4("S"), 0))).expect("a socket");
        sender.connect(to).expect("a route");
        let ends = Ends { macs: Default::default(), addresses: (v4("S"), v4("D")) };
        Self { sender, receiver, ends, next: 0 }
    }

    /// Sends packets of a user, in bursts.
    fn send(&mut self, user: User, count: u32) {
        let content = Content::User(user);
        let template = Template::new(&self.ends, &content, PACKET_BYTES).expect("room for a mark");
        let mut frame = Vec::new();
        for number in self.next..self.next + count {
            let mark = Mark { run: 0, user: 0, form: 0, number, sent_ns: 0 };
            template.write(&mark, &mut frame);
            self.sender.send(&frame[OUTER_BYTES..]).expect("a packet leaves");
            if number % BURST == BURST - 1 {
                std::thread::sleep(PAUSE);
            }
        }
        self.next += count;
    }

    /// The numbers of all packets that came; none comes twice.
    fn arrived(&self) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::new();
        let mut bytes = [0; 2_048];
        let mut last = Instant::now();
        while numbers.len() < self.next as usize && last.elapsed() < SILENCE {
            let Ok(length) = self.receiver.recv(&mut bytes) else { continue };
            let mark = mark_of(&bytes[..length]).expect("a packet as it was sent");
            assert!(numbers.insert(mark.number), "packet {} came twice", mark.number);
            last = Instant::now();
        }
        numbers
    }

    fn assert_all_arrived(&self) {
        let missing: Vec<u32> = (0..self.next)
            .collect::<BTreeSet<u32>>()
            .difference(&self.arrived())
            .copied()
            .collect();
        assert!(missing.is_empty(), "{} of {} lost: {missing:?}", missing.len(), self.next);
    }
}

/// A chain of the packets to a port, with functions on two hosts.
fn document(name: &str, port: u16, functions: [&str; 2]) -> Value {
    let chain = functions.map(|function| json!({"name": function, "direction": "same"}));
    json!({
        "name": name, "source": "S", "destination": "D", "encapsulation": "nsh",
        "match_fields": {"protocol": "udp", "destination_port": port}, "chain": chain,
    })
}

fn chain(house: &House, name: &str, port: u16, functions: [&str; 2]) -> String {
    house.deploy(document(name, port, functions)).chain
}

fn declare(house: &House, slice: &SliceDocument) {
    let made = house.client.create_slice(slice).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(made.status.state, ChainState::Active, "{}: {}", slice.name, made.status.reason);
}

/// What all nodes counted of a slice, in one.
fn counted(house: &House, name: &str) -> (u64, u64, u64) {
    let report = house.client.slice(name).unwrap_or_else(|error| panic!("{error}"));
    let of = |value: fn(&SliceCounters) -> u64| -> u64 {
        report.nodes.iter().map(|node| value(&node.counters)).sum()
    };
    let dropped = |slice: &SliceCounters| {
        let rate = slice.dropped.get(&DropReason::SliceRateExceeded).copied().unwrap_or(0);
        assert_eq!(rate, slice.dropped.values().sum::<u64>(), "{:?}", slice.dropped);
        rate
    };
    (of(|slice| slice.entered.packets), of(|slice| slice.finished.packets), of(dropped))
}

/// A slice entered, finished and dropped exactly so; counters may be a moment behind.
fn assert_counted(house: &House, name: &str, expected: (u64, u64, u64)) {
    wait_for("the expected counters of a slice", || match counted(house, name) {
        found if found == expected => Ok(()),
        found => Err(format!("{name}: {found:?} instead of {expected:?}")),
    });
}

fn remove(house: &House, slices: &[&str], chains: &[String]) {
    for slice in slices {
        house.client.delete_slice(slice).unwrap_or_else(|error| panic!("{error}"));
    }
    for chain in chains {
        house.undeploy(chain);
    }
}

fn slice(name: &str, chain: &str, vni: u32, teids: (u32, u32)) -> SliceDocument {
    SliceDocument {
        name: name.into(),
        chain: chain.into(),
        vni: Some(vni),
        teids: Some(teids),
        ..SliceDocument::default()
    }
}

#[test]
fn slices_take_their_users_alone_and_count_every_packet_of_theirs() {
    in_shared_house(|house| {
        let chains =
            [chain(house, "red", 5_701, ["v11", "v9"]), chain(house, "blue", 5_702, ["v9", "v12"])];
        declare(house, &SliceDocument { qfi: Some(9), ..slice("gold", "red", 5_001, (10, 20)) });
        declare(house, &slice("iron", "blue", 5_002, (10, 20)));
        let mut users = Users::new(house);
        for teid in 10..=20 {
            users.send(user(5_001, teid, Some(9)), 20);
            // Another tenant numbers its users alike.
            users.send(user(5_002, teid, None), 10);
        }
        // Another tunnel, another flow, none, and another tenant: nobody's.
        for stranger in [
            user(5_001, 21, Some(9)),
            user(5_001, 10, Some(8)),
            user(5_001, 10, None),
            user(5_003, 10, Some(9)),
        ] {
            users.send(stranger, 15);
        }
        users.assert_all_arrived();
        assert_counted(house, "gold", (220, 220, 0));
        assert_counted(house, "iron", (110, 110, 0));
        account::assert_holds(house);
        remove(house, &["gold", "iron"], &chains);
    });
}

#[test]
fn a_user_who_moves_to_other_tunnels_loses_nothing_and_stays_in_its_slice() {
    const MOVES: u32 = 6;
    in_shared_house(|house| {
        let chains = [chain(house, "red", 5_703, ["v11", "v9"])];
        declare(house, &slice("mover", "red", 5_001, (100, 100)));
        let mut users = Users::new(house);
        for teid in 100..100 + MOVES {
            let take = |teids| {
                let wanted = slice("mover", "red", 5_001, teids);
                house.client.put_slice("mover", &wanted).unwrap_or_else(|error| panic!("{error}"));
            };
            users.send(user(5_001, teid, None), 40);
            take((teid, teid + 1));
            let [mut before, mut after] = [teid, teid + 1].map(|teid| user(5_001, teid, None));
            // Also to another end of its tunnel.
            before.tunnel_end = Ipv4Addr::from_bits(0xc000_0200 + teid);
            after.tunnel_end = Ipv4Addr::from_bits(0xc000_0200 + teid + 1);
            users.send(before, 20);
            users.send(after, 20);
            // What is under way in the old tunnel still finds its slice.
            std::thread::sleep(SILENCE / 10);
            take((teid + 1, teid + 1));
        }
        users.assert_all_arrived();
        let sent = u64::from(users.next);
        assert_counted(house, "mover", (sent, sent, 0));
        remove(house, &["mover"], &chains);
    });
}

#[test]
fn a_slice_that_floods_is_held_to_its_rate_and_the_slice_beside_it_loses_nothing() {
    const RATE: SliceRate = SliceRate { bits_per_second: 400_000, burst_bytes: 4_000 };
    const BIT: u64 = 8;
    in_shared_house(|house| {
        let chains = [chain(house, "red", 5_704, ["v11", "v9"])];
        declare(house, &SliceDocument { rate: Some(RATE), ..slice("flood", "red", 5_001, (1, 1)) });
        declare(house, &slice("quiet", "red", 5_001, (2, 2)));
        let mut users = Users::new(house);
        let began = Instant::now();
        let mut quiet = BTreeSet::new();
        for _ in 0..50 {
            users.send(user(5_001, 1, None), 30);
            quiet.extend(users.next..users.next + 5);
            users.send(user(5_001, 2, None), 5);
        }
        // What is under way then is judged a little later.
        let (least, most) = (began.elapsed(), began.elapsed() + SILENCE / 5);
        let arrived = users.arrived();
        assert!(quiet.is_subset(&arrived), "lost: {:?}", quiet.difference(&arrived));
        let let_through = (arrived.len() - quiet.len()) as u64;
        let frame_bytes = PACKET_BYTES as u64 + 100;
        // The bucket was full at first.
        let given = |span: Duration| {
            u128::from(RATE.burst_bytes)
                + u128::from(RATE.bits_per_second) * span.as_millis() / 1_000 / u128::from(BIT)
        };
        let bytes = u128::from(let_through * frame_bytes);
        assert!(bytes <= given(most), "{let_through} in {most:?}");
        assert!(bytes >= given(least) / 2, "{let_through} in {least:?}");
        assert_counted(house, "flood", (1_500, let_through, 1_500 - let_through));
        assert_counted(house, "quiet", (250, 250, 0));
        account::assert_holds(house);
        remove(house, &["flood", "quiet"], &chains);
    });
}

/// Users of rules and of a slice go through a gate; behind it one of them is taken into another chain
/// that shares a function with it, also after the gate has changed.
#[test]
fn a_slice_at_the_end_of_a_chain_takes_its_user_wherever_that_chain_ends() {
    in_shared_house(|house| {
        let gate = chain(house, "gate", VXLAN_PORT, ["v11", "v9"]);
        let scrub = chain(house, "scrub", 5_705, ["v9", "v12"]);
        let members =
            SliceDocument { carries_metadata: true, ..slice("members", "gate", 5_001, (1, 9)) };
        declare(house, &members);
        let create = ["slice", "create", "deep", "--chain", "scrub", "--after", "gate"];
        let told = house.tell(&[&create[..], &["--teids", "3"]].concat());
        assert!(told.contains("'deep' of chain 'scrub' is active"), "{told}");
        assert!(house.tell(&["slice", "list"]).contains("end of gate"));
        let refused = house.refuse(&[
            "slice", "create", "round", "--chain", "gate", "--after", "scrub", "--vni", "7",
        ]);
        assert!(refused.contains("back to it"), "{refused}");

        let mut users = Users::new(house);
        let send = |users: &mut Users| {
            for teid in 1..=4 {
                // Those of the slice carry whose they are, the other tenant's come by the rule.
                users.send(user(5_001, teid, None), 20);
                users.send(user(5_002, teid, None), 10);
            }
        };
        send(&mut users);
        assert_counted(house, "members", (80, 80, 0));
        let other = document("gate", VXLAN_PORT, ["v9", "v10"]);
        let other = serde_json::from_value(other).expect("a chain document");
        Deployment::update(&house.client, "gate", &other).unwrap_or_else(|e| panic!("{e}"));
        send(&mut users);
        users.assert_all_arrived();
        // Those have a path of the new gate, with counters of its own; behind it nothing has changed.
        assert_counted(house, "members", (80, 80, 0));
        assert_counted(house, "deep", (60, 60, 0));
        account::assert_holds(house);
        remove(house, &["members"], &[]);
        let refused = Deployment::undeploy(&house.client, "gate").unwrap_err().to_string();
        assert!(refused.contains("in use by slice 'deep'"), "{refused}");
        remove(house, &["deep"], &[gate, scrub]);
    });
}
