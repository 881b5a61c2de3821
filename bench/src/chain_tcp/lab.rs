//! The bed of ours: the lab with all chains, as the demo runs them.

use super::bed::{End, Ends};
use crate::peers::Unavailable;
use crate::peers::program::run;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A lab that runs; gone with this value.
pub(crate) struct LabBed {
    program: PathBuf,
    name: &'static str,
    child: Child,
    api: String,
    /// It goes on writing: whoever started it must go on listening.
    _said: BufReader<ChildStdout>,
}

impl LabBed {
    /// Brings the lab of this name up, over the kernel path or without it.
    pub(crate) fn start(
        root: &Path,
        name: &'static str,
        has_fastpath: bool,
    ) -> Result<Self, Unavailable> {
        let program = crate::servers::program(root);
        let mut command = Command::new(&program);
        command.args(["lab", "up"]);
        if !has_fastpath {
            command.arg("--no-fastpath");
        }
        command.arg(root.join(format!("labs/{name}.yaml")));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Unavailable::new("the lab", error))?;
        let Some(said) = child.stdout.take() else {
            return Err(Unavailable::new("the lab", "it has no output"));
        };
        let mut said = BufReader::new(said);
        let mut line = String::new();
        while !line.starts_with("API: ") {
            line.clear();
            if !said.read_line(&mut line).is_ok_and(|count| count > 0) {
                let done = child.wait_with_output();
                let told = done.map(|done| String::from_utf8_lossy(&done.stderr).into_owned());
                let told = told.unwrap_or_default();
                let reason = told.lines().next().unwrap_or("it ended without a word").to_owned();
                return Err(Unavailable::new("the lab", reason));
            }
        }
        let api = line.trim_start_matches("API: ").trim().to_owned();
        Ok(Self { program, name, child, api, _said: said })
    }

    /// What each node says of its kernel path; empty: none has one.
    pub(crate) fn kernel_paths(&self) -> Result<String, Unavailable> {
        let said = self.ask(&["status"])?;
        let lines = said.lines().filter_map(|line| line.strip_prefix("kernel path"));
        Ok(lines.map(str::trim).collect::<Vec<_>>().join("; "))
    }

    /// Moves a chain to another encapsulation, and fails unless its packets go by that.
    pub(crate) fn move_chain(&self, chain: &str, encapsulation: &str) -> Result<(), Unavailable> {
        self.ask(&["chain", "update", chain, "--encapsulation", encapsulation])?;
        let shown = self.ask(&["chain", "show", chain, "--output", "json"])?;
        let shown: serde_json::Value = serde_json::from_str(&shown)
            .map_err(|error| Unavailable::new("what the lab shows of a chain", error))?;
        let (state, by) = (&shown["status"]["state"], &shown["encapsulation"]);
        match state == "active" && by == encapsulation {
            true => Ok(()),
            false => Err(Unavailable::new(chain, format!("it is {state} by {by}"))),
        }
    }

    /// A command inside a node; its program is the first argument to be added.
    pub(crate) fn inside(&self, node: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["lab", "shell", &format!("{}/{node}", self.name)]);
        command
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, Unavailable> {
        run(Command::new(&self.program).args(words).env("CATENA_URL", &self.api))
    }
}

impl Ends for LabBed {
    fn at(&self, end: End) -> Command {
        self.inside(match end {
            End::Source => "S",
            End::Destination => "D",
        })
    }
}

impl Drop for LabBed {
    fn drop(&mut self) {
        let _ = Command::new(&self.program).args(["lab", "down", self.name]).output();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
