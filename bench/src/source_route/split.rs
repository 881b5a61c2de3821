//! Where the time of a frame goes in a switch, in parts that add to the whole (Table 1 of the paper).

use super::source::{LINKS, Source, Ways};
use super::switch::{self, Forward, Switch, engine};
use crate::engine::wrong;
use crate::error::BenchError;
use crate::instructions::per_packet;
use crate::results::{Better, Figure, Fold, Goal, Notes};
use catena_dataplane::engine::{Frame, Output, Packet, PortSlot, TxRef};
use catena_io::BufferPool;
use catena_wire::source_route::{Next, advance};

/// What is in the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stage {
    /// Source and sink: every frame goes where it finds itself.
    Io,
    /// And the port is read, the counter written and the exit found.
    Element,
    /// All that a switch does.
    Whole,
}

impl Stage {
    const ALL: [Self; 3] = [Self::Io, Self::Element, Self::Whole];

    const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Element => "element",
            Self::Whole => "whole",
        }
    }

    fn switch(self) -> Result<Box<dyn Forward>, BenchError> {
        Ok(match self {
            Self::Io => Box::new(Passing::new()?),
            Self::Element => Box::new(Stepping::new()?),
            Self::Whole => Box::new(Switch::new()?),
        })
    }
}

/// Parts, and the rest that is in none of them.
const PARTS: [(&str, &str); 4] = [
    ("split_io_ns", "split_io_instructions"),
    ("split_element_ns", "split_element_instructions"),
    ("split_rest_ns", "split_rest_instructions"),
    ("split_whole_ns", "split_whole_instructions"),
];

pub(super) fn figures() -> Vec<Figure> {
    let lower = |name, unit| Figure::new(name, unit, Better::Lower, Goal::None);
    let pair =
        |(ns, instructions)| [lower(ns, "ns"), lower(instructions, "instructions").by(Fold::Count)];
    PARTS.into_iter().flat_map(pair).collect()
}

/// Times each stage in turns, and counts its instructions; answers what could not be, and why.
pub(super) fn measure(
    samples: usize,
    packets: usize,
    notes: &mut Notes,
) -> Result<Vec<String>, BenchError> {
    eprintln!("bench: parts of a switch");
    let ready = |stage: Stage| Ok((stage.switch()?, Source::of(Ways::new(64)?.frames())));
    let mut stages = Stage::ALL.into_iter().map(ready).collect::<Result<Vec<_>, BenchError>>()?;
    for _ in 0..samples {
        let one = |(switch, source): &mut (Box<dyn Forward>, Source)| {
            switch::ns(switch.as_mut(), source, packets)
        };
        let found = stages.iter_mut().map(one).collect::<Result<Vec<_>, _>>()?;
        for ((figure, _), part) in PARTS.into_iter().zip(parts(&found)) {
            notes.take(figure, true, part);
        }
    }
    Ok(match instructions() {
        Ok(found) => {
            for ((_, figure), part) in PARTS.into_iter().zip(parts(&found)) {
                notes.take(figure, true, part);
            }
            Vec::new()
        }
        Err(reason) => vec![format!("instructions of a switch's parts ({reason})")],
    })
}

/// What each stage has more than the one before, and the whole.
fn parts(stages: &[f64]) -> Vec<f64> {
    let before = std::iter::once(0.0).chain(stages.iter().copied());
    let parts = stages.iter().zip(before).map(|(now, before)| now - before);
    parts.chain(stages.last().copied()).collect()
}

fn instructions() -> Result<Vec<f64>, String> {
    let bench = std::env::current_exe().map_err(|error| error.to_string())?;
    let of =
        |stage: Stage| per_packet(&bench, &["source-route", "--quick", "--only", stage.name()]);
    Stage::ALL.into_iter().map(of).collect()
}

/// So many frames through one stage, for whoever counts instructions.
pub(super) fn pass(stage: Stage, packets: usize) -> Result<(), BenchError> {
    let mut source = Source::of(Ways::new(64)?.frames());
    switch::pass(stage.switch()?.as_mut(), &mut source, packets)
}

/// Sends every frame back.
struct Passing(PortSlot);

impl Passing {
    fn new() -> Result<Self, BenchError> {
        let (_, slots) = engine()?;
        slots.first().copied().map(Self).ok_or_else(|| wrong("the program", &"it has no link"))
    }
}

impl Forward for Passing {
    fn ingress(&self) -> PortSlot {
        self.0
    }

    fn forward(
        &mut self,
        _now_ns: u64,
        input: &mut Vec<Packet>,
        _pool: &mut BufferPool,
        output: &mut Output,
    ) {
        let frame = |packet: Packet| Frame {
            to: self.0,
            buffer: packet.into_buffer(),
            share: TxRef::default(),
        };
        output.frames.extend(input.drain(..).map(frame));
    }

    fn settle(&mut self, _output: &mut Output) {}
}

/// Sends every frame by the port that it names, and asks nothing else.
struct Stepping {
    ingress: PortSlot,
    exits: Box<[Option<PortSlot>; 256]>,
}

impl Stepping {
    fn new() -> Result<Self, BenchError> {
        let (_, slots) = engine()?;
        let mut exits = Box::new([None; 256]);
        for (number, slot) in (1..=LINKS).zip(&slots) {
            exits[usize::from(number)] = Some(*slot);
        }
        let ingress = slots.first().copied();
        let ingress = ingress.ok_or_else(|| wrong("the program", &"it has no link"))?;
        Ok(Self { ingress, exits })
    }
}

impl Forward for Stepping {
    fn ingress(&self) -> PortSlot {
        self.ingress
    }

    fn forward(
        &mut self,
        _now_ns: u64,
        input: &mut Vec<Packet>,
        pool: &mut BufferPool,
        output: &mut Output,
    ) {
        for packet in input.drain(..) {
            let mut buffer = packet.into_buffer();
            let exit = match advance(buffer.bytes_mut(), &[]) {
                Ok(Next::Port(number)) => self.exits[usize::from(number)],
                _ => None,
            };
            match exit {
                Some(to) => output.frames.push(Frame { to, buffer, share: TxRef::default() }),
                None => pool.put(buffer),
            }
        }
    }

    fn settle(&mut self, _output: &mut Output) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_to_the_whole() {
        assert_eq!(parts(&[10.0, 13.5, 20.0]), [10.0, 3.5, 6.5, 20.0]);
    }

    #[test]
    fn every_stage_lets_every_frame_pass() {
        for stage in Stage::ALL {
            pass(stage, 1_024).unwrap();
        }
    }
}
