//! What qperf finds of a NAT, a firewall and an ids one behind the other, in the data plane of one host: how
//! long a message takes over TCP, beside the same two endpoints without a chain.

use crate::chain_tcp::{End, Ends, LabBed};
use crate::peers::Unavailable;
use crate::peers::program::{Running, find, run};
use crate::results::{Better, Figure, Goal, Notes};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const LAB: &str = "bench-functions";
/// Bytes of messages, and what their figures are called.
const SIZES: [(u32, &str); 5] = [
    (50, "qperf_50_us"),
    (100, "qperf_100_us"),
    (150, "qperf_150_us"),
    (200, "qperf_200_us"),
    (250, "qperf_250_us"),
];
/// Ports of messages: in the chain, and in none; the next one is where both ends agree on what to do.
const CHAINED: u16 = 80;
const PLAIN: u16 = 5_290;
const ROUNDS: usize = 3;

pub(super) fn figures() -> [Figure; 5] {
    SIZES.map(|(_, name)| Figure::new(name, "µs", Better::Lower, Goal::Quotient(None)))
}

/// In turns; answers what could not be measured, and why.
pub(super) fn measure(is_quick: bool, root: &Path, notes: &mut Notes) -> Option<String> {
    let rounds = if is_quick { 1 } else { ROUNDS };
    try_measure(rounds, root, notes).err().map(|reason| format!("qperf ({reason})"))
}

fn try_measure(rounds: usize, root: &Path, notes: &mut Notes) -> Result<(), Unavailable> {
    let program = find("qperf", "qperf")?;
    let bed = LabBed::start(root, LAB, true)?;
    for round in 1..=rounds {
        eprintln!("bench: qperf, round {round}");
        for (size, name) in SIZES {
            for (port, is_ours) in [(CHAINED, true), (PLAIN, false)] {
                notes.take(name, is_ours, us(&bed, &program, port, size)?);
            }
        }
    }
    Ok(())
}

/// Microseconds one way, as qperf tells them.
fn us(bed: &LabBed, program: &Path, port: u16, size: u32) -> Result<f64, Unavailable> {
    let control = (port + 1).to_string();
    let mut server = bed.at(End::Destination);
    server.arg(program).args(["-lp", &control]);
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Running::start(&mut server)?;
    std::thread::sleep(Duration::from_millis(200));
    let mut client = bed.at(End::Source);
    client.arg(program).args([bed.address(), "-lp", &control, "-ip", &port.to_string()]);
    client.args(["-m", &size.to_string(), "-t", "1", "tcp_lat"]);
    let said = run(&mut client)?;
    let latency = said.lines().find_map(|line| line.trim().strip_prefix("latency"));
    let words = latency.map(|rest| rest.trim_start_matches([' ', '=']).trim());
    told(words.unwrap_or_default()).ok_or_else(|| Unavailable::new("qperf", said))
}

/// Such as `12.3 us`.
fn told(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let number: f64 = number.replace(',', "").parse().ok()?;
    let factor = match unit.trim() {
        "ns" => 1e-3,
        "us" => 1.0,
        "ms" => 1e3,
        "sec" => 1e6,
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_qperf_tells_is_read_in_microseconds() {
        let told = ["12.3 us", "870 ns", "1.2 ms", "fast"].map(super::told);
        assert_eq!(told, [Some(12.3), Some(0.87), Some(1_200.0), None]);
    }
}
