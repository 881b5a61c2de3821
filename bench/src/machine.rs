//! What is said of the machine with every result: its size, its kernel, and how fast it is just now.

use crate::results::Notes;
use std::collections::BTreeMap;
use std::time::Instant;

/// Bytes of the copy that calibrates.
const COPY_BYTES: usize = 1_500;
/// Samples of it.
const CALIBRATIONS: usize = 5;

/// Takes the calibration that every run has: `copy_1500_ns`.
pub(crate) fn calibrate(notes: &mut Notes) {
    for _ in 0..CALIBRATIONS {
        notes.take("copy_1500_ns", true, copy_ns());
    }
}

/// Time of a copy of one packet: how fast the machine is just now.
#[allow(clippy::cast_precision_loss)]
fn copy_ns() -> f64 {
    const COPIES: u32 = 100_000;
    let (from, mut to) = ([7u8; COPY_BYTES], [0u8; COPY_BYTES]);
    let began = Instant::now();
    for _ in 0..COPIES {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
    }
    began.elapsed().as_nanos() as f64 / f64::from(COPIES)
}

/// The machine for people.
pub(crate) fn machine() -> BTreeMap<String, String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    [
        ("cores".to_owned(), cores.to_string()),
        ("kernel".to_owned(), read("/proc/sys/kernel/osrelease")),
        ("load".to_owned(), read("/proc/loadavg")),
    ]
    .into()
}
