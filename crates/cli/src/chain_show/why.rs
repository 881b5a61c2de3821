//! `catena chain show --why`: which functions of a chain are asked side by side, why the others wait for each other,
//! and how each host asks them. Knows profiles of configurations, and what nodes tell; refuses to tell what nobody
//! observed.

#[cfg(test)]
mod tests;
mod words;

use crate::failure::Failure;
use crate::forms;
use crate::policy;
use crate::prediction::HopThreads;
use catena_client::{Client, ClientError};
use catena_model::NodeName;
use catena_model::account::FunctionCounters;
use catena_model::id::PathId;
use catena_model::limits::SEGMENT_MEMBERS_MAX;
use catena_model::parallelism::{Form, FormChoice};
use catena_model::resource::{FunctionTemplate, Runs};
use catena_model::status::{ChainReport, FunctionReport, PathHop, PathReport};
use catena_plan::parallelism::{StageMember, Stages};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Of functions that do not come with Catena.
const UNKNOWN: &str = "and nobody knows what it reads and writes";
/// Where there is no path to speak of.
const NO_PATH: &str = "why: the chain has no path, so none of its functions is asked; `catena policy pairs -f FILE` \
                       tells which may be side by side";

/// Of each path that traffic takes; while it takes none, of those on their way.
#[derive(Debug, Serialize)]
pub(super) struct Why {
    ways: Vec<PlannedWay>,
}

/// One direction of a chain.
#[derive(Debug, Serialize)]
struct PlannedWay {
    direction: String,
    path: PathId,
    in_use: bool,
    hops: Vec<PlannedHop>,
    /// Why neighbours do not stand together, between one hop and the next.
    apart: Vec<PlannedPair>,
}

/// Functions that stand together.
#[derive(Debug, Serialize)]
struct PlannedHop {
    hop: u16,
    functions: Vec<String>,
    /// Empty: they are not told to whoever asks.
    hosts: BTreeSet<NodeName>,
    /// Those of one stage may be asked side by side; none: not all profiles are known here.
    stages: Option<Vec<Vec<String>>>,
    pairs: Vec<PlannedPair>,
    forms: Vec<FormAtHost>,
}

/// Two functions, the first before the second.
#[derive(Debug, Serialize)]
struct PlannedPair {
    first: String,
    second: String,
    /// None: it is not known here.
    side_by_side: Option<bool>,
    text: String,
}

/// How a host asks its instances of a hop.
#[derive(Debug, Serialize)]
struct FormAtHost {
    host: Option<NodeName>,
    instances: Vec<String>,
    /// Has the host told anything of them?
    is_told: bool,
    choice: Option<FormChoice>,
    text: String,
}

/// A function at its place on a path.
struct PlacedFunction<'r> {
    hop: &'r PathHop,
    report: Option<&'r FunctionReport>,
    /// What it is; of whom nobody knows that, who it is.
    profile: Result<StageMember, String>,
}

/// What there is to say of a chain in force; functions inside data planes are asked for what they count.
pub(super) fn of_report(client: &Client, report: &ChainReport) -> Result<Why, Failure> {
    let mut functions = client.functions()?;
    let on_path = |function: &FunctionReport| {
        ways(report).any(|path| path.hops.iter().any(|hop| is_of(function, hop)))
    };
    for function in functions.iter_mut().filter(|function| is_inside(function)) {
        if on_path(function) {
            match client.function(&function.id.to_string()) {
                Ok(whole) => *function = whole,
                // It went since.
                Err(ClientError::Refused { .. } | ClientError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(Why::of(report, &functions))
}

/// The paths that traffic takes; while it takes none, those on their way.
fn ways(report: &ChainReport) -> impl Iterator<Item = &PathReport> {
    let is_used = report.paths.iter().any(|path| path.phase == super::IN_USE);
    let phase = move |path: &&PathReport| match is_used {
        true => path.phase == super::IN_USE,
        false => path.phase != super::FORMER,
    };
    report.paths.iter().filter(phase)
}

/// Does it stand at this hop? Names may be those of several.
fn is_of(function: &FunctionReport, hop: &PathHop) -> bool {
    let is_its = |name: &String| hop.instances.iter().any(|one| one.name == *name);
    let is_named = function.name == hop.function || function.id.to_string() == hop.function;
    is_named && (hop.instances.is_empty() || function.instances.iter().any(is_its))
}

fn is_inside(function: &FunctionReport) -> bool {
    function.template.as_ref().is_some_and(is_bundled_inside)
}

fn is_bundled_inside(template: &FunctionTemplate) -> bool {
    matches!(template.runs, Runs::Bundled(_)) && template.door.is_inside()
}

impl Why {
    /// `functions`: what is declared of all functions, and what those of the chain have counted.
    fn of(report: &ChainReport, functions: &[FunctionReport]) -> Self {
        Self { ways: ways(report).map(|path| PlannedWay::of(path, functions)).collect() }
    }

    /// The hops whose functions threads ask, on the path that the chain is told by.
    pub(super) fn threads(&self) -> Vec<HopThreads> {
        self.ways
            .first()
            .into_iter()
            .flat_map(|way| &way.hops)
            .filter_map(PlannedHop::threads)
            .collect()
    }

    /// For people, line by line.
    pub(super) fn lines(&self) -> Vec<String> {
        if self.ways.is_empty() {
            return vec![NO_PATH.to_owned()];
        }
        self.ways.iter().flat_map(PlannedWay::lines).collect()
    }
}

impl PlannedWay {
    fn of(path: &PathReport, functions: &[FunctionReport]) -> Self {
        let mut placed: Vec<PlacedFunction<'_>> =
            path.hops.iter().map(|hop| PlacedFunction::of(hop, functions)).collect();
        placed.sort_by_key(|function| (function.hop.hop, function.hop.member));
        let hops: Vec<&[PlacedFunction<'_>]> =
            placed.chunk_by(|one, other| one.hop.hop == other.hop.hop).collect();
        let borders = hops.iter().zip(hops.iter().skip(1));
        let apart = borders.filter_map(|(before, behind)| apart(before, behind)).collect();
        Self {
            direction: path.direction.clone(),
            path: path.path,
            in_use: path.phase == super::IN_USE,
            hops: hops.into_iter().map(PlannedHop::of).collect(),
            apart,
        }
    }

    fn lines(&self) -> Vec<String> {
        let Self { direction, path, in_use, hops, apart } = self;
        let use_of_it = if *in_use { "" } else { ", on its way, not in use yet" };
        let mut lines = vec![format!("why {direction}, path {path}{use_of_it}")];
        let mut apart = apart.iter();
        for hop in hops {
            lines.extend(hop.lines());
            lines.extend(apart.next().map(|pair| format!("  {}", pair.text)));
        }
        lines
    }
}

impl<'r> PlacedFunction<'r> {
    fn of(hop: &'r PathHop, functions: &'r [FunctionReport]) -> Self {
        let report = functions.iter().find(|function| is_of(function, hop));
        Self { hop, report, profile: member(&hop.function, report) }
    }

    fn name(&self) -> &'r str {
        &self.hop.function
    }

    /// Where its instances are, and the share of each.
    fn places(&self) -> Vec<(Option<&NodeName>, u32)> {
        let instances = self.hop.instances.iter();
        let mut places: Vec<_> = instances.map(|one| (one.node.as_ref(), one.weight)).collect();
        places.sort();
        places
    }

    fn hosts(&self) -> BTreeSet<NodeName> {
        self.hop.instances.iter().filter_map(|one| one.node.clone()).collect()
    }
}

/// What a function is, by its configuration; else why that is not known.
fn member(name: &str, report: Option<&FunctionReport>) -> Result<StageMember, String> {
    let Some(template) = report.and_then(|report| report.template.as_ref()) else {
        return Err(format!("{name} is run by somebody else, {UNKNOWN}"));
    };
    match &template.runs {
        Runs::Command(_) => return Err(format!("{name} is a command of its own, {UNKNOWN}")),
        Runs::Image(_) => return Err(format!("{name} is an image of its own, {UNKNOWN}")),
        Runs::External(_) => return Err(format!("{name} is run by somebody else, {UNKNOWN}")),
        Runs::Bundled(_) if !template.door.is_inside() => {
            return Err(format!("{name} runs apart from the data plane"));
        }
        Runs::Bundled(_) => {}
    }
    if template.config.values().any(|value| value.get("sha256").is_some()) {
        return Err(format!("the rules of {name} are too many to be told with it"));
    }
    let configuration = template.configuration().ok_or_else(|| format!("{name} has no kind"))?;
    match policy::profile(name, &configuration) {
        Ok(profile) => Ok(StageMember { name: name.to_owned(), profile }),
        Err(failure) => Err(failure.message),
    }
}

/// Why the last function of a hop and the first of the next one do not stand together.
fn apart(before: &[PlacedFunction<'_>], behind: &[PlacedFunction<'_>]) -> Option<PlannedPair> {
    let (a, b) = (before.last()?, behind.first()?);
    let (first, second) = (a.name(), b.name());
    let why = match [a, b].into_iter().find(|one| one.hop.is_tap) {
        Some(tap) => format!("{} gets copies, and no packet waits for it", tap.name()),
        None => apart_by_place(a, b).unwrap_or_else(|| apart_by_kind(a, b, before.len())),
    };
    Some(PlannedPair {
        first: first.to_owned(),
        second: second.to_owned(),
        side_by_side: Some(false),
        text: format!("{first}, then {second}: {why}"),
    })
}

/// Whoever is told no hosts is told nothing of these.
fn apart_by_place(a: &PlacedFunction<'_>, b: &PlacedFunction<'_>) -> Option<String> {
    let (first, second) = (a.hosts(), b.hosts());
    if first.is_empty() || second.is_empty() || first == second {
        return None;
    }
    Some(match first.is_disjoint(&second) {
        true => "they are on different hosts".to_owned(),
        false => "they are not on the same hosts".to_owned(),
    })
}

/// Functions of the same hosts.
fn apart_by_kind(a: &PlacedFunction<'_>, b: &PlacedFunction<'_>, before: usize) -> String {
    let is_elsewhere = |one: &&PlacedFunction<'_>| !one.report.is_some_and(is_inside);
    let elsewhere = [a, b].into_iter().filter(is_elsewhere);
    let elsewhere: Vec<&str> =
        elsewhere.filter_map(|one| one.profile.as_ref().err().map(String::as_str)).collect();
    if !elsewhere.is_empty() {
        return elsewhere.join("; ");
    }
    let on_failure = |one: &PlacedFunction<'_>| one.report.map(|report| report.on_failure);
    if on_failure(a) != on_failure(b) {
        let words = [a, b].map(|one| on_failure(one).map_or("", |policy| policy.name()));
        return format!(
            "they differ in what becomes of packets when they die ({})",
            words.join(", ")
        );
    }
    if a.places() != b.places() {
        return "their instances do not take the same shares of flows".to_owned();
    }
    if before >= SEGMENT_MEMBERS_MAX {
        return format!("at most {SEGMENT_MEMBERS_MAX} functions stand together");
    }
    if a.hosts().is_empty() || b.hosts().is_empty() {
        return "they are two hops, and on which hosts is not told".to_owned();
    }
    "they are two hops: one has a single function that rewrites addresses, and none where there are several instances"
        .to_owned()
}

impl PlannedHop {
    fn of(functions: &[PlacedFunction<'_>]) -> Self {
        let members: Result<Vec<StageMember>, &String> =
            functions.iter().map(|one| one.profile.as_ref().cloned()).collect();
        let (stages, pairs) = match members {
            Ok(members) => judged(&members),
            Err(_) if functions.len() == 1 => (Some(alone(functions)), Vec::new()),
            Err(_) => (None, unknown(functions)),
        };
        Self {
            hop: functions.first().map_or(0, |one| one.hop.hop),
            functions: functions.iter().map(|one| one.name().to_owned()).collect(),
            hosts: functions.first().map(PlacedFunction::hosts).unwrap_or_default(),
            stages,
            pairs,
            forms: forms_of(functions),
        }
    }

    /// None: workers ask, or hosts differ.
    fn threads(&self) -> Option<HopThreads> {
        let form = |host: &FormAtHost| host.choice.map(|choice| choice.form);
        let first = self.forms.first().and_then(form)?;
        if self.forms.iter().any(|host| form(host) != Some(first)) {
            return None;
        }
        let stages = match first {
            Form::Fuse => return None,
            Form::Pipeline => self.functions.iter().map(|name| vec![name.clone()]).collect(),
            Form::Fork => self.stages.clone()?,
        };
        let choices = self.forms.iter().filter_map(|host| host.choice);
        let handoff_ns = choices.filter_map(|choice| choice.handoff_ns).max().unwrap_or(0);
        let choices = self.forms.iter().filter_map(|host| host.choice);
        let threads = choices.filter_map(|choice| choice.threads).min().unwrap_or(1);
        let threads = u16::try_from(threads).unwrap_or(u16::MAX);
        Some(HopThreads { hop: self.hop, stages, handoff_ns, threads })
    }

    fn lines(&self) -> Vec<String> {
        let hosts: Vec<&str> = self.hosts.iter().map(NodeName::as_str).collect();
        let at = if hosts.is_empty() { String::new() } else { format!(" at {}", hosts.join(", ")) };
        let drawn = match &self.stages {
            Some(stages) => {
                let drawn = stages.iter().map(|stage| stage.join(" ∥ "));
                drawn.collect::<Vec<_>>().join(" → ")
            }
            None => format!("{} (stages not known here)", self.functions.join(", ")),
        };
        let pairs = self.pairs.iter().map(|pair| pair.text.as_str());
        let forms = self.forms.iter().map(|form| form.text.as_str());
        let inner = pairs.chain(forms).map(|text| format!("    {text}"));
        std::iter::once(format!("  hop {}{at}: {drawn}", self.hop)).chain(inner).collect()
    }
}

fn alone(functions: &[PlacedFunction<'_>]) -> Vec<Vec<String>> {
    functions.iter().map(|one| vec![one.name().to_owned()]).collect()
}

/// The stages of functions that stand together, as nodes make them; and why, of neighbours, and of whoever a function
/// waits for in the stage before its own.
fn judged(members: &[StageMember]) -> (Option<Vec<Vec<String>>>, Vec<PlannedPair>) {
    let all = Stages::of(members);
    let stages = all.without_holding();
    let stage_of = |at: usize| stages.iter().position(|stage| stage.contains(&at));
    // Who is in the stage right before its own, and not beside it.
    let keeps_out = |a: usize, b: usize| {
        stage_of(a).zip(stage_of(b)).is_some_and(|(before, own)| before + 1 == own)
    };
    let pairs = all.pairs.iter().filter_map(|(a, b, verdict)| {
        let is_side_by_side = verdict.is_parallel() && !verdict.is_held();
        let is_told = a + 1 == *b || (!is_side_by_side && keeps_out(*a, *b));
        let (first, second) = (members.get(*a)?, members.get(*b)?);
        is_told.then(|| PlannedPair {
            first: first.name.clone(),
            second: second.name.clone(),
            side_by_side: Some(is_side_by_side),
            text: words::of_pair(first, second, verdict),
        })
    });
    let pairs = pairs.collect();
    let names = |stage: &std::ops::Range<usize>| {
        let stage = members.get(stage.clone()).unwrap_or_default();
        stage.iter().map(|member| member.name.clone()).collect()
    };
    (Some(stages.iter().map(names).collect()), pairs)
}

/// Neighbours of which one is not known here.
fn unknown(functions: &[PlacedFunction<'_>]) -> Vec<PlannedPair> {
    let pairs = functions.iter().zip(functions.iter().skip(1));
    let told = pairs.map(|(a, b)| {
        let (first, second) = (a.name(), b.name());
        let pair = [a, b].into_iter().map(|one| one.profile.as_ref());
        let (side_by_side, text) = match pair.collect::<Result<Vec<_>, _>>() {
            Ok(pair) => {
                let members: Vec<StageMember> = pair.into_iter().cloned().collect();
                let known = judged(&members).1.pop();
                known.map(|known| (known.side_by_side, known.text)).unwrap_or_default()
            }
            Err(why) => (None, format!("{first}, {second}: not known here, as {why}")),
        };
        PlannedPair { first: first.to_owned(), second: second.to_owned(), side_by_side, text }
    });
    told.collect()
}

/// What a host tells of an instance.
#[derive(Clone, Copy, PartialEq)]
enum ToldForm {
    Nothing,
    /// It has told of it, and of no choice.
    NoChoice,
    Chosen(FormChoice),
}

impl ToldForm {
    fn of(counters: Option<&FunctionCounters>) -> Self {
        match counters {
            None => Self::Nothing,
            Some(FunctionCounters { choice: None, .. }) => Self::NoChoice,
            Some(FunctionCounters { choice: Some(choice), .. }) => Self::Chosen(*choice),
        }
    }

    fn in_words(self) -> String {
        match self {
            Self::Nothing => "it has not told how they are asked".into(),
            Self::NoChoice => {
                "by the worker, one after the other; it has no threads for functions \
                               (--function-threads), or has measured nothing yet"
                    .into()
            }
            Self::Chosen(choice) => forms::in_words(&choice),
        }
    }

    const fn choice(self) -> Option<FormChoice> {
        match self {
            Self::Chosen(choice) => Some(choice),
            Self::Nothing | Self::NoChoice => None,
        }
    }
}

/// How each host asks those that stand together; of one that stands alone there is nothing to choose.
fn forms_of(functions: &[PlacedFunction<'_>]) -> Vec<FormAtHost> {
    let mut hosts: BTreeMap<Option<&NodeName>, Vec<(ToldForm, Vec<String>)>> = BTreeMap::new();
    for function in functions.iter().filter(|_| functions.len() > 1) {
        let counted = function.report.map(|report| report.counters.as_slice()).unwrap_or_default();
        for instance in &function.hop.instances {
            let told = ToldForm::of(counted.iter().find(|one| one.name == instance.name));
            let at = hosts.entry(instance.node.as_ref()).or_default();
            match at.iter_mut().find(|(known, _)| *known == told) {
                Some((_, instances)) => instances.push(instance.name.clone()),
                None => at.push((told, vec![instance.name.clone()])),
            }
        }
    }
    let mut forms = Vec::new();
    for (host, all) in hosts {
        let at = host.map_or("their host", NodeName::as_str);
        let is_one = all.len() == 1;
        forms.extend(all.into_iter().map(|(told, instances)| {
            let of = if is_one { String::new() } else { format!(" ({})", instances.join(", ")) };
            FormAtHost {
                host: host.cloned(),
                text: format!("at {at}{of}: {}", told.in_words()),
                instances,
                is_told: told != ToldForm::Nothing,
                choice: told.choice(),
            }
        }));
    }
    forms
}
