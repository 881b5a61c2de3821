//! Functions that threads are asked for, beside the kernel's path: what is written down for the kernel of a new flow
//! waits for nobody, and the kernel takes no packet that a function is asked about.

use crate::differential::with_interfaces;
use crate::scene::{packet, rules, three_hosts};
use crate::twin::{Report, Twin};
use catena_dataplane::engine::{Call, Form, Lanes, Origin, Output, Packet, Reply};
use catena_model::bundle::Configuration;
use catena_model::kernel::Declined;
use catena_model::resource::Encapsulation;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

const PORTS: usize = 14;
const FLOWS: u16 = 3;
const MEMBERS: usize = 2;

/// Threads that are none: what is asked waits until somebody lets it go.
#[derive(Clone, Default)]
struct Keeping {
    kept: Arc<Mutex<VecDeque<Box<Call>>>>,
    may_go: Arc<Mutex<bool>>,
}

impl Lanes for Keeping {
    fn count(&self) -> usize {
        MEMBERS
    }

    fn handoff_ns(&self) -> u64 {
        0
    }

    fn put(&self, _lane: usize) -> u64 {
        0
    }

    fn hand(&mut self, _lane: usize, call: Box<Call>) -> Result<(), Box<Call>> {
        self.kept.lock().unwrap().push_back(call);
        Ok(())
    }

    fn answer(&mut self) -> Option<Reply> {
        let may_go = *self.may_go.lock().unwrap();
        let mut kept = self.kept.lock().unwrap();
        if may_go { kept.pop_front().map(|call| call.put()) } else { None }
    }

    fn wait(&mut self, _most_ns: u64) -> Option<Reply> {
        panic!("nobody waits for an answer")
    }
}

fn check(interfaces: &[u32]) {
    let mut town = three_hosts();
    for name in ["m1", "m2"] {
        town.function(name, 0, (0, 0));
        let monitor = Configuration::new("monitor", "{}");
        town.bundled.insert((name.into(), String::new()), monitor);
    }
    town.has_segments = true;
    town.chain("c", Encapsulation::Nsh, &[&["m1"], &["m2"]], &rules(5_001));
    let mut twin = Twin::new(town, 0, interfaces, Report::default());
    let lanes = Keeping::default();
    twin.beside.engine.lend_to(Box::new(lanes.clone()), Some(Form::Fork));

    let origin = twin.beside.engine.slot_of(twin.town.port_named("S").id).unwrap();
    let flow = packet(&twin.town, 5_001);
    let mut input = Vec::new();
    for number in 0..FLOWS {
        let mut spec = flow.clone();
        spec.ports = (40_000 + number, 5_001);
        let mut buffer = twin.beside.pool.take().unwrap();
        assert!(buffer.fill(&spec.frame()));
        input.push(Packet::from_kernel(Origin::Port(origin), buffer, false));
    }
    let mut out = Output::default();
    let side = &mut twin.beside;
    side.engine.forward(1_000, &mut input, &mut side.pool, &mut out);
    assert_eq!(side.engine.lent_packets(), u64::from(FLOWS));
    assert_eq!(lanes.kept.lock().unwrap().len(), usize::from(FLOWS) * MEMBERS);
    assert!(out.datagrams.is_empty() && out.frames.is_empty());

    *lanes.may_go.lock().unwrap() = true;
    side.engine.take_answers(2_000, &mut side.pool, &mut out);
    assert_eq!((side.engine.lent_packets(), out.datagrams.len()), (0, usize::from(FLOWS)));
    for datagram in out.datagrams {
        let booking = out.batches.withdraw(datagram.share);
        side.engine.credit_sent(booking);
        side.pool.put(datagram.buffer);
    }
    let counters = twin.counters_beside();
    let kernel = counters.dataplane.kernel.unwrap();
    let declined = kernel.declined.get(&Declined::BundledFunction).copied();
    assert_eq!((declined, kernel.installed), (Some(u64::from(FLOWS)), 0), "{kernel:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_flows_wait_for_no_thread_that_is_asked_about_others() {
    const NAME: &str = "new_flows_wait_for_no_thread_that_is_asked_about_others";
    with_interfaces(NAME, PORTS, check).await;
}
