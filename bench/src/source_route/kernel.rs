//! What the kernel's program at a link of a switch takes for a frame that only passes, by its size. It is run on frames
//! in memory, without sending them, so the engine, which is measured with source and sink, is no peer of it.

use super::SIZES;
use super::source::header;
use crate::engine::wrong;
use crate::error::BenchError;
use crate::peers::Unavailable;
use crate::plot::{Axis, Plot, line};
use crate::results::{Better, Figure, Goal, Notes, median};
use catena_fastpath::{Guard, Hook, Kind, Port, Program, Settings, Sizes, Tables, Verdict, Way};
use catena_wire::scalar::Spi;
use catena_wire::source_route::Profile;
use std::io;
use std::sync::LazyLock;

/// An interface that each namespace has: nothing is sent.
const LOOPBACK: u32 = 1;
/// Numbers of the link that brings frames, and of the one that they name.
const NUMBERS: [u8; 2] = [1, 2];
const WAY: Way = Way { from: 0, profile: Profile::Native, to: 1 };
/// As many ports as a frame of 64 bytes has room for: a run of the program takes one.
const PORTS: usize = 40;
/// Frames that take their whole way for one sample.
const FRAMES: usize = 256;

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let figure = |(bytes, _)| Figure::new(name(bytes).leak(), "ns", Better::Lower, Goal::None);
    SIZES.into_iter().map(figure).collect()
});

fn name(bytes: usize) -> String {
    format!("kernel_{bytes}_ns")
}

pub(super) fn figures() -> Vec<Figure> {
    FIGURES.clone()
}

/// The program with two links.
struct Link {
    program: Program,
    tables: Tables,
}

impl Link {
    fn new() -> Result<Self, Unavailable> {
        let unavailable = |error: &dyn std::fmt::Display| Unavailable::new("the program", error);
        let sizes = Sizes { flows: 1, slots: 1, gates: 1, accounts: 1, places: 2 };
        let program = Program::load(sizes).map_err(|error| unavailable(&error))?;
        let tables = program.tables().map(|table| table.try_clone_to_owned());
        let tables = tables.collect::<io::Result<_>>().and_then(Tables::open);
        let tables = tables.map_err(|error| unavailable(&error))?;
        tables.set_settings(Settings::default());
        let [from, to] = NUMBERS;
        let port = Port { number: 1, is_watched: 0, link: from.into() };
        tables.set_port(LOOPBACK, port).map_err(|error| unavailable(&error))?;
        let transits = tables.transits();
        transits.set_place(from, Some(WAY.from));
        transits.set_place(to, Some(WAY.to));
        transits.set(WAY, LOOPBACK, [Guard::default(); 2]);
        match transits.gate(WAY).is_some_and(|gate| gate.open_after(0)) {
            true => Ok(Self { program, tables }),
            false => Err(unavailable(&"it has no room for two links")),
        }
    }

    /// Nanoseconds of one run: of frames that take their whole way, the middle one.
    fn ns(&self, bytes: usize) -> Result<f64, BenchError> {
        let mut frame = vec![0; bytes];
        header(&mut frame, &[NUMBERS[1]; PORTS], Spi::new(1).ok())?;
        let passed = || self.tables.transits().passed(WAY).packets;
        let (before, mut times) = (passed(), Vec::with_capacity(FRAMES));
        for _ in 0..FRAMES {
            let run = self.program.rehearse(Hook::Link, LOOPBACK, &frame, None, PORTS as u32)?;
            if run.verdict != Verdict::Leave(Kind::Transmit, LOOPBACK) {
                return Err(wrong("the kernel's program", &format!("{:?}", run.verdict)));
            }
            times.push(f64::from(run.nanoseconds));
        }
        let (passed, all) = (passed() - before, (FRAMES * PORTS) as u64);
        if passed != all {
            let reason = format!("it has let {passed} of {all} frames pass");
            return Err(wrong("the kernel's program", &reason));
        }
        Ok(median(&times).unwrap_or_default())
    }
}

/// Runs the program; answers what could not be, and why.
pub(super) fn measure(samples: usize, notes: &mut Notes) -> Result<Vec<String>, BenchError> {
    eprintln!("bench: the kernel's program");
    let link = match Link::new() {
        Ok(link) => link,
        Err(reason) => return Ok(vec![format!("the kernel path ({reason})")]),
    };
    for (bytes, _) in SIZES {
        for _ in 0..samples {
            notes.take(&name(bytes), true, link.ns(bytes)?);
        }
    }
    Ok(Vec::new())
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn plot(notes: &Notes) -> Plot {
    let program = SIZES.into_iter().map(|(bytes, _)| (bytes as f64, name(bytes)));
    let engine = SIZES.into_iter().map(|(bytes, figure)| (bytes as f64, figure.to_owned()));
    Plot {
        stem: "source-route-sizes".into(),
        title: "A frame that only passes, by its size".into(),
        x: Axis::linear("bytes"),
        y: Axis::linear("nanoseconds per frame"),
        lines: vec![
            line(notes, "the engine, with source and sink", true, engine),
            line(notes, "the kernel's program alone", true, program),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_lets_a_frame_of_each_size_take_its_whole_way() {
        if !catena_kernel::capabilities::effective_has_net_admin()
            || !catena_kernel::capabilities::effective_has_sys_admin()
        {
            println!("SKIPPED: CAP_NET_ADMIN and CAP_SYS_ADMIN are missing");
            return;
        }
        let link = Link::new().unwrap();
        for (bytes, _) in SIZES {
            assert!(link.ns(bytes).unwrap() > 0.0);
        }
        // At the end of its way it is the engine's, and there is none; what is no source route is the stack's.
        let mut frame = vec![0; 64];
        header(&mut frame, &[NUMBERS[1]], None).unwrap();
        let verdict = |frame: &[u8], runs| {
            link.program.rehearse(Hook::Link, LOOPBACK, frame, None, runs).unwrap().verdict
        };
        assert_eq!(verdict(&frame, 1), Verdict::Leave(Kind::Transmit, LOOPBACK));
        assert_eq!(verdict(&frame, 2), Verdict::End);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        assert_eq!(verdict(&frame, 1), Verdict::Stack);
    }
}
