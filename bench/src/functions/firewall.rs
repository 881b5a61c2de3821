//! Firewalls of few and of many rules, like those of ClassBench's access lists, as `iptables-save` writes them.

use super::asked::{Asked, FRAME_BYTES, PACKETS, Sent};
use crate::classifier::rules::{self, Random};
use crate::engine::site::{FIRST_PATH, Seat};
use crate::engine::{cpu_ns, wrong};
use crate::error::BenchError;
use catena_model::PathId;
use catena_model::program::RuleMatch;
use catena_model::resource::Transport;
use catena_nf::firewall::Firewall;
use catena_nf::packet::Direction;
use catena_rules::rule_set::Families;
use catena_rules::{ReadOptions, iptables};
use catena_wire::scalar::PortRange;
use std::fmt::Write;

/// A firewall of so many rules.
pub(super) struct Listed {
    text: String,
    pub(super) asked: Asked,
}

impl Listed {
    pub(super) fn new(count: usize) -> Result<Self, BenchError> {
        eprintln!("bench: a firewall of {count} rules");
        let rules = rules::rules(count, Seat::Source.port(), PathId(FIRST_PATH));
        let mut text = "*filter\n:FORWARD DROP [0:0]\n".to_owned();
        for rule in &rules {
            text += &line(&rule.matches);
        }
        text += "COMMIT\n";
        let mut random = Random::new(0x7ace);
        let frames: Result<Vec<Sent>, BenchError> = (0..PACKETS)
            .map(|_| {
                let rule = &rules[random.below(count as u32) as usize];
                let mut bytes = rules::packet(&rule.matches, &mut random)?;
                bytes.resize(bytes.len().max(FRAME_BYTES), 0);
                Ok((Direction::Forward, bytes))
            })
            .collect();
        let mut asked = Asked::new(Box::new(made(&text)?), frames?);
        // The verdicts are those of a walk along the rules.
        asked.check(|packet| rules.iter().any(|rule| rules::meets(&rule.matches, &packet.view)))?;
        Ok(Self { text, asked })
    }

    pub(super) fn read_ms(&self) -> Result<f64, BenchError> {
        let began = cpu_ns();
        std::hint::black_box(made(&self.text)?);
        Ok((cpu_ns() - began) / 1_000_000.0)
    }
}

/// The firewall of a rule set.
pub(super) fn made(text: &str) -> Result<Firewall, BenchError> {
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
