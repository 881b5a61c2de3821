//! What functions have to do with each other, read from files and without a controller. Knows how to ask and tell;
//! refuses to judge.

mod analyze;
mod compile;
pub(crate) mod members;
mod reading;

pub(crate) use members::profile;

use crate::failure::Failure;
use crate::output::{Format, block, say, table, tell};
use analyze::AnalyzeArguments;
use catena_plan::parallelism::{PacketCopy, Profiles, StageMember, Stages, Verdict, judge};
use clap::{Args, Subcommand};
use compile::CompileArguments;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Which functions may work on a packet side by side, for each ordered pair, and why.
    ///
    /// Of a document's functions as they are configured there, with the stages of its chains; of profiles in a file; or
    /// of the kinds that come with Catena, each with a configuration that uses most of it, and of four that are only
    /// declared (*): nothing runs beside others by these.
    Pairs(PairsArguments),
    /// What is wrong with rules, alone and with those of the other functions of their chains: rules that take no
    /// packet, that could go or be put together, and functions in the wrong order.
    ///
    /// Exits with 4 when something written does not happen.
    Analyze(AnalyzeArguments),
    /// A firewall's rules as flows of a switch, by which every packet comes to the same end.
    ///
    /// What flows cannot say, such as states of connections, limits and logs, is refused by file and line. Exits with 1
    /// when they are written and the switch does not see enough of some packets: see '# not said' among the flows.
    Compile(CompileArguments),
}

#[derive(Args)]
pub(crate) struct PairsArguments {
    /// A document, in YAML or JSON, whose chains are put into stages; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Profiles, in JSON: {"profiles": {"NAME": {"R": ["ip.src"], "W": [], "D": true}}}.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    profiles: Option<PathBuf>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl PolicyCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Pairs(arguments) => arguments.run(),
            Self::Analyze(arguments) => arguments.run(),
            Self::Compile(arguments) => arguments.run(),
        }
    }
}

/// A chain's stages on one of its ways.
struct Staged {
    chain: String,
    way: &'static str,
    members: Vec<StageMember>,
    stages: Stages,
}

impl PairsArguments {
    fn run(&self) -> Result<(), Failure> {
        let (members, chains) = match (&self.file, &self.profiles) {
            (Some(file), _) => members::of_document(file)?,
            (None, Some(file)) => (members::of_profiles(file)?, Vec::new()),
            (None, None) => {
                let all = members::of_kinds()?.into_iter().chain(members::of_declared()?);
                (all.collect(), Vec::new())
            }
        };
        let staged: Vec<Staged> = chains.into_iter().flat_map(both_ways).collect();
        tell(self.output, &told(&members, &staged), |is_wide| {
            matrix(&members);
            staged.iter().for_each(stages);
            if is_wide {
                reasons(&members);
            }
        })
    }
}

/// A chain with its way back, if it has one.
fn both_ways(chain: members::Chain) -> Vec<Staged> {
    let members::Chain { name, members, is_symmetric } = chain;
    let staged = |way, members: Vec<StageMember>| {
        let stages = Stages::of(&members);
        Staged { chain: name.clone(), way, members, stages }
    };
    let back = is_symmetric.then(|| members.iter().rev().cloned().collect());
    let back = back.map(|members| staged("back", members));
    std::iter::once(staged("forth", members)).chain(back).collect()
}

/// All ordered pairs of different members.
fn pairs(members: &[StageMember]) -> impl Iterator<Item = (&StageMember, &StageMember, Verdict)> {
    members.iter().flat_map(move |a| {
        let others = members.iter().filter(move |b| b.name != a.name);
        others.map(move |b| (a, b, judge(&a.profile, &b.profile)))
    })
}

fn told(members: &[StageMember], staged: &[Staged]) -> Value {
    let pair = |a: &StageMember, b: &StageMember, verdict: &Verdict| {
        json!({
            "first": a.name,
            "second": b.name,
            "verdict": verdict.name(),
            "held": verdict.is_held(),
            "reason": verdict.reason().in_words(&a.name, &b.name),
        })
    };
    let chain = |staged: &Staged| {
        let name = |at: &usize| staged.members[*at].name.as_str();
        let stages = staged.stages.stages.iter();
        let stages: Vec<Vec<&str>> = stages.map(|stage| stage.iter().map(name).collect()).collect();
        json!({"chain": staged.chain, "way": staged.way, "stages": stages})
    };
    json!({
        "profiles": json!(members.iter().collect::<Profiles>())["profiles"],
        "pairs": pairs(members).map(|(a, b, verdict)| pair(a, b, &verdict)).collect::<Vec<_>>(),
        "chains": staged.iter().map(chain).collect::<Vec<_>>(),
    })
}

/// One letter of a verdict.
fn letter(verdict: &Verdict) -> String {
    let letter = match verdict {
        Verdict::Serial(_) => return "S".to_owned(),
        Verdict::Parallel(parallel) => match parallel.copy {
            PacketCopy::Nothing => "0",
            PacketCopy::Headers => "H",
            PacketCopy::Everything => "F",
        },
    };
    format!("{letter}{}", if verdict.is_held() { "+" } else { "" })
}

fn matrix(members: &[StageMember]) {
    let names = members.iter().map(|member| member.name.as_str());
    let mut shown = table(std::iter::once("first \\ second").chain(names));
    for a in members {
        let verdicts = members.iter().map(|b| match a.name == b.name {
            true => "-".to_owned(),
            false => letter(&judge(&a.profile, &b.profile)),
        });
        shown.add_row(std::iter::once(a.name.clone()).chain(verdicts));
    }
    block(shown);
    say!(
        "S: the second waits for the first. Side by side: 0 with nothing copied, H with the headers copied for whoever \
          writes in place (none for functions that answer by patches), F with all of the packet copied; +: what the \
          second counts is held until the first one's verdict."
    );
}

fn stages(staged: &Staged) {
    let name = |at: &usize| staged.members[*at].name.as_str();
    let drawn = staged.stages.stages.iter();
    let drawn = drawn.map(|stage| stage.iter().map(name).collect::<Vec<_>>().join(" ∥ "));
    say!("");
    say!("{} ({}): {}", staged.chain, staged.way, drawn.collect::<Vec<_>>().join(" → "));
    for (first, second, verdict) in &staged.stages.pairs {
        let (a, b) = (name(first), name(second));
        let what = match verdict {
            Verdict::Serial(_) => format!("{b} after {a}"),
            Verdict::Parallel(_) => format!("{a} ∥ {b}"),
        };
        say!("  {what}: {}", verdict.reason().in_words(a, b));
    }
}

fn reasons(members: &[StageMember]) {
    let mut shown = table(["first", "second", "verdict", "why"]);
    for (a, b, verdict) in pairs(members) {
        let why = verdict.reason().in_words(&a.name, &b.name);
        shown.add_row([a.name.as_str(), &b.name, verdict.name(), &why]);
    }
    say!("");
    block(shown);
}

#[cfg(test)]
mod tests;
