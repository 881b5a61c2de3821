//! Mappings by chance, held against a model that knows what the RFCs ask for and not how it is done.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What is done.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// An inside endpoint sends to a remote one.
    Send {
        protocol: IpProtocol,
        inside: Place,
        remote: Place,
    },
    /// A remote endpoint sends to an outside one, by its place among those that were given.
    Receive {
        remote: Place,
        outside: usize,
    },
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let remote =
        || (0..3_u8, 0..2_u16).prop_map(|(host, port)| at([198, 51, 100, host], 53 + port));
    let inside =
        (0..4_u8, 0..5_u16).prop_map(|(host, port)| at([10, 0, 1, host], 2_000 + port * 3));
    let send = (prop::sample::select(vec![TCP, UDP, ICMP]), inside, remote())
        .prop_map(|(protocol, inside, remote)| Step::Send { protocol, inside, remote });
    let receive =
        (remote(), 0_usize..40).prop_map(|(remote, outside)| Step::Receive { remote, outside });
    let wait = prop::sample::select(vec![1, 30, 61, 150, 301]).prop_map(Step::Wait);
    prop::collection::vec(prop_oneof![6 => send, 6 => receive, 1 => wait], 1..120)
}

/// A configuration, and what follows from it.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    filtering: &'static str,
    block: Option<u16>,
    flows_per_host: Option<usize>,
    flows_max: usize,
}

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(203, 0, 113, 4), Ipv4Addr::new(203, 0, 113, 5)];
const FIRST: u16 = 2_000;
const PORTS: u16 = 8;

fn wanted() -> impl Strategy<Value = Wanted> {
    let filters = ["endpoint-independent", "address-dependent", "address-and-port-dependent"];
    let filtering = prop::sample::select(filters.to_vec());
    let block = prop::sample::select(vec![None, Some(4)]);
    let limit = prop::sample::select(vec![None, Some(3)]);
    let most = prop::sample::select(vec![6, 512]);
    (filtering, block, limit, most).prop_map(|(filtering, block, flows_per_host, flows_max)| {
        Wanted { filtering, block, flows_per_host, flows_max }
    })
}

impl Wanted {
    fn nat(&self) -> Nat {
        let mut text = format!(
            "masquerade: [10.0.1.0/30]\npool: [203.0.113.4/31]\nports: 2000-2007\nfiltering: {}\n",
            self.filtering
        );
        self.block.iter().for_each(|block| text.push_str(&format!("block: {block}\n")));
        let limit = self.flows_per_host.iter();
        limit.for_each(|flows| text.push_str(&format!("flows_per_host: {flows}\n")));
        let options = NatOptions { flows_max: self.flows_max, seed: 9, ..NatOptions::default() };
        Nat::new(&config(&text), &options).unwrap()
    }

    /// The ports that a host may have, where it may have them at one address alone.
    fn ports_of(&self, host: Ipv4Addr) -> std::ops::Range<u16> {
        match self.block {
            None => FIRST..FIRST + PORTS,
            Some(block) => {
                let first = FIRST + u16::from(host.octets()[3] % 2) * block;
                first..first + block
            }
        }
    }
}

type Key = (u8, Place);

/// What an observer knows.
#[derive(Default)]
struct Model {
    /// Outside endpoints of inside ones, and whom each was sent to when.
    live: BTreeMap<Key, (Place, BTreeMap<Place, u64>)>,
    /// All that were ever given.
    given: Vec<(IpProtocol, Place)>,
}

impl Model {
    fn forget(&mut self, now: u64) {
        self.live.retain(|(protocol, _), (_, sent)| {
            let wait = match IpProtocol(*protocol) {
                UDP => 300,
                TCP => 240,
                _ => 60,
            };
            sent.retain(|_, last| now - *last < wait);
            !sent.is_empty()
        });
    }

    fn inside(
        &self,
        protocol: IpProtocol,
        outside: Place,
    ) -> Option<(Place, &BTreeMap<Place, u64>)> {
        let mut all = self.live.iter();
        let found = all.find(|((of, _), (own, _))| *of == protocol.0 && *own == outside);
        found.map(|((_, inside), (_, sent))| (*inside, sent))
    }

    /// Flows, told apart as far as they are.
    fn flows(&self, wanted: &Wanted, host: Option<Ipv4Addr>) -> usize {
        let of_host =
            self.live.iter().filter(|((_, inside), _)| host.is_none_or(|host| inside.0 == host));
        let count = |((protocol, _), (_, sent)): (&Key, &(Place, BTreeMap<Place, u64>))| {
            let remotes = sent.keys().map(|remote| apart(wanted, IpProtocol(*protocol), *remote));
            remotes.collect::<BTreeSet<_>>().len()
        };
        of_host.map(count).sum()
    }
}

fn apart(wanted: &Wanted, protocol: IpProtocol, remote: Place) -> Option<Place> {
    let port = if protocol == ICMP { 0 } else { remote.1 };
    match wanted.filtering {
        _ if protocol == TCP => Some(remote),
        "endpoint-independent" => None,
        "address-dependent" => Some((remote.0, 0)),
        _ => Some((remote.0, port)),
    }
}

fn frame(protocol: IpProtocol, from: Place, to: Place, is_answer: bool) -> Vec<u8> {
    if protocol == ICMP {
        let id = if is_answer { to.1 } else { from.1 };
        return message(if is_answer { 0 } else { 8 }, id, from.0, to.0);
    }
    packet(protocol, from, to, if is_answer { ACK } else { SYN })
}

/// An inside endpoint sends.
fn send(
    model: &mut Model,
    wanted: &Wanted,
    nat: &mut Nat,
    now: u64,
    (protocol, inside, remote): (IpProtocol, Place, Place),
) {
    let sent = frame(protocol, inside, remote, false);
    let came = show(nat, now, Direction::Forward, &sent);
    let key = (protocol.0, inside);
    let known = model.live.get(&key).map(|(outside, _)| *outside);
    let is_new_flow = model.live.get(&key).is_none_or(|(_, sent)| {
        let mut all = sent.keys().map(|one| apart(wanted, protocol, *one));
        !all.any(|one| one == apart(wanted, protocol, remote))
    });
    let of_host = model.flows(wanted, Some(inside.0));
    let taken = |address: Ipv4Addr| {
        let all = model.live.iter().filter(|((of, _), _)| *of == protocol.0);
        all.map(|(_, (own, _))| *own)
            .filter(|own| own.0 == address)
            .map(|own| own.1)
            .collect::<BTreeSet<_>>()
    };
    let is_exhausted =
        |address| wanted.ports_of(inside.0).all(|port| taken(address).contains(&port));
    match came {
        Came::Through(frame) => {
            let (outside, to) = ends(&frame);
            assert_eq!(to.0, remote.0);
            match known {
                Some(known) => assert_eq!(outside, known, "independent of whom it is sent to"),
                None => {
                    assert!(ADDRESSES.contains(&outside.0));
                    assert!(wanted.ports_of(inside.0).contains(&outside.1), "{outside:?}");
                    assert!(!taken(outside.0).contains(&outside.1), "nobody else has it");
                    let mut own = model.live.iter().filter(|((_, one), _)| one.0 == inside.0);
                    assert!(own.all(|(_, (one, _))| one.0 == outside.0), "of a host, one address");
                    let is_free = |port| {
                        wanted.ports_of(inside.0).contains(&port)
                            && !taken(outside.0).contains(&port)
                    };
                    assert!(
                        outside.1 == inside.1 || !is_free(inside.1),
                        "a port is kept that is free"
                    );
                    model.given.push((protocol, outside));
                }
            }
            if is_new_flow {
                assert!(wanted.flows_per_host.is_none_or(|most| of_host < most));
                assert!(model.flows(wanted, None) < wanted.flows_max);
            }
            let (_, sent) = model.live.entry(key).or_insert((outside, BTreeMap::new()));
            sent.insert(remote, now);
        }
        Came::Full => assert!(is_new_flow && model.flows(wanted, None) == wanted.flows_max),
        Came::Dropped(words) if words == "no port is free" => {
            assert!(known.is_none() && ADDRESSES.into_iter().any(is_exhausted));
        }
        Came::Dropped(words) => {
            assert!(words.starts_with("flows_per_host") && is_new_flow, "{words}");
            assert_eq!(Some(of_host), wanted.flows_per_host);
        }
        Came::Back(_) => panic!("nothing is sent back here"),
    }
}

/// A remote endpoint sends.
fn receive(
    model: &mut Model,
    wanted: &Wanted,
    nat: &mut Nat,
    now: u64,
    remote: Place,
    (protocol, outside): (IpProtocol, Place),
) {
    let came = show(nat, now, Direction::Backward, &frame(protocol, remote, outside, true));
    let Some((inside, sent)) = model.inside(protocol, outside) else {
        assert_eq!(came, dropped("no mapping"));
        return;
    };
    let is_in = match wanted.filtering {
        "endpoint-independent" => true,
        "address-dependent" => sent.keys().any(|one| one.0 == remote.0),
        _ => sent.keys().any(|one| one.0 == remote.0 && (protocol == ICMP || one.1 == remote.1)),
    };
    if is_in {
        // The translation back is the inverse.
        assert_eq!(through(came), frame(protocol, remote, inside, true));
        // It keeps a connection, and no mapping of UDP or ICMP (RFC 4787 REQ-6).
        let (_, sent) = model.live.get_mut(&(protocol.0, inside)).unwrap();
        if let Some(last) = sent.get_mut(&remote).filter(|_| protocol == TCP) {
            *last = now;
        }
    } else {
        assert_eq!(came, dropped("filtered: its sender was not sent to"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn mappings_are_what_the_rfcs_ask_for(wanted in wanted(), steps in steps()) {
        let (mut nat, mut model, mut now) = (wanted.nat(), Model::default(), 0);
        for step in steps {
            model.forget(now);
            match step {
                Step::Wait(seconds) => now += seconds,
                Step::Send { protocol, inside, remote } => {
                    send(&mut model, &wanted, &mut nat, now, (protocol, inside, remote));
                }
                Step::Receive { remote, outside } => {
                    let Some(given) = model.given.get(outside % model.given.len().max(1)) else { continue };
                    let given = *given;
                    receive(&mut model, &wanted, &mut nat, now, remote, given);
                }
            }
        }
    }
}
