//! `dpdk-testpmd`: the floor of what a vector of packets costs on this machine.

use super::folder::Folder;
use super::program::{Running, find, pinned};
use super::thread_clock::{ThreadClock, check_sent, per_packet};
use super::{FORWARDING_CORE, Unavailable, Windows, capture, hugepages};
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROGRAM: &str = "dpdk-testpmd";
/// What the prompt says to a command that does not exist: the end of the answer before it.
const MARK: (&str, &str) = ("show nothing_of_this_name", "Bad arguments");
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// Packet buffers besides those that the source keeps.
const SPARE_BUFFERS: usize = 32_768;

/// What it does with each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing.
    Io,
    /// Exchanges the two MAC addresses.
    MacSwap,
    /// Computes the checksums of the outer headers again.
    Checksum,
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::MacSwap => "macswap",
            Self::Checksum => "csum",
        }
    }
}

/// The command line, without what changes from case to case.
pub(super) fn described() -> String {
    format!(
        "{PROGRAM} -l 0,{FORWARDING_CORE} --in-memory --no-pci --vdev \
         net_pcap0,rx_pcap=FRAMES,infinite_rx=1 --vdev net_null1,size=64,copy=0,no-rx=1 -- -i \
         --nb-cores=1 --no-flush-rx, burst 32"
    )
}

/// Nanoseconds of the forwarding thread per packet, one for each window.
///
/// # Errors
/// It cannot run here, or it lost packets.
pub(crate) fn testpmd(
    mode: Mode,
    frames: &[Vec<u8>],
    windows: Windows,
) -> Result<Vec<f64>, Unavailable> {
    let folder = Folder::new()?;
    let source = folder.0.join("frames.pcap");
    let count = capture::write(&source, frames)?;
    let _pages = hugepages::HugePages::reserve()?;
    let mut prompt = Prompt::start(mode, &source, count)?;
    prompt.ask("set promisc all off")?;
    prompt.ask("start")?;
    sleep(Duration::from_millis(700));
    let clock = ThreadClock::of(prompt.program.0.id(), "rte-worker")
        .or_else(|_| ThreadClock::of(prompt.program.0.id(), "lcore-worker"))?;
    let first = prompt.counts()?;
    let (mut ns, mut last) = (clock.ns()?, first);
    let mut samples = Vec::new();
    for _ in 0..windows.count {
        sleep(windows.length);
        let (ns_now, now) = (clock.ns()?, prompt.counts()?);
        samples.push(per_packet((ns, ns_now), (last.received, now.received))?);
        (ns, last) = (ns_now, now);
    }
    let sent = last.sent.saturating_sub(first.sent);
    let received = last.received.saturating_sub(first.received);
    check_sent("testpmd", sent, received)?;
    Ok(samples)
}

#[derive(Clone, Copy)]
struct Counts {
    received: u64,
    sent: u64,
}

/// Its prompt: a command in, its answer out.
struct Prompt {
    program: Running,
    said: Receiver<Vec<u8>>,
}

impl Prompt {
    fn start(mode: Mode, source: &std::path::Path, frames: usize) -> Result<Self, Unavailable> {
        let program = find(PROGRAM, "dpdk-dev")?;
        // Through a pipe it would keep its answers until the buffer is full.
        let mut command = pinned(std::path::Path::new("stdbuf"), &format!("0,{FORWARDING_CORE}"));
        command.arg("-oL").arg(program);
        command.args(["-l", &format!("0,{FORWARDING_CORE}"), "--main-lcore", "0", "--in-memory"]);
        command.args(["--no-pci", "-m", "2048", "--log-level", "error", "--vdev"]);
        command.arg(format!("net_pcap0,rx_pcap={},infinite_rx=1", source.display()));
        command.args(["--vdev", "net_null1,size=64,copy=0,no-rx=1", "--", "-i", "--nb-cores=1"]);
        command.arg(format!("--forward-mode={}", mode.word()));
        command.arg("--no-flush-rx");
        command.arg(format!("--total-num-mbufs={}", frames.next_power_of_two() + SPARE_BUFFERS));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = Running::start(&mut command)?;
        let (tell, said) = channel();
        if let Some(mut output) = program.0.stdout.take() {
            std::thread::spawn(move || {
                let mut bytes = [0u8; 4_096];
                while let Ok(count @ 1..) = output.read(&mut bytes) {
                    let heard = bytes.get(..count).unwrap_or_default().to_vec();
                    if tell.send(heard).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Self { program, said })
    }

    fn ask(&mut self, command: &str) -> Result<String, Unavailable> {
        let fail = |reason: String| Unavailable::new(PROGRAM, reason);
        let input = self.program.0.stdin.as_mut().ok_or_else(|| fail("it has no input".into()))?;
        writeln!(input, "{command}\n{}", MARK.0).map_err(|error| fail(error.to_string()))?;
        let (began, mut answer) = (Instant::now(), Vec::new());
        loop {
            let left = ANSWER_WAIT.saturating_sub(began.elapsed());
            let text = String::from_utf8_lossy(&answer).into_owned();
            if text.contains(MARK.1) {
                return Ok(text);
            }
            let Ok(heard) = self.said.recv_timeout(left) else {
                let last = text.trim().lines().last().unwrap_or("nothing").to_owned();
                return Err(fail(format!("no answer to '{command}'; it said: {last}")));
            };
            answer.extend(heard);
        }
    }

    fn counts(&mut self) -> Result<Counts, Unavailable> {
        let text = self.ask("show port stats all")?;
        let sum = |key: &str| {
            let values = text.split(key).skip(1);
            values.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).sum()
        };
        Ok(Counts { received: sum("RX-packets:"), sent: sum("TX-packets:") })
    }
}
