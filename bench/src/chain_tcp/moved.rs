//! TCP through chains of one to six functions over one encapsulation, beside the same chains over NSH: one lab, whose
//! chains are moved from one to the other and back, the kernel path on.

use super::{LabBed, gbit};
use crate::peers::Unavailable;
use crate::plot::{Axis, Plot, line};
use crate::results::{Better, Figure, Goal, Notes};
use std::path::Path;

/// The lab's chains by length, and what the figure of each is called.
const FIGURES: [(&str, &str); 6] = [
    ("C1", "tcp_c1_gbit"),
    ("C2", "tcp_c2_gbit"),
    ("C3", "tcp_c3_gbit"),
    ("C4", "tcp_c4_gbit"),
    ("C5", "tcp_c5_gbit"),
    ("C6", "tcp_c6_gbit"),
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
}

/// What the nodes said of their kernel path, and what could not be measured, and why.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) kernel_path: String,
    pub(crate) missing: Vec<String>,
}

impl MovedStreams {
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let goal = |chain| if chain == "C6" { self.goal } else { Goal::None };
        let figure = |(chain, name)| Figure::new(name, "Gbit/s", Better::Higher, goal(chain));
        FIGURES.map(figure).into()
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
        let bed = LabBed::start(root, self.lab, true)?;
        for round in 1..=rounds {
            eprintln!("bench: TCP over {}, round {round}", self.name);
            for (port, (chain, figure)) in (PORT..).step_by(PORTS).zip(FIGURES) {
                for (encapsulation, is_ours) in [(BESIDE, false), (self.encapsulation, true)] {
                    bed.move_chain(chain, encapsulation)?;
                    match gbit(&bed, port, seconds) {
                        Ok(found) => notes.take(figure, is_ours, found),
                        Err(reason) => {
                            missing.push(format!("{chain} over {encapsulation} ({reason})"));
                        }
                    }
                }
            }
        }
        bed.kernel_paths()
    }

    pub(crate) fn plot(&self, notes: &Notes) -> Plot {
        let points = || (1..).map(f64::from).zip(FIGURES.map(|(_, figure)| figure.to_owned()));
        Plot {
            stem: self.stem.into(),
            title: format!("TCP by chain length, over {} and over NSH", self.name),
            x: Axis::linear("functions"),
            y: Axis::linear("Gbit/s"),
            lines: vec![
                line(notes, self.name, true, points()),
                line(notes, "NSH over the kernel path", false, points()),
            ],
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
        let ports = (PORT..).step_by(PORTS);
        for (length, (port, (chain, _))) in (1..).zip(ports.zip(FIGURES)) {
            let own = chains.split(&format!("- name: {chain}\n")).nth(1).unwrap();
            let own = own.split("- name: ").next().unwrap();
            assert!(own.contains(&format!("port_range_min: {port},")), "{own}");
            assert_eq!(own.matches("{name: ").count(), length, "{own}");
        }
    }
}
