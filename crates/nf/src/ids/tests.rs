//! Rules held against packets: profiles that the harness believes, thresholds, what an ips ends.

use super::*;
use crate::harness::traffic::{self, Shape};
use crate::harness::{Input, verify};
use crate::packet::Metadata;
use catena_rules::{ReadOptions, snort};
use catena_wire::scalar::MacAddr;
use catena_wire::tcp::TcpFlags;

pub(super) fn rules(text: &str) -> IdsRules {
    let variables = [("HOME_NET".to_owned(), "[10.0.0.0/16,2001:db8::/32]".to_owned())].into();
    let options = ReadOptions { file: "edge.rules".into(), ..ReadOptions::default() };
    snort::read(text, &variables, &options).unwrap_or_else(|wrong| panic!("{wrong}"))
}

pub(super) fn config(is_preventing: bool) -> IdsConfig {
    IdsConfig {
        is_preventing,
        flows_max: 4_096,
        epoch_seconds: 1_700_000_000,
        ..IdsConfig::default()
    }
}

pub(super) fn ids(text: &str, is_preventing: bool) -> Ids {
    Ids::new(rules(text), config(is_preventing)).unwrap()
}

/// A client's connection to a server on port 80.
pub(super) struct Talk {
    pub(super) at: u64,
    client: u32,
    server: u32,
    port: u16,
    is_v6: bool,
}

const CLIENT: (&str, &str) = ("10.0.0.1", "2001:db8::1");
const SERVER: (&str, &str) = ("10.0.1.2", "2001:db8::2");

impl Talk {
    pub(super) fn new(port: u16, is_v6: bool) -> Self {
        Self { at: 1_000_000, client: 1_000, server: 9_000, port, is_v6 }
    }

    /// A segment at a place of the stream of one end, counted from its first byte of data.
    pub(super) fn segment(
        &mut self,
        is_client: bool,
        flags: u8,
        place: i64,
        payload: &[u8],
    ) -> Input {
        let pick = |(v4, v6): (&str, &str)| if self.is_v6 { v6 } else { v4 }.parse().unwrap();
        let (mut ends, mut ports) = ((pick(CLIENT), pick(SERVER)), (self.port, 80));
        if !is_client {
            (ends, ports) = ((ends.1, ends.0), (80, self.port));
        }
        let shape = Shape {
            ends,
            protocol: IpProtocol::TCP,
            ports,
            flags: TcpFlags(flags),
            options: Vec::new(),
            traffic_class: 0,
            ttl: 64,
            identification: 1,
            payload: payload.to_vec(),
            vlan: None,
            is_later_fragment: false,
            macs: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        };
        let mut frame = shape.frame().unwrap();
        let start = if self.is_v6 { 54 } else { 34 };
        let (own, other) =
            if is_client { (self.client, self.server) } else { (self.server, self.client) };
        let number = own.wrapping_add(place as u32);
        let tcp = &mut frame[start..];
        tcp[4..8].copy_from_slice(&number.to_be_bytes());
        tcp[8..12].copy_from_slice(&(if flags & 0x10 == 0 { 0 } else { other }).to_be_bytes());
        catena_wire::tcp::refresh_checksum(tcp, ends.0, ends.1).unwrap();
        self.at += 1_000;
        let direction = if is_client { Direction::Forward } else { Direction::Backward };
        Input { at: Time(self.at), direction, frame, metadata: Metadata::default() }
    }

    pub(super) fn handshake(&mut self) -> Vec<Input> {
        vec![
            self.segment(true, 0x02, -1, b""),
            self.segment(false, 0x12, -1, b""),
            self.segment(true, 0x10, 0, b""),
        ]
    }
}

/// What an ids tells of inputs: numbers of rules, and the packets that ended.
pub(super) fn told(ids: &mut Ids, inputs: &[Input]) -> (Vec<(usize, u32)>, Vec<usize>) {
    let (mut alerts, mut ended) = (Vec::new(), Vec::new());
    let mut outcomes = Outcomes::default();
    for (at, input) in inputs.iter().enumerate() {
        let packet = Packet::read(&input.frame).unwrap();
        ids.process(input.at, input.direction, &[packet], &mut outcomes);
        alerts.extend(
            outcomes
                .events()
                .iter()
                .map(|(_, event)| (at, ids.program.rules.rules[event.rule as usize].sid)),
        );
        assert_eq!(outcomes.events().len(), outcomes.handed_out().len());
        if outcomes.verdicts()[0] != Verdict::Pass {
            ended.push(at);
        }
    }
    (alerts, ended)
}

const SETS: [&str; 4] = [
    "alert tcp any any -> any 80 (msg:\"a\"; content:\"attack\"; nocase; sid:1;)
     alert http any any -> any any (msg:\"u\"; flow:established,to_server; http.uri; content:\"/evil\"; \
     pcre:\"/^\\/evil[0-9]+$/\"; sid:2;)
     alert udp any any -> any 53 (msg:\"d\"; dsize:>100; sid:3;)
     alert icmp any any -> any any (msg:\"i\"; itype:8; sid:4;)",
    "alert tcp any any -> any any (msg:\"s\"; flags:S,12; threshold:type both,track by_src,count 5,seconds 60; sid:1;)
     alert udp any any -> any any (msg:\"f\"; detection_filter:track by_dst,count 3,seconds 30; sid:2;)
     alert ip any any -> any any (msg:\"r\"; threshold:type limit,track by_rule,count 1,seconds 10; sid:3;)
     alert tcp any any -> any any (msg:\"e\"; threshold:type threshold,track by_src,count 4,seconds 20; sid:4;)",
    "pass tcp $HOME_NET any -> any 22 (msg:\"p\"; sid:1;)
     drop tcp any any -> any 23 (msg:\"d\"; sid:2;)
     reject udp any any -> any 53 (msg:\"r\"; dsize:0<>50; sid:3;)
     reject tcp any any -> any 443 (msg:\"r\"; flags:S; sid:4;)
     drop http any any -> any any (msg:\"h\"; http.user_agent; content:\"sqlmap\"; nocase; sid:5;)
     drop tcp any any -> any 80 (msg:\"h\"; content:\"attack\"; sid:6;)",
    "alert tcp any any -> any any (msg:\"b\"; flow:established,to_server; content:\"attack\"; flowbits:set,seen; \
     flowbits:noalert; sid:1;)
     alert tcp any any -> any any (msg:\"c\"; flow:to_client; flowbits:isset,seen; content:\"root\"; sid:2;)
     alert tcp any any -> any any (msg:\"n\"; flowbits:isnotset,seen; flags:F+; sid:3;)
     alert ip any any -> any any (msg:\"t\"; ttl:<10; threshold:type limit,track by_dst,count 2,seconds 5; sid:4;)
     alert tcp any any -> any any (msg:\"k\"; content:\"GET\"; startswith; content:!\"HTTP/1.1\"; within:60; sid:5;)",
];

/// Strangers' packets, talks with attacks cut in pieces, and fragments.
pub(super) fn mixed(seed: u64, packets: usize) -> Vec<Input> {
    let mut inputs = traffic::draw(seed, packets);
    let mut random = traffic::Random::new(seed);
    let request = b"POST /%65vil42 HTTP/1.1\r\nHost: Shop.example:80\r\nUser-Agent: SQLMap/1\r\n\
                    Content-Length: 6\r\n\r\nattackGET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    let step = packets / 60;
    for number in 0..50_usize {
        let mut talk = Talk::new(20_000 + number as u16, number % 4 == 3);
        let mut own = talk.handshake();
        let mut place = 0;
        let mut pieces = Vec::new();
        while place < request.len() {
            let length = (1 + random.below(40)).min(request.len() - place);
            pieces.push(talk.segment(true, 0x18, place as i64, &request[place..place + length]));
            place += length;
        }
        if number % 3 == 0 && pieces.len() > 2 {
            pieces.swap(0, 1);
        }
        own.extend(pieces);
        own.push(talk.segment(false, 0x18, 0, b"HTTP/1.1 200 OK\r\n\r\nroot"));
        own.push(talk.segment(true, 0x11, place as i64, b""));
        if number % 5 == 0 {
            own = own
                .iter()
                .flat_map(|input| super::evasions::in_fragments(input, 48, number as u32))
                .collect();
        }
        let at = (number + 1) * step;
        let time = inputs[at].at;
        own.iter_mut().for_each(|input| input.at = time);
        inputs.splice(at..at, own);
    }
    inputs
}

#[test]
fn profiles_are_true() {
    for (set, text) in SETS.into_iter().enumerate() {
        for is_preventing in [false, true] {
            let inputs = mixed(7 + set as u64, 10_000);
            let made = || ids(text, is_preventing);
            let proof = verify(made, &inputs, 3)
                .unwrap_or_else(|wrong| panic!("{set} {is_preventing}: {wrong}"));
            assert!(
                proof.packets >= 10_500 && proof.events > 40,
                "{set} {is_preventing}: {proof:?}"
            );
            assert_eq!(proof.events, proof.handed_out);
            // An ips ends what it has no room for as well, such as bytes far ahead of their stream.
            assert!(is_preventing || proof.dropped == 0, "{proof:?}");
            if is_preventing && set == 2 {
                assert!(proof.dropped > 400 && proof.generated > 40, "{proof:?}");
            } else {
                assert_eq!(proof.generated, 0, "{proof:?}");
            }
        }
    }
}

#[test]
fn profiles_say_no_more_than_they_must() {
    let of = |text: &str, is_preventing| *ids(text, is_preventing).profile();
    let (watching, preventing) = (of(SETS[0], false), of(SETS[2], true));
    assert!(
        !watching.drops
            && !watching.generates
            && watching.has_effects
            && !watching.takes_super_frames
    );
    assert!(preventing.drops && preventing.generates);
    assert!(!of(SETS[2], false).generates && !of(SETS[2], false).drops);
    assert_eq!(watching.state, StateScope::Host);
    assert_eq!(of(SETS[1], false).state, StateScope::All, "by_rule");
    assert_eq!(watching.reads.bits(Field::EthernetSource), 0);
}

#[test]
fn an_ips_ends_what_completes_a_match_and_what_repeats_it() {
    let mut ids = ids(
        "drop tcp any any -> any 80 (msg:\"h\"; flow:established; content:\"attack\"; sid:6;)",
        true,
    );
    let mut talk = Talk::new(1_234, false);
    let mut inputs = talk.handshake();
    inputs.push(talk.segment(true, 0x18, 0, b"an at"));
    inputs.push(talk.segment(true, 0x18, 5, b"tack"));
    inputs.push(talk.segment(true, 0x18, 5, b"tack"));
    inputs.push(talk.segment(true, 0x18, 5, b"t"));
    inputs.push(talk.segment(true, 0x18, 6, b"ack"));
    inputs.push(talk.segment(true, 0x18, 6, b"ick"));
    let (alerts, ended) = told(&mut ids, &inputs);
    assert_eq!(ended, [4, 5, 7]);
    assert_eq!(alerts, [(4, 6), (5, 6), (7, 6)]);
    assert!(ids.statistics().alerts == 3);
}

#[test]
fn an_alert_has_eves_fields() {
    let text = "alert http any any -> any any (msg:\"say \\\"no\\\"\"; http.uri; content:\"/evil\"; \
                classtype:web-application-attack; gid:1; sid:77; rev:3;)";
    let mut ids = ids(text, false);
    let mut talk = Talk::new(4_000, false);
    let mut inputs = talk.handshake();
    let request =
        b"GET /a/../%65vil?q=%22 HTTP/1.1\r\nHost: Shop.Example:8080\r\nUser-Agent: curl/8\r\n\r\n";
    inputs.push(talk.segment(true, 0x18, 0, request));
    let mut outcomes = Outcomes::default();
    for input in &inputs {
        let packet = Packet::read(&input.frame).unwrap();
        ids.process(input.at, input.direction, &[packet], &mut outcomes);
    }
    let [(0, one)] = outcomes.handed_out() else { panic!("{:?}", outcomes.handed_out()) };
    assert_eq!(one.kind, HandedOutKind::Eve);
    let line: serde_json::Value =
        serde_json::from_slice(outcomes.bytes(one.message.clone())).unwrap();
    assert_eq!(line["timestamp"], "2023-11-14T22:13:20.001004+0000");
    assert_eq!(line["event_type"], "alert");
    assert_eq!((&line["src_ip"], &line["src_port"]), (&"10.0.0.1".into(), &4_000.into()));
    assert_eq!((&line["dest_ip"], &line["dest_port"]), (&"10.0.1.2".into(), &80.into()));
    assert_eq!(line["proto"], "TCP");
    assert!(line["flow_id"].as_u64().unwrap() < 1 << 53);
    let alert = &line["alert"];
    assert_eq!(alert["signature"], "say \"no\"");
    assert_eq!(
        (&alert["gid"], &alert["signature_id"], &alert["rev"]),
        (&1.into(), &77.into(), &3.into())
    );
    assert_eq!(
        (&alert["category"], &alert["severity"]),
        (&"Web Application Attack".into(), &1.into())
    );
    assert_eq!(alert["action"], "allowed");
    assert_eq!(line["http"]["hostname"], "shop.example");
    assert_eq!(line["http"]["url"], "/a/../%65vil?q=%22");
    assert_eq!(line["http"]["http_method"], "GET");
    assert_eq!(line["http"]["http_user_agent"], "curl/8");
}

#[test]
fn what_finds_no_room_passes_an_ids_and_ends_in_an_ips() {
    let text = "alert tcp any any -> any 80 (msg:\"a\"; content:\"attack\"; sid:1;)";
    for is_preventing in [false, true] {
        let config = IdsConfig { flows_max: 1, ..config(is_preventing) };
        let mut ids = Ids::new(rules(text), config).unwrap();
        let mut first = Talk::new(1, false);
        let mut second = Talk::new(2, false);
        let inputs = [first.handshake(), vec![second.segment(true, 0x18, 0, b"attack")]].concat();
        let (alerts, ended) = told(&mut ids, &inputs);
        assert_eq!(ended.len(), usize::from(is_preventing));
        // An ids still looks at the packet alone.
        assert_eq!(alerts.len(), usize::from(!is_preventing));
    }
}

#[test]
fn a_configuration_has_bounds() {
    let wrong = |config| Ids::new(rules(""), config).unwrap_err();
    assert_eq!(wrong(IdsConfig { flows_max: 0, ..config(false) }), IdsError::Flows(0));
    assert_eq!(wrong(IdsConfig { flows_max: 65_537, ..config(false) }), IdsError::Flows(65_537));
    assert_eq!(wrong(IdsConfig { reassembly_bytes: 9, ..config(false) }), IdsError::Reassembly(9));
}

#[test]
fn any_bytes_as_state_are_taken_or_left() {
    let mut one = ids(SETS[3], true);
    told(&mut one, &mixed(3, 2_000));
    let mut entries = Vec::new();
    one.export(true, &mut entries);
    assert!(entries.len() > 100);
    let mut random = traffic::Random::new(5);
    let mut other = ids(SETS[3], true);
    for entry in &entries {
        let Some(mut value) = entry.value.clone() else { continue };
        for _ in 0..8 {
            if value.is_empty() {
                break;
            }
            let at = random.below(value.len());
            value[at] ^= 1 << random.below(8);
            other.import(&[StateEntry { key: entry.key.clone(), value: Some(value.clone()) }]);
            value.truncate(random.below(value.len() + 1));
            other.import(&[StateEntry { key: entry.key.clone(), value: Some(value.clone()) }]);
        }
    }
    told(&mut other, &mixed(3, 2_000));
}
