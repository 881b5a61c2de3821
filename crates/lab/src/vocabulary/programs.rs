//! Programs of a lab: those that stand in a node while it runs, and those that are its traffic. Knows what a file says
//! of them; refuses to know how they are started.

use super::document::{Document, TrafficEntry};
use super::error::Fault;
use super::lab::Lab;
use super::units::Seconds;
use super::validate::unknown;
use super::validate_traffic::{chain_of, family, times};
use catena_model::resource::IpFamily;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Longest that a program of traffic may take, where the file does not say.
const CALL_SECONDS_DEFAULT: Seconds = Seconds(20.0);
/// Most repeats of one.
pub(crate) const TIMES_MAX: u32 = 1_000;
/// What stands for the folder of a run's results in words of a program.
const RESULTS: &str = "results";

/// A word of a command line; numbers need no quotes.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Word {
    Text(String),
    Number(serde_json::Number),
}

impl Word {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// A program that stands in a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a program with its 'command'")]
pub(crate) struct ProgramEntry {
    name: Option<String>,
    command: Vec<Word>,
    ready: Option<String>,
    package: Option<String>,
}

/// How a program of traffic shall end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExpectEntry {
    exit: i32,
    stdout: Option<String>,
}

/// What is to be typed to run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The program.
    pub program: String,
    /// What it is told. `${NAME}` stands for the address of an endpoint or a function, `${results}` for the folder of
    /// the run's results.
    pub arguments: Vec<String>,
    /// The package of Debian that has it.
    pub package: String,
}

impl CommandLine {
    fn of(key: &str, command: &[Word], package: Option<&String>) -> Result<Self, Fault> {
        let mut words = command.iter().map(Word::text);
        let Some(program) = words.next().filter(|program| !program.is_empty()) else {
            let advice = "write command: [curl, \"http://${D}/\"]";
            return Err(Fault::new(key, "names no program", advice));
        };
        let package = package.cloned().unwrap_or_else(|| base_name(&program).to_owned());
        Ok(Self { program, arguments: words.collect(), package })
    }

    /// Its arguments with what their names stand for.
    ///
    /// # Errors
    /// The first name that stands for nothing.
    pub fn filled(&self, of: impl Fn(&str) -> Option<String>) -> Result<Vec<String>, String> {
        self.arguments.iter().map(|argument| fill(argument, &of)).collect()
    }

    /// Are there a folder of results, and addresses of all that it names?
    fn check(&self, lab: &Lab, key: &str) -> Result<(), Fault> {
        let known = |name: &str| (name == RESULTS || lab.is_attached(name)).then(String::new);
        self.filled(known).map(drop).map_err(|name| {
            let names = lab.endpoints.names().chain(lab.functions.names());
            unknown(key, "endpoint or function", &name, names.chain([RESULTS, "lab"]))
        })
    }
}

fn fill(text: &str, of: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or_else(|| part.to_owned())?;
        filled += &of(name).ok_or_else(|| name.to_owned())?;
        filled += rest;
    }
    Ok(filled)
}

fn base_name(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

/// What shows that a program is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Somebody listens at this port of TCP.
    Tcp(u16),
    /// The same of UDP.
    Udp(u16),
    /// It says this.
    Says(String),
    /// It has done its work, and ended well.
    Ended,
}

/// A program that stands in a node while the lab runs, or that leaves something there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What its output is called.
    pub name: String,
    /// The host, endpoint or function in whose namespace it is.
    pub node: String,
    /// How it is started.
    pub line: CommandLine,
    /// What it is awaited by; none: it is not.
    pub ready: Option<Sign>,
}

/// How a program of traffic shall end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expectation {
    /// Its exit.
    pub exit: i32,
    /// What must stand in its output.
    pub stdout: Option<String>,
}

/// A program that is run as traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// The node in whose namespace it is run.
    pub from: String,
    /// How it is run.
    pub line: CommandLine,
    /// How it shall end.
    pub expect: Expectation,
    /// How often, one after the other.
    pub times: u32,
    /// How long it may take, each time.
    pub seconds: Seconds,
    /// When it starts, after the run's beginning.
    pub at: Seconds,
    /// Of which version the addresses in its command are.
    pub family: IpFamily,
    /// The chain that it is for, where the sweep does not say.
    pub chain: Option<String>,
}

/// The programs that stand in nodes.
pub(super) fn standing(document: &Document, lab: &Lab) -> Result<Vec<Program>, Fault> {
    let hosts = document.hosts.iter().map(|(name, entry)| {
        ("hosts", name, entry.as_ref().map_or(&[][..], |entry| &entry.programs[..]))
    });
    let endpoints = document.endpoints.iter().map(|(name, e)| ("endpoints", name, &e.programs[..]));
    let functions = document.functions.iter().map(|(name, f)| ("functions", name, &f.programs[..]));
    let mut programs: Vec<Program> = Vec::new();
    for (section, node, entries) in hosts.chain(endpoints).chain(functions) {
        for (index, entry) in entries.iter().enumerate() {
            let key = format!("{section}.{node}.programs[{index}]");
            let line = CommandLine::of(&key, &entry.command, entry.package.as_ref())?;
            line.check(lab, &key)?;
            let name = entry.name.clone().unwrap_or_else(|| base_name(&line.program).to_owned());
            check_name(&key, &name, programs.iter().map(|program| program.name.as_str()))?;
            let ready = entry.ready.as_deref().map(|text| sign(&key, text)).transpose()?;
            programs.push(Program { name, node: node.to_owned(), line, ready });
        }
    }
    Ok(programs)
}

/// Output is told apart by its name.
fn check_name<'a>(
    key: &str,
    name: &str,
    mut taken: impl Iterator<Item = &'a str>,
) -> Result<(), Fault> {
    let key = format!("{key}.name");
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(is_legal) {
        let advice = "use letters, digits, '-', '_' and '.'";
        return Err(Fault::new(key, format!("'{name}' is not a name of a file"), advice));
    }
    if taken.any(|other| other == name) {
        return Err(Fault::new(key, format!("the name '{name}' is taken"), "give it another name"));
    }
    Ok(())
}

fn sign(key: &str, text: &str) -> Result<Sign, Fault> {
    let port = |text: &str| text.trim().parse().ok().filter(|port| *port != 0);
    let sign = match text.split_once(' ') {
        Some(("tcp", rest)) => port(rest).map(Sign::Tcp),
        Some(("udp", rest)) => port(rest).map(Sign::Udp),
        Some(("says", rest)) if !rest.is_empty() => Some(Sign::Says(rest.to_owned())),
        None if text == "ended" => Some(Sign::Ended),
        _ => None,
    };
    sign.ok_or_else(|| {
        let advice = "write 'tcp 80', 'udp 4739', 'says TEXT' or 'ended'";
        Fault::new(format!("{key}.ready"), format!("'{text}' is no sign"), advice)
    })
}

/// Is this traffic a program?
pub(super) fn is_call(entry: &TrafficEntry) -> bool {
    entry.tool.as_deref() == Some("program")
}

/// The traffic that is programs.
pub(super) fn calls(document: &Document, lab: &Lab) -> Result<Vec<Call>, Fault> {
    let mut calls: Vec<Call> = Vec::new();
    for (index, entry) in document.traffic.iter().enumerate() {
        let key = format!("traffic[{index}]");
        if is_call(entry) {
            let call = call(lab, &key, index, entry)?;
            let standing = lab.programs.iter().map(|program| &program.name);
            let taken = standing.chain(calls.iter().map(|call| &call.name));
            check_name(&key, &call.name, taken.map(String::as_str))?;
            calls.push(call);
        } else if entry.is_told_how_to_run() {
            let problem = "command, expect, times and package are for programs";
            return Err(Fault::new(key, problem, "use tool: program"));
        }
    }
    Ok(calls)
}

fn call(lab: &Lab, key: &str, index: usize, entry: &TrafficEntry) -> Result<Call, Fault> {
    if let Some(name) = entry.said_of_generators() {
        let advice = "write in its command what it is to be told";
        return Err(Fault::new(format!("{key}.{name}"), "says nothing to a program", advice));
    }
    let line = CommandLine::of(&format!("{key}.command"), &entry.command, entry.package.as_ref())?;
    line.check(lab, &format!("{key}.command"))?;
    let times_given = entry.times.unwrap_or(1);
    if times_given == 0 || times_given > TIMES_MAX {
        let problem = format!("{times_given} is not a count");
        return Err(Fault::new(format!("{key}.times"), problem, format!("use 1 to {TIMES_MAX}")));
    }
    let (seconds, at) = times(key, entry, CALL_SECONDS_DEFAULT)?;
    let ExpectEntry { exit, stdout } = entry.expect.clone().unwrap_or_default();
    Ok(Call {
        name: entry.name.clone().unwrap_or_else(|| format!("traffic{}", index + 1)),
        from: node(lab, &format!("{key}.from"), entry.from.as_deref())?,
        line,
        expect: Expectation { exit, stdout },
        times: times_given,
        seconds,
        at,
        family: family(key, entry)?,
        chain: chain_of(lab, key, entry)?,
    })
}

/// Anything with a namespace of its own.
fn node(lab: &Lab, key: &str, name: Option<&str>) -> Result<String, Fault> {
    let name = name.ok_or_else(|| Fault::new(key, "is missing", "name an endpoint or a host"))?;
    if lab.is_attached(name) || lab.hosts.iter().any(|host| host == name) {
        return Ok(name.to_owned());
    }
    let hosts = lab.hosts.iter().map(String::as_str);
    Err(unknown(key, "endpoint, function or host", name, lab.endpoints.names().chain(hosts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_command_are_filled_in_and_unknown_ones_are_told() {
        let of = |name: &str| (name == "D").then(|| "10.0.0.2".to_owned());
        let filled = |text: &str| fill(text, of);
        assert_eq!(filled("http://${D}:80/${D}"), Ok("http://10.0.0.2:80/10.0.0.2".to_owned()));
        assert_eq!(filled("%{http_code} $D {}"), Ok("%{http_code} $D {}".to_owned()));
        assert_eq!(filled("${E}"), Err("E".to_owned()));
        assert_eq!(filled("${D"), Err("D".to_owned()));
    }

    #[test]
    fn signs_are_ports_or_words() {
        assert_eq!(sign("k", "tcp 80"), Ok(Sign::Tcp(80)));
        assert_eq!(sign("k", "udp 4739"), Ok(Sign::Udp(4739)));
        assert_eq!(sign("k", "says it is up"), Ok(Sign::Says("it is up".into())));
        assert_eq!(sign("k", "ended"), Ok(Sign::Ended));
        for wrong in ["", "ended well", "tcp", "tcp 0", "tcp 70000", "sctp 1", "says "] {
            assert!(sign("k", wrong).is_err(), "{wrong}");
        }
    }
}
