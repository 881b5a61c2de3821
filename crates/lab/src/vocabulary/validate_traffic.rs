//! The traffic of a lab file. Knows what is wrong with an entry; refuses to know how traffic is
//! made.

use super::document::{Document, TrafficEntry};
use super::error::Fault;
use super::lab::{Arrivals, Lab, Load, LoadShare, Tool, Traffic};
use super::programs::is_call;
use super::units::Seconds;
use super::validate::unknown;
use super::validate_run::endpoint;
use catena_model::resource::IpFamily;

/// Port of traffic that states none (iperf3's own).
pub(crate) const TRAFFIC_PORT_DEFAULT: u16 = 5_201;
/// Duration of traffic that states none.
pub(crate) const TRAFFIC_SECONDS_DEFAULT: Seconds = Seconds(3.0);
/// Longest duration and latest start of traffic, in seconds.
pub(crate) const TRAFFIC_SECONDS_MAX: f64 = 86_400.0;
/// Most flows of one traffic: each has a source port of its own.
pub(crate) const FLOWS_MAX: u32 = 12_000;
/// Most datagrams a second of our own generator.
pub(crate) const PACKETS_PER_SECOND_MAX: u32 = 1_000_000;
/// Most flows of one traffic whose datagrams leave as if by chance: all of them have a socket.
const POISSON_FLOWS_MAX: u32 = 250;
/// What may be more than a chain carries, but not by much.
const LOAD_BELOW: f64 = 2.0;
/// Datagrams a second where the file does not say.
const PACKETS_PER_SECOND_DEFAULT: u32 = 2_000;

pub(crate) fn traffic(document: &Document, lab: &Lab) -> Result<Vec<Traffic>, Fault> {
    let one = |(index, entry): (usize, &TrafficEntry)| {
        one_traffic(lab, &format!("traffic[{index}]"), index, entry)
    };
    let entries = document.traffic.iter().enumerate();
    entries.filter(|(_, entry)| !is_call(entry)).map(one).collect()
}

fn one_traffic(lab: &Lab, key: &str, index: usize, entry: &TrafficEntry) -> Result<Traffic, Fault> {
    let tool = tool(key, entry)?;
    let (seconds, at) = times(key, entry, TRAFFIC_SECONDS_DEFAULT)?;
    let chain = chain_of(lab, key, entry)?;
    let name = entry.name.clone().or_else(|| chain.clone());
    Ok(Traffic {
        name: name.unwrap_or_else(|| format!("traffic{}", index + 1)),
        tool,
        from: endpoint(lab, &format!("{key}.from"), entry.from.as_deref())?,
        to: endpoint(lab, &format!("{key}.to"), entry.to.as_deref())?,
        port: entry.port.unwrap_or(TRAFFIC_PORT_DEFAULT),
        rate: entry.rate,
        seconds,
        is_until_updated: until_updated(lab, key, entry, tool)?,
        load: load(key, entry, tool)?,
        share: share(lab, key, entry)?,
        at,
        congestion: entry.congestion.clone(),
        family: family(key, entry)?,
        chain,
    })
}

/// The chain that it is for.
pub(super) fn chain_of(
    lab: &Lab,
    key: &str,
    entry: &TrafficEntry,
) -> Result<Option<String>, Fault> {
    let is_unknown = |name: &&String| lab.chain(name).is_none();
    entry.chain.as_ref().filter(is_unknown).map_or(Ok(entry.chain.clone()), |chain| {
        let known = lab.chains.iter().map(|chain| chain.name.as_str());
        Err(unknown(&format!("{key}.chain"), "chain", chain, known))
    })
}

fn tool(key: &str, entry: &TrafficEntry) -> Result<Tool, Fault> {
    match (entry.tool.as_deref(), entry.protocol.as_deref()) {
        (Some("iperf3"), Some("udp")) => Ok(Tool::IperfUdp),
        (Some("iperf3"), Some("tcp") | None) => Ok(Tool::IperfTcp),
        (Some("ping"), None) => Ok(Tool::Ping),
        (Some("catena"), Some("udp")) => Ok(Tool::Datagrams),
        (Some("catena"), Some("tcp")) => Ok(Tool::Streams),
        _ => {
            let advice = "use tool: iperf3 or tool: catena with protocol: udp or tcp, tool: ping or tool: program";
            Err(Fault::new(format!("{key}.tool"), "no such traffic", advice))
        }
    }
}

pub(super) fn family(key: &str, entry: &TrafficEntry) -> Result<IpFamily, Fault> {
    match entry.family.as_deref() {
        None | Some("ipv4") => Ok(IpFamily::Ipv4),
        Some("ipv6") => Ok(IpFamily::Ipv6),
        Some(other) => {
            let problem = format!("'{other}' is not a family");
            Err(Fault::new(format!("{key}.family"), problem, "use ipv4 or ipv6"))
        }
    }
}

/// How long, and when it starts.
pub(super) fn times(
    key: &str,
    entry: &TrafficEntry,
    seconds_default: Seconds,
) -> Result<(Seconds, Seconds), Fault> {
    let seconds = entry.seconds.unwrap_or(seconds_default);
    let at = entry.at.unwrap_or_default();
    for (name, value) in [("seconds", seconds), ("at", at)] {
        if value.0 > TRAFFIC_SECONDS_MAX {
            let advice = format!("use at most {TRAFFIC_SECONDS_MAX} s");
            return Err(Fault::new(format!("{key}.{name}"), "is too long", advice));
        }
    }
    Ok((seconds, at))
}

fn until_updated(lab: &Lab, key: &str, entry: &TrafficEntry, tool: Tool) -> Result<bool, Fault> {
    let key = format!("{key}.until");
    let is_ours = matches!(tool, Tool::Datagrams | Tool::Streams);
    match entry.until.as_deref() {
        None => Ok(false),
        Some("updates") if lab.updates.is_none() => {
            Err(Fault::new(key, "waits for updates, and there are none", "add updates:"))
        }
        Some("updates") if !is_ours => {
            Err(Fault::new(key, "is for our own generator", "use tool: catena, or seconds:"))
        }
        Some("updates") => Ok(true),
        Some(other) => {
            Err(Fault::new(key, format!("'{other}' is nothing to wait for"), "write updates"))
        }
    }
}

fn load(key: &str, entry: &TrafficEntry, tool: Tool) -> Result<Load, Fault> {
    let load = Load {
        flows: entry.flows.unwrap_or(1),
        packets: entry.packets,
        packets_per_second: entry.packets_per_second.unwrap_or(PACKETS_PER_SECOND_DEFAULT),
        arrivals: entry.arrivals.unwrap_or_default(),
        is_answered: entry.answers,
    };
    let counts = [
        ("flows", load.flows, FLOWS_MAX),
        ("packets_per_second", load.packets_per_second, PACKETS_PER_SECOND_MAX),
        ("packets", load.packets.unwrap_or(1), u32::MAX / FLOWS_MAX),
    ];
    for (name, value, most) in counts {
        if value == 0 || value > most {
            let problem = format!("{value} is not a count");
            return Err(Fault::new(format!("{key}.{name}"), problem, format!("use 1 to {most}")));
        }
    }
    let is_given = entry.flows.is_some()
        || entry.packets.is_some()
        || entry.packets_per_second.is_some()
        || entry.answers;
    if is_given && !matches!(tool, Tool::Datagrams | Tool::Streams) {
        let problem = "flows, packets, packets_per_second and answers are for our own generator";
        return Err(Fault::new(key, problem, "use tool: catena"));
    }
    if load.arrivals == Arrivals::Poisson {
        by_chance(key, entry, &load, tool)?;
    }
    Ok(load)
}

/// The share of what a chain carries.
fn share(lab: &Lab, key: &str, entry: &TrafficEntry) -> Result<Option<LoadShare>, Fault> {
    let fault = |name: &str, problem: String, advice: &str| {
        Err(Fault::new(format!("{key}.{name}"), problem, advice))
    };
    let advice = "write load: 0.5 and load_of: CHAIN for half of what that chain carries at most";
    let (share, chain) = match (entry.load, &entry.load_of) {
        (None, None) => return Ok(None),
        (Some(_), None) => return fault("load", "is of no chain".into(), advice),
        (None, Some(_)) => return fault("load_of", "has no load".into(), advice),
        (Some(share), Some(chain)) => (share, chain.clone()),
    };
    if !(share > 0.0 && share < LOAD_BELOW) {
        return fault("load", format!("{share} is no load"), "write a share above 0 and below 2");
    }
    if entry.arrivals != Some(Arrivals::Poisson) || entry.packets_per_second.is_some() {
        let problem = "is for arrivals: poisson without packets_per_second";
        return fault("load", problem.into(), advice);
    }
    match lab.chain(&chain) {
        Some(of) if of.document.chain.is_empty() => {
            fault("load_of", format!("'{chain}' has no function that could hold it"), advice)
        }
        Some(_) => Ok(Some(LoadShare { chain, share })),
        None => {
            let known = lab.chains.iter().map(|chain| chain.name.as_str());
            Err(unknown(&format!("{key}.load_of"), "chain", &chain, known))
        }
    }
}

/// Can datagrams of this traffic leave as a Poisson process, and be timed?
fn by_chance(key: &str, entry: &TrafficEntry, load: &Load, tool: Tool) -> Result<(), Fault> {
    let advice = format!("use flows: 1 to {POISSON_FLOWS_MAX}, packets_per_second and seconds");
    let problem = match tool {
        Tool::Datagrams if load.packets.is_some() => "ends with time, not after packets",
        Tool::Datagrams if load.is_answered => "has no answers",
        Tool::Datagrams if entry.until.is_some() => "ends with its seconds",
        Tool::Datagrams if load.flows > POISSON_FLOWS_MAX => "has too many flows",
        Tool::Datagrams => return Ok(()),
        _ => "is for our own datagrams (tool: catena, protocol: udp)",
    };
    Err(Fault::new(format!("{key}.arrivals"), format!("poisson {problem}"), advice))
}
