//! Reactive set-up: the first packets of a flow wait until the controller has answered for it, and leave in their order
//! before any later one; who brings many flows delays nobody else's.

use crate::edges::star;
use crate::explain::tell;
use crate::frames::Spec;
use crate::node::Node;
use crate::rig::{Happening, Rig};
use crate::scene::{CHAINED_PORT, CUSTOMER, packet, rules, with_chain};
use crate::town::{Town, link_name};
use catena_dataplane::engine::Output;
use catena_io::Offload;
use catena_model::limits::{
    SETUP_ASK_AGAIN_MS, SETUP_FLOW_PACKETS_MAX, SETUP_IDLE_MS, SETUP_NODE_PACKETS_MAX,
    SETUP_PORT_FLOWS_BURST, SETUP_PORT_FLOWS_MAX, SETUP_PORT_FLOWS_PER_SECOND, SETUP_WAIT_MS,
    WAY_FLUSH_MS,
};
use catena_model::program::{SetupEntry, WhenAway};
use catena_model::resource::Encapsulation;
use catena_model::setup::{ChainSetups, FlowAnswer, FlowAsked, FlowTimes};
use catena_model::topology::PortNumber;
use catena_model::{DropReason, PathId};
use catena_plan::answer_flow;

const MS_NS: u64 = 1_000_000;

impl Rig {
    /// The controller can be asked by a node from now on, or not any more.
    pub(crate) fn note_controller(&mut self, number: usize, is_there: bool) {
        for engine in 0..self.nodes[number].engines.len() {
            let mut out = Output::default();
            let Node { engines, pool, .. } = &mut self.nodes[number];
            engines[engine].note_controller(is_there, self.now_ns, pool, &mut out);
            self.deliver((number, engine), out);
        }
        self.run();
    }

    /// The flows that a node asks for, each with the engine that does.
    pub(crate) fn flows_asked(&mut self, number: usize) -> Vec<(usize, FlowAsked)> {
        let engines = self.nodes[number].engines.iter_mut().enumerate();
        let asked = engines.flat_map(|(engine, one)| {
            one.take_flows_asked().into_iter().map(move |asked| (engine, asked))
        });
        asked.collect()
    }

    /// Answers an engine of a node, and lets everything happen.
    pub(crate) fn set_up(&mut self, (number, engine): (usize, usize), answers: &[FlowAnswer]) {
        let mut out = Output::default();
        let Node { engines, pool, .. } = &mut self.nodes[number];
        engines[engine].set_up(answers, self.now_ns, pool, &mut out);
        self.deliver((number, engine), out);
        self.run();
    }
}

fn reactive(mut town: Town, away: WhenAway) -> Town {
    town.setups = vec![SetupEntry { path: PathId(100), away }];
    town
}

/// A rig whose chain is asked for, with a controller.
fn begun(town: Town) -> Rig {
    let mut rig = Rig::new(reactive(town, WhenAway::Drop));
    rig.note_controller(0, true);
    rig.moved();
    rig
}

fn nsh() -> Town {
    with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]])
}

/// Packets of the flow from this port of S, numbered by their payload.
pub(crate) fn numbered(rig: &Rig, source_port: u16, number: u8) -> Vec<u8> {
    let of = packet(&rig.town, CHAINED_PORT);
    let ports = (source_port, of.ports.1);
    Spec { ports, payload: vec![number; 20], ..of }.frame()
}

/// As the controller answers from the program that the node has.
fn answers(rig: &Rig, asked: &[(usize, FlowAsked)]) -> Vec<FlowAnswer> {
    let entries = rig.tables(0).entries();
    asked.iter().map(|(_, asked)| answer_flow(entries, asked).unwrap()).collect()
}

/// Answers all that the first node asks.
fn answer_all(rig: &mut Rig) -> usize {
    let asked = rig.flows_asked(0);
    for one in &asked {
        let answer = answers(rig, std::slice::from_ref(one));
        rig.set_up((0, one.0), &answer);
    }
    asked.len()
}

/// The last octet of each frame that D got: the packet's number.
pub(crate) fn arrived(rig: &mut Rig) -> Vec<u8> {
    rig.take("D").iter().map(|frame| *frame.last().unwrap()).collect()
}

fn setups(rig: &Rig) -> ChainSetups {
    let mut all = ChainSetups::default();
    let nodes = rig.counters();
    nodes.iter().flat_map(|node| node.setups.chains.values()).for_each(|one| all.merge(one));
    all
}

#[test]
fn packets_of_a_new_flow_wait_for_the_answer_and_leave_in_order_before_any_later_one() {
    for town in [nsh(), star(&[&["v1"], &["v2"]]), star(&[&["v2"], &["v1"]])] {
        let mut rig = begun(town);
        for number in 0..4 {
            rig.send("S", &numbered(&rig, 7, number));
        }
        let asked = rig.flows_asked(0);
        assert_eq!(asked.len(), 1, "one flow is asked for once");
        let (engine, one) = asked[0];
        assert_eq!((one.path, one.port), (PathId(100), rig.town.port_named("S").id));
        assert_eq!((one.flow.source_port, one.flow.destination_port), (7, CHAINED_PORT));
        assert_eq!(rig.log, [], "nothing has left");
        assert_eq!(rig.counters()[0].total().held, 4);
        let answer = answers(&rig, &asked);
        rig.set_up((0, engine), &answer);
        for number in 4..6 {
            rig.send("S", &numbered(&rig, 7, number));
        }
        assert_eq!(arrived(&mut rig), [0, 1, 2, 3, 4, 5]);
        assert_eq!(rig.flows_asked(0), [], "the flow is known");
        let counted = ChainSetups { asked: 1, answered: 1, held: 4, ..ChainSetups::default() };
        assert_eq!(setups(&rig), counted);
        let moved = rig.moved();
        assert_eq!(moved.get("host1 path 100 entered"), Some(&6));
        assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
    }
}

#[test]
fn packets_that_come_with_the_answer_leave_behind_those_that_wait() {
    let mut rig = begun(nsh());
    rig.send("S", &numbered(&rig, 7, 0));
    let asked = rig.flows_asked(0);
    for number in 1..3 {
        let frame = numbered(&rig, 7, number);
        rig.queue("S", &frame, Offload::default());
    }
    let answer = answers(&rig, &asked);
    rig.set_up((0, asked[0].0), &answer);
    assert_eq!(arrived(&mut rig), [0, 1, 2]);
}

#[test]
fn a_known_flow_takes_the_fast_path_and_is_asked_for_again_when_it_has_paused() {
    let mut rig = begun(nsh());
    rig.send("S", &numbered(&rig, 7, 0));
    assert_eq!(answer_all(&mut rig), 1);
    rig.send("S", &numbered(&rig, 7, 1));
    for number in 2..5 {
        let before = rig.by_fast_path();
        rig.now_ns += u64::from(SETUP_IDLE_MS) * MS_NS;
        rig.send("S", &numbered(&rig, 7, number));
        assert!(rig.by_fast_path() > before, "packet {number}");
        assert_eq!(rig.flows_asked(0), []);
    }
    rig.now_ns += u64::from(SETUP_IDLE_MS + 1) * MS_NS;
    rig.send("S", &numbered(&rig, 7, 5));
    assert_eq!(arrived(&mut rig), [0, 1, 2, 3, 4]);
    assert_eq!(answer_all(&mut rig), 1);
    assert_eq!(arrived(&mut rig), [5]);
}

#[test]
fn the_answer_brings_the_header_and_one_of_another_way_is_none() {
    let mut rig = begun(star(&[&["v2"], &["v1"]]));
    rig.send("S", &numbered(&rig, 7, 0));
    let asked = rig.flows_asked(0);
    let right = answers(&rig, &asked);
    let number = crate::edges::number_of(&rig.town, "v2.in");
    let way: Vec<u8> = right[0].legs[0].ports.iter().map(|port| port.get()).collect();
    assert_eq!(way, [7, 2, number]);
    let mut wrong = vec![right.clone(); 3];
    wrong[0][0].legs[0].ports[1] = PortNumber::new(3).unwrap();
    wrong[1][0].legs.clear();
    wrong[2][0].path = PathId(101);
    for wrong in &wrong {
        rig.set_up((0, asked[0].0), wrong);
    }
    let unknown = FlowAnswer { sequence: right[0].sequence.wrapping_add(9), ..right[0].clone() };
    rig.set_up((0, asked[0].0), &[unknown]);
    assert_eq!((rig.log.len(), setups(&rig).unfit), (0, 3));
    // The way turns; what was answered before does not say so.
    rig.town.ways.insert((0, 1), vec![7, 3]);
    rig.apply();
    rig.set_up((0, asked[0].0), &right);
    assert_eq!((rig.log.len(), setups(&rig).unfit), (0, 4));
    let now = answers(&rig, &asked);
    rig.set_up((0, asked[0].0), &now);
    rig.sleep(WAY_FLUSH_MS);
    assert_eq!(rig.take(&link_name(0, 7)).len(), 1);
}

#[test]
fn an_answer_that_is_late_is_asked_for_again_and_none_at_all_ends_as_the_chain_says() {
    for away in [WhenAway::Drop, WhenAway::Ordinary] {
        let mut rig = begun(reactive(nsh(), away));
        rig.town.setups[0].away = away;
        rig.apply();
        rig.moved();
        rig.send("S", &numbered(&rig, 7, 0));
        rig.send("S", &numbered(&rig, 7, 1));
        let first = rig.flows_asked(0);
        rig.pass(SETUP_ASK_AGAIN_MS - 10);
        assert_eq!(rig.flows_asked(0), []);
        rig.pass(20);
        assert_eq!(rig.flows_asked(0), first, "the same question");
        rig.pass(SETUP_WAIT_MS);
        let times = setups(&rig);
        assert_eq!((times.asked, times.answered, times.unanswered), (1, 0, 1));
        assert!(times.asked_again > 5 && times.asked_again < 25, "{times:?}");
        let moved = rig.moved();
        match away {
            WhenAway::Drop => {
                assert_eq!(moved.get("S dropped setup_unanswered"), Some(&2));
                assert_eq!(arrived(&mut rig), [] as [u8; 0]);
            }
            WhenAway::Ordinary => {
                assert_eq!(arrived(&mut rig), [0, 1], "in order, past the functions");
                assert!(!rig.seen.contains_key("v1.in"));
            }
        }
        // What comes too late changes nothing.
        let late = answers(&rig, &first);
        rig.set_up((0, first[0].0), &late);
        rig.flows_asked(0);
        rig.send("S", &numbered(&rig, 7, 2));
        assert_eq!(rig.flows_asked(0).len(), 1, "it is a new flow");
    }
}

#[test]
fn without_a_controller_new_flows_end_as_the_chain_says_and_known_ones_go_on() {
    for away in [WhenAway::Drop, WhenAway::Ordinary] {
        let mut rig = begun(nsh());
        rig.town.setups[0].away = away;
        rig.apply();
        rig.send("S", &numbered(&rig, 7, 0));
        answer_all(&mut rig);
        rig.send("S", &numbered(&rig, 8, 1));
        assert_eq!(rig.counters()[0].total().held, 1);
        rig.moved();
        rig.note_controller(0, false);
        rig.send("S", &numbered(&rig, 9, 2));
        rig.send("S", &numbered(&rig, 7, 3));
        let moved = rig.moved();
        let (expected, dropped) = match away {
            WhenAway::Drop => (vec![0, 3], Some(&2)),
            WhenAway::Ordinary => (vec![0, 1, 2, 3], None),
        };
        assert_eq!(arrived(&mut rig), expected);
        assert_eq!(moved.get("S dropped setup_unanswered"), dropped);
        assert_eq!(rig.take("v1.in").len(), 2, "known flows alone");
        rig.flows_asked(0);
        rig.note_controller(0, true);
        rig.send("S", &numbered(&rig, 9, 4));
        assert_eq!(answer_all(&mut rig), 1);
        assert_eq!(arrived(&mut rig), [4]);
    }
}

#[test]
fn each_bound_ends_what_is_beyond_it_by_its_own_name() {
    let mut rig = Rig::with(reactive(nsh(), WhenAway::Drop), |_| {}, 2_048);
    rig.note_controller(0, true);
    rig.moved();
    for number in 0..SETUP_FLOW_PACKETS_MAX + 3 {
        rig.send("S", &numbered(&rig, 7, number as u8));
    }
    let moved = rig.moved();
    assert_eq!(moved.get("S dropped setup_flow_full"), Some(&3));
    answer_all(&mut rig);
    assert_eq!(arrived(&mut rig).len(), SETUP_FLOW_PACKETS_MAX);
    // More flows than may be asked for at once.
    for port in 0..SETUP_PORT_FLOWS_MAX as u16 + 5 {
        rig.now_ns += MS_NS;
        rig.send("S", &numbered(&rig, 1_000 + port, 0));
    }
    assert_eq!(rig.moved().get("S dropped setup_node_full"), Some(&5));
    assert_eq!(answer_all(&mut rig), SETUP_PORT_FLOWS_MAX);
    // More than may be asked for in so short a time, though each is answered at once.
    let mut refused = 0;
    for port in 0..SETUP_PORT_FLOWS_BURST as u16 + 50 {
        rig.send("S", &numbered(&rig, 2_000 + port, 0));
        answer_all(&mut rig);
        let moved = rig.moved();
        refused += moved.get("S dropped setup_rate_exceeded").copied().unwrap_or(0);
    }
    assert!((40..=60).contains(&refused), "{refused}");
    rig.now_ns += 1_000 * MS_NS / u64::from(SETUP_PORT_FLOWS_PER_SECOND) + 1;
    rig.send("S", &numbered(&rig, 9_000, 0));
    assert_eq!(answer_all(&mut rig), 1, "one more, a while later");
}

#[test]
fn a_port_that_floods_new_flows_does_not_delay_the_set_up_of_anothers() {
    let mut town = nsh();
    town.endpoint("H", 0, CUSTOMER, &["10.0.0.3"]);
    let mut rig = Rig::with(reactive(town, WhenAway::Drop), |_| {}, 2_048);
    rig.note_controller(0, true);
    rig.moved();
    let hostile = |rig: &Rig, port: u16| {
        let source = "10.0.0.3".parse().unwrap();
        let source_mac = rig.town.mac("H");
        let of = packet(&rig.town, CHAINED_PORT);
        Spec { source, source_mac, ports: (port, of.ports.1), ..of }.frame()
    };
    // The same flow as the other port will send, too: that does not fill his room.
    for _ in 0..40 {
        let mut frame = numbered(&rig, 7, 0);
        frame[6..12].copy_from_slice(&rig.town.mac("H").0);
        rig.send("H", &frame);
    }
    for port in 0..5_000 {
        let frame = hostile(&rig, 10_000 + port);
        rig.send_all("H", [(); 2].map(|()| (frame.clone(), Offload::default())));
    }
    let before = rig.flows_asked(0);
    assert!(before.len() <= SETUP_PORT_FLOWS_MAX, "so many are before him, and no more");
    let held = rig.counters()[0].total().held as usize;
    assert!(held < SETUP_NODE_PACKETS_MAX, "there is room");
    for number in 0..SETUP_FLOW_PACKETS_MAX {
        rig.send("S", &numbered(&rig, 7, number as u8));
    }
    let asked = rig.flows_asked(0);
    assert_eq!(asked.len(), 1, "he is asked for at once");
    let answer = answers(&rig, &asked);
    rig.set_up((0, asked[0].0), &answer);
    assert_eq!(arrived(&mut rig).len(), SETUP_FLOW_PACKETS_MAX, "none of his is lost");
    let moved = rig.moved();
    assert!(!moved.keys().any(|name| name.starts_with("S dropped")), "{moved:?}");
    assert!(moved["H dropped setup_node_full"] > 4_000, "{moved:?}");
}

#[test]
fn a_chain_that_turns_takes_what_waits_with_it_and_asks_for_nothing_that_is_known() {
    let mut rig = begun(nsh());
    rig.send("S", &numbered(&rig, 7, 0));
    answer_all(&mut rig);
    rig.send("S", &numbered(&rig, 8, 1));
    rig.flows_asked(0);
    // The chain goes on over another path, and is still asked for.
    rig.town.chains[0].path = 101;
    rig.town.setups[0].path = PathId(101);
    rig.apply();
    rig.send("S", &numbered(&rig, 7, 2));
    let asked = rig.flows_asked(0);
    let paths: Vec<PathId> = asked.iter().map(|(_, asked)| asked.path).collect();
    assert_eq!(paths, [PathId(101)], "what waited is asked for anew, and what is known is not");
    let answer = answers(&rig, &asked);
    rig.set_up((0, asked[0].0), &answer);
    assert_eq!(arrived(&mut rig), [0, 2, 1]);
    // It is not asked for any more.
    rig.send("S", &numbered(&rig, 9, 3));
    rig.town.setups.clear();
    rig.apply();
    rig.send("S", &numbered(&rig, 9, 4));
    assert_eq!(arrived(&mut rig), [3, 4]);
    // Nor is there a chain.
    rig.town.setups = vec![SetupEntry { path: PathId(101), away: WhenAway::Drop }];
    rig.apply();
    rig.send("S", &numbered(&rig, 10, 5));
    rig.town.chains.clear();
    rig.town.setups.clear();
    rig.apply();
    rig.sleep(10);
    assert_eq!(arrived(&mut rig), [5], "ordinary traffic");
    assert!(setups(&rig) == ChainSetups::default());
}

#[test]
fn what_waits_of_a_port_that_leaves_ends_by_name() {
    let mut rig = begun(nsh());
    rig.send("S", &numbered(&rig, 7, 0));
    let asked = rig.flows_asked(0);
    let answer = answers(&rig, &asked);
    rig.town.absent.insert("S".into());
    rig.apply();
    rig.set_up((0, asked[0].0), &answer);
    assert_eq!(rig.counters()[0].total().dropped[&DropReason::UnknownPort], 1);
    assert_eq!(rig.counters()[0].total().held, 0);
}

#[test]
fn the_time_of_a_set_up_is_split_into_where_it_went() {
    let mut rig = begun(nsh());
    rig.send("S", &numbered(&rig, 7, 0));
    let asked = rig.flows_asked(0);
    let mut answer = answers(&rig, &asked);
    answer[0].times = FlowTimes { header: 1_000, controller: 20_000, channel: 300_000 };
    rig.now_ns += MS_NS;
    rig.set_up((0, asked[0].0), &answer);
    let counted = &rig.counters()[0].setups;
    let parts = [&counted.header, &counted.controller, &counted.channel, &counted.edge];
    assert_eq!(parts.map(|part| part.sum_ns), [1_000, 20_000, 300_000, 679_000]);
    assert_eq!((counted.whole.count, counted.whole.sum_ns), (1, MS_NS));
}

#[test]
fn explain_says_that_the_controller_would_be_asked_and_asks_nobody() {
    let mut rig = begun(nsh());
    let frame = numbered(&rig, 7, 0);
    let told = crate::explain::text(&tell(&rig, "S", &frame, None));
    crate::explain::golden("nsh-reactive", &told);
    assert!(told.contains("the controller is asked for its flow"), "{told}");
    assert_eq!(rig.flows_asked(0), []);
    rig.send("S", &frame);
    answer_all(&mut rig);
    let told = crate::explain::text(&tell(&rig, "S", &frame, None));
    assert!(!told.contains("the controller"), "it is known: {told}");
}

#[test]
fn a_flow_of_several_workers_waits_at_one_and_is_asked_for_once() {
    let mut rig = Rig::of_engines(3, reactive(nsh(), WhenAway::Drop), |_| {}, 512);
    rig.note_controller(0, true);
    for round in 0..3 {
        for port in 0..30 {
            rig.send("S", &numbered(&rig, 100 + port, round));
        }
    }
    let asked = rig.flows_asked(0);
    assert_eq!(asked.len(), 30);
    assert!(asked.iter().any(|(engine, _)| *engine != asked[0].0), "by several");
    for one in &asked {
        let answer = answers(&rig, std::slice::from_ref(one));
        rig.set_up((0, one.0), &answer);
    }
    let mut last: std::collections::BTreeMap<[u8; 2], u8> = std::collections::BTreeMap::new();
    let frames = rig.take("D");
    assert_eq!(frames.len(), 90);
    for frame in frames {
        let (port, number) = ([frame[34], frame[35]], *frame.last().unwrap());
        let before = last.insert(port, number);
        assert_eq!(before.map_or(0, |before| before + 1), number, "in order");
    }
}

#[test]
fn rules_of_other_chains_and_ordinary_traffic_wait_for_nobody() {
    let mut town = nsh();
    town.chain("other", Encapsulation::Nsh, &[&["v2"]], &rules(6_000));
    let mut rig = begun(town);
    rig.send("S", &numbered(&rig, 7, 0));
    rig.send("S", &packet(&rig.town, 6_000).frame());
    rig.send("S", &packet(&rig.town, 9).frame());
    assert_eq!(rig.take("D").len(), 2);
    let is_frame = |one: &&Happening| matches!(one, Happening::Frame { port, .. } if port == "D");
    assert_eq!(rig.log.iter().filter(is_frame).count(), 2);
}
