//! Programs of a lab file: those that stand in its nodes during a run, and those that are traffic. Knows how they are
//! started, awaited and ended; refuses to know what they do.

use super::evidence::Evidence;
use super::tool::Process;
use crate::error::{LabError, Result};
use crate::supervisor::Doorway;
use crate::up::RunningLab;
use crate::vocabulary::{Call, CommandLine, Expectation, Lab, Program, Sign};
use catena_model::resource::IpFamily;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// State of a TCP socket that listens, as the kernel writes it.
const LISTENS: &str = "0A";
/// How much of its output a program that ended otherwise is quoted with, in bytes.
const QUOTE_BYTES_MAX: usize = 200;

/// How a program of traffic ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramResult {
    /// Name of the traffic.
    pub traffic: String,
    /// The chain that it was for, where the file says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// How often it ran.
    pub times: u32,
    /// How it should have ended.
    pub expected: Expectation,
    /// How it did otherwise, the first time that it did; none: as expected, each time.
    pub otherwise: Option<String>,
    /// How it ended, each time; of those alone that are for a chain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<ProgramEnd>,
}

/// How a program of traffic ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramEnd {
    /// Its exit; none: a signal ended it.
    pub exit: Option<i32>,
    /// What it said.
    pub stdout: String,
}

impl fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exit = self.exit.map_or_else(|| "a signal".to_owned(), |exit| format!("exit {exit}"));
        write!(f, "{exit}, '{}'", quote(&self.stdout))
    }
}

/// Is every program there that the lab starts?
///
/// # Errors
/// The first that is not, and the package that has it.
pub(crate) fn check_installed(lab: &Lab) -> Result<()> {
    let standing = lab.programs.iter().map(|program| (&program.line, &program.node));
    let mut all = standing.chain(lab.calls.iter().map(|call| (&call.line, &call.from)));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    // As the kernel takes it: a name with a stroke is a way from here.
    let is_there = |program: &str| match program.contains('/') {
        true => Path::new(program).is_file(),
        false => std::env::split_paths(&paths).any(|folder| folder.join(program).is_file()),
    };
    all.find(|(line, _)| !is_there(&line.program)).map_or(Ok(()), |(line, node)| {
        Err(LabError::Tool {
            tool: line.program.clone(),
            problem: format!("is not installed, and '{node}' of the lab runs it"),
            advice: format!("install it (on Debian: apt-get install {})", line.package),
        })
    })
}

/// The programs that stand in nodes.
pub(super) struct Standing(Vec<(String, Process)>);

impl Standing {
    /// Starts those of the lab, each when the one before is ready, or has ended where that is awaited; what they say,
    /// and what they leave where they stand, is in the folder.
    pub(super) fn start(running: &RunningLab, folder: &Path) -> Result<Self> {
        let mut standing = Self(Vec::new());
        for program in &running.lab.programs {
            let doorway = running.doorway(&program.node)?;
            let command = command(running, &program.line, IpFamily::Ipv4, folder)?;
            let said = folder.join(format!("{}.txt", program.name));
            let mut process = Process::start(&doorway, command, &said)?;
            if program.ready == Some(Sign::Ended) {
                process.succeed()?;
                continue;
            }
            wait_for(program, &mut process, &doorway)?;
            standing.0.push((program.node.clone(), process));
        }
        Ok(standing)
    }

    /// Ends them, the last first.
    ///
    /// # Errors
    /// One has ended before, or does not end.
    pub(super) fn end(mut self) -> Result<()> {
        while let Some((node, mut process)) = self.0.pop() {
            process.assert_runs(&node)?;
            process.interrupt()?;
        }
        Ok(())
    }
}

fn wait_for(program: &Program, process: &mut Process, doorway: &Doorway) -> Result<()> {
    let listens = |table: &str, port: u16| {
        let read = || {
            ["", "6"].map(|version| {
                let file = format!("/proc/thread-self/net/{table}{version}");
                fs::read_to_string(file).unwrap_or_default()
            })
        };
        Ok(doorway.inside(read)?.iter().any(|sockets| is_open(sockets, table, port)))
    };
    match &program.ready {
        None | Some(Sign::Ended) => Ok(()),
        Some(Sign::Says(text)) => process.wait_for(text),
        Some(Sign::Tcp(port)) => process.wait_until(|_| listens("tcp", *port)),
        Some(Sign::Udp(port)) => process.wait_until(|_| listens("udp", *port)),
    }
}

/// Does a table of sockets have one that takes what comes to this port?
fn is_open(sockets: &str, table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|row| {
        let is_of_port = row.get(1).is_some_and(|local| local.ends_with(&port));
        is_of_port && (table == "udp" || row.get(3) == Some(&LISTENS))
    })
}

fn command(
    running: &RunningLab,
    line: &CommandLine,
    family: IpFamily,
    folder: &Path,
) -> Result<Command> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    let of = |name: &str| match name {
        "results" => Some(folder.display().to_string()),
        _ => running.address_of(name, family).map(|address| address.to_string()),
    };
    let arguments = line.filled(of).map_err(|name| LabError::Tool {
        tool: line.program.clone(),
        problem: format!("'{name}' has no address of that IP version"),
        advice: "attach it to a network that has a prefix of it".to_owned(),
    })?;
    let mut command = Command::new(&line.program);
    command.args(arguments).current_dir(&folder);
    Ok(command)
}

/// Runs a program of traffic as often as it says.
pub(super) fn call(running: &RunningLab, call: &Call, folder: &Path) -> Result<ProgramResult> {
    let doorway = running.doorway(&call.from)?;
    let (mut otherwise, mut ends) = (None, Vec::new());
    for time in 1..=call.times {
        let name = match call.times {
            1 => call.name.clone(),
            _ => format!("{}-{time}", call.name),
        };
        let [said, wrong] = ["txt", "err"].map(|ending| folder.join(format!("{name}.{ending}")));
        let command = command(running, &call.line, call.family, folder)?;
        let process = Process::start_apart(&doorway, command, &said, &wrong)?;
        let (status, text) = process.end(Duration::from_secs_f64(call.seconds.0))?;
        otherwise = otherwise.or_else(|| differs(&call.expect, status.code(), &text));
        if call.chain.is_some() {
            ends.push(ProgramEnd { exit: status.code(), stdout: text });
        }
    }
    let (traffic, chain, expected) = (call.name.clone(), call.chain.clone(), call.expect.clone());
    Ok(ProgramResult { traffic, chain, times: call.times, expected, otherwise, ends })
}

/// Did each program of traffic end as expected?
pub(super) fn judge(evidence: &Evidence) -> (bool, String) {
    let runs = || evidence.runs.iter();
    let programs = runs().flat_map(|run| run.programs.iter().map(move |one| (&run.case, one)));
    let mut otherwise =
        programs.filter_map(|(case, one)| Some((case, one, one.otherwise.as_ref()?)));
    if let Some((case, one, how)) = otherwise.next() {
        let more = match otherwise.count() {
            0 => String::new(),
            more => format!(", and {more} others otherwise, too"),
        };
        return (false, format!("{case}: '{}' {how}{more}", one.traffic));
    }
    let ran: u32 = runs().flat_map(|run| &run.programs).map(|one| one.times).sum();
    (ran > 0, format!("{ran} programs ran, each ended as expected"))
}

/// How an end is another one than was expected.
fn differs(expected: &Expectation, exit: Option<i32>, said: &str) -> Option<String> {
    if exit != Some(expected.exit) {
        let exit = exit.map_or_else(|| "a signal".to_owned(), |exit| format!("exit {exit}"));
        return Some(format!("ended with {exit} instead of {}", expected.exit));
    }
    let wanted = expected.stdout.as_deref().filter(|wanted| !said.contains(wanted))?;
    Some(format!("said '{}', without '{wanted}'", quote(said)))
}

/// The beginning of what a program said.
fn quote(said: &str) -> &str {
    let end = (0..=QUOTE_BYTES_MAX.min(said.len())).rev().find(|end| said.is_char_boundary(*end));
    end.and_then(|end| said.get(..end)).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunEvidence;

    #[test]
    fn an_end_is_as_expected_by_exit_and_output() {
        let expected = Expectation { exit: 0, stdout: Some("200".into()) };
        assert_eq!(differs(&expected, Some(0), "code 200"), None);
        let told = |exit, said| differs(&expected, exit, said).unwrap();
        assert_eq!(told(Some(28), "200"), "ended with exit 28 instead of 0");
        assert_eq!(told(None, ""), "ended with a signal instead of 0");
        assert_eq!(told(Some(0), "404\n"), "said '404', without '200'");
        let any = Expectation { exit: 7, stdout: None };
        assert_eq!(differs(&any, Some(7), ""), None);
    }

    #[test]
    fn one_program_that_ended_otherwise_fails_by_its_name() {
        let ran = |traffic: &str, otherwise: Option<&str>| ProgramResult {
            traffic: traffic.into(),
            chain: None,
            ends: Vec::new(),
            times: 2,
            expected: Expectation { exit: 0, stdout: None },
            otherwise: otherwise.map(str::to_owned),
        };
        let judged = |programs: Vec<ProgramResult>| {
            let mut run = RunEvidence::new("all".into(), None, None);
            run.programs = programs;
            judge(&Evidence { runs: vec![run], ..Evidence::default() })
        };
        assert_eq!(judged(Vec::new()), (false, "0 programs ran, each ended as expected".into()));
        let good = judged(vec![ran("a", None), ran("b", None)]);
        assert_eq!(good, (true, "4 programs ran, each ended as expected".into()));
        let (holds, found) = judged(vec![ran("a", None), ran("b", Some("ended with exit 1"))]);
        assert!(!holds);
        assert_eq!(found, "all: 'b' ended with exit 1");
    }

    #[test]
    fn a_port_is_open_where_somebody_listens_at_it() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let row = |state: &str| format!("{head}   0: 0B0A0A0A:0050 00000000:0000 {state} 0:0\n");
        assert!(is_open(&row("0A"), "tcp", 80));
        assert!(!is_open(&row("01"), "tcp", 80) && !is_open(&row("0A"), "tcp", 8_080));
        assert!(is_open(&row("07"), "udp", 80) && !is_open(head, "udp", 80));
    }
}
