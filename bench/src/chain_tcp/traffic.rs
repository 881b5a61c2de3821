//! What is sent through a bed: one TCP stream, and round trips of small messages.

use super::bed::{End, Ends};
use crate::peers::Unavailable;
use crate::peers::program::Running;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONGESTION: &str = "cubic";
const START_WAIT: Duration = Duration::from_secs(10);
const MESSAGE_BYTES: usize = 64;
/// Round trips before those that count.
const WARM_UP: usize = 200;
/// Where round trips are made from and to: between two cores waking up would be all that is seen.
const ROUND_TRIP_CORE: &str = "0";

/// How a stream is sent.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) seconds: u32,
    /// Cores of both ends; none: all.
    pub(super) cores: Option<String>,
    /// Bits a second; none: as many as go.
    pub(super) rate: Option<f64>,
}

/// The words for a result's options.
pub(super) fn described(stream: &Stream) -> String {
    let cores = stream.cores.as_deref().unwrap_or("all");
    format!(
        "one iperf3 stream of {} s, congestion control {CONGESTION}, cores {cores}; round trips of \
         {MESSAGE_BYTES} bytes over TCP without delay, both ends on core {ROUND_TRIP_CORE}; \
         offloads as veth has them",
        stream.seconds
    )
}

/// Gbit/s that arrived.
pub(super) fn stream(bed: &dyn Ends, port: u16, how: &Stream) -> Result<f64, Unavailable> {
    let _server = listen(bed, port, how)?;
    let mut client = client(bed, port, how);
    client.stdin(Stdio::null()).stderr(Stdio::null());
    let done = client.output().map_err(|error| Unavailable::new("iperf3", error))?;
    let report: Value =
        serde_json::from_slice(&done.stdout).map_err(|error| Unavailable::new("iperf3", error))?;
    match (&report["error"], report["end"]["sum_received"]["bits_per_second"].as_f64()) {
        (Value::Null, Some(bits)) if bits > 0.0 => Ok(bits / 1e9),
        (error, _) => Err(Unavailable::new("iperf3", error)),
    }
}

fn client(bed: &dyn Ends, port: u16, how: &Stream) -> Command {
    let mut client = bed.at(End::Source);
    pin(&mut client, how.cores.as_deref());
    client.args(["iperf3", "--json", "-4", "--client", bed.address(), "--congestion", CONGESTION]);
    client.args(["--port", &port.to_string(), "--time", &how.seconds.to_string()]);
    client.args(["--connect-timeout", "3000"]);
    if let Some(rate) = how.rate {
        client.args(["--bitrate", &format!("{rate:.0}")]);
    }
    client
}

fn listen(bed: &dyn Ends, port: u16, how: &Stream) -> Result<Running, Unavailable> {
    let mut server = bed.at(End::Destination);
    pin(&mut server, how.cores.as_deref());
    server.args(["iperf3", "--server", "--one-off", "--forceflush", "--port", &port.to_string()]);
    server.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    listening(&mut server, "Server listening")
}

/// Starts a program and waits until it says so.
fn listening(command: &mut Command, sign: &str) -> Result<Running, Unavailable> {
    let mut running = Running::start(command)?;
    let said = running.0.stdout.take();
    let said = said.ok_or_else(|| Unavailable::new("a server", "it has no output"))?;
    let (tell, told) = std::sync::mpsc::channel();
    let sign = sign.to_owned();
    std::thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if line.contains(&sign) {
                // Nobody waits any more when this fails.
                let _ = tell.send(());
            }
        }
    });
    let heard = told.recv_timeout(START_WAIT);
    heard.map(|()| running).map_err(|_| Unavailable::new("a server", "it does not listen"))
}

fn pin(command: &mut Command, cores: Option<&str>) {
    if let Some(cores) = cores {
        command.args(["taskset", "-c", cores]);
    }
}

/// Microseconds of so many round trips, while a stream runs beside them if one is given.
pub(super) fn round_trips(
    bed: &dyn Ends,
    port: u16,
    count: usize,
    beside: Option<&Stream>,
) -> Result<Vec<f64>, Unavailable> {
    let me = std::env::current_exe().map_err(|error| Unavailable::new("round trips", error))?;
    let mut echo = bed.at(End::Destination);
    pin(&mut echo, Some(ROUND_TRIP_CORE));
    echo.arg(&me).args(["echo", &port.to_string()]);
    echo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let _echo = listening(&mut echo, "listening")?;
    let load = match beside {
        None => None,
        Some(how) => {
            let server = listen(bed, port + 1, how)?;
            let mut client = client(bed, port + 1, how);
            client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let client = Running::start(&mut client)?;
            std::thread::sleep(Duration::from_millis(500));
            Some((server, client))
        }
    };
    let mut trips = bed.at(End::Source);
    pin(&mut trips, Some(ROUND_TRIP_CORE));
    trips.arg(&me).args(["round-trips", bed.address(), &port.to_string(), &count.to_string()]);
    let said = crate::peers::program::run(&mut trips)?;
    if let Some((_, mut client)) = load
        && client.0.try_wait().is_ok_and(|ended| ended.is_some())
    {
        return Err(Unavailable::new("round trips", "the stream beside them had ended"));
    }
    let trips: Vec<f64> = said.lines().filter_map(|line| line.parse().ok()).collect();
    if trips.len() < count {
        return Err(Unavailable::new("round trips", format!("{} of {count} came", trips.len())));
    }
    Ok(trips)
}

/// Sends back what comes, until the connection ends: one end of the round trips.
pub(crate) fn echo(port: u16) -> std::io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("listening");
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE_BYTES];
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message)?;
    }
    Ok(())
}

/// Makes round trips and prints each, in microseconds: the other end.
pub(crate) fn make_round_trips(address: &str, port: u16, count: usize) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((address, port))?;
    stream.set_nodelay(true)?;
    let mut message = [7; MESSAGE_BYTES];
    let mut times = Vec::with_capacity(count);
    for at in 0..count + WARM_UP {
        let began = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        if at >= WARM_UP {
            times.push(began.elapsed());
        }
    }
    let mut out = std::io::stdout().lock();
    times.iter().try_for_each(|time| writeln!(out, "{:.3}", time.as_secs_f64() * 1e6))
}
