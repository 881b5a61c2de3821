//! Functions: rules as people write them, packets of strangers, and what another function has exported.

use crate::seeds;
use catena_nf::Function;
use catena_nf::balancer::Balancer;
use catena_nf::firewall::Firewall;
use catena_nf::function::StateEntry;
use catena_nf::ids::{Ids, IdsConfig};
use catena_nf::monitor::{Monitor, MonitorConfig};
use catena_nf::nat::{Nat, NatOptions};
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Direction, Packet, Time};
use catena_nf::tracking::TrackingConfig;
use catena_nf::{carry_out, check};
use catena_rules::rule_set::Families;
use catena_rules::{ReadOptions, RuleError, Unsupported};
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::FrameView;
use std::collections::BTreeMap;

const RULES: &str = "*filter\n:FORWARD DROP [0:0]\n:web - [0:0]\n\
    -A FORWARD -m conntrack --ctstate INVALID -j DROP\n\
    -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
    -A FORWARD -p tcp -m multiport --dports 80,443 -j web\n\
    -A FORWARD -p udp -m limit --limit 5/second -j ACCEPT\n\
    -A FORWARD -j REJECT\n\
    -A web -p tcp -m tcp --tcp-option 2 -j ACCEPT\n\
    -A web -j REJECT --reject-with tcp-reset\nCOMMIT\n";

const NAT: &str = "masquerade: [10.0.0.0/8]\npool: [203.0.113.4]\n\
    dnat: [{to: 203.0.113.4, protocol: tcp, port: 8080, inside: 10.0.1.7, inside_port: 80}]\n";

const SERVICES: &str = "sessions_max: 8\nservices:\n  - name: web\n    address: 10.0.0.2\n    protocol: tcp\n    port: 80\n    \
    backends: [{address: 10.0.1.11, port: 8080}, {address: 10.0.1.12, port: 8080, weight: 2}]\n";

const SNORT: &str = "alert tcp any any -> any 80 (msg:\"one\"; flow:established,to_server; content:\"GET\"; http_method; \
    content:\"/a\"; http_uri; pcre:\"/b[0-9]+/\"; flowbits:set,seen; sid:1;)\n\
    drop udp any any -> any any (msg:\"two\"; content:\"|00 01|\"; offset:1; depth:9; byte_test:1,>,3,0,relative; \
    threshold:type limit,track by_src,count 1,seconds 60; sid:2;)\n";

/// Room for little, as each input makes its own.
fn small_ids() -> IdsConfig {
    IdsConfig {
        flows_max: 8,
        reassembly_bytes: 1 << 20,
        is_preventing: true,
        ..IdsConfig::default()
    }
}

fn options(unsupported: Unsupported) -> ReadOptions {
    ReadOptions { file: "fuzzed".into(), unsupported, ..ReadOptions::default() }
}

/// Room for few connections, as each input makes its own functions.
fn small() -> TrackingConfig {
    TrackingConfig { connections_max: 8, ..TrackingConfig::default() }
}

/// Rules: what is wrong is told with what to do, and what is read makes a firewall.
pub(crate) fn rules(bytes: &[u8]) {
    let (half, other) = bytes.split_at(bytes.len() / 2);
    let text = String::from_utf8_lossy(bytes).into_owned();
    let edited = seeds::edited(seeds::nft(), bytes).to_string();
    let spliced =
        format!("{}{}", &RULES[..half.len().min(RULES.len())], String::from_utf8_lossy(other));
    for text in [text, edited, spliced] {
        configurations(&text);
        for unsupported in [Unsupported::Refuse, Unsupported::Skip] {
            match catena_rules::read(&text, Families::V4, &options(unsupported)) {
                Ok(set) => drop(Firewall::with_tracking(&[set], &small()).unwrap()),
                Err(error) => is_told(&error),
            }
        }
    }
}

fn is_told(RuleError { what, advice, .. }: &RuleError) {
    assert!(!what.is_empty() && !advice.is_empty(), "{what:?} {advice:?}");
}

/// The same for what other functions are made of, and for theirs with a part of the text in it.
fn configurations(text: &str) {
    let part: String = text.chars().take(40).collect();
    let with = |own: &str| {
        let at = text.len() % own.len().max(1);
        format!("{}{part}{}", &own[..at], &own[at..])
    };
    for text in [text.to_owned(), with(NAT)] {
        match catena_rules::nat::read(&text, "fuzzed") {
            Ok(config) => {
                drop(Nat::new(&config, &NatOptions { flows_max: 8, ..NatOptions::default() }));
            }
            Err(error) => is_told(&error),
        }
    }
    for text in [text.to_owned(), with(SERVICES)] {
        if let Err(error) = catena_rules::balancer::read(&text, "fuzzed") {
            is_told(&error);
        }
    }
    for text in [text.to_owned(), with(SNORT)] {
        match catena_rules::snort::read(&text, &BTreeMap::new(), &options(Unsupported::Skip)) {
            Ok(rules) => drop(Ids::new(rules, small_ids()).unwrap()),
            Err(error) => is_told(&error),
        }
    }
}

/// Packets: whatever they are, outcomes keep to the profile and can be carried out.
pub(crate) fn packets(bytes: &[u8]) {
    let set = catena_rules::read(RULES, Families::V4, &options(Unsupported::Refuse)).unwrap();
    let tracking = small();
    let nat = catena_rules::nat::read(NAT, "nat").unwrap();
    let services = catena_rules::balancer::read(SERVICES, "services").unwrap();
    let snort = catena_rules::snort::read(SNORT, &BTreeMap::new(), &options(Unsupported::Refuse));
    let mut functions: [Box<dyn Function>; 5] = [
        Box::new(Firewall::with_tracking(&[set], &tracking).unwrap()),
        Box::new(Monitor::new(MonitorConfig { flows_max: 8, ..MonitorConfig::default() }).unwrap()),
        Box::new(Nat::new(&nat, &NatOptions { flows_max: 8, ..NatOptions::default() }).unwrap()),
        Box::new(Balancer::new(&services)),
        Box::new(Ids::new(snort.unwrap(), small_ids()).unwrap()),
    ];
    let mut outcomes = Outcomes::default();
    for (at, frame) in (0..).zip(bytes.chunks(200)) {
        let Ok(packet) = Packet::read(frame) else { continue };
        let way = if at % 2 == 0 { Direction::Forward } else { Direction::Backward };
        for function in &mut functions {
            let answer = function.ask(Time::seconds(at), way, &packet);
            function.process(Time::seconds(at), way, &[packet], &mut outcomes);
            assert_eq!(outcomes.verdicts(), [answer.verdict]);
            check::outcomes(function.profile(), 1, &outcomes).unwrap();
            let (mut changed, mut metadata) = (frame.to_vec(), packet.metadata);
            let place = (changed.as_mut_slice(), &packet.view);
            carry_out::apply(outcomes.patches_of(0), place, packet.upper, &mut metadata).unwrap();
        }
    }
    let entry = |bytes: &[u8]| {
        let (key, value) = bytes.split_at(bytes.len().min(16));
        StateEntry { key: key.to_vec(), value: Some(value.to_vec()) }
    };
    let entries: Vec<StateEntry> = bytes.chunks(64).map(entry).collect();
    for function in &mut functions {
        function.import(&entries);
        let mut exported = Vec::new();
        function.export(true, &mut exported);
        function.elapse(Time(u64::MAX), &mut outcomes);
    }
}

/// Fields: whatever a frame is, none is read or written beyond it.
pub(crate) fn fields(bytes: &[u8]) {
    let Ok(view) = FrameView::parse(bytes) else { return };
    for field in Field::ALL.iter().copied() {
        let Some(value) = field.read(bytes, &view) else { continue };
        let mut frame = bytes.to_vec();
        let same = (value, u128::MAX);
        // What only the view knows cannot be written.
        if let Ok(changed) = field.write(&mut frame, &view, same, UpperChecksum::Closed) {
            assert!(!changed && frame == bytes, "{field:?}");
            let _ = field.write(&mut frame, &view, (!value, u128::MAX), UpperChecksum::Open);
            assert_eq!(frame.len(), bytes.len());
        }
    }
}
