//! The experiment with 5G users: `users:` of a lab file. Knows its keys and what is wrong with them;
//! refuses to know how frames are made and measured.

use super::document::Document;
use super::error::Fault;
use super::lab::Lab;
use super::units::{BitRate, Seconds};
use super::validate::unknown;
use super::validate_run::endpoint;
use catena_wire::scalar::{Qfi, Vni};
use serde::Deserialize;

/// Bytes in front of a user's packet: MAC-IP-UDP-VXLAN-MAC-IP-UDP-GTP, and a session container.
const TUNNEL_BYTES_MAX: u32 = 108;
/// Of them, those that a network's MTU does not count.
const LINK_HEADER_BYTES: u32 = 14;
/// The smallest packet: the study's 64 bytes.
const SIZE_BYTES_MIN: u32 = 64;
/// Most hops, two for each slice.
const HOPS_MAX: u32 = 1 << 20;
/// Hops that a path of a slice has: to its function, and to where the packet leaves.
pub(crate) const HOPS_OF_SLICE: u32 = 2;
const REPEAT_MAX: u32 = 100;
const SECONDS_MAX: f64 = 600.0;
const SECONDS_DEFAULT: Seconds = Seconds(0.3);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UsersEntry {
    from: Option<String>,
    to: Option<String>,
    tenants: Vec<TenantEntry>,
    plain: Option<PlainEntry>,
    open_vswitch: bool,
    sizes: Vec<u32>,
    hops: Vec<u32>,
    shares: Vec<f64>,
    packets_per_second: Option<u32>,
    seconds: Option<Seconds>,
    repeat: Option<u32>,
    moves: Option<u32>,
    flood: Option<FloodEntry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantEntry {
    vni: u32,
    chain: String,
    #[serde(default)]
    qfi: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainEntry {
    chain: String,
    port: u16,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FloodEntry {
    pairs: u32,
    victim_packets_per_second: u32,
    flood_packets_per_second: u32,
    rate: BitRate,
    #[serde(default)]
    seconds: Option<Seconds>,
}

/// The experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Users {
    /// The endpoint that sends.
    pub from: String,
    /// The endpoint that receives.
    pub to: String,
    /// Whose users they are.
    pub tenants: Vec<Tenant>,
    /// Plain packets beside them; none: only users'.
    pub plain: Option<Plain>,
    /// Are plain packets measured through Open vSwitch too?
    pub open_vswitch: bool,
    /// Packet sizes, in bytes from the user's IP header on.
    pub sizes: Vec<u32>,
    /// Hops of all slices together; each slice has two.
    pub hops: Vec<u32>,
    /// Rates, as shares of the no-drop rate.
    pub shares: Vec<f64>,
    /// Frames a second in place of a measured no-drop rate.
    pub packets_per_second: Option<u32>,
    /// How long each stream is.
    pub seconds: Seconds,
    /// How often each case is measured.
    pub repeat: u32,
    /// How often users move under a stream.
    pub moves: u32,
    /// A slice beside one that floods.
    pub flood: Option<Flood>,
}

/// A tenant of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its network.
    pub vni: Vni,
    /// What its users' packets go through.
    pub chain: String,
    /// The QoS flow that they carry; none: no session container.
    pub qfi: Option<Qfi>,
}

/// Packets without tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    /// The chain whose classifier takes them.
    pub chain: String,
    /// Their destination port.
    pub port: u16,
}

/// A slice beside one that floods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flood {
    /// Streams alone and streams beside the flood, by turns.
    pub pairs: u32,
    /// Frames a second of the slice that is watched.
    pub victim_packets_per_second: u32,
    /// Frames a second of the one that floods.
    pub flood_packets_per_second: u32,
    /// What the one that floods may send.
    pub rate: BitRate,
    /// How long each stream is; none: as long as all others.
    pub seconds: Option<Seconds>,
}

/// The experiment of a lab file.
pub(super) fn understand(document: &Document, lab: &Lab) -> Result<Option<Users>, Fault> {
    let Some(entry) = &document.users else { return Ok(None) };
    let (from, to) = (
        endpoint(lab, "users.from", entry.from.as_deref())?,
        endpoint(lab, "users.to", entry.to.as_deref())?,
    );
    let mtu = shared_mtu(lab, &from, &to)?;
    let tenants = tenants(lab, &entry.tenants)?;
    if tenants.is_empty() && entry.plain.is_none() {
        let advice = "write tenants: [{vni: 5001, chain: red}], or plain:";
        return Err(Fault::new("users", "names nobody", advice));
    }
    if tenants.is_empty() && (!entry.hops.is_empty() || entry.moves.is_some()) {
        let advice = "write tenants: [{vni: 5001, chain: red}]";
        return Err(Fault::new(
            "users.tenants",
            "is empty, and hops or moves are asked for",
            advice,
        ));
    }
    if entry.open_vswitch && entry.plain.is_none() {
        let advice = "write plain: {chain: red, port: 5001}";
        return Err(Fault::new("users.open_vswitch", "takes plain packets alone", advice));
    }
    if let Some(plain) = &entry.plain {
        known_chain(lab, "users.plain.chain", &plain.chain)?;
    }
    let users = Users {
        from,
        to,
        tenants,
        plain: entry.plain.as_ref().map(|p| Plain { chain: p.chain.clone(), port: p.port }),
        open_vswitch: entry.open_vswitch,
        sizes: entry.sizes.clone(),
        hops: entry.hops.clone(),
        shares: if entry.shares.is_empty() { vec![1.0] } else { entry.shares.clone() },
        packets_per_second: entry.packets_per_second,
        seconds: entry.seconds.unwrap_or(SECONDS_DEFAULT),
        repeat: entry.repeat.unwrap_or(1),
        moves: entry.moves.unwrap_or(0),
        flood: entry.flood.as_ref().map(|flood| Flood {
            pairs: flood.pairs,
            victim_packets_per_second: flood.victim_packets_per_second,
            flood_packets_per_second: flood.flood_packets_per_second,
            rate: flood.rate,
            seconds: flood.seconds,
        }),
    };
    numbers(&users, mtu)?;
    Ok(Some(users))
}

/// The MTU of the network that both ends are on.
fn shared_mtu(lab: &Lab, from: &str, to: &str) -> Result<u32, Fault> {
    let theirs = lab.networks_of(to);
    let shared = lab.networks_of(from).iter().find(|network| theirs.contains(network));
    shared.and_then(|name| lab.networks.get(name)).map(|network| network.mtu).ok_or_else(|| {
        let problem = format!("'{from}' and '{to}' share no network");
        Fault::new("users.to", problem, "attach both to one network")
    })
}

fn tenants(lab: &Lab, entries: &[TenantEntry]) -> Result<Vec<Tenant>, Fault> {
    let mut tenants: Vec<Tenant> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let key = format!("users.tenants[{index}]");
        known_chain(lab, &format!("{key}.chain"), &entry.chain)?;
        let legal = |key: String, problem: String, advice: &str| Fault::new(key, problem, advice);
        let vni = Vni::new(entry.vni)
            .map_err(|error| legal(format!("{key}.vni"), error.to_string(), "use 24 bits"))?;
        let qfi = entry.qfi.map(Qfi::new).transpose();
        let qfi =
            qfi.map_err(|error| legal(format!("{key}.qfi"), error.to_string(), "use 6 bits"))?;
        if tenants.iter().any(|before| before.vni == vni) {
            let problem = format!("the network {} is another tenant's", entry.vni);
            return Err(Fault::new(format!("{key}.vni"), problem, "give each its own"));
        }
        tenants.push(Tenant { vni, chain: entry.chain.clone(), qfi });
    }
    Ok(tenants)
}

fn known_chain(lab: &Lab, key: &str, name: &str) -> Result<(), Fault> {
    if lab.chain(name).is_some() {
        return Ok(());
    }
    Err(unknown(key, "chain", name, lab.chains.iter().map(|chain| chain.name.as_str())))
}

fn numbers(users: &Users, mtu: u32) -> Result<(), Fault> {
    let size_max = mtu.saturating_sub(TUNNEL_BYTES_MAX - LINK_HEADER_BYTES);
    for (index, size) in users.sizes.iter().enumerate() {
        if !(SIZE_BYTES_MIN..=size_max).contains(size) {
            let problem = format!("{size} bytes do not go through this network in its tunnels");
            let advice = format!(
                "use {SIZE_BYTES_MIN} to {size_max}, or give the network a larger mtu (now {mtu})"
            );
            return Err(Fault::new(format!("users.sizes[{index}]"), problem, advice));
        }
    }
    let is_rising = users.hops.windows(2).all(|pair| pair.first() < pair.last());
    if !is_rising || users.hops.iter().any(|hops| *hops == 0 || *hops > HOPS_MAX) {
        let advice = format!("use rising numbers from 1 to {HOPS_MAX}: slices only come");
        return Err(Fault::new("users.hops", "are no numbers of hops", advice));
    }
    if users.shares.iter().any(|share| !(*share > 0.0 && *share <= 1.0)) {
        return Err(Fault::new("users.shares", "are no shares", "use numbers above 0, up to 1"));
    }
    if users.repeat == 0 || users.repeat > REPEAT_MAX {
        let advice = format!("use 1 to {REPEAT_MAX}");
        return Err(Fault::new("users.repeat", "is no count", advice));
    }
    let flood_seconds = users.flood.as_ref().and_then(|flood| flood.seconds);
    for (key, seconds) in
        [("users.seconds", Some(users.seconds)), ("users.flood.seconds", flood_seconds)]
    {
        if seconds.is_some_and(|seconds| !(seconds.0 > 0.0 && seconds.0 <= SECONDS_MAX)) {
            let advice = format!("use up to {SECONDS_MAX} s");
            return Err(Fault::new(key, "is no duration", advice));
        }
    }
    if users.packets_per_second == Some(0) {
        return Err(Fault::new("users.packets_per_second", "is no rate", "use 1 or more"));
    }
    match &users.flood {
        Some(flood) if flood.pairs < 2 || users.tenants.len() < 2 => {
            let advice = "use 2 pairs or more, and two tenants";
            Err(Fault::new("users.flood", "has no interval", advice))
        }
        Some(flood)
            if flood.victim_packets_per_second == 0 || flood.flood_packets_per_second == 0 =>
        {
            Err(Fault::new("users.flood", "sends nothing", "use 1 packet a second or more"))
        }
        _ => Ok(()),
    }
}
