//! A controller that is killed and started anew in its lab, on the same store: how long until it
//! answers, until every node is in step, and what it says to them. Refuses to know why that is little.

use super::site::{LAB, Site};
use super::usage::{CONTROLLER, sent_bytes};
use crate::client::Client;
use crate::engine::drive::wrong;
use crate::error::BenchError;
use crate::servers::program;
use catena_lab::Doorway;
use rustix::fd::AsRawFd;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take.
const WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
/// How often it is done.
const RESTARTS: usize = 5;
/// Nothing more is sent by then.
const AFTER: Duration = Duration::from_secs(3);

/// What was seen.
pub(super) struct Restarted {
    /// Until what is stored is read and the API answers.
    pub(super) read: Duration,
    /// Until all nodes are back, each with the program that it should have, and all chains active.
    pub(super) in_step: Duration,
    /// Sent to nodes by the connections that there are, from their beginning on.
    pub(super) bytes: u64,
}

/// Ends when dropped.
struct Anew(Child);

impl Drop for Anew {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills the controller of the lab and starts another in its place, some times; the last ends with
/// this, and the lab is of no more use then.
pub(super) fn restart(site: &Site, root: &Path) -> Result<Vec<Restarted>, BenchError> {
    let chains = site.chains_in_force();
    let server = &site.server;
    let (old, agents) = (server.playing("controller"), server.playing("agent"));
    let ([old], [agent, ..]) = (old.as_slice(), agents.as_slice()) else {
        return Err(wrong("the lab", &"it has no controller, or no agent"));
    };
    let line = std::fs::read_to_string(format!("/proc/{old}/cmdline"))?;
    let words: Vec<&str> = line.split('\0').collect();
    let told = |option: &str| {
        let place = words.iter().position(|word| *word == option);
        let value = place.and_then(|place| words.get(place + 1)).copied();
        value.ok_or_else(|| wrong("the controller", &format!("it was started without {option}")))
    };
    let (data, southbound) = (told("--data")?, told("--southbound")?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    fcntl_setfd(&listener, FdFlags::empty()).map_err(std::io::Error::from)?;
    let listen = format!("fd:{}", listener.as_raw_fd());
    let doorway = Doorway::to(LAB, CONTROLLER)?;
    let (mut anew, mut all): (Option<Anew>, _) = (None, Vec::with_capacity(RESTARTS));
    for _ in 0..RESTARTS {
        match anew.take() {
            Some(last) => drop(last),
            None => kill(*old)?,
        }
        let began = Instant::now();
        // The lab's files are those that its processes see.
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{agent}/ns/mnt")).arg(program(root));
        command.args(["controller", "--listen", &listen, "--southbound", southbound]);
        command.args(["--data", data, "--auth", "none", "--overlap", "allowed"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        anew = Some(Anew(doorway.spawn(command)?));
        let mut client = Client::new(&address);
        client.expect("GET", "/v1/nodes", None)?;
        let read = began.elapsed();
        while !is_in_step(&mut client, agents.len(), chains)? {
            if began.elapsed() > WAIT {
                return Err(wrong("the controller", &format!("it is not in step in {WAIT:?}")));
            }
            std::thread::sleep(PAUSE);
        }
        let in_step = began.elapsed();
        std::thread::sleep(AFTER);
        all.push(Restarted { read, in_step, bytes: sent_bytes(&doorway, agents.len())? });
    }
    Ok(all)
}

/// SIGKILL; returns when it is gone.
fn kill(pid: u32) -> Result<(), BenchError> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = process.ok_or_else(|| wrong("the lab", &format!("{pid} is no process")))?;
    kill_process(process, Signal::KILL).map_err(std::io::Error::from)?;
    let is_gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let has_ended = stat.rsplit(')').next().is_none_or(|rest| rest.starts_with(" Z"));
        // As long as one of its threads is there, so are its sockets.
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
        stat.is_empty() || has_ended && threads.is_ok_and(|threads| threads.count() <= 1)
    };
    while !is_gone() {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Are all nodes back with the programs that they should have, and so many chains active?
fn is_in_step(client: &mut Client, nodes: usize, chains: usize) -> Result<bool, BenchError> {
    let status = client.expect("GET", "/v1/status", None)?;
    if status["nodes"]["connected"] != nodes || status["chains"]["active"] != chains {
        return Ok(false);
    }
    let list = client.expect("GET", "/v1/nodes", None)?;
    let mut all = list.as_array().into_iter().flatten();
    Ok(all.all(|node| node["status"]["wanted"] == node["status"]["acknowledged"]))
}
