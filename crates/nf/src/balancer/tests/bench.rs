//! A balancer, its clock, and hosts around it: what they send, and what comes out.

use super::super::*;
use crate::carry_out;
use crate::harness::traffic::Shape;
use crate::outcome::{DropCause, Patch};
use crate::packet::Metadata;
use catena_wire::checksum::Sum;
use catena_wire::field::UpperChecksum;
use catena_wire::frame::FrameView;
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::tcp::TcpFlags;

pub(super) const SYN: TcpFlags = TcpFlags::SYN;
pub(super) const ACK: TcpFlags = TcpFlags::ACK;
pub(super) const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);
pub(super) const RST: TcpFlags = TcpFlags::RST;
pub(super) const FIN: TcpFlags = TcpFlags::FIN.with(TcpFlags::ACK);

/// A place of somebody.
pub(super) type Place = (IpAddr, u16);

/// One of the hosts: `four` and `six` are its addresses.
pub(super) fn place(is_v6: bool, (four, six): (&str, &str), port: u16) -> Place {
    ((if is_v6 { six } else { four }).parse().unwrap(), port)
}

pub(super) fn service(is_v6: bool) -> Place {
    place(is_v6, ("203.0.113.10", "2001:db8:f::10"), 80)
}

pub(super) fn client(is_v6: bool, number: u16) -> Place {
    place(is_v6, ("198.51.100.7", "2001:db8:c::7"), 40_000 + number)
}

pub(super) fn backend(is_v6: bool, number: usize) -> Place {
    let ends = (format!("10.0.0.{number}"), format!("2001:db8:b::{number}"));
    place(is_v6, (&ends.0, &ends.1), 8_080)
}

/// A service of so many backends, the keys of the last, of the service and of all added.
pub(super) fn text(
    (is_v6, protocol): (bool, IpProtocol),
    backends: usize,
    (of_last, of_service, of_all): (&str, &str, &str),
) -> String {
    let protocol = if protocol == IpProtocol::TCP { "tcp" } else { "udp" };
    let all: Vec<String> = (1..=backends)
        .map(|number| {
            let (address, port) = backend(is_v6, number);
            let more = if number == backends { of_last } else { "" };
            format!("{{address: '{address}', port: {port}{more}}}")
        })
        .collect();
    let (address, port) = service(is_v6);
    format!(
        "sessions_max: 64\nseed: 7\n{of_all}services:\n  - {{name: web, address: '{address}', protocol: {protocol}, \
         port: {port}, table_size: 251, backends: [{}]{of_service}}}\n",
        all.join(", ")
    )
}

/// A packet of somebody to somebody.
pub(super) fn shape(protocol: IpProtocol, from: Place, to: Place, flags: TcpFlags) -> Shape {
    Shape {
        ends: (from.0, to.0),
        protocol,
        ports: (from.1, to.1),
        flags,
        options: Vec::new(),
        traffic_class: 0,
        ttl: 60,
        identification: 77,
        payload: (0..101).collect(),
        vlan: None,
        is_later_fragment: false,
        macs: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
    }
}

pub(super) fn frame(protocol: IpProtocol, from: Place, to: Place, flags: TcpFlags) -> Vec<u8> {
    shape(protocol, from, to, flags).frame().unwrap()
}

pub(super) fn read(frame: &[u8], field: Field) -> u128 {
    field.read(frame, &FrameView::parse(frame).unwrap()).unwrap()
}

/// Who a packet is from and to.
pub(super) fn ends(frame: &[u8]) -> (Place, Place) {
    let flow = FrameView::parse(frame).unwrap().flow.unwrap();
    ((flow.source, flow.source_port), (flow.destination, flow.destination_port))
}

/// A packet in two fragments, the first of so many bytes (RFC 791 section 3.2, RFC 8200 section 4.5).
pub(super) fn fragments(whole: &[u8], first: usize) -> [Vec<u8>; 2] {
    let is_v6 = whole[14] >> 4 == 6;
    let (head, upper) = whole.split_at(if is_v6 { 54 } else { 34 });
    [(&upper[..first], 0, true), (&upper[first..], first, false)].map(|(part, at, has_more)| {
        let mut bytes = head.to_vec();
        if is_v6 {
            bytes[18..20].copy_from_slice(&(8 + part.len() as u16).to_be_bytes());
            let next = std::mem::replace(&mut bytes[20], 44);
            bytes.extend([next, 0]);
            bytes.extend((at as u16 | u16::from(has_more)).to_be_bytes());
            bytes.extend(77_u32.to_be_bytes());
        } else {
            bytes[16..18].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            let place = (at as u16 / 8) | (u16::from(has_more) << 13);
            bytes[20..22].copy_from_slice(&place.to_be_bytes());
            bytes[24..26].fill(0);
            let sum = Sum::of(&bytes[14..34]).checksum();
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        bytes.extend(part);
        bytes
    })
}

/// What came of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Came {
    /// None: it was dropped, for this reason.
    pub(super) out: Result<Vec<u8>, DropCause>,
    pub(super) made: Vec<(Direction, GeneratedKind, Vec<u8>)>,
}

/// A balancer and its clock.
pub(super) struct Bench {
    pub(super) balancer: Balancer,
    pub(super) now: Time,
}

fn made(outcomes: &Outcomes) -> Vec<(Direction, GeneratedKind, Vec<u8>)> {
    let made = outcomes.generated().iter();
    made.map(|(_, one)| (one.direction, one.kind, outcomes.bytes(one.frame.clone()).to_vec()))
        .collect()
}

impl Bench {
    pub(super) fn new(text: &str) -> Self {
        let config = catena_rules::balancer::read(text, "test").unwrap_or_else(|e| panic!("{e}"));
        Self { balancer: Balancer::new(&config), now: Time::seconds(100) }
    }

    /// A packet in this state goes through; what was asked for before is what happens.
    pub(super) fn pass_as(
        &mut self,
        direction: Direction,
        frame: &[u8],
        (upper, packets): (UpperChecksum, u32),
    ) -> Came {
        self.now.0 += 1_000_000;
        let read = Packet::read(frame).unwrap();
        let packet = Packet { upper, wire_packets: packets, ..read };
        let answer = self.balancer.ask(self.now, direction, &packet);
        let mut outcomes = Outcomes::default();
        self.balancer.process(self.now, direction, &[packet], &mut outcomes);
        crate::check::outcomes(self.balancer.profile(), 1, &outcomes).unwrap();
        let patches: Vec<Patch> = outcomes.patches_of(0).copied().collect();
        assert_eq!((answer.verdict, &answer.patches), (outcomes.verdicts()[0], &patches));
        let out = match outcomes.verdicts()[0] {
            Verdict::Drop(cause) => Err(cause),
            Verdict::Pass => {
                let mut out = frame.to_vec();
                let parts = (&mut out[..], &packet.view);
                carry_out::apply(&patches, parts, upper, &mut Metadata::default()).unwrap();
                if let [(_, place)] = outcomes.replaced() {
                    out = outcomes.bytes(place.clone()).to_vec();
                }
                Ok(out)
            }
            Verdict::Hold => unreachable!("no packet waits in it"),
        };
        Came { out, made: made(&outcomes) }
    }

    pub(super) fn pass(&mut self, direction: Direction, frame: &[u8]) -> Came {
        self.pass_as(direction, frame, (UpperChecksum::Closed, 1))
    }

    pub(super) fn forward(&mut self, frame: &[u8]) -> Came {
        self.pass(Direction::Forward, frame)
    }

    pub(super) fn backward(&mut self, frame: &[u8]) -> Came {
        self.pass(Direction::Backward, frame)
    }

    /// A client says something; where it goes.
    pub(super) fn says(&mut self, is_v6: bool, number: u16, flags: TcpFlags) -> Option<Place> {
        let sent = frame(IpProtocol::TCP, client(is_v6, number), service(is_v6), flags);
        self.forward(&sent).out.ok().map(|out| ends(&out).1)
    }

    /// A backend answers a client.
    pub(super) fn answers(&mut self, from: Place, number: u16, flags: TcpFlags) -> Vec<u8> {
        let to = client(from.0.is_ipv6(), number);
        self.backward(&frame(IpProtocol::TCP, from, to, flags)).out.unwrap()
    }

    /// Time passes; what is made.
    pub(super) fn elapse(&mut self, milliseconds: u64) -> Vec<Vec<u8>> {
        self.now.0 += milliseconds * 1_000_000;
        let mut outcomes = Outcomes::default();
        self.balancer.elapse(self.now, &mut outcomes);
        assert!(made(&outcomes).is_empty(), "time that passes makes nothing");
        self.balancer.inquire(self.now, &mut outcomes);
        made(&outcomes).into_iter().map(|(_, _, frame)| frame).collect()
    }

    /// What the rule counts with these words in it.
    pub(super) fn counted(&self, words: &str) -> u64 {
        let mut counts = Vec::new();
        self.balancer.report(&mut counts);
        let rules = (0..).map_while(|rule| self.balancer.rule_in_words(rule));
        let found: Vec<u64> = rules
            .zip(counts)
            .filter(|(rule, _)| rule.contains(words))
            .map(|(_, count)| count.packets)
            .collect();
        assert!(!found.is_empty(), "a rule says {words}");
        found.iter().sum()
    }

    /// The words of the rule that dropped a packet.
    pub(super) fn why(&self, came: &Came) -> String {
        match came.out {
            Err(DropCause::Rule(rule)) => self.balancer.rule_in_words(rule).unwrap(),
            Err(DropCause::Full) => "full".into(),
            Ok(_) => "passed".into(),
        }
    }
}
