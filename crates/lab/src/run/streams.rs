//! Our own TCP streams: a pattern of known bytes, checked at the far end, since inside a lab
//! nobody fills in checksums. Knows sockets and seconds; refuses to know chains.

use super::tool::{Place, TrafficResult};
use crate::error::{LabError, Result};
use crate::vocabulary::Traffic;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A prime, so that no boundary of a segment repeats in the pattern.
const PATTERN_BYTES: usize = 65_521;
const READ_BYTES: usize = 256 * 1024;
/// A stream that does not move for so long is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the far end of a stream saw.
struct Heard {
    bytes: u64,
    /// Bytes of each second since the first came.
    seconds: Vec<u64>,
    lasted: Duration,
    fault: Option<String>,
}

/// A byte by its place: any shift, loss or doubling shows.
fn pattern() -> Vec<u8> {
    let byte = |place: usize| (place.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0];
    (0..PATTERN_BYTES).map(byte).collect()
}

/// Makes the streams of one traffic at once; those that end with the updates end with `stop`.
pub(crate) fn make(
    traffic: &Traffic,
    place: &Place<'_>,
    stop: &AtomicBool,
    result: &mut TrafficResult,
) -> Result<()> {
    let failed = |error| LabError::io("make", format!("traffic '{}'", traffic.name), error);
    let to = SocketAddr::new(place.address, traffic.port);
    let listener = place.to.inside(|| TcpListener::bind(to))?.map_err(failed)?;
    let connect = |_| -> io::Result<(TcpStream, TcpStream)> {
        let connect = || TcpStream::connect_timeout(&to, PATIENCE);
        let socket = place.from.inside(connect).map_err(io::Error::other)??;
        Ok((socket, listener.accept()?.0))
    };
    let sockets = (0..traffic.load.flows).map(connect).collect::<io::Result<Vec<_>>>();
    let ends: Vec<(u64, Heard)> = std::thread::scope(|scope| {
        let start = |(near, far)| {
            let reader = scope.spawn(move || hear(far));
            (scope.spawn(move || send(near, traffic, stop)), reader)
        };
        let threads: Vec<_> = sockets.map_err(failed)?.into_iter().map(start).collect();
        let ends = threads.into_iter().map(|(sender, reader)| (joined(sender), joined(reader)));
        Ok::<_, LabError>(ends.collect())
    })?;
    let is_broken =
        |(sent, read): &&(u64, Heard)| read.fault.is_some() || read.bytes != *sent || *sent == 0;
    result.broken = Some(ends.iter().filter(is_broken).count() as u64);
    result.faults = ends.iter().filter_map(|(_, read)| read.fault.clone()).collect();
    result.stalled = Some(ends.iter().map(|(_, read)| stalled(read)).sum());
    #[allow(clippy::cast_precision_loss, reason = "bytes of a run are far below 2^52")]
    let rate = |(_, read): &(u64, Heard)| {
        read.bytes as f64 * 8.0 / read.lasted.as_secs_f64().max(f64::MIN_POSITIVE)
    };
    result.bits_per_second = Some(ends.iter().map(rate).sum());
    Ok(())
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whole seconds of a stream's life without a byte.
fn stalled(read: &Heard) -> u64 {
    let whole = usize::try_from(read.lasted.as_secs()).unwrap_or(usize::MAX);
    let moved = read.seconds.iter().take(whole).filter(|bytes| **bytes > 0).count();
    (whole - moved.min(whole)) as u64
}

/// Sends the pattern over and over at the traffic's rate; answers how many bytes the socket took.
fn send(mut socket: TcpStream, traffic: &Traffic, stop: &AtomicBool) -> u64 {
    let pattern = pattern();
    let start = Instant::now();
    let limit = Duration::from_secs_f64(traffic.seconds.0);
    let mut sent = 0_u64;
    let is_over = || {
        if traffic.is_until_updated {
            stop.load(Ordering::Relaxed)
        } else {
            start.elapsed() >= limit
        }
    };
    // A stream that cannot be written to has ended early: its reader misses bytes, and tells why.
    if socket.set_write_timeout(Some(PATIENCE)).is_err() {
        return 0;
    }
    while !is_over() {
        if socket.write_all(&pattern).is_err() {
            return u64::MAX;
        }
        sent += PATTERN_BYTES as u64;
        #[allow(clippy::cast_precision_loss, reason = "bytes of a run are far below 2^52")]
        if let Some(rate) = traffic.rate {
            let due = Duration::from_secs_f64(sent as f64 * 8.0 / rate.0.max(1.0));
            std::thread::sleep(due.saturating_sub(start.elapsed()).min(PATIENCE));
        }
    }
    if socket.shutdown(Shutdown::Write).is_err() { u64::MAX } else { sent }
}

fn hear(mut socket: TcpStream) -> Heard {
    let pattern = pattern();
    let mut buffer = vec![0; READ_BYTES];
    let mut first = None;
    let mut read = Heard { bytes: 0, seconds: Vec::new(), lasted: Duration::ZERO, fault: None };
    let mut place = 0;
    if let Err(error) = socket.set_read_timeout(Some(PATIENCE)) {
        read.fault = Some(error.to_string());
        return read;
    }
    loop {
        let length = match socket.read(&mut buffer) {
            Ok(0) => return read,
            Ok(length) => length,
            Err(error) => {
                read.fault = Some(format!("after {} bytes: {error}", read.bytes));
                return read;
            }
        };
        read.lasted = first.get_or_insert_with(Instant::now).elapsed();
        let second = usize::try_from(read.lasted.as_secs()).unwrap_or_default();
        if read.seconds.len() <= second {
            read.seconds.resize(second + 1, 0);
        }
        if let Some(bytes) = read.seconds.get_mut(second) {
            *bytes += length as u64;
        }
        if !follows(&pattern, &mut place, buffer.get(..length).unwrap_or_default()) {
            read.fault = Some(format!("wrong bytes after {}", read.bytes));
            return read;
        }
        read.bytes += length as u64;
    }
}

/// Do the bytes go on with the pattern from `place`?
fn follows(pattern: &[u8], place: &mut usize, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let ahead = pattern.get(*place..).unwrap_or_default();
        let length = ahead.len().min(rest.len());
        let (now, later) = rest.split_at(length);
        if ahead.get(..length) != Some(now) {
            return false;
        }
        *place = (*place + length) % pattern.len();
        rest = later;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_shifted_lost_or_doubled_do_not_follow() {
        let pattern = pattern();
        let twice = [pattern.clone(), pattern.clone()].concat();
        let mut place = 0;
        assert!(follows(&pattern, &mut place, &twice[..100]));
        assert!(follows(&pattern, &mut place, &twice[100..PATTERN_BYTES + 7]));
        assert_eq!(place, 7);
        for from in [6, 8, 0] {
            assert!(!follows(&pattern, &mut 7, &twice[from..from + 1_000]), "{from}");
        }
    }

    #[test]
    fn a_second_without_a_byte_is_a_stall_and_the_last_part_of_one_is_not() {
        let read = |seconds: &[u64], lasted| Heard {
            bytes: 0,
            seconds: seconds.to_vec(),
            lasted: Duration::from_millis(lasted),
            fault: None,
        };
        assert_eq!(stalled(&read(&[5, 5, 1], 2_100)), 0);
        assert_eq!(stalled(&read(&[5, 0, 0, 1], 3_100)), 2);
        assert_eq!(stalled(&read(&[], 0)), 0);
    }
}
