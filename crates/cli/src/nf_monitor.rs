//! `catena nf run monitor`: what it is made of, its collector, and what it tells beside the account. Refuses to
//! know what flows are.

use crate::failure::Failure;
use crate::nf::{alone, hear};
use crate::nf_account;
use crate::output::{block, say, table};
use catena_nf::monitor::{CLASSES, Monitor, MonitorConfig, Talker};
use catena_nf::packet::Direction;
use catena_runner::{Account, Clock, Outlet, Place, run_between, secret_seed};
use clap::Args;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Talkers that are told.
const TALKERS: usize = 5;

/// What a monitor is made of.
#[derive(Args)]
pub(crate) struct MonitorArguments {
    /// The collector that messages of IPFIX go to, by UDP; without it they are counted and go nowhere. It is
    /// looked up once, at the start.
    #[arg(long, value_name = "HOST:PORT")]
    ipfix: Option<String>,
    /// The observation domain of the messages.
    #[arg(long, value_name = "N", default_value_t = MonitorConfig::default().domain)]
    domain: u32,
    /// Seconds from which on a flow's record ends though packets come.
    #[arg(long, value_name = "SECONDS", default_value_t = MonitorConfig::default().active_seconds)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    active: u32,
    /// Seconds without a packet behind which a flow's record ends.
    #[arg(long, value_name = "SECONDS", default_value_t = MonitorConfig::default().idle_seconds)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    idle: u32,
}

/// Runs a monitor to its end, at which its open records are told as forced to end.
pub(crate) fn run(wanted: &MonitorArguments, place: &Place, is_json: bool) -> Result<(), Failure> {
    let collector = wanted.ipfix.as_deref().map(connected).transpose()?.map(Outlet::Datagrams);
    let clock = Clock::start();
    let monitor = Monitor::new(MonitorConfig {
        active_seconds: wanted.active,
        idle_seconds: wanted.idle,
        domain: wanted.domain,
        epoch_seconds: clock.epoch_seconds(),
        seed: secret_seed()?,
        ..MonitorConfig::default()
    })?;
    let tell = |monitor: &Monitor, account: &Account| tell(monitor, account, place, is_json);
    let setting = alone(place, clock, collector);
    let mut bump = run_between(Box::new(monitor), setting, |monitor, news| {
        hear(place, monitor, &news, tell);
    })?;
    let now = clock.now();
    bump.conclude(now, |monitor, outcomes| monitor.end_all(now, outcomes))?;
    let account = bump.account();
    tell(bump.function(), &account);
    Ok(())
}

/// A socket whose other end is the collector.
fn connected(collector: &str) -> Result<UdpSocket, Failure> {
    let failed = |error: std::io::Error, advice: &str| {
        Failure::failed(format!("the collector {collector} cannot be reached: {error}; {advice}"))
    };
    let found = collector.to_socket_addrs().map_err(|error| {
        failed(
            error,
            "name it as HOST:PORT, such as 192.0.2.7:4739, with a host that can be looked up here",
        )
    })?;
    let mut refusal = std::io::Error::other("its name has no address");
    for address in found {
        match connect(address) {
            Ok(socket) => return Ok(socket),
            Err(error) => refusal = error,
        }
    }
    Err(failed(refusal, "`ip route get` with its address tells whether there is a way to it"))
}

fn connect(collector: SocketAddr) -> std::io::Result<UdpSocket> {
    let any = match collector {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(collector)?;
    Ok(socket)
}

/// What a monitor says of itself, for programs.
#[derive(Serialize)]
struct Report {
    flows: Flows,
    scans: u64,
    top: Vec<TopLine>,
    round_trips: RoundTripLines,
}

/// Records of flows.
#[derive(Serialize)]
struct Flows {
    open: usize,
    ended: u64,
    ended_early: u64,
}

/// One of those who talk most.
#[derive(Serialize)]
struct TopLine {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    source_port: u16,
    destination_port: u16,
    direction: &'static str,
    packets: u64,
    bytes: u64,
    /// Element 136 of IPFIX; none: it is open.
    end_reason: Option<u8>,
}

/// Round trips, in classes that any were in.
#[derive(Serialize)]
struct RoundTripLines {
    to_asked: Vec<ClassLine>,
    to_asking: Vec<ClassLine>,
}

/// Round trips of a class.
#[derive(Serialize)]
struct ClassLine {
    /// They took less; none: they are all that are longer.
    below_us: Option<u64>,
    count: u64,
}

/// An account with what the monitor says.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    account: &'a Account,
    monitor: Report,
}

fn report(monitor: &Monitor) -> Report {
    let statistics = monitor.statistics();
    let trips = monitor.round_trips();
    Report {
        flows: Flows {
            open: monitor.open(),
            ended: statistics.ended,
            ended_early: statistics.ended_early,
        },
        scans: statistics.scans,
        top: monitor.top(TALKERS).iter().map(top_line).collect(),
        round_trips: RoundTripLines {
            to_asked: classes(&trips.to_asked),
            to_asking: classes(&trips.to_asking),
        },
    }
}

fn top_line(talker: &Talker) -> TopLine {
    TopLine {
        source: talker.flow.source,
        destination: talker.flow.destination,
        protocol: talker.flow.protocol.0,
        source_port: talker.flow.source_port,
        destination_port: talker.flow.destination_port,
        direction: match talker.direction {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        },
        packets: talker.packets,
        bytes: talker.bytes,
        end_reason: talker.end.map(|end| end as u8),
    }
}

fn classes(counts: &[u64; CLASSES]) -> Vec<ClassLine> {
    let any = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let line = |(class, count): (usize, &u64)| ClassLine {
        below_us: (class + 1 < CLASSES).then_some(1 << class),
        count: *count,
    };
    any.map(line).collect()
}

fn tell(monitor: &Monitor, account: &Account, place: &Place, is_json: bool) {
    let report = report(monitor);
    if is_json {
        nf_account::tell_programs(&Told { account, monitor: report });
        return;
    }
    nf_account::tell_people(account, place);
    let Flows { open, ended, ended_early } = report.flows;
    say!("flow records {open} open, {ended} ended, {ended_early} of them for want of room");
    say!("scans found {}", report.scans);
    tell_top(&report.top);
    tell_round_trips(&report.round_trips);
}

fn tell_top(top: &[TopLine]) {
    if top.is_empty() {
        return;
    }
    let mut rows = table(["top", "from", "to", "protocol", "packets", "bytes"]);
    for line in top {
        rows.add_row([
            line.direction,
            &SocketAddr::new(line.source, line.source_port).to_string(),
            &SocketAddr::new(line.destination, line.destination_port).to_string(),
            &line.protocol.to_string(),
            &line.packets.to_string(),
            &line.bytes.to_string(),
        ]);
    }
    block(rows);
}

fn tell_round_trips(trips: &RoundTripLines) {
    let mut rows = table(["round trips", "took", "count"]);
    let named = [("to who is asked", &trips.to_asked), ("to who asks", &trips.to_asking)];
    for (name, line) in
        named.into_iter().flat_map(|(name, lines)| lines.iter().map(move |line| (name, line)))
    {
        let took = line.below_us.map_or_else(|| "longer".to_owned(), |us| format!("< {us} us"));
        rows.add_row([name, &took, &line.count.to_string()]);
    }
    if !(trips.to_asked.is_empty() && trips.to_asking.is_empty()) {
        block(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_none_was_in_are_left_out_and_the_last_has_no_bound() {
        let mut counts = [0; CLASSES];
        (counts[0], counts[3], counts[CLASSES - 1]) = (1, 2, 3);
        let bounds: Vec<_> =
            classes(&counts).iter().map(|line| (line.below_us, line.count)).collect();
        assert_eq!(bounds, [(Some(1), 1), (Some(8), 2), (None, 3)]);
    }

    #[test]
    fn a_collector_that_is_none_is_named_with_what_to_do() {
        for wrong in ["192.0.2.7", "192.0.2.7:many", ""] {
            let said = connected(wrong).err().unwrap().message;
            assert!(said.contains(wrong) && said.contains("HOST:PORT"), "{said}");
        }
        assert!(connected("127.0.0.1:4739").is_ok());
    }
}
