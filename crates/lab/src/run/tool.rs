//! What makes traffic: programs, how they are started and what their reports mean, and our own
//! generators. Knows iperf3 and ping; refuses to know chains.

use super::datagrams::Arrival;
use super::predicted::PredictedDelay;
use super::timed::TimedDatagrams;
use super::{datagrams, streams};
use crate::error::{LabError, Result};
use crate::supervisor::Doorway;
use crate::vocabulary::{Tool, Traffic};
use catena_model::resource::IpFamily;
use serde::Serialize;
use serde_json::Value;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long a program may take to be ready.
const READY_WAIT: Duration = Duration::from_secs(10);
/// How long a program may take beyond the traffic's duration.
const FINISH_WAIT: Duration = Duration::from_secs(20);
/// Pause between two looks at a program.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// Pause between two echo requests, in seconds.
const PING_PAUSE_SECONDS: f64 = 0.2;

/// What one traffic of one run came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrafficResult {
    /// Name of the traffic.
    pub traffic: String,
    /// The chain that carried it; none: ordinary traffic of its network.
    pub chain: Option<String>,
    /// Bit/s of payload at the receiver.
    pub bits_per_second: Option<f64>,
    /// Datagrams sent.
    pub packets: Option<u64>,
    /// Datagrams that the receiver missed.
    pub lost: Option<u64>,
    /// Segments that TCP sent again.
    pub retransmits: Option<u64>,
    /// Echo requests, or datagrams that are sent back, without an answer.
    pub unanswered: Option<u64>,
    /// Datagrams that the receiver had already.
    pub duplicated: Option<u64>,
    /// Whole seconds in which a stream did not move, all streams together.
    pub stalled: Option<u64>,
    /// Streams that were reset or whose bytes arrived wrong.
    pub broken: Option<u64>,
    /// How long datagrams took that left as if by chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<TimedDatagrams>,
    /// What was predicted of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<PredictedDelay>,
    /// Why they broke.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// What tells our own datagrams from all others of this lab's run.
    pub run: Option<u32>,
    /// When what came, where cables fail meanwhile.
    #[serde(skip)]
    pub(crate) arrivals: Vec<Arrival>,
}

/// A program of a run with the file that takes what it says. Ended when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    said: PathBuf,
}

impl Process {
    /// Starts a program inside a node; all it says goes to `said`.
    pub(crate) fn start(doorway: &Doorway, command: Command, said: &Path) -> Result<Self> {
        let out = create(said)?;
        let err = out.try_clone();
        let err = err.map_err(|error| LabError::io("open", said.display().to_string(), error))?;
        Self::start_with(doorway, command, said, (out, err))
    }

    /// The same; what it says of errors goes to `wrong`.
    pub(crate) fn start_apart(
        doorway: &Doorway,
        command: Command,
        said: &Path,
        wrong: &Path,
    ) -> Result<Self> {
        Self::start_with(doorway, command, said, (create(said)?, create(wrong)?))
    }

    fn start_with(
        doorway: &Doorway,
        mut command: Command,
        said: &Path,
        (out, err): (File, File),
    ) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = doorway.spawn(command)?;
        Ok(Self { name, child, said: said.to_path_buf() })
    }

    pub(crate) fn said(&self) -> String {
        let bytes = fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn failed(&self, problem: impl Into<String>) -> LabError {
        let advice = format!("read {}", self.said.display());
        LabError::Tool { tool: self.name.clone(), problem: problem.into(), advice }
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait();
        status.map_err(|error| LabError::io("wait for", self.name.clone(), error))
    }

    /// Is it still there?
    ///
    /// # Errors
    /// It has ended, in this node.
    pub(crate) fn assert_runs(&mut self, node: &str) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(self.failed(format!("ended in '{node}' during the run: {status}"))),
        }
    }

    /// Waits until it has said `sign`.
    pub(crate) fn wait_for(&mut self, sign: &str) -> Result<()> {
        self.wait_until(|program| Ok(program.said().contains(sign)))
    }

    /// Waits until it is so.
    pub(crate) fn wait_until(&mut self, is_so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !is_so(self)? {
            if self.ended()?.is_some() {
                return Err(self.failed("ended before it was ready"));
            }
            if start.elapsed() > READY_WAIT {
                return Err(self.failed(format!("was not ready within {READY_WAIT:?}")));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        Ok(())
    }

    /// Waits until it has ended; what it said is the answer.
    pub(crate) fn finish(self, limit: Duration) -> Result<String> {
        self.end(limit).map(|(_, said)| said)
    }

    /// Waits until it has ended; how, and what it said.
    pub(crate) fn end(mut self, limit: Duration) -> Result<(ExitStatus, String)> {
        let status = self.wait(limit)?;
        Ok((status, self.said()))
    }

    /// Waits until it has ended well.
    ///
    /// # Errors
    /// It ended otherwise, or takes too long.
    pub(crate) fn succeed(mut self) -> Result<()> {
        match self.wait(READY_WAIT)? {
            status if status.success() => Ok(()),
            status => Err(self.failed(format!("ended with {status}"))),
        }
    }

    fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if start.elapsed() > limit {
                return Err(self.failed(format!("did not end within {limit:?}")));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Asks it to end, as Ctrl-C does, and waits.
    pub(crate) fn interrupt(self) -> Result<String> {
        let process = catena_kernel::process::PidFd::open(self.child.id())?;
        process.signal(rustix::process::Signal::INT)?;
        self.finish(READY_WAIT)
    }
}

fn create(file: &Path) -> Result<File> {
    File::create(file).map_err(|error| LabError::io("create", file.display().to_string(), error))
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill, only to collect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where one traffic runs.
pub(crate) struct Place<'p> {
    /// When each datagram comes is to be told.
    pub(crate) keeps_arrivals: bool,
    /// Which repeat of its case this is: what is drawn is drawn anew, and the same in all cases.
    pub(crate) repeat: u32,
    pub(crate) from: Doorway,
    pub(crate) to: Doorway,
    pub(crate) address: IpAddr,
    /// Where programs leave what they say.
    pub(crate) folder: &'p Path,
}

/// Makes one traffic and waits for its end; `chain` is what carries it. Our own generators number
/// their datagrams for this `run` of the traffic, and end with `stop` where the file says so.
pub(crate) fn make(
    traffic: &Traffic,
    place: &Place<'_>,
    chain: Option<&str>,
    run: u32,
    stop: &AtomicBool,
) -> Result<TrafficResult> {
    let mut result = TrafficResult {
        traffic: traffic.name.clone(),
        chain: chain.map(str::to_owned),
        ..TrafficResult::default()
    };
    match traffic.tool {
        Tool::Datagrams => {
            result.run = Some(run);
            datagrams::make(traffic, place, run, stop, &mut result)?;
        }
        Tool::Streams => streams::make(traffic, place, stop, &mut result)?,
        Tool::IperfUdp | Tool::IperfTcp | Tool::Ping => by_program(traffic, place, &mut result)?,
    }
    Ok(result)
}

fn by_program(traffic: &Traffic, place: &Place<'_>, result: &mut TrafficResult) -> Result<()> {
    let said = |side: &str| place.folder.join(format!("{}-{side}.txt", traffic.name));
    let limit = Duration::from_secs_f64(traffic.seconds.0) + FINISH_WAIT;
    if traffic.tool == Tool::Ping {
        let ping =
            Process::start(&place.from, ping_command(traffic, place.address), &said("ping"))?;
        let text = ping.finish(limit)?;
        result.unanswered = Some(ping_unanswered(&text).map_err(|problem| LabError::Tool {
            tool: "ping".into(),
            problem,
            advice: format!("read {}", said("ping").display()),
        })?);
        return Ok(());
    }
    let mut server = Command::new("iperf3");
    server.args(["--server", "--one-off", "--forceflush", "--port", &traffic.port.to_string()]);
    let mut server = Process::start(&place.to, server, &said("server"))?;
    server.wait_for("Server listening")?;
    let client =
        Process::start(&place.from, client_command(traffic, place.address), &said("client"))?;
    let text = client.finish(limit)?;
    read_iperf(&text, traffic.tool, result).map_err(|problem| LabError::Tool {
        tool: format!("iperf3 ({})", traffic.name),
        problem,
        advice: format!("read {}", said("client").display()),
    })?;
    Ok(())
}

fn client_command(traffic: &Traffic, address: IpAddr) -> Command {
    let mut command = Command::new("iperf3");
    command.args(["--json", "--client", &address.to_string()]);
    command.args(["--port", &traffic.port.to_string(), "--time"]);
    command.arg(format!("{:.0}", traffic.seconds.0.max(1.0)));
    command.arg(if traffic.family == IpFamily::Ipv4 { "-4" } else { "-6" });
    if traffic.tool == Tool::IperfUdp {
        command.arg("--udp");
    }
    if let Some(rate) = traffic.rate {
        command.args(["--bitrate", &format!("{:.0}", rate.0)]);
    }
    if let Some(congestion) = &traffic.congestion {
        command.args(["--congestion", congestion]);
    }
    command
}

fn ping_command(traffic: &Traffic, address: IpAddr) -> Command {
    let mut command = Command::new("ping");
    let count = (traffic.seconds.0 / PING_PAUSE_SECONDS).ceil().max(1.0);
    command.args(["-n", "-W", "2", "-i", &PING_PAUSE_SECONDS.to_string()]);
    command.args(["-c", &format!("{count:.0}"), &address.to_string()]);
    command
}

/// Requests less answers, from ping's summary line.
fn ping_unanswered(text: &str) -> std::result::Result<u64, String> {
    let summary = text
        .lines()
        .find(|line| line.contains("packets transmitted"))
        .ok_or_else(|| text.trim().lines().last().unwrap_or("it said nothing").to_owned())?;
    let number = |word: &str| {
        let part = summary.split(',').find(|part| part.contains(word))?;
        part.split_whitespace().find_map(|word| word.parse::<u64>().ok())
    };
    match (number("transmitted"), number("received")) {
        (Some(sent), Some(received)) => Ok(sent.saturating_sub(received)),
        _ => Err(format!("its summary is unknown: {summary}")),
    }
}

/// Reads iperf3's JSON report.
fn read_iperf(
    text: &str,
    tool: Tool,
    result: &mut TrafficResult,
) -> std::result::Result<(), String> {
    let report: Value =
        serde_json::from_str(text).map_err(|error| format!("its report is no JSON: {error}"))?;
    if let Some(error) = report["error"].as_str() {
        return Err(error.to_owned());
    }
    let end = &report["end"];
    let received = match tool {
        Tool::IperfTcp => &end["sum_received"]["bits_per_second"],
        _ => &end["sum"]["bits_per_second"],
    };
    result.bits_per_second = received.as_f64();
    if tool == Tool::IperfUdp {
        result.packets = end["sum"]["packets"].as_u64();
        // iperf3 counts a late packet as lost and then takes it back: below zero it had doubles.
        result.lost = end["sum"]["lost_packets"].as_i64().map(i64::unsigned_abs);
    } else {
        result.retransmits = end["sum_sent"]["retransmits"].as_u64();
    }
    match (result.bits_per_second, tool, result.lost) {
        (None, _, _) | (_, Tool::IperfUdp, None) => Err("its report has no sum".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_iperf3_are_read() {
        let mut udp = TrafficResult::default();
        let text = r#"{"end": {"sum": {"bits_per_second": 2999000.5, "packets": 2500,
            "lost_packets": 3, "jitter_ms": 0.1}}}"#;
        assert_eq!(read_iperf(text, Tool::IperfUdp, &mut udp), Ok(()));
        assert_eq!((udp.packets, udp.lost), (Some(2500), Some(3)));
        let mut tcp = TrafficResult::default();
        let text = r#"{"end": {"sum_sent": {"bits_per_second": 9e9, "retransmits": 12},
            "sum_received": {"bits_per_second": 8.5e9}}}"#;
        assert_eq!(read_iperf(text, Tool::IperfTcp, &mut tcp), Ok(()));
        assert_eq!((tcp.bits_per_second, tcp.retransmits), (Some(8.5e9), Some(12)));
    }

    #[test]
    fn an_error_or_nonsense_from_iperf3_is_told() {
        let mut result = TrafficResult::default();
        let refused = r#"{"error": "unable to connect to server: Connection refused"}"#;
        for (text, expected) in [(refused, "Connection refused"), ("", "no JSON"), ("{}", "no sum")]
        {
            let problem = read_iperf(text, Tool::IperfUdp, &mut result).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn unanswered_echoes_are_counted() {
        let line = "5 packets transmitted, 4 received, 20% packet loss, time 803ms";
        assert_eq!(ping_unanswered(line), Ok(1));
        let line = "5 packets transmitted, 0 received, +5 errors, 100% packet loss, time 803ms";
        assert_eq!(ping_unanswered(line), Ok(5));
        assert!(ping_unanswered("ping: unknown host").is_err());
    }
}
