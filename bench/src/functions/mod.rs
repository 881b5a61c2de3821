//! What bundled functions cost for a packet, in memory: they are asked of parsed packets, as the engine asks.

use crate::classifier::rules::{self, Random};
use crate::engine::site::{FIRST_PATH, Seat};
use crate::engine::{cpu_ns, wrong};
use crate::error::BenchError;
use crate::machine::calibrate;
use crate::plot::{Axis, Line, Plot};
use crate::publish::{Run, publish};
use crate::results::{Better, Figure, Goal, Notes, median};
use catena_model::PathId;
use catena_model::program::{RuleEntry, RuleMatch};
use catena_model::resource::Transport;
use catena_nf::Function;
use catena_nf::firewall::Firewall;
use catena_nf::harness::traffic::Shape;
use catena_nf::monitor::{Monitor, MonitorConfig};
use catena_nf::outcome::{Outcomes, Verdict};
use catena_nf::packet::{Direction, Packet, Time};
use catena_rules::rule_set::Families;
use catena_rules::{ReadOptions, iptables};
use catena_wire::scalar::{IpProtocol, MacAddr, PortRange};
use catena_wire::tcp::TcpFlags;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything.
    #[arg(long)]
    pub(crate) quick: bool,
}

const SAMPLES: usize = 15;
const SAMPLES_QUICK: usize = 5;
/// Packets of a sample.
const PACKETS: usize = 1 << 14;
/// Packets of a batch, as the engine has them.
const BATCH: usize = 256;
/// Bytes of a frame on the wire without its check sequence.
const FRAME_BYTES: usize = 60;
/// Rules of the firewalls, and the names of the figures.
const SIZES: [(usize, &str); 3] =
    [(1, "firewall_1_ns"), (100, "firewall_100_ns"), (10_000, "firewall_10k_ns")];
/// Goals, nanoseconds and times.
const HEADER_FUNCTION_NS: f64 = 80.0;
const FLAT: f64 = 2.0;

/// Flows of the functions that remember some, each with an answer.
const FLOWS: u32 = 1_024;
/// Rules that accept what is known, and whoever begins.
const STATES: &str = "*filter\n:FORWARD DROP [0:0]\n\
    -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
    -A FORWARD -m conntrack --ctstate NEW -j ACCEPT\nCOMMIT\n";

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let figure = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    let mut all = vec![figure("copy_1500_ns", "ns", Goal::None)];
    for (rules, name) in SIZES {
        let goal = if rules == 10_000 { Goal::None } else { Goal::Value(HEADER_FUNCTION_NS) };
        all.push(figure(name, "ns", goal));
    }
    all.push(figure("firewall_10k_vs_100", "times", Goal::Quotient(Some(FLAT))));
    all.push(figure("firewall_10k_read_ms", "ms", Goal::None));
    all.push(figure("firewall_states_ns", "ns", Goal::Value(HEADER_FUNCTION_NS)));
    all.push(figure("monitor_ns", "ns", Goal::Value(HEADER_FUNCTION_NS)));
    all
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let samples = if options.quick { SAMPLES_QUICK } else { SAMPLES };
    let ready: Result<Vec<Listed>, BenchError> =
        SIZES.iter().map(|(count, _)| Listed::new(*count)).collect();
    let mut ready = ready?;
    let monitor =
        Monitor::new(MonitorConfig::default()).map_err(|error| wrong("the monitor", &error))?;
    let mut remembering = [
        ("firewall_states_ns", Asked::new(made(STATES)?, known()?)),
        ("monitor_ns", Asked::new(monitor, known()?)),
    ];
    for (_, asked) in &mut remembering {
        asked.ns()?;
    }
    for _ in 0..samples {
        let mut spent = Vec::new();
        for (asked, (_, name)) in ready.iter_mut().zip(SIZES) {
            let ns = asked.asked.ns()?;
            notes.take(name, true, ns);
            spent.push(ns);
        }
        for (name, asked) in &mut remembering {
            notes.take(name, true, asked.ns()?);
        }
        if let [_, few, many] = spent[..] {
            notes.take("firewall_10k_vs_100", true, many);
            notes.take("firewall_10k_vs_100", false, few);
        }
        if let Some(most) = ready.last() {
            notes.take("firewall_10k_read_ms", true, most.read_ms()?);
        }
    }
    let plots = vec![plot(&notes)];
    let text = |key: &str, value: String| (key.to_owned(), value);
    publish(
        Run {
            name: "functions",
            about: "Bundled functions, asked of parsed packets of 64 bytes (60 without the check \
                    sequence) in batches of 256, in memory and warm. Firewalls have rules like those of \
                    ClassBench's access lists, as iptables-save writes them, the most specific first, \
                    each accepting; the policy drops. Packets are made of rules drawn at random, every \
                    sixteenth a stray one; each verdict was held against a walk along the rules before. \
                    Reading is that of the text and the making of the firewall. The firewall with \
                    states of connections has two rules and verifies checksums; it and the monitor \
                    know 1,024 flows of UDP, whose packets come in turn, both ways."
                .into(),
            versions: [text("ours", env!("CARGO_PKG_VERSION").into())].into(),
            options: [
                text("quick", options.quick.to_string()),
                text("packets of a sample", PACKETS.to_string()),
            ]
            .into(),
            notes,
            plots,
        },
        folder,
    )
}

/// A function, and the packets that ask it.
struct Asked {
    function: Box<dyn Function>,
    frames: Vec<(Direction, Vec<u8>)>,
    outcomes: Outcomes,
    now: Time,
}

impl Asked {
    fn new(function: impl Function + 'static, frames: Vec<(Direction, Vec<u8>)>) -> Self {
        Self {
            function: Box::new(function),
            frames,
            outcomes: Outcomes::default(),
            now: Time::default(),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn ns(&mut self) -> Result<f64, BenchError> {
        let packets: Result<Vec<(Direction, Packet<'_>)>, BenchError> =
            self.frames.iter().map(|(way, frame)| Ok((*way, read(frame)?))).collect();
        let packets = packets?;
        let mut batches: Vec<(Direction, Vec<Packet<'_>>)> = Vec::new();
        for (way, packet) in packets {
            match batches.last_mut().filter(|(of, batch)| *of == way && batch.len() < BATCH) {
                Some((_, batch)) => batch.push(packet),
                None => batches.push((way, vec![packet])),
            }
        }
        let mut passed = 0;
        let began = cpu_ns();
        for (way, batch) in &batches {
            // As if a million packets came each second.
            self.now = Time(self.now.0 + 1_000 * batch.len() as u64);
            self.function.process(self.now, *way, batch, &mut self.outcomes);
            passed += self.outcomes.verdicts().iter().filter(|one| **one == Verdict::Pass).count();
        }
        let spent = cpu_ns() - began;
        std::hint::black_box(passed);
        Ok(spent / self.frames.len() as f64)
    }
}

/// A firewall of so many rules.
struct Listed {
    text: String,
    asked: Asked,
}

impl Listed {
    fn new(count: usize) -> Result<Self, BenchError> {
        eprintln!("bench: a firewall of {count} rules");
        let rules = rules::rules(count, Seat::Source.port(), PathId(FIRST_PATH));
        let mut text = "*filter\n:FORWARD DROP [0:0]\n".to_owned();
        for rule in &rules {
            text += &line(&rule.matches);
        }
        text += "COMMIT\n";
        let mut random = Random::new(0x7ace);
        let frames: Result<Vec<(Direction, Vec<u8>)>, BenchError> = (0..PACKETS)
            .map(|_| {
                let rule = &rules[random.below(count as u32) as usize];
                let mut bytes = rules::packet(&rule.matches, &mut random)?;
                bytes.resize(bytes.len().max(FRAME_BYTES), 0);
                Ok((Direction::Forward, bytes))
            })
            .collect();
        let asked = Asked::new(made(&text)?, frames?);
        let mut listed = Self { text, asked };
        listed.check(&rules)?;
        Ok(listed)
    }

    /// The verdicts are those of a walk along the rules.
    fn check(&mut self, rules: &[RuleEntry]) -> Result<(), BenchError> {
        let Asked { function, frames, outcomes, now } = &mut self.asked;
        for (way, frame) in frames.iter().step_by(PACKETS / BATCH) {
            let packet = read(frame)?;
            function.process(*now, *way, &[packet], outcomes);
            let passes = rules.iter().any(|rule| rules::meets(&rule.matches, &packet.view));
            if passes != (outcomes.verdicts() == [Verdict::Pass]) {
                let told = format!("not {passes} for {:?}", packet.view.flow);
                return Err(wrong("the firewall", &told));
            }
        }
        Ok(())
    }

    fn read_ms(&self) -> Result<f64, BenchError> {
        let began = cpu_ns();
        std::hint::black_box(made(&self.text)?);
        Ok((cpu_ns() - began) / 1_000_000.0)
    }
}

/// Packets of flows of UDP, a batch of each way in turn.
fn known() -> Result<Vec<(Direction, Vec<u8>)>, BenchError> {
    let frame = |number: u32, way| {
        let ends = (Ipv4Addr::from_bits(0x0a00_0001 + number), Ipv4Addr::new(10, 9, 0, 1));
        let ports = (40_000, 53);
        let (ends, ports) = match way {
            Direction::Forward => (ends, ports),
            Direction::Backward => ((ends.1, ends.0), (ports.1, ports.0)),
        };
        let shape = Shape {
            ends: (ends.0.into(), ends.1.into()),
            protocol: IpProtocol::UDP,
            ports,
            flags: TcpFlags::default(),
            options: Vec::new(),
            traffic_class: 0,
            ttl: 64,
            identification: 1,
            payload: vec![0; FRAME_BYTES - 42],
            vlan: None,
            is_later_fragment: false,
            macs: (MacAddr::default(), MacAddr::default()),
        };
        shape.frame().map(|frame| (way, frame)).ok_or_else(|| wrong("a packet", &"it is none"))
    };
    let all = (0..PACKETS as u32).map(|place| {
        let (batch, within) = (place / BATCH as u32, place % BATCH as u32);
        let way = if batch % 2 == 0 { Direction::Forward } else { Direction::Backward };
        frame((batch / 2 * BATCH as u32 + within) % FLOWS, way)
    });
    all.collect()
}

fn read(frame: &[u8]) -> Result<Packet<'_>, BenchError> {
    Packet::read(frame).map_err(|error| wrong("a packet", &error))
}

fn made(text: &str) -> Result<Firewall, BenchError> {
    let options = ReadOptions { file: "bench".into(), ..ReadOptions::default() };
    let set =
        iptables::read(text, Families::V4, &options).map_err(|error| wrong("a rule", &error))?;
    Firewall::new(&[set]).map_err(|error| wrong("the firewall", &error))
}

/// A rule as `iptables-save` writes it.
fn line(rule: &RuleMatch) -> String {
    let mut text = "-A FORWARD ".to_owned();
    for (option, net) in [("-s", rule.source), ("-d", rule.destination)] {
        if let Some(net) = net {
            let _ = write!(text, "{option} {net} ");
        }
    }
    let protocol = match rule.transport {
        Some(Transport::Tcp) => "tcp",
        Some(Transport::Udp) => "udp",
        Some(Transport::Icmp) | None => return text + "-j ACCEPT\n",
    };
    let _ = write!(text, "-p {protocol} -m {protocol} ");
    for (option, ports) in [("--sport", rule.source_ports), ("--dport", rule.destination_ports)] {
        if let Some((min, max)) = ports.map(|ports: PortRange| (ports.min(), ports.max())) {
            let _ = write!(text, "{option} {min}:{max} ");
        }
    }
    text + "-j ACCEPT\n"
}

#[allow(clippy::cast_precision_loss)]
fn plot(notes: &Notes) -> Plot {
    let point =
        |(rules, name): (usize, &str)| Some((rules as f64, median(&notes.samples(name)?.ours)?));
    Plot {
        stem: "functions".into(),
        title: "Cost of a firewall by the number of its rules".into(),
        x: Axis::logarithmic("rules (logarithmic)"),
        y: Axis::linear("nanoseconds per packet"),
        lines: vec![Line {
            name: "firewall, stateless".into(),
            points: SIZES.into_iter().filter_map(point).collect(),
        }],
    }
}
