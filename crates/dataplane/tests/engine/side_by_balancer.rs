//! A balancer with others at its hop that threads are asked for: connections go to the same servers, and back, as where
//! the engine asks one after the other.

use crate::frames::flow;
use crate::inside_balancer::{CLIENT, SERVERS, VIRTUAL, segment, town};
use crate::rig::Rig;
use crate::scene::CHAINED_PORT;
use crate::side_by_side::{AT, Drawn, Nature, by_flow, patterns};
use catena_dataplane::engine::{EngineConfig, Form, StateChange};
use catena_io::Offload;
use catena_model::resource::Encapsulation;
use catena_nf::random::Random;
use catena_wire::tcp::TcpFlags;
use std::collections::BTreeMap;
use std::sync::Arc;

const GROUPS: usize = 40;
const ENDS: [&str; 3] = ["S", "D1", "D2"];

/// What a group has led to: frames at each end, and what was counted.
type Outcome = (Vec<Vec<Vec<u8>>>, BTreeMap<String, u64>);

/// Connections that begin, are answered by whoever got them, and go on.
fn outcomes(form: Option<Form>, seed: u64) -> (Vec<Outcome>, Vec<StateChange>, usize) {
    let mut town = town(Encapsulation::Nsh, &[&["ids"], &["log"], &["lb"]]);
    town.function("ids", AT, (0, 0));
    let ids = patterns(
        "ids",
        "alert tcp any any -> any any (msg:\"one\"; content:\"abc\"; sid:1; rev:1;)",
    );
    town.bundled.insert(("ids".into(), String::new()), ids);
    town.has_segments = true;
    assert_eq!(town.program(AT).paths[0].hops.len(), 1);
    let keep = |config: &mut EngineConfig| {
        config.functions_keep = Some(Default::default());
        config.is_coalescing = false;
    };
    let mut rig = Rig::of_engines(1, town, keep, 2_048);
    let mut asked = Arc::default();
    if let Some(form) = form {
        let drawn = Drawn::new(4, seed, Nature::Slow);
        asked = Arc::clone(&drawn.asked);
        rig.nodes[AT].engines[0].lend_to(Box::new(drawn), Some(form));
    }
    let mut random = Random::new(seed);
    let mut outcomes = Vec::new();
    for _ in 0..GROUPS {
        rig.nodes[AT].at_once = 1 + random.below(6);
        for _ in 0..4 + random.below(12) {
            let ports = (40_000 + random.below(60) as u16, CHAINED_PORT);
            let flags = if random.below(2) == 0 { TcpFlags::SYN } else { TcpFlags::ACK };
            let payload = [&b""[..], b"xabcx"][random.below(2)].to_vec();
            let sent = segment(&rig.town, ("S", CLIENT), VIRTUAL, ports, flags);
            rig.queue("S", &crate::frames::Spec { payload, ..sent }.frame(), Offload::default());
        }
        rig.run();
        let came: Vec<Vec<Vec<u8>>> = ENDS.map(|end| rig.take(end)).into();
        for ((name, own), frames) in SERVERS.into_iter().zip(&came[1..]) {
            for frame in frames {
                let asked = flow(frame);
                let ports = (asked.destination_port, asked.source_port);
                let flags = TcpFlags::SYN.with(TcpFlags::ACK);
                let answer = segment(&rig.town, (name, own), CLIENT, ports, flags);
                rig.queue(name, &answer.frame(), Offload::default());
            }
        }
        rig.run();
        let back = ENDS.map(|end| rig.take(end));
        outcomes.push(([came, back.into()].concat(), rig.moved()));
        rig.sleep(if random.below(4) == 0 { 20_000 } else { 30 });
    }
    let state = rig.nodes[AT].engines[0].take_function_state(true);
    let asked = *asked.lock().unwrap();
    (outcomes, state, asked)
}

#[test]
fn beside_a_balancer_it_is_the_same() {
    for seed in 0..3 {
        let (serial, state, _) = outcomes(None, seed);
        let at = |end: usize| serial.iter().map(|(came, _)| came[end].len()).sum::<usize>();
        assert!(at(1) > 30 && at(2) > 30 && at(3) > 60, "{} {} {}", at(1), at(2), at(3));
        for form in [Form::Fork, Form::Pipeline] {
            let (lent, remembered, asked) = outcomes(Some(form), seed);
            assert!(asked > 200, "{asked} questions");
            for ((lent, counted), (serial, expected)) in lent.iter().zip(&serial) {
                assert_eq!(counted, expected, "{form:?}, {seed}: what is counted");
                for (lent, serial) in lent.iter().zip(serial) {
                    assert!(by_flow(lent) == by_flow(serial), "{form:?}, {seed}");
                }
            }
            assert!(remembered == state, "{form:?}, {seed}: what is remembered");
        }
    }
}
