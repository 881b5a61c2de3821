//! Reactive set-up by the whole process: questions come up by the control socket, and what waited goes on with the
//! answers.

use crate::agent::TestAgent;
use crate::is_privileged;
use crate::node::{CHAIN_PORT, DESTINATION, Machine, SOURCE, program, whole};
use crate::traffic::udp;
use catena_model::program::{SetupEntry, WhenAway};
use catena_model::{DropReason, PathId};
use catena_protocol::message::{
    ControllerPresence, FlowAnswer, FlowAnswers, FlowAsked, from_dataplane, to_dataplane,
};
use std::collections::{BTreeMap, HashMap};
use std::net::UdpSocket;

const FLOWS: usize = 8;
const ROW: u64 = 5;

fn say_presence(agent: &mut TestAgent, is_there: bool) {
    agent.send(to_dataplane::Message::ControllerPresence(ControllerPresence { is_there }));
    // Nothing answers it, and what is asked next is answered behind it.
    agent.state();
}

/// As the controller would answer.
fn answer(asked: &FlowAsked) -> FlowAnswer {
    FlowAnswer {
        sequence: asked.sequence,
        worker: asked.worker,
        sent_ns: asked.sent_ns,
        path: asked.path,
        legs: Vec::new(),
        header_ns: 1,
        controller_ns: 2,
    }
}

/// The flows that are asked for, by source port, until there are so many.
fn asked(agent: &mut TestAgent, count: usize) -> BTreeMap<u32, FlowAsked> {
    let mut all = BTreeMap::new();
    while all.len() < count {
        match agent.hear() {
            Some(from_dataplane::Message::FlowsAsked(asked)) => {
                all.extend(asked.flows.into_iter().map(|flow| (flow.source_port, flow)));
            }
            other => panic!("no flows but {other:?}"),
        }
    }
    all
}

#[tokio::test]
async fn new_flows_of_a_reactive_chain_wait_in_their_worker_for_what_the_control_socket_brings() {
    if !is_privileged(
        "new_flows_of_a_reactive_chain_wait_in_their_worker_for_what_the_control_socket_brings",
    ) {
        return;
    }
    for workers in [1, 3] {
        let machine = Machine::new().await;
        let (_dataplane, mut agent) = machine.start_whole(1, workers).await;
        let mut reactive = program(2);
        reactive.setups = vec![SetupEntry { path: PathId(5), away: WhenAway::Drop }];
        assert_eq!(agent.offer(whole(&reactive)), "");
        say_presence(&mut agent, true);
        let receiver = udp(&machine.destination.namespace, DESTINATION, CHAIN_PORT);
        let flow = |_| udp(&machine.source.namespace, SOURCE, 0);
        let senders: Vec<UdpSocket> = (0..FLOWS).map(flow).collect();
        for number in 0..ROW {
            for sender in &senders {
                sender.send_to(&number.to_be_bytes(), (DESTINATION, CHAIN_PORT)).unwrap();
            }
        }
        let flows = asked(&mut agent, FLOWS);
        // What is still on its way when the answer comes need not wait.
        let held = |agent: &mut TestAgent| {
            let counters = agent.counters();
            counters.setups.chains.values().map(|setups| setups.held).sum::<u64>()
        };
        while held(&mut agent) < FLOWS as u64 * ROW {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let answers = FlowAnswers { flows: flows.values().map(answer).collect() };
        agent.send(to_dataplane::Message::FlowAnswers(answers));
        let mut next: HashMap<u16, u64> = HashMap::new();
        for _ in 0..FLOWS as u64 * ROW {
            let mut bytes = [0; 8];
            let (_, from) = receiver.recv_from(&mut bytes).unwrap();
            let next = next.entry(from.port()).or_default();
            assert_eq!(u64::from_be_bytes(bytes), *next, "of the flow from {from}");
            *next += 1;
        }
        // Another agent has said nothing of a controller yet.
        drop(agent);
        let mut agent = TestAgent::connect(&machine.socket_path());
        agent.state();
        let late = flow(0);
        late.send_to(&[9; 8], (DESTINATION, CHAIN_PORT)).unwrap();
        let is_dropped = |agent: &mut TestAgent| {
            agent.counters().total().dropped.get(&DropReason::SetupUnanswered) == Some(&1)
        };
        while !is_dropped(&mut agent) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        senders[0].send_to(&[7; 8], (DESTINATION, CHAIN_PORT)).unwrap();
        let mut bytes = [0; 8];
        receiver.recv_from(&mut bytes).unwrap();
        assert_eq!(bytes, [7; 8], "who is known goes on");
        let counters = agent.counters();
        let setups: Vec<_> = counters.setups.chains.values().collect();
        assert_eq!(setups[0].answered, FLOWS as u64);
        // A worker may hear of the late packet before it hears that the agent has gone.
        let late = setups[0].asked - FLOWS as u64;
        assert!(late <= 1, "{setups:?}");
        assert_eq!(setups[0].held, FLOWS as u64 * ROW + late);
    }
}
