//! TCP through chains of one to six functions over one encapsulation, beside the same chains over NSH: one lab, whose
//! chains are moved from one to the other and back, the kernel path on; and, if asked for, beside the kernel alone,
//! whose own segment routing leads through the same functions.

use super::chains::LENGTHS;
use super::routing::{self, Between};
use super::{LabBed, gbit};
use crate::peers::Unavailable;
use crate::plot::{Axis, Plot, line};
use crate::results::{Better, Figure, Goal, Notes};
use std::path::Path;

/// The lab's chains by length, and what the figures of each are called: beside NSH, beside the kernel alone.
const FIGURES: [(&str, &str, &str); 6] = [
    ("C1", "tcp_c1_gbit", "tcp_c1_vs_kernel_gbit"),
    ("C2", "tcp_c2_gbit", "tcp_c2_vs_kernel_gbit"),
    ("C3", "tcp_c3_gbit", "tcp_c3_vs_kernel_gbit"),
    ("C4", "tcp_c4_gbit", "tcp_c4_vs_kernel_gbit"),
    ("C5", "tcp_c5_gbit", "tcp_c5_vs_kernel_gbit"),
    ("C6", "tcp_c6_gbit", "tcp_c6_vs_kernel_gbit"),
];
/// The first destination port of the shortest, and how much higher the next one's is.
const PORT: u16 = 5_210;
const PORTS: usize = 10;
const BESIDE: &str = "nsh";
const ROUNDS: usize = 3;
const SECONDS: u32 = 2;

/// What is measured beside NSH.
pub(crate) struct MovedStreams {
    /// The lab, which has the chains of `bench-chain-tcp.yaml`.
    pub(crate) lab: &'static str,
    pub(crate) encapsulation: &'static str,
    /// What people call it.
    pub(crate) name: &'static str,
    /// Of the picture.
    pub(crate) stem: &'static str,
    /// Of the longest chain.
    pub(crate) goal: Goal,
    /// The MTU of the lab's tenants, if it is measured beside the kernel's own segments.
    pub(crate) kernel_alone: Option<u16>,
}

/// What the nodes said of their kernel path, and what could not be measured, and why.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) kernel_path: String,
    pub(crate) missing: Vec<String>,
}

impl MovedStreams {
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let figure = |name, goal| Figure::new(name, "Gbit/s", Better::Higher, goal);
        let goal = |chain| if chain == "C6" { self.goal } else { Goal::None };
        let mut all = FIGURES.map(|(chain, name, _)| figure(name, goal(chain))).to_vec();
        if self.kernel_alone.is_some() {
            all.extend(FIGURES.map(|(_, _, name)| figure(name, Goal::None)));
        }
        all
    }

    /// Sends streams in turns.
    pub(crate) fn measure(&self, is_quick: bool, root: &Path, notes: &mut Notes) -> Said {
        let mut said = Said::default();
        match self.try_measure(is_quick, root, notes, &mut said.missing) {
            Ok(kernel_path) => said.kernel_path = kernel_path,
            Err(reason) => said.missing.push(format!("TCP over {} ({reason})", self.name)),
        }
        said
    }

    fn try_measure(
        &self,
        is_quick: bool,
        root: &Path,
        notes: &mut Notes,
        missing: &mut Vec<String>,
    ) -> Result<String, Unavailable> {
        let (rounds, seconds) = if is_quick { (1, 1) } else { (ROUNDS, SECONDS) };
        let mut kernel_path = String::new();
        for round in 1..=rounds {
            eprintln!("bench: TCP over {}, round {round}", self.name);
            kernel_path = self.moved(root, seconds, notes, missing)?;
            if let Some(mtu) = self.kernel_alone {
                beside_the_kernel(mtu, seconds, notes, missing);
            }
        }
        Ok(kernel_path)
    }

    /// A round of ours, in a lab that is gone after it; what nodes said of their kernel path.
    fn moved(
        &self,
        root: &Path,
        seconds: u32,
        notes: &mut Notes,
        missing: &mut Vec<String>,
    ) -> Result<String, Unavailable> {
        let bed = LabBed::start(root, self.lab, true)?;
        for (port, (chain, figure, vs_kernel)) in ports().zip(FIGURES) {
            for (encapsulation, is_ours) in [(BESIDE, false), (self.encapsulation, true)] {
                bed.move_chain(chain, encapsulation)?;
                match gbit(&bed, port, seconds) {
                    Ok(found) => {
                        notes.take(figure, is_ours, found);
                        if is_ours && self.kernel_alone.is_some() {
                            notes.take(vs_kernel, true, found);
                        }
                    }
                    Err(reason) => missing.push(format!("{chain} over {encapsulation} ({reason})")),
                }
            }
        }
        bed.kernel_paths()
    }

    pub(crate) fn plot(&self, notes: &Notes) -> Plot {
        let points = |name: fn(&(&str, &'static str, &'static str)) -> &'static str| {
            (1..).map(f64::from).zip(FIGURES.map(move |all| name(&all).to_owned()))
        };
        let mut lines = vec![
            line(notes, self.name, true, points(|(_, figure, _)| figure)),
            line(notes, "NSH over the kernel path", false, points(|(_, figure, _)| figure)),
        ];
        if self.kernel_alone.is_some() {
            let of_kernel = points(|(_, _, vs_kernel)| vs_kernel);
            lines.push(line(notes, "segments by the kernel alone", false, of_kernel));
        }
        Plot {
            stem: self.stem.into(),
            title: format!("TCP by chain length, over {} and beside it", self.name),
            x: Axis::linear("functions"),
            y: Axis::linear("Gbit/s"),
            lines,
        }
    }
}

fn ports() -> impl Iterator<Item = u16> {
    (PORT..).step_by(PORTS)
}

/// A round of the kernel alone: for each chain a bed of its own.
fn beside_the_kernel(mtu: u16, seconds: u32, notes: &mut Notes, missing: &mut Vec<String>) {
    // The first has no function, and nothing of ours is beside it.
    for (chain, (_, _, figure)) in LENGTHS.iter().skip(1).zip(FIGURES) {
        let bed = routing::lay(chain, Between::Segments, mtu);
        match bed.and_then(|bed| gbit(&bed, chain.port, seconds)) {
            Ok(found) => notes.take(figure, false, found),
            Err(reason) => missing.push(format!("{} by the kernel alone ({reason})", chain.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_has_a_chain_of_each_length_at_the_ports_that_are_sent_to() {
        let read = |name: &str| {
            std::fs::read_to_string(crate::folder().join(format!("../labs/{name}.yaml"))).unwrap()
        };
        let chains = read("bench-chain-tcp");
        for lab in [crate::source_route::STREAMS.lab, crate::srv6::STREAMS.lab].map(read) {
            let is_of_them = lab.contains("extends: bench-chain-tcp.yaml");
            assert!(is_of_them && !lab.contains("chains:"), "{lab}");
        }
        let mtu = crate::srv6::STREAMS.kernel_alone.unwrap();
        assert!(read(crate::srv6::STREAMS.lab).contains(&format!("mtu: {mtu}}}")));
        for (length, (port, (chain, ..))) in (1..).zip(ports().zip(FIGURES)) {
            let own = chains.split(&format!("- name: {chain}\n")).nth(1).unwrap();
            let own = own.split("- name: ").next().unwrap();
            assert!(own.contains(&format!("port_range_min: {port},")), "{own}");
            assert_eq!(own.matches("{name: ").count(), length, "{own}");
        }
    }
}
