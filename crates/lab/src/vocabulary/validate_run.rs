//! The part of a lab file that runs: chains, sweep, statements, figures. Knows what is
//! wrong with them; refuses to know how they are carried out.

use super::bundled::{check_counted, without_interface};
use super::check::{Claim, Metric, Statement};
use super::compared::{check_same, check_verdicts};
use super::document::Document;
use super::error::Fault;
use super::faults::FaultKind;
use super::lab::{Arrivals, Families, Lab, LabChain, Plot, PlotKind, Sweep};
use super::validate::unknown;
use catena_client::deploy::{ChainDocument, ChainStep};
use catena_model::limits::CHAIN_FUNCTIONS_MAX;
use catena_model::resource::Encapsulation;

/// Most repeats of a sweep.
pub(crate) const REPEAT_MAX: u32 = 10_000;

pub(crate) fn statements(texts: &[String], section: &str) -> Result<Vec<Statement>, Fault> {
    let one = |(index, text): (usize, &String)| {
        Statement::parse(text)
            .map_err(|(problem, advice)| Fault::new(format!("{section}[{index}]"), problem, advice))
    };
    texts.iter().enumerate().map(one).collect()
}

pub(super) fn endpoint(lab: &Lab, key: &str, name: Option<&str>) -> Result<String, Fault> {
    let name = name.ok_or_else(|| Fault::new(key, "is missing", "name an endpoint"))?;
    if lab.endpoints.contains(name) {
        Ok(name.to_owned())
    } else {
        Err(unknown(key, "endpoint", name, lab.endpoints.names()))
    }
}

pub(crate) fn chains(document: &Document, lab: &Lab) -> Result<Vec<LabChain>, Fault> {
    let mut chains: Vec<LabChain> = Vec::new();
    for (index, entry) in document.chains.iter().enumerate() {
        let chain = chain(lab, &format!("chains[{index}]"), entry)?;
        if chains.iter().any(|before| before.name == chain.name) {
            let problem = format!("the name '{}' is taken", chain.name);
            return Err(Fault::new(format!("chains[{index}].name"), problem, "use another"));
        }
        chains.push(chain);
    }
    Ok(chains)
}

fn chain(lab: &Lab, key: &str, entry: &ChainDocument) -> Result<LabChain, Fault> {
    let name_key = format!("{key}.name");
    let name = entry.name.clone().ok_or_else(|| Fault::new(name_key, "is missing", "add it"))?;
    check_steps(lab, key, &entry.chain)?;
    let given = |name: &'_ str| (!name.is_empty()).then(|| name.to_owned());
    // Behind a balancer it ends at whichever server its address stands for.
    let is_addressed = entry.match_fields.contains_key("destination_ip_prefix");
    let ends = [("source", &entry.source), ("destination", &entry.destination)];
    for (end, name) in ends.into_iter().filter(|(_, name)| !(name.is_empty() && is_addressed)) {
        endpoint(lab, &format!("{key}.{end}"), given(name).as_deref())?;
    }
    let label = entry.label.clone().unwrap_or_else(|| name.clone());
    Ok(LabChain { name, document: entry.clone(), group: entry.group.clone(), label })
}

/// The functions of a chain; `key` is the chain's.
pub(super) fn check_steps(lab: &Lab, key: &str, steps: &[ChainStep]) -> Result<(), Fault> {
    for (index, step) in steps.iter().enumerate() {
        for instance in step.all_instances() {
            if lab.host_of(&instance.name).is_none() {
                let key = format!("{key}.chain[{index}]");
                let known = lab.functions.names().chain(lab.bundled.names());
                return Err(unknown(&key, "function", &instance.name, known));
            }
        }
    }
    if steps.len() > CHAIN_FUNCTIONS_MAX {
        let problem = format!("has {} functions", steps.len());
        let advice = format!("use at most {CHAIN_FUNCTIONS_MAX}");
        return Err(Fault::new(format!("{key}.chain"), problem, advice));
    }
    Ok(())
}

pub(crate) fn sweep(document: &Document, lab: &Lab) -> Result<Sweep, Fault> {
    let entry = &document.sweep;
    for name in &entry.chain {
        if lab.chain(name).is_none() {
            let known = lab.chains.iter().map(|chain| chain.name.as_str());
            return Err(unknown("sweep.chain", "chain", name, known));
        }
    }
    let repeat = entry.repeat.unwrap_or(1);
    if repeat == 0 || repeat > REPEAT_MAX {
        let advice = format!("use 1 to {REPEAT_MAX}");
        return Err(Fault::new("sweep.repeat", format!("{repeat} is not a count"), advice));
    }
    let lengths = match &entry.chain_length {
        None => None,
        Some(text) => Some(lengths(text, lab)?),
    };
    if lengths.is_some() && !entry.chain.is_empty() {
        let problem = "sweeps chains and their length at once";
        return Err(Fault::new("sweep", problem, "keep chain or chain_length"));
    }
    let encapsulations = entry.encapsulation.clone();
    Ok(Sweep { chains: entry.chain.clone(), lengths, encapsulations, repeat })
}

fn lengths(text: &str, lab: &Lab) -> Result<std::ops::RangeInclusive<usize>, Fault> {
    let key = "sweep.chain_length";
    let longest = lab.chains.first().map_or(0, |chain| chain.document.chain.len());
    let bounds = text.split_once("..").and_then(|(low, high)| {
        Some((low.trim().parse::<usize>().ok()?, high.trim().parse::<usize>().ok()?))
    });
    match bounds {
        Some((low, high)) if low >= 1 && low <= high && high <= longest => Ok(low..=high),
        _ => {
            let problem = format!("'{text}' is not a range of lengths");
            let advice = format!("write 1..N; the first chain has {longest} functions");
            Err(Fault::new(key, problem, advice))
        }
    }
}

pub(crate) fn plots(document: &Document, lab: &Lab) -> Result<Vec<Plot>, Fault> {
    let mut plots = Vec::new();
    for (index, entry) in document.plot.iter().enumerate() {
        let key = format!("plot[{index}]");
        let kind = match entry.kind.as_deref() {
            Some("deploy_steps") => PlotKind::DeploySteps,
            Some("timeline") => PlotKind::Timeline,
            Some("bars") => PlotKind::Bars,
            Some("changes") => PlotKind::Changes,
            Some("delay_by_size") => PlotKind::DelayBySize,
            Some("delay_by_hops") => PlotKind::DelayByHops,
            Some("delay_by_traffic") => PlotKind::DelayByTraffic,
            _ => {
                let advice = "use deploy_steps, timeline, bars, changes, delay_by_size, \
                              delay_by_hops or delay_by_traffic";
                return Err(Fault::new(format!("{key}.kind"), "no such figure", advice));
            }
        };
        let file = entry.file.clone().unwrap_or_else(|| format!("figure{}", index + 1));
        if !file.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            let problem = format!("'{file}' is not a file name");
            let advice = "use letters, digits, '-' and '_', without an ending";
            return Err(Fault::new(format!("{key}.file"), problem, advice));
        }
        plots.push(Plot {
            file,
            kind,
            title: entry.title.clone().unwrap_or_else(|| lab.title.clone()),
            group: entry.group.clone(),
            of: entry.of.clone(),
            paper: entry.paper.clone(),
        });
    }
    Ok(plots)
}

/// How programs of traffic end is checked, whether or not the file says so.
pub(crate) fn expect_programs(lab: &mut Lab) {
    if !lab.calls.is_empty() && !lab.asks_for(&Claim::Expected) {
        let text = "expected".to_owned();
        lab.checks.push(Statement { text, claim: Claim::Expected });
    }
}

/// Source routes and segments have somewhere to go.
pub(crate) fn carriers(lab: &Lab) -> Result<(), Fault> {
    if lab.hosts.len() == 1 {
        return Ok(());
    }
    let of_chains = lab.chains.iter().enumerate().filter_map(|(index, chain)| {
        Some((format!("chains[{index}].encapsulation"), chain.document.encapsulation?))
    });
    let of_sweep = lab.sweep.encapsulations.iter().map(|one| ("sweep.encapsulation".into(), *one));
    let versions = lab.updates.iter().flat_map(|updates| &updates.versions);
    let moves = versions.filter_map(|version| version.encapsulation);
    let of_updates = moves.map(|one| ("updates.encapsulations".into(), one));
    let all: Vec<(String, Encapsulation)> = of_chains.chain(of_sweep).chain(of_updates).collect();
    let find = |is_it: fn(Encapsulation) -> bool| all.iter().find(|(_, one)| is_it(*one));
    if let Some((key, one)) = find(Encapsulation::is_source_route).filter(|_| lab.cables.is_empty())
    {
        let problem = format!("{} goes by cables between nodes, and there are none", one.name());
        let advice = "add links from host to host, or by switches with role: switch";
        return Err(Fault::new(key.clone(), problem, advice));
    }
    let has_segments = lab.underlay != Families::Ipv4;
    if let Some((key, one)) = find(Encapsulation::is_segmented).filter(|_| !has_segments) {
        let problem = format!("{} goes by IPv6 between nodes, and there is none", one.name());
        return Err(Fault::new(key.clone(), problem, "add underlay: both, or underlay: ipv6"));
    }
    Ok(())
}

/// Names that statements, captures and figures use must exist.
pub(crate) fn references(lab: &Lab) -> Result<(), Fault> {
    let known = || lab.endpoints.names().chain(lab.functions.names());
    for (index, name) in lab.capture.iter().enumerate() {
        if !lab.is_attached(name) {
            let key = format!("capture.at[{index}]");
            let bundled = without_interface(lab, &key, name, "capture at");
            return Err(bundled.unwrap_or_else(|| unknown(&key, "function", name, known())));
        }
    }
    let is_moved = lab.updates.as_ref().is_some_and(|updates| updates.begins_with.is_some());
    if is_moved && !lab.capture.is_empty() && !lab.captures_links {
        let problem = "sees no encapsulation, and a chain is moved among several";
        let advice = "add links: true: what nodes send each other tells one version from another";
        return Err(Fault::new("capture", problem, advice));
    }
    for (index, plot) in lab.plots.iter().enumerate() {
        if plot.kind == PlotKind::DelayByTraffic {
            let chains = plot.of.iter();
            chains
                .clone()
                .try_for_each(|name| chain_of(lab, &format!("plot[{index}].of"), name))?;
            continue;
        }
        if let Some(name) = plot.of.iter().find(|name| !lab.is_attached(name)) {
            let key = format!("plot[{index}].of");
            let bundled = without_interface(lab, &key, name, "measure at");
            return Err(bundled.unwrap_or_else(|| unknown(&key, "function", name, known())));
        }
    }
    let sections = [("check", &lab.checks), ("goal", &lab.goals)];
    for (section, statements) in sections {
        for (index, statement) in statements.iter().enumerate() {
            statement_names(lab, statement, &format!("{section}[{index}]"))?;
        }
    }
    Ok(())
}

/// Is there such a chain?
fn chain_of(lab: &Lab, key: &str, name: &str) -> Result<(), Fault> {
    let known = || lab.chains.iter().map(|chain| chain.name.as_str());
    match lab.chain(name) {
        Some(_) => Ok(()),
        None => Err(unknown(key, "chain", name, known())),
    }
}

fn statement_names(lab: &Lab, statement: &Statement, key: &str) -> Result<(), Fault> {
    match &statement.claim {
        Claim::Order
        | Claim::Sum { .. }
        | Claim::Paths
        | Claim::Shares { .. }
        | Claim::Moves
        | Claim::BothVersions
        | Claim::Streams
            if lab.capture.is_empty() =>
        {
            let advice = "add capture: {at: [...]} with every function and both endpoints";
            Err(Fault::new(key, "is judged from captures, and there are none", advice))
        }
        Claim::Users | Claim::Compare { metric: Metric::Isolation, .. } if lab.users.is_none() => {
            Err(Fault::new(key, "is about 5G users, and there are none", "add users:"))
        }
        Claim::Compare { metric: Metric::Detour | Metric::OvertakenLate, .. }
            if lab.faults.is_empty() =>
        {
            Err(Fault::new(key, "is about cables that fail, and none does", "add faults:"))
        }
        Claim::Compare { metric: Metric::Unnamed, .. }
            if lab.faults.is_empty() && lab.kills.is_empty() =>
        {
            Err(Fault::new(key, "is about what fails, and nothing does", "add faults:"))
        }
        Claim::Compare { metric: Metric::FalseAlarms, .. } if lab.cables.is_empty() => {
            let advice = "add switches: {NAME: {role: switch}} and links:";
            Err(Fault::new(key, "is about neighbours at cables, and there are none", advice))
        }
        Claim::Compare { metric: Metric::FalseAlarms, .. }
            if lab.faults.iter().any(|fault| fault.kind == FaultKind::Silence) =>
        {
            let advice = "write it in a lab whose cables stay whole";
            Err(Fault::new(key, "counts who falls silent, and faults: silences a cable", advice))
        }
        Claim::Compare { metric: Metric::Detour, subject: Some(kind), .. } => {
            let kinds = ["cut", "silence"];
            if kinds.contains(&kind.as_str()) {
                return Ok(());
            }
            Err(unknown(key, "fault of cables", kind, kinds.into_iter()))
        }
        Claim::Users if lab.capture.is_empty() => {
            let advice = "add capture: {at: [...]} with both ends and every function";
            Err(Fault::new(key, "is judged from captures, and there are none", advice))
        }
        Claim::Route if !lab.captures_links || lab.cables.is_empty() => {
            let advice = "add capture: {links: true}, and cables between hosts and switches";
            Err(Fault::new(key, "is judged from captures at links, and there are none", advice))
        }
        Claim::Forged if lab.cables.is_empty() || lab.users.is_some() || lab.chains.is_empty() => {
            let advice = "use it where chains go by cables between hosts and switches, and users are no 5G users";
            Err(Fault::new(key, "is about source routes, and nothing goes by any", advice))
        }
        Claim::Telemetry if !lab.captures_links || lab.capture.is_empty() => {
            let advice = "add capture: {at: [...], links: true} with every function that has an interface and both ends";
            Err(Fault::new(
                key,
                "is judged from captures here and between nodes, and there are none",
                advice,
            ))
        }
        Claim::Telemetry if !lab.chains.iter().any(LabChain::takes_records) => {
            let advice = "add telemetry: {} to a chain over srv6";
            Err(Fault::new(key, "is about what packets take along, and no chain's do", advice))
        }
        Claim::Stateless if lab.transit_switches().next().is_none() || lab.chains.is_empty() => {
            let advice =
                "use it where chains go over switches, {a1: {role: switch}}, that are no edges";
            Err(Fault::new(
                key,
                "is about switches that chains go over, and there are none",
                advice,
            ))
        }
        Claim::Stateless if !lab.faults.is_empty() || lab.users.is_some() => {
            let advice = "use it in a lab without faults: and without users:";
            Err(Fault::new(key, "compares switches whose cables stay as they are", advice))
        }
        Claim::Streams if !lab.traffic.iter().any(|traffic| traffic.tool.is_tcp()) => {
            Err(Fault::new(key, "is about TCP, and there is none", "add traffic over TCP"))
        }
        Claim::Predicted { .. }
            if !lab.traffic.iter().any(|one| one.load.arrivals == Arrivals::Poisson) =>
        {
            let advice = "add arrivals: poisson to traffic of tool: catena over UDP";
            Err(Fault::new(key, "is about datagrams that are timed, and none is", advice))
        }
        Claim::Predicted { within: Some((_, chain)) } => chain_of(lab, key, chain),
        Claim::Function { .. } => check_counted(lab, statement, key),
        Claim::Verdicts { function } => check_verdicts(lab, function, key),
        Claim::SameAs { one, other } => check_same(lab, [one, other], key),
        Claim::Recovered if lab.kills.is_empty() => {
            let advice = "add faults: [{at: 1, kill: NAME}]";
            Err(Fault::new(key, "is about functions that are killed, and none is", advice))
        }
        Claim::Expected if lab.calls.is_empty() => {
            let advice = "add traffic: [{tool: program, from: S, command: [curl, …]}]";
            Err(Fault::new(key, "is about programs of traffic, and there are none", advice))
        }
        Claim::Moves | Claim::BothVersions if lab.updates.is_none() => {
            Err(Fault::new(key, "is about updates, and there are none", "add updates:"))
        }
        Claim::Order
        | Claim::Interfaces
        | Claim::Hops
        | Claim::Paths
        | Claim::Shares { .. }
        | Claim::Moves
        | Claim::BothVersions
        | Claim::Streams
        | Claim::Users
        | Claim::Route
        | Claim::Forged
        | Claim::Telemetry
        | Claim::Stateless
        | Claim::Expected
        | Claim::Recovered
        | Claim::Predicted { within: None }
        | Claim::Compare { subject: None, .. } => Ok(()),
        Claim::Sum { whole, parts } => {
            let missing = parts.iter().chain([whole]).find(|name| !lab.functions.contains(name));
            missing
                .map_or(Ok(()), |name| Err(unknown(key, "function", name, lab.functions.names())))
        }
        Claim::Compare { subject: Some(subject), .. } => {
            let names = || {
                let chains = lab.chains.iter().map(|chain| chain.name.as_str());
                chains.chain(lab.traffic.iter().map(|traffic| traffic.name.as_str()))
            };
            if names().any(|name| name == subject) {
                Ok(())
            } else {
                Err(unknown(key, "chain or traffic", subject, names()))
            }
        }
    }
}
