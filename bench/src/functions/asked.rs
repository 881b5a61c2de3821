//! A function in memory, asked of parsed packets in batches as the engine asks, and carried out: what it rewrites is
//! written.

use crate::engine::{cpu_ns, wrong};
use crate::error::BenchError;
use catena_nf::Function;
use catena_nf::carry_out;
use catena_nf::harness::traffic::Shape;
use catena_nf::outcome::{Outcomes, Verdict};
use catena_nf::packet::{Direction, Metadata, Packet, Time};
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::tcp::TcpFlags;
use std::net::Ipv4Addr;

/// Packets of a sample.
pub(super) const PACKETS: usize = 1 << 14;
/// Packets of a batch, as the engine has them.
pub(super) const BATCH: usize = 256;
/// Bytes of a frame on the wire without its check sequence.
pub(super) const FRAME_BYTES: usize = 60;
/// Flows of the functions that remember some, each with an answer.
pub(super) const FLOWS: u32 = 1_024;
/// Nanoseconds between packets: as if a million came each second.
const GAP_NS: u64 = 1_000;
const START: Time = Time::seconds(1);
/// The router's hardware addresses, by the way that packets go.
const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 1, 1]), MacAddr([2, 0, 0, 0, 1, 2])];
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 2, 1]);

/// A frame, and which way it goes.
pub(super) type Sent = (Direction, Vec<u8>);
/// An address and a port.
pub(super) type End = (Ipv4Addr, u16);

/// A function, and the packets that ask it.
pub(super) struct Asked {
    function: Box<dyn Function>,
    frames: Vec<Sent>,
    outcomes: Outcomes,
    now: Time,
}

impl Asked {
    /// One with packets of its own.
    pub(super) fn new(function: Box<dyn Function>, frames: Vec<Sent>) -> Self {
        Self { function, frames, outcomes: Outcomes::default(), now: START }
    }

    /// One that knows flows of UDP, whose packets come in turn, a batch of each way; all of them pass. Answers are to
    /// what comes out of the function.
    pub(super) fn of_flows(
        mut function: Box<dyn Function>,
        flow: impl Fn(u32) -> (End, End),
    ) -> Result<Self, BenchError> {
        let mut both: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
        let mut outcomes = Outcomes::default();
        for number in 0..FLOWS {
            let mut question = frame(flow(number), Direction::Forward)?;
            both[0].push(question.clone());
            let packet = read(&both[0][number as usize])?;
            function.process(START, Direction::Forward, &[packet], &mut outcomes);
            let way = (&mut question[..], &packet.view);
            carry_out::apply(outcomes.patches_of(0), way, packet.upper, &mut Metadata::default())
                .map_err(|error| wrong("a function", &format!("{error:?}")))?;
            let came = read(&question)?.view.flow;
            let ends = came.and_then(|came| match (came.source, came.destination) {
                (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) => {
                    Some(((to, came.destination_port), (from, came.source_port)))
                }
                _ => None,
            });
            let ends = ends.ok_or_else(|| wrong("a function", &"it makes other packets"))?;
            both[1].push(frame(ends, Direction::Backward)?);
        }
        let frames = (0..PACKETS).map(|place| {
            let (batch, within) = (place / BATCH, place % BATCH);
            let number = (batch / 2 * BATCH + within) % FLOWS as usize;
            match batch % 2 {
                0 => (Direction::Forward, both[0][number].clone()),
                _ => (Direction::Backward, both[1][number].clone()),
            }
        });
        let mut asked = Self::new(function, frames.collect());
        let passed = asked.pass()?.1;
        if passed == PACKETS {
            return Ok(asked);
        }
        Err(wrong("a function", &format!("of {PACKETS} packets {passed} pass")))
    }

    /// Nanoseconds per packet.
    pub(super) fn ns(&mut self) -> Result<f64, BenchError> {
        self.pass().map(|(ns, _)| ns)
    }

    /// All packets once: nanoseconds of each, and how many went on.
    #[allow(clippy::cast_precision_loss)]
    #[inline(never)]
    fn pass(&mut self) -> Result<(f64, usize), BenchError> {
        let mut batches: Vec<(Direction, Vec<Packet<'_>>)> = Vec::new();
        for (way, frame) in &self.frames {
            let packet = read(frame)?;
            match batches.last_mut().filter(|(of, batch)| of == way && batch.len() < BATCH) {
                Some((_, batch)) => batch.push(packet),
                None => batches.push((*way, vec![packet])),
            }
        }
        let mut written = self.frames.clone();
        let mut rest = &mut written[..];
        let mut passed = 0;
        let mut failed = None;
        let began = cpu_ns();
        for (way, batch) in &batches {
            self.now = Time(self.now.0 + GAP_NS * batch.len() as u64);
            self.function.process(self.now, *way, batch, &mut self.outcomes);
            passed += self.outcomes.verdicts().iter().filter(|one| **one == Verdict::Pass).count();
            let (own, others) = rest.split_at_mut(batch.len());
            rest = others;
            for (at, patch) in self.outcomes.patches() {
                let (packet, (_, bytes)) = (&batch[*at as usize], &mut own[*at as usize]);
                let place = (&mut bytes[..], &packet.view);
                let done = carry_out::apply([patch], place, packet.upper, &mut Metadata::default());
                failed = failed.or(done.err());
            }
        }
        let spent = cpu_ns() - began;
        std::hint::black_box(&written);
        match failed {
            Some(error) => Err(wrong("a function", &format!("{error:?}"))),
            None => Ok((spent / self.frames.len() as f64, passed)),
        }
    }

    /// What becomes of each packet is what `expected` says, for one packet of each batch.
    pub(super) fn check(
        &mut self,
        expected: impl Fn(&Packet<'_>) -> bool,
    ) -> Result<(), BenchError> {
        for (way, frame) in self.frames.iter().step_by(PACKETS / BATCH) {
            let packet = read(frame)?;
            self.function.process(self.now, *way, &[packet], &mut self.outcomes);
            let passes = expected(&packet);
            if passes != (self.outcomes.verdicts() == [Verdict::Pass]) {
                let told = format!("not {passes} for {:?}", packet.view.flow);
                return Err(wrong("the function", &told));
            }
        }
        Ok(())
    }
}

pub(super) fn read(frame: &[u8]) -> Result<Packet<'_>, BenchError> {
    Packet::read(frame).map_err(|error| wrong("a packet", &error))
}

/// A packet of UDP between two ends, to the router at its side.
fn frame((from, to): (End, End), way: Direction) -> Result<Vec<u8>, BenchError> {
    let [forward, backward] = MACS;
    let shape = Shape {
        ends: (from.0.into(), to.0.into()),
        protocol: IpProtocol::UDP,
        ports: (from.1, to.1),
        flags: TcpFlags::default(),
        options: Vec::new(),
        traffic_class: 0,
        ttl: 64,
        identification: 1,
        payload: vec![0; FRAME_BYTES - 42],
        vlan: None,
        is_later_fragment: false,
        macs: (if way == Direction::Forward { forward } else { backward }, HOST),
    };
    shape.frame().ok_or_else(|| wrong("a packet", &"it is none"))
}
