//! An ids with the rules of the conformance corpus: uploads of benign text in packets of 1,500 bytes, by TCP
//! and by UDP, beside Hyperscan, which is given the same payloads and the contents that the ids looks for in
//! them.

use super::hyperscan::Hyperscan;
use super::prose::Prose;
use crate::engine::{cpu_ns, wrong};
use crate::error::BenchError;
use crate::peers::Unavailable;
use crate::results::{Better, Figure, Goal, Notes};
use catena_nf::Function;
use catena_nf::ids::{Ids, IdsConfig, IdsStatistics};
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Direction, Packet, Time};
use catena_rules::snort::{self, Buffer, IdsRules, Protocol};
use catena_rules::{ReadOptions, Unsupported};
use catena_wire::ethernet::{self, EthernetHeader};
use catena_wire::ipv4::{self, Ipv4Header};
use catena_wire::scalar::{EtherType, FragmentOffset, IpProtocol, MacAddr};
use catena_wire::tcp::{self, TcpFlags, TcpHeader};
use catena_wire::udp::{self, UdpHeader};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

/// Flows at once, whose packets come a few at a time, as from a receive queue.
const FLOWS: usize = 64;
const BURST: usize = 4;
/// Batches of a sample.
const BATCHES: usize = 16;
const PACKET_BYTES: usize = 1_500;
const TCP_BYTES: usize = PACKET_BYTES - ipv4::HEADER_BYTES - tcp::HEADER_BYTES;
const UDP_BYTES: usize = PACKET_BYTES - ipv4::HEADER_BYTES - udp::HEADER_BYTES;
/// Within the networks that the corpus calls the servers'.
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 1, 2, 7), 80);
const GAP_NS: u64 = 1_000;
const GBIT: f64 = 2.0;
const REQUEST: &[u8] =
    b"POST /form HTTP/1.1\r\nHost: www.example.org\r\nContent-Type: text/plain\r\n\
    Content-Length: 1000000000\r\n\r\n";

pub(super) fn figures() -> [Figure; 3] {
    let figure = |name, goal| Figure::new(name, "Gbit/s", Better::Higher, goal);
    [
        figure("ids_500_rules_gbit", Goal::Value(GBIT)),
        figure("ids_500_rules_udp_gbit", Goal::None),
        figure("ids_vs_hyperscan", Goal::Quotient(None)),
    ]
}

/// What is measured.
pub(super) struct Watched {
    ids: Ids,
    outcomes: Outcomes,
    prose: Prose,
    now: Time,
    /// Next number of each client, and of the server to each.
    sequences: Vec<u32>,
    hyperscan: Result<Hyperscan, Unavailable>,
    /// What was told of handshakes, which some rules are about.
    opening: IdsStatistics,
    /// How many rules there are, and how many contents are looked for in TCP.
    pub(super) rules: (usize, usize),
}

impl Watched {
    /// An ids that knows its flows; `root` is that of the tree.
    pub(super) fn new(root: &Path) -> Result<Self, BenchError> {
        let rules = corpus(root)?;
        let contents = contents(&rules);
        let counts = (rules.rules.len(), contents.len());
        let ids = Ids::new(rules, IdsConfig::default());
        let mut prose = Prose::new();
        let payloads: Vec<Vec<u8>> =
            (0..FLOWS * BURST * BATCHES).map(|_| prose.next(TCP_BYTES)).collect();
        let mut watched = Self {
            ids: ids.map_err(|error| wrong("the ids", &error))?,
            outcomes: Outcomes::default(),
            prose,
            now: Time::seconds(1),
            sequences: vec![1_000; FLOWS],
            hyperscan: Hyperscan::start(&contents, &payloads),
            opening: IdsStatistics::default(),
            rules: counts,
        };
        watched.open()?;
        Ok(watched)
    }

    /// Why there is no Hyperscan.
    pub(super) fn missing(&self) -> Option<String> {
        self.hyperscan.as_ref().err().map(|reason| format!("ids_vs_hyperscan ({reason})"))
    }

    /// Which Hyperscan it is.
    pub(super) fn version(&self) -> Option<String> {
        self.hyperscan.as_ref().ok().map(|peer| peer.version.clone())
    }

    /// One sample of each, in turns.
    pub(super) fn take(&mut self, notes: &mut Notes) -> Result<(), BenchError> {
        let by_tcp = self.tcp_gbit()?;
        notes.take("ids_500_rules_gbit", true, by_tcp);
        if let Ok(peer) = &mut self.hyperscan {
            match peer.gbit() {
                Ok(gbit) => {
                    notes.take("ids_vs_hyperscan", true, by_tcp);
                    notes.take("ids_vs_hyperscan", false, gbit);
                }
                Err(reason) => self.hyperscan = Err(reason),
            }
        }
        let by_udp = self.udp_gbit()?;
        notes.take("ids_500_rules_udp_gbit", true, by_udp);
        Ok(())
    }

    /// Handshakes, and the head of a request in each.
    fn open(&mut self) -> Result<(), BenchError> {
        let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
        for flow in 0..FLOWS {
            let first = self.sequences[flow];
            let steps = [
                (Direction::Forward, syn, first.wrapping_sub(1), &[][..]),
                (Direction::Backward, syn.with(ack), 6, &[]),
                (Direction::Forward, ack, first, &[]),
                (Direction::Forward, ack, first, REQUEST),
            ];
            for (way, flags, sequence, payload) in steps {
                let numbers = (sequence, if way == Direction::Forward { 7 } else { first });
                let frame = tcp_frame(flow, way, (flags, numbers), payload)?;
                self.process(way, &[frame])?;
            }
            self.sequences[flow] = first.wrapping_add(REQUEST.len() as u32);
        }
        let told = self.ids.statistics();
        self.opening = IdsStatistics { alerts: told.alerts, ..IdsStatistics::default() };
        self.check()
    }

    /// Gbit/s of packets of 1,500 bytes; every second is acknowledged, which takes time and does not count.
    fn tcp_gbit(&mut self) -> Result<f64, BenchError> {
        let mut batches = Vec::new();
        for _ in 0..BATCHES {
            let (mut sent, mut answers) = (Vec::new(), Vec::new());
            for flow in 0..FLOWS {
                for at in 0..BURST {
                    let sequence = self.sequences[flow];
                    let numbers = (TcpFlags::ACK, (sequence, 7));
                    let payload = self.prose.next(TCP_BYTES);
                    sent.push(tcp_frame(flow, Direction::Forward, numbers, &payload)?);
                    self.sequences[flow] = sequence.wrapping_add(TCP_BYTES as u32);
                    if at % 2 == 1 {
                        let numbers = (TcpFlags::ACK, (7, self.sequences[flow]));
                        answers.push(tcp_frame(flow, Direction::Backward, numbers, &[])?);
                    }
                }
            }
            batches.extend([(Direction::Forward, sent), (Direction::Backward, answers)]);
        }
        self.gbit(&batches)
    }

    fn udp_gbit(&mut self) -> Result<f64, BenchError> {
        let mut batches = Vec::new();
        for _ in 0..BATCHES {
            let frames: Result<Vec<_>, _> = (0..FLOWS * BURST)
                .map(|at| udp_frame(at / BURST, &self.prose.next(UDP_BYTES)))
                .collect();
            batches.push((Direction::Forward, frames?));
        }
        self.gbit(&batches)
    }

    #[allow(clippy::cast_precision_loss)]
    fn gbit(&mut self, batches: &[(Direction, Vec<Vec<u8>>)]) -> Result<f64, BenchError> {
        let spent: Result<Vec<f64>, _> =
            batches.iter().map(|(way, frames)| self.process(*way, frames)).collect();
        self.check()?;
        let bits = FLOWS * BURST * BATCHES * PACKET_BYTES * 8;
        Ok(bits as f64 / spent?.iter().sum::<f64>())
    }

    /// A batch; answers the nanoseconds that it took.
    #[inline(never)]
    fn process(&mut self, way: Direction, frames: &[Vec<u8>]) -> Result<f64, BenchError> {
        let packets: Result<Vec<Packet<'_>>, BenchError> =
            frames.iter().map(|frame| super::asked::read(frame)).collect();
        let packets = packets?;
        self.now = Time(self.now.0 + GAP_NS * packets.len() as u64);
        let began = cpu_ns();
        self.ids.process(self.now, way, &packets, &mut self.outcomes);
        Ok(cpu_ns() - began)
    }

    /// All of it was looked at wholly, and nothing of it is an attack.
    fn check(&self) -> Result<(), BenchError> {
        let told = self.ids.statistics();
        if told == self.opening {
            return Ok(());
        }
        Err(wrong("the ids", &format!("{told:?}")))
    }
}

fn corpus(root: &Path) -> Result<IdsRules, BenchError> {
    const FILES: [&str; 6] = ["payload", "http", "packets", "flows", "counts", "actions"];
    let mut text = String::new();
    for name in FILES {
        let path = root.join(format!("conformance/nf/ids/{name}.rules"));
        let own = std::fs::read_to_string(&path)?;
        // Each file begins with the same variables.
        let is_variable = |line: &&str| line.starts_with("ipvar") || line.starts_with("portvar");
        let lines = own.lines().filter(|line| text.is_empty() || !is_variable(line));
        let lines: Vec<&str> = lines.collect();
        text = text + &lines.join("\n") + "\n";
    }
    let options = ReadOptions {
        file: "corpus".into(),
        unsupported: Unsupported::Refuse,
        ..ReadOptions::default()
    };
    snort::read(&text, &BTreeMap::new(), &options).map_err(|error| wrong("the corpus", &error))
}

/// The contents that are looked for in payloads of TCP.
fn contents(rules: &IdsRules) -> Vec<Vec<u8>> {
    let is_of_tcp = |protocol| !matches!(protocol, Protocol::Udp | Protocol::Icmp);
    let rules = rules.rules.iter().filter(|rule| is_of_tcp(rule.protocol));
    let fast = rules.filter_map(|rule| rule.fast.as_ref());
    fast.filter(|(buffer, _)| *buffer == Buffer::Payload).map(|(_, bytes)| bytes.clone()).collect()
}

fn client(flow: usize) -> (Ipv4Addr, u16) {
    (Ipv4Addr::new(198, 51, 100, 1 + flow as u8), 40_000)
}

/// A segment of a client, or of the server to it.
fn tcp_frame(
    flow: usize,
    way: Direction,
    (flags, (sequence, acknowledgment)): (TcpFlags, (u32, u32)),
    payload: &[u8],
) -> Result<Vec<u8>, BenchError> {
    let (from, to) = match way {
        Direction::Forward => (client(flow), SERVER),
        Direction::Backward => (SERVER, client(flow)),
    };
    let header = TcpHeader {
        source_port: from.1,
        destination_port: to.1,
        sequence,
        acknowledgment,
        flags,
        window: u16::MAX,
        urgent_pointer: 0,
    };
    let mut upper = vec![0; tcp::HEADER_BYTES];
    header.emit(&mut upper).map_err(|error| wrong("a packet", &error))?;
    upper.extend_from_slice(payload);
    tcp::refresh_checksum(&mut upper, from.0.into(), to.0.into())
        .map_err(|error| wrong("a packet", &error))?;
    frame((from.0, to.0), IpProtocol::TCP, &upper)
}

fn udp_frame(flow: usize, payload: &[u8]) -> Result<Vec<u8>, BenchError> {
    let (from, to) = (client(flow), SERVER);
    let length = (udp::HEADER_BYTES + payload.len()) as u16;
    let header = UdpHeader { source_port: from.1, destination_port: to.1, length, checksum: 0 };
    let mut upper = vec![0; udp::HEADER_BYTES];
    header.emit(&mut upper).map_err(|error| wrong("a packet", &error))?;
    upper.extend_from_slice(payload);
    udp::refresh_checksum(&mut upper, from.0.into(), to.0.into())
        .map_err(|error| wrong("a packet", &error))?;
    frame((from.0, to.0), IpProtocol::UDP, &upper)
}

fn frame(
    (source, destination): (Ipv4Addr, Ipv4Addr),
    protocol: IpProtocol,
    upper: &[u8],
) -> Result<Vec<u8>, BenchError> {
    let ethernet = EthernetHeader::untagged(MacAddr([2; 6]), MacAddr([4; 6]), EtherType::IPV4);
    let ip = Ipv4Header {
        traffic_class: 0,
        payload_bytes: upper.len(),
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: FragmentOffset::new(0).map_err(|error| wrong("a packet", &error))?,
        ttl: 64,
        protocol,
        source,
        destination,
    };
    let mut bytes = vec![0; ethernet::HEADER_BYTES + ipv4::HEADER_BYTES];
    ethernet.emit(&mut bytes).map_err(|error| wrong("a packet", &error))?;
    ip.emit(&mut bytes[ethernet::HEADER_BYTES..]).map_err(|error| wrong("a packet", &error))?;
    bytes.extend_from_slice(upper);
    Ok(bytes)
}
