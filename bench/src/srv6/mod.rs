//! Headers over segments that take telemetry along: what they cost beside plain ones, and how long they are beside
//! those of others.

mod headers;
mod sizes;

use crate::chain_tcp::MovedStreams;
use crate::engine::{EdgeWork, Kind, Visits, cpu_ns, wrong};
use crate::error::BenchError;
use crate::machine::calibrate;
use crate::plot::{Axis, Line, Plot};
use crate::publish::{Run, publish};
use crate::results::{Better, Figure, Fold, Goal, Notes};
use catena_wire::scalar::{FlowCounter, QueueId, QueueLength};
use catena_wire::srv6;
use catena_wire::srv6::HmacKey;
use catena_wire::srv6_int::{
    ArrivalTime, FunctionLatency, IntMetadata, Queue, Tail, Visit, end_dt_int, end_t_int,
};
use headers::{Front, ROOM};
use sizes::Format;
use std::hint::black_box;
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
/// Packets of a sample in the engine, and headers of one by the format alone.
const PACKETS: usize = 1 << 16;
const HEADERS: usize = 1 << 18;
/// Segments of the headers that are timed, as many nodes as in the paper's testbed.
const SEGMENTS: usize = 4;
/// Segments without the fast path.
const SLOW: Kind = Kind { has_fast_path: false, ..Kind::SEGMENTED };
/// Goals.
const EXTRA_NS: f64 = 15.0;
const RESIGN_US: f64 = 1.5;

/// Streams over segments. The goal of the longest chain is a quotient.
pub(crate) const STREAMS: MovedStreams = MovedStreams {
    lab: "bench-srv6-tcp",
    encapsulation: "srv6",
    name: "segments of IPv6",
    stem: "srv6-tcp",
    goal: Goal::Quotient(Some(0.9)),
    kernel_alone: Some(1_300),
};

/// What is done, for people.
const ABOUT: &str = "`…_extra_ns`: a header of four segments by the format alone, in memory that the caches hold: \
    what it takes longer with telemetry than without, one sample being the difference of two loops over as many \
    headers, in turns. `encaps_int`: writing it (H.Encaps.INT beside H.Encaps); `end_t_int`: the step to the next \
    segment with a record of five fields (End.T.INT beside End); `end_dt_int`: the last record and the way to what is \
    inside (End.DT.INT beside End.DT46). `hmac_resign_us`: verifying a signed header, and signing it anew.\n\n\
    `push_…`, `visit_…`, `end_…`: the engine, packets of 64 bytes in vectors of 256, 1,024 flows, source and sink \
    included. `push`: from an endpoint to another node; `visit`: from another node into a function that knows nothing \
    of chains, and out of it to the next node, together; `end`: the same at the last node, which delivers. `srv6` is \
    by the fast path, in a push beside NSH, which takes it too; `slow` is without it, and `int` with telemetry, of \
    which no packet takes it, both beside `srv6`. With telemetry, each header is kept while the function has its \
    packet, packets are told apart by their digests, and a clock is read for each.\n\n\
    `…_extra_ns` lie close to their goals, on either side of them from run to run as this machine is faster or \
    slower, by a factor of two; `push_srv6_ns` tells how fast it was. Three ways made `end_dt_int` so: a record \
    written without a copy between, the TLV at the front found without a search, and a tag that is read where it \
    is asked for.\n\n\
    `tcp_…`: one TCP stream through one to six \
    functions of `labs/bench-srv6-tcp.yaml`, on four hosts of this machine, over segments beside NSH, by the \
    kernel path, in turns: the chain is moved from one to the other and back. `tcp_…_vs_kernel`: beside the \
    kernel alone, whose own segment routing (`encap seg6`, End.DX4) leads through the same functions on the \
    same hosts by rules for each interface, with one segment for each hop between hosts. The answers go \
    straight.\n\n\
    `saving_…_percent`: what our headers take less than SRv6 with INT-MD of as many bytes a hop, counted where they \
    are written. Who takes fewer bytes: Path Tracing over compressed segments, by far, which has an interface, a short \
    time and a load of up to 14 hops and no delay of functions; the picture has all of them.";

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let ns = |name, goal| Figure::new(name, "ns", Better::Lower, goal);
    let beside = Goal::Quotient(None);
    let mut all = vec![
        ns("encaps_int_extra_ns", Goal::Value(EXTRA_NS)),
        ns("end_t_int_extra_ns", Goal::Value(EXTRA_NS)),
        ns("end_dt_int_extra_ns", Goal::Value(EXTRA_NS)),
        Figure::new("hmac_resign_us", "us", Better::Lower, Goal::Value(RESIGN_US)),
        ns("push_srv6_ns", beside),
        ns("push_int_ns", beside),
        ns("visit_srv6_ns", Goal::None),
        ns("visit_slow_ns", beside),
        ns("visit_int_ns", beside),
        ns("end_srv6_ns", Goal::None),
        ns("end_slow_ns", beside),
        ns("end_int_ns", beside),
        Figure::new("saving_2_percent", "%", Better::Higher, Goal::Value(31.2)).by(Fold::Count),
        Figure::new("saving_16_percent", "%", Better::Higher, Goal::Value(45.8)).by(Fold::Count),
    ];
    all.extend(STREAMS.figures());
    all
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let samples = if options.quick { SAMPLES_QUICK } else { SAMPLES };
    formats(samples, &mut notes)?;
    engine(samples, &mut notes)?;
    notes.take("saving_2_percent", true, sizes::saving_percent(2)?);
    notes.take("saving_16_percent", true, sizes::saving_percent(16)?);
    let streams = STREAMS.measure(options.quick, folder.parent().unwrap_or(folder), &mut notes);
    let missing = streams.missing.iter().map(|what| format!(" Not measured: {what}."));
    let plots = vec![plot()?, STREAMS.plot(&notes)];
    let text = |key: &str, value: String| (key.to_owned(), value);
    let run = Run {
        name: "srv6",
        about: ABOUT.to_owned() + &missing.collect::<String>(),
        versions: [text("ours", env!("CARGO_PKG_VERSION").into())].into(),
        options: [
            text("quick", options.quick.to_string()),
            text("packets of a sample", PACKETS.to_string()),
            text("headers of a sample", HEADERS.to_string()),
            text("kernel path of streams", streams.kernel_path),
        ]
        .into(),
        notes,
        plots,
    };
    publish(run, folder)
}

/// Nanoseconds of one of many such steps, each with a header made anew, which is taken off.
#[allow(clippy::cast_precision_loss)]
fn timed(
    header: &[u8],
    mut step: impl FnMut(&mut [u8]) -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let mut room = [0; ROOM];
    let room = room.get_mut(..header.len()).unwrap_or_default();
    let began = cpu_ns();
    for _ in 0..HEADERS {
        room.copy_from_slice(header);
        step(black_box(&mut *room))?;
    }
    let whole = cpu_ns() - began;
    let began = cpu_ns();
    for _ in 0..HEADERS {
        room.copy_from_slice(header);
        black_box(&mut *room);
    }
    Ok((whole - (cpu_ns() - began)) / HEADERS as f64)
}

fn formats(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    eprintln!("bench: formats");
    let failed = |error: srv6::Srv6Error| wrong("a header", &error);
    let way = sizes::way(SEGMENTS);
    let (mut plain, mut recorded) = ([0; ROOM], [0; ROOM]);
    let length = Front::of(&way).plain(false, &mut plain)?;
    let plain = plain.get(..length).unwrap_or_default();
    let length = Front::of(&way).recorded(None, &mut recorded)?;
    let recorded = recorded.get(..length).unwrap_or_default();
    let last = |header: &[u8]| -> Result<Vec<u8>, BenchError> {
        let mut header = header.to_vec();
        for _ in 1..SEGMENTS {
            srv6::end(&mut header).map_err(failed)?;
        }
        Ok(header)
    };
    let (plain_last, recorded_last) = (last(plain)?, last(recorded)?);
    let record = record();
    for _ in 0..samples {
        let with = timed(recorded, |into| Front::of(&way).recorded(None, into).map(drop))?;
        let without = timed(plain, |into| Front::of(&way).plain(false, into).map(drop))?;
        notes.take("encaps_int_extra_ns", true, with - without);
        let with = timed(recorded, |header| {
            end_t_int(header, &record, Visit::Passing, Tail::Tlv).map(drop).map_err(failed)
        })?;
        let without = timed(plain, |header| srv6::end(header).map(drop).map_err(failed))?;
        notes.take("end_t_int_extra_ns", true, with - without);
        let with = timed(&recorded_last, |header| {
            end_dt_int(header, &record, Tail::Tlv).map(drop).map_err(failed)
        })?;
        let without =
            timed(&plain_last, |header| srv6::decapsulation(header).map(drop).map_err(failed))?;
        notes.take("end_dt_int_extra_ns", true, with - without);
        notes.take("hmac_resign_us", true, resign_ns(&way)? / 1_000.0);
    }
    Ok(())
}

fn record() -> IntMetadata {
    IntMetadata {
        device: Some(7),
        arrival: Some(ArrivalTime::from_ns(123_456_789)),
        latency: Some(FunctionLatency::from_ns(12_345)),
        queue: QueueId::new(1).ok().map(|id| Queue { id, length: QueueLength::saturating(9) }),
        counter: Some(FlowCounter::of(99)),
        is_of_function: true,
        is_synchronised: false,
    }
}

fn resign_ns(way: &[std::net::Ipv6Addr]) -> Result<f64, BenchError> {
    let failed = |error: srv6::Srv6Error| wrong("a header", &error);
    let key = HmacKey::new(b"catena benchmark").map_err(failed)?;
    let mut signed = [0; ROOM];
    let length = Front::of(way).recorded(Some(1), &mut signed)?;
    let signed = signed.get_mut(..length).unwrap_or_default();
    srv6::sign(signed, &key).map_err(failed)?;
    timed(signed, |header| {
        let view = srv6::Srv6View::parse(header).map_err(failed)?;
        srv6::verify(&view, &key).map_err(failed)?;
        srv6::sign(header, &key).map_err(failed)
    })
}

fn engine(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    eprintln!("bench: engine");
    let mut push = [Kind::ORDINARY, Kind::SEGMENTED, Kind::RECORDED].map(EdgeWork::push);
    let (mut visit, mut end) = (visits()?, ends()?);
    for _ in 0..samples {
        let mut pushed = [0.0; 3];
        for (ns, push) in pushed.iter_mut().zip(&mut push) {
            *ns = push.as_mut().map_err(|error| wrong("the engine", error))?.ns(PACKETS)?;
        }
        let [nsh, plain, recorded] = pushed;
        notes.take("push_srv6_ns", true, plain);
        notes.take("push_srv6_ns", false, nsh);
        notes.take("push_int_ns", true, recorded);
        notes.take("push_int_ns", false, plain);
        for (kinds, [plain, slow, recorded]) in [
            (&mut visit, ["visit_srv6_ns", "visit_slow_ns", "visit_int_ns"]),
            (&mut end, ["end_srv6_ns", "end_slow_ns", "end_int_ns"]),
        ] {
            let [without, slowly, with] = kinds;
            let without_ns = without.ns(PACKETS)?;
            let beside = [(slow, slowly.ns(PACKETS)?), (recorded, with.ns(PACKETS)?)];
            if with.records_lost() > 0 {
                return Err(wrong("the engine", &"records of packets were lost"));
            }
            notes.take(plain, true, without_ns);
            for (name, ns) in beside {
                notes.take(name, true, ns);
                notes.take(name, false, without_ns);
            }
        }
    }
    let all = (samples * PACKETS) as u64;
    for (push, is_fast) in push.iter().flatten().zip([true, true, false]) {
        check_path(push.by_fast_path(), if is_fast { all } else { 0 })?;
    }
    for kinds in [&visit, &end] {
        for (visits, is_fast) in kinds.iter().zip([true, false, false]) {
            check_path(visits.by_fast_path(), if is_fast { 2 * all } else { 0 })?;
        }
    }
    Ok(())
}

/// Did as many packets take the fast path as the figure is said to be of, beside those of warming?
fn check_path(by_fast_path: u64, measured: u64) -> Result<(), BenchError> {
    match (by_fast_path, measured) {
        (0, 0) => Ok(()),
        (packets, measured) if measured > 0 && packets >= measured => Ok(()),
        (packets, measured) => {
            let reason = format!("{packets} packets took the fast path, and not {measured}");
            Err(wrong("the engine", &reason))
        }
    }
}

/// At the first node of the path: by the fast path, without one, and with records.
fn visits() -> Result<[Visits; 3], BenchError> {
    Ok([
        Visits::new(Kind::SEGMENTED, &headers::at_first(false)?, false)?,
        Visits::new(SLOW, &headers::at_first(false)?, false)?,
        Visits::new(Kind::RECORDED, &headers::at_first(true)?, false)?,
    ])
}

/// At the last one.
fn ends() -> Result<[Visits; 3], BenchError> {
    Ok([
        Visits::new(Kind::SEGMENTED, &headers::at_last(false)?, true)?,
        Visits::new(SLOW, &headers::at_last(false)?, true)?,
        Visits::new(Kind::RECORDED, &headers::at_last(true)?, true)?,
    ])
}

/// Bytes by the number of hops, which follow from formats alone.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn plot() -> Result<Plot, BenchError> {
    let lines = Format::ALL.into_iter().map(|format| {
        let mut points = Vec::new();
        for hops in sizes::HOPS {
            points.extend(format.bytes(hops)?.map(|bytes| (hops as f64, bytes as f64)));
        }
        Ok(Line { name: format.name().into(), points })
    });
    Ok(Plot {
        stem: "srv6-sizes".into(),
        title: "Bytes in front of a packet at its last node".into(),
        x: Axis::linear("hops"),
        y: Axis::linear("bytes"),
        lines: lines.collect::<Result<_, BenchError>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that did something else with them would be an error.
    #[test]
    fn what_is_timed_at_nodes_goes_the_way_that_its_header_says() {
        for works in [visits(), ends()] {
            for mut work in works.unwrap() {
                work.ns(1_024).unwrap();
                assert_eq!(work.records_lost(), 0);
            }
        }
    }
}
