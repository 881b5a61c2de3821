//! Bytes of headers that take telemetry along, by the number of hops: ours, counted where they are written, and those
//! of others, by their formats.

use super::headers::{Front, ROOM};
use crate::error::BenchError;
use std::net::Ipv6Addr;

/// Hops of the paper's evaluation.
pub(super) const HOPS: [usize; 15] = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// INT-MD, shim and header (Telemetry Report and INT specifications of p4.org, version 2.1 section 5.8).
const INT_MD_BYTES: usize = 4 + 12;
/// What a hop writes: as much as a segment.
const RECORD_BYTES: usize = 16;
/// IOAM in a hop-by-hop header (RFC 9197 section 4.4.1, RFC 9486): the IPv6 option, and the header of a
/// pre-allocated trace.
const IOAM_BYTES: usize = 8 + 8;
/// Hops that one option has room for: the octet that says how long it is counts what is behind it (RFC 8200 section
/// 4.2), two octets, the trace's header of eight and the records.
const IOAM_HOPS: usize = (255 - 2 - 8) / RECORD_BYTES;
/// Hop-by-hop header of Path Tracing, which has room for 14 hops (draft-filsfils-spring-path-tracing).
const PATH_TRACING_BYTES: usize = 40;
/// Hops that it has room for.
const PATH_TRACING_HOPS: usize = 14;
/// Segments of 16 bits behind a block of 32 in one entry (RFC 9800).
const PER_CONTAINER: usize = 6;

/// Ways to take telemetry along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Records in the segments that are done with.
    Ours,
    /// SRv6 and INT-MD behind it.
    IntMd,
    /// SRv6 and IOAM.
    Ioam,
    /// Compressed segments and INT-MD.
    CompressedIntMd,
    /// Compressed segments and Path Tracing.
    PathTracing,
}

impl Format {
    pub(super) const ALL: [Self; 5] =
        [Self::Ours, Self::IntMd, Self::Ioam, Self::CompressedIntMd, Self::PathTracing];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "SRv6-INT",
            Self::IntMd => "SRv6 + INT-MD",
            Self::Ioam => "SRv6 + IOAM",
            Self::CompressedIntMd => "NEXT-CSID + INT-MD",
            Self::PathTracing => "NEXT-CSID + Path Tracing",
        }
    }

    /// Bytes in front of a packet at its last node; none: it has no room for so many hops.
    pub(super) fn bytes(self, hops: usize) -> Result<Option<usize>, BenchError> {
        let records = RECORD_BYTES * hops;
        Ok(Some(match self {
            Self::Ours => recorded(hops)?,
            Self::IntMd => segmented(hops, false)? + INT_MD_BYTES + records,
            Self::Ioam if hops <= IOAM_HOPS => segmented(hops, false)? + IOAM_BYTES + records,
            Self::CompressedIntMd => compressed(hops)? + INT_MD_BYTES + records,
            Self::PathTracing if hops <= PATH_TRACING_HOPS => {
                compressed(hops)? + PATH_TRACING_BYTES
            }
            Self::Ioam | Self::PathTracing => return Ok(None),
        }))
    }
}

/// What our headers take less than SRv6 with INT-MD, percent.
#[allow(clippy::cast_precision_loss)]
pub(super) fn saving_percent(hops: usize) -> Result<f64, BenchError> {
    let (ours, theirs) = (Format::Ours.bytes(hops)?, Format::IntMd.bytes(hops)?);
    let (ours, theirs) = ours.zip(theirs).unwrap_or((1, 1));
    Ok(100.0 * (1.0 - ours as f64 / theirs as f64))
}

/// A way of so many segments.
pub(super) fn way(segments: usize) -> Vec<Ipv6Addr> {
    let address = |last: usize| Ipv6Addr::new(0x5f00, 0, 0, 1, 0, 0, 0, last as u16);
    (0..segments).map(address).collect()
}

fn segmented(segments: usize, is_reduced: bool) -> Result<usize, BenchError> {
    Front::of(&way(segments)).plain(is_reduced, &mut [0; ROOM])
}

fn compressed(segments: usize) -> Result<usize, BenchError> {
    segmented(segments.div_ceil(PER_CONTAINER), true)
}

fn recorded(segments: usize) -> Result<usize, BenchError> {
    Front::of(&way(segments)).recorded(None, &mut [0; ROOM])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's claims, and the numbers of its section on overhead.
    #[test]
    fn headers_save_what_the_paper_says() {
        for (hops, ours, int_md, saving) in [
            (2, 88, 128, 31.3),
            (4, 120, 192, 37.5),
            (6, 152, 256, 40.6),
            (10, 216, 384, 43.8),
            (16, 312, 576, 45.8),
        ] {
            assert_eq!(Format::Ours.bytes(hops).unwrap(), Some(ours));
            assert_eq!(Format::IntMd.bytes(hops).unwrap(), Some(int_md));
            assert!((saving_percent(hops).unwrap() - saving).abs() < 0.06, "{hops}");
        }
    }

    /// Who takes less is said, too.
    #[test]
    fn who_takes_fewer_bytes_is_known() {
        assert_eq!(Format::CompressedIntMd.bytes(10).unwrap(), Some(240));
        assert_eq!(Format::PathTracing.bytes(10).unwrap(), Some(104));
        assert_eq!(Format::PathTracing.bytes(15).unwrap(), None);
        assert_eq!(
            (Format::Ioam.bytes(4).unwrap(), Format::Ioam.bytes(16).unwrap()),
            (Some(192), None)
        );
        for hops in HOPS.into_iter().take_while(|hops| *hops <= PATH_TRACING_HOPS) {
            assert!(Format::PathTracing.bytes(hops).unwrap() < Format::Ours.bytes(hops).unwrap());
        }
    }
}
