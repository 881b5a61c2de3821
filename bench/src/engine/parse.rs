//! What it costs to look into a tunnel, beyond the five-tuple of a plain frame.

use super::drive::{cpu_ns, wrong};
use crate::error::BenchError;
use catena_model::limits::TUNNEL_LAYERS_MAX;
use catena_wire::frame::FrameView;
use catena_wire::inside::Inside;
use std::hint::black_box;
use std::path::Path;

/// Frames that are read in turn: more than a branch predictor learns by heart, fewer than leave the
/// processor's second cache.
const FRAMES: usize = 1_024;

/// The figures, and the golden frame that each reads.
pub(super) const FRAMES_OF: [(&str, &str); 4] = [
    ("parse_5g_extra_ns", "gtp_u_in_vxlan"),
    ("parse_gre_extra_ns", "gre_key_sequence"),
    ("parse_stt_extra_ns", "stt"),
    ("parse_geneve_extra_ns", "geneve"),
];
/// A plain frame: TCP over IPv4.
const PLAIN: &str = "tcp_ipv4_padded";

/// A golden frame, many times.
pub(super) struct Frames(Vec<Vec<u8>>);

impl Frames {
    fn read(folder: &str, name: &'static str) -> Result<Self, BenchError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance");
        let path = root.join(folder).join(format!("{name}.hex"));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(name, &error))?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let digits: Vec<u32> =
            lines.flat_map(str::chars).filter_map(|digit| digit.to_digit(16)).collect();
        let octet = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).unwrap_or(0);
        let frame: Vec<u8> = digits.chunks_exact(2).map(octet).collect();
        Ok(Self(vec![frame; FRAMES]))
    }

    /// A frame in tunnels.
    pub(super) fn tunnelled(name: &'static str) -> Result<Self, BenchError> {
        let frames = Self::read("inside", name)?;
        let view = FrameView::parse(&frames.0[0]).map_err(|error| wrong(name, &error))?;
        let found = Inside::parse(&frames.0[0], &view, TUNNEL_LAYERS_MAX as u8);
        let found = found.map_err(|error| wrong(name, &error))?;
        found.and_then(|found| found.flow).ok_or_else(|| wrong(name, &"nothing is inside"))?;
        Ok(frames)
    }

    /// A frame in none.
    pub(super) fn plain() -> Result<Self, BenchError> {
        Self::read("frame", PLAIN)
    }

    /// Nanoseconds per frame.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn ns(&self, rounds: usize) -> f64 {
        let began = cpu_ns();
        for _ in 0..rounds {
            for frame in &self.0 {
                let Ok(view) = FrameView::parse(black_box(frame)) else { continue };
                black_box(Inside::parse(frame, &view, TUNNEL_LAYERS_MAX as u8).ok());
            }
        }
        (cpu_ns() - began) / (rounds * FRAMES) as f64
    }
}
