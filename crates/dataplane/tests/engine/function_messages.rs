//! What functions hand out, which is no packet: alerts and flow records leave the engine by whom they are of and for,
//! and those that find no room are counted.

use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6, with_chain};
use crate::town::Town;
use catena_dataplane::engine::{Engine, EngineConfig, FunctionMessage};
use catena_model::CounterScope;
use catena_model::account::MessageCounters;
use catena_model::bundle::Configuration;
use catena_model::limits::NODE_FUNCTION_MESSAGES_BYTES_MAX;
use catena_model::resource::Encapsulation;
use catena_wire::ipfix::Message;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// When the time of functions starts in these tests, and what of it was over when the engine's began.
const EPOCH_SECONDS: u64 = 1_700_000_000;
const BEGAN_NS: u64 = 250_000_000;
const COLLECTOR: &str = "collector:4739";

fn put(town: &mut Town, name: &str, kind: &str, config: &Value) {
    let configuration = Configuration::new(kind, config.to_string());
    town.bundled.insert((name.to_owned(), String::new()), configuration);
}

/// Tells of every packet of UDP.
fn ids() -> Value {
    let text = "alert udp any any -> any any (msg:\"seen\"; sid:7; rev:2;)";
    json!({"file": {"name": "web.rules", "text": text}, "reassembly_mib": 1})
}

/// A rig in whose only chain a function stands.
fn rig(kind: &str, config: &Value) -> Rig {
    let change = |config: &mut EngineConfig| config.functions_began_ns = BEGAN_NS;
    let mut rig = Rig::with(with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]), change, 512);
    let tables = rig.tables(0).clone().since(EPOCH_SECONDS);
    rig.replace_tables(0, tables);
    put(&mut rig.town, "v1", kind, config);
    rig.apply();
    rig
}

fn taken(rig: &mut Rig) -> Vec<FunctionMessage> {
    rig.nodes[0].engines.iter_mut().flat_map(Engine::take_function_messages).collect()
}

fn counted(rig: &Rig) -> MessageCounters {
    let functions = BTreeSet::from([rig.town.instance_id("v1")]);
    let of = CounterScope { functions, ..CounterScope::default() };
    rig.nodes[0].counters_of(Some(&of)).functions.remove(0).messages
}

#[test]
fn an_alert_leaves_once_with_its_instance_and_the_time_of_day() {
    for make in [packet, packet_v6] {
        let mut rig = rig("ids", &ids());
        let sent = make(&rig.town, CHAINED_PORT);
        rig.pass(1_500);
        rig.send("S", &sent.frame());
        let messages = taken(&mut rig);
        let [FunctionMessage { instance, collector: None, body }] = messages.as_slice() else {
            panic!("{messages:?}");
        };
        assert_eq!(*instance, rig.town.instance_id("v1"));
        let alert: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(alert["alert"]["signature_id"], 7, "{alert}");
        assert_eq!(alert["src_ip"], sent.source.to_string(), "{alert}");
        // 1,700,000,000 s are 2023-11-14T22:13:20Z; a quarter of a second was over, then 1.5 passed.
        assert_eq!(alert["timestamp"], "2023-11-14T22:13:21.750000+0000", "{alert}");
        assert!(taken(&mut rig).is_empty());
        assert_eq!(counted(&rig), MessageCounters { handed_out: 1, ..MessageCounters::default() });
        assert_eq!(rig.take("v4.in").len(), 1, "the packet itself goes on");
    }
}

#[test]
fn what_finds_no_room_is_lost_by_number_and_the_packets_go_on() {
    let mut rig = rig("ids", &ids());
    let sent = packet(&rig.town, CHAINED_PORT);
    let mut all = 0;
    while counted(&rig).lost == 0 {
        for _ in 0..512 {
            rig.send("S", &sent.frame());
        }
        all += 512;
        assert_eq!(rig.take("v4.in").len(), 512);
    }
    let MessageCounters { handed_out, lost, .. } = counted(&rig);
    let messages = taken(&mut rig);
    assert_eq!((handed_out, messages.len() as u64 + lost), (all, all));
    let bytes: usize = messages.iter().map(|message| message.body.len()).sum();
    assert!(bytes <= NODE_FUNCTION_MESSAGES_BYTES_MAX);
    rig.send("S", &sent.frame());
    assert_eq!((taken(&mut rig).len(), counted(&rig).lost), (1, lost), "there is room again");
}

#[test]
fn flow_records_are_for_the_collector_that_is_named_or_for_nobody() {
    let short = |config: Value| {
        let mut rig = rig("monitor", &config);
        let sent = packet(&rig.town, CHAINED_PORT);
        rig.send("S", &sent.frame());
        rig.pass(4_000);
        rig
    };
    let mut told = short(json!({"ipfix": COLLECTOR, "idle_seconds": 1, "domain": 3}));
    let messages = taken(&mut told);
    assert!(!messages.is_empty());
    let mut records = 0;
    for FunctionMessage { collector, body, .. } in &messages {
        assert_eq!(collector.as_deref(), Some(COLLECTOR));
        let message = Message::parse(body).unwrap();
        assert_eq!(message.header.domain, 3);
        let since = u64::from(message.header.export_seconds) - EPOCH_SECONDS;
        assert!(since <= 5, "{since} s");
        records += message.sets().flat_map(|set| set.records()).count();
    }
    assert_eq!(records, 1);
    let number = messages.len() as u64;
    assert_eq!(
        counted(&told),
        MessageCounters { handed_out: number, ..MessageCounters::default() }
    );
    let mut untold = short(json!({"idle_seconds": 1}));
    assert!(taken(&mut untold).is_empty());
    let counters = counted(&untold);
    assert_eq!((counters.handed_out, counters.unwanted), (number, number));
}
