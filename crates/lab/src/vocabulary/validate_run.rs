//! The part of a lab file that runs: chains, traffic, sweep, statements, figures. Knows what is
//! wrong with them; refuses to know how they are carried out.

use super::check::{Claim, Statement};
use super::document::{ChainEntry, Document, TrafficEntry};
use super::error::Fault;
use super::lab::{Lab, LabChain, Plot, PlotKind, Sweep, Tool, Traffic};
use super::units::Seconds;
use super::validate::unknown;
use catena_client::deploy::{ChainDocument, ChainStep, Direction};
use catena_model::limits::CHAIN_FUNCTIONS_MAX;
use catena_model::resource::IpFamily;

/// Port of traffic that states none (iperf3's own).
pub(crate) const TRAFFIC_PORT_DEFAULT: u16 = 5_201;
/// Duration of traffic that states none.
pub(crate) const TRAFFIC_SECONDS_DEFAULT: Seconds = Seconds(3.0);
/// Longest duration and latest start of traffic, in seconds.
pub(crate) const TRAFFIC_SECONDS_MAX: f64 = 86_400.0;
/// Most repeats of a sweep.
pub(crate) const REPEAT_MAX: u32 = 10_000;

pub(crate) fn statements(texts: &[String], section: &str) -> Result<Vec<Statement>, Fault> {
    let one = |(index, text): (usize, &String)| {
        Statement::parse(text)
            .map_err(|(problem, advice)| Fault::new(format!("{section}[{index}]"), problem, advice))
    };
    texts.iter().enumerate().map(one).collect()
}

fn endpoint(lab: &Lab, key: &str, name: Option<&str>) -> Result<String, Fault> {
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

fn chain(lab: &Lab, key: &str, entry: &ChainEntry) -> Result<LabChain, Fault> {
    let name_key = format!("{key}.name");
    let name = entry.name.clone().ok_or_else(|| Fault::new(name_key, "is missing", "add it"))?;
    let mut steps = Vec::new();
    for (index, step) in entry.chain.iter().enumerate() {
        let key = format!("{key}.chain[{index}]");
        if !lab.functions.contains(&step.name) {
            return Err(unknown(&key, "function", &step.name, lab.functions.names()));
        }
        let direction = Direction::parse(&step.direction).ok_or_else(|| {
            let problem = format!("'{}' is not a direction", step.direction);
            Fault::new(&key, problem, "use in, out, same or tap")
        })?;
        steps.push(ChainStep { name: step.name.clone(), direction, instances: Vec::new() });
    }
    if steps.len() > CHAIN_FUNCTIONS_MAX {
        let problem = format!("has {} functions", steps.len());
        let advice = format!("use at most {CHAIN_FUNCTIONS_MAX}");
        return Err(Fault::new(format!("{key}.chain"), problem, advice));
    }
    let document = ChainDocument {
        name: Some(name.clone()),
        source: endpoint(lab, &format!("{key}.source"), entry.source.as_deref())?,
        destination: endpoint(lab, &format!("{key}.destination"), entry.destination.as_deref())?,
        match_fields: entry.match_fields.clone(),
        chain: steps,
        encapsulation: entry.encapsulation,
        symmetric: false,
    };
    let label = entry.label.clone().unwrap_or_else(|| name.clone());
    Ok(LabChain { name, document, group: entry.group.clone(), label })
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

pub(crate) fn traffic(document: &Document, lab: &Lab) -> Result<Vec<Traffic>, Fault> {
    let one = |(index, entry): (usize, &TrafficEntry)| {
        one_traffic(lab, &format!("traffic[{index}]"), index, entry)
    };
    document.traffic.iter().enumerate().map(one).collect()
}

fn one_traffic(lab: &Lab, key: &str, index: usize, entry: &TrafficEntry) -> Result<Traffic, Fault> {
    let tool = match (entry.tool.as_deref(), entry.protocol.as_deref()) {
        (Some("iperf3"), Some("udp")) => Tool::IperfUdp,
        (Some("iperf3"), Some("tcp") | None) => Tool::IperfTcp,
        (Some("ping"), None) => Tool::Ping,
        _ => {
            let advice = "use tool: iperf3 with protocol: udp or tcp, or tool: ping";
            return Err(Fault::new(format!("{key}.tool"), "no such traffic", advice));
        }
    };
    let family = match entry.family.as_deref() {
        None | Some("ipv4") => IpFamily::Ipv4,
        Some("ipv6") => IpFamily::Ipv6,
        Some(other) => {
            let problem = format!("'{other}' is not a family");
            return Err(Fault::new(format!("{key}.family"), problem, "use ipv4 or ipv6"));
        }
    };
    let seconds = entry.seconds.unwrap_or(TRAFFIC_SECONDS_DEFAULT);
    let at = entry.at.unwrap_or_default();
    for (name, value) in [("seconds", seconds), ("at", at)] {
        if value.0 > TRAFFIC_SECONDS_MAX {
            let advice = format!("use at most {TRAFFIC_SECONDS_MAX} s");
            return Err(Fault::new(format!("{key}.{name}"), "is too long", advice));
        }
    }
    if let Some(chain) = entry.chain.as_ref().filter(|name| lab.chain(name).is_none()) {
        let known = lab.chains.iter().map(|chain| chain.name.as_str());
        return Err(unknown(&format!("{key}.chain"), "chain", chain, known));
    }
    Ok(Traffic {
        name: entry
            .name
            .clone()
            .or_else(|| entry.chain.clone())
            .unwrap_or_else(|| format!("traffic{}", index + 1)),
        tool,
        from: endpoint(lab, &format!("{key}.from"), entry.from.as_deref())?,
        to: endpoint(lab, &format!("{key}.to"), entry.to.as_deref())?,
        port: entry.port.unwrap_or(TRAFFIC_PORT_DEFAULT),
        rate: entry.rate,
        seconds,
        at,
        congestion: entry.congestion.clone(),
        family,
        chain: entry.chain.clone(),
    })
}

pub(crate) fn plots(document: &Document, lab: &Lab) -> Result<Vec<Plot>, Fault> {
    let mut plots = Vec::new();
    for (index, entry) in document.plot.iter().enumerate() {
        let key = format!("plot[{index}]");
        let kind = match entry.kind.as_deref() {
            Some("deploy_steps") => PlotKind::DeploySteps,
            Some("timeline") => PlotKind::Timeline,
            Some("bars") => PlotKind::Bars,
            _ => {
                let advice = "use deploy_steps, timeline or bars";
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

/// Names that statements, captures and figures use must exist.
pub(crate) fn references(lab: &Lab) -> Result<(), Fault> {
    let known = || lab.endpoints.names().chain(lab.functions.names());
    for (index, name) in lab.capture.iter().enumerate() {
        if !lab.is_attached(name) {
            return Err(unknown(&format!("capture.at[{index}]"), "function", name, known()));
        }
    }
    for (index, plot) in lab.plots.iter().enumerate() {
        if let Some(name) = plot.of.iter().find(|name| !lab.is_attached(name)) {
            return Err(unknown(&format!("plot[{index}].of"), "function", name, known()));
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

fn statement_names(lab: &Lab, statement: &Statement, key: &str) -> Result<(), Fault> {
    match &statement.claim {
        Claim::Order | Claim::Sum { .. } if lab.capture.is_empty() => {
            let advice = "add capture: {at: [...]} with every function and both endpoints";
            Err(Fault::new(key, "is judged from captures, and there are none", advice))
        }
        Claim::Order | Claim::Interfaces | Claim::Hops | Claim::Compare { subject: None, .. } => {
            Ok(())
        }
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
