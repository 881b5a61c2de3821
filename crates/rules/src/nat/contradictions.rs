//! What of a configuration contradicts itself, or asks for more than there is.

use super::{NatConfig, PortForward};
use crate::refusal::Refusal;
use catena_model::limits::{NAT_ADDRESSES_MAX, NAT_PREFIXES_MAX};
use catena_wire::scalar::PortRange;
use ipnet::Ipv4Net;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// The longest that a mapping may be kept, seconds: a week.
const TIMEOUT_MAX_S: u64 = 604_800;

/// The first contradiction.
pub(super) fn find(config: &NatConfig) -> Result<(), Refusal> {
    numbers(config)?;
    timeouts(config)?;
    let prefixes = prefixes(config)?;
    let shared = shared(config)?;
    statics(config, &shared)?;
    let mut outside = shared.clone();
    outside.extend(config.one_to_one.iter().map(|one| one.outside));
    sides(config, &prefixes, &outside)?;
    forwards(config, &shared)
}

/// There is something, and not too much of it.
fn numbers(config: &NatConfig) -> Result<(), Refusal> {
    let rules = config.dnat.len() + config.one_to_one.len();
    let prefixes = config.masquerade.len() + config.snat.len();
    if rules + prefixes == 0 {
        let advice = "name inside prefixes under 'masquerade' or 'snat', ports under 'dnat', or hosts under 'static'";
        return Err(Refusal::wrong("it translates nothing", advice));
    }
    crate::check::rules(rules)?;
    if prefixes > NAT_PREFIXES_MAX {
        let what = format!(
            "'masquerade' and 'snat' name {prefixes} inside prefixes of at most {NAT_PREFIXES_MAX}"
        );
        return Err(Refusal::wrong(what, "join them into shorter prefixes, or split them"));
    }
    if !config.masquerade.is_empty() && config.pool.is_empty() {
        let what = "'masquerade' has no addresses to translate into";
        return Err(Refusal::wrong(what, "name at least one outside address under 'pool'"));
    }
    let addresses = config.pool.iter().chain(config.snat.iter().flat_map(|rule| &rule.to));
    let count: u64 = addresses.map(|prefix| u64::from(hosts(prefix))).fold(0, u64::saturating_add);
    if count > NAT_ADDRESSES_MAX as u64 {
        let what = format!(
            "'pool' and 'snat' name {count} outside addresses of at most {NAT_ADDRESSES_MAX}"
        );
        return Err(Refusal::wrong(what, "name fewer: each serves tens of thousands of flows"));
    }
    if let Some(at) = config.snat.iter().position(|rule| rule.to.is_empty()) {
        let what = format!("snat {} has no addresses to translate into", at + 1);
        return Err(Refusal::wrong(what, "name at least one outside address under its 'to'"));
    }
    if config.flows_per_host == Some(0) {
        let advice = "say how many flows a host may have, or leave it out";
        return Err(Refusal::wrong("'flows_per_host' is 0: no host could send", advice));
    }
    Ok(())
}

/// Addresses of a prefix, but not more than a number of 32 bits.
fn hosts(prefix: &Ipv4Net) -> u32 {
    (prefix.broadcast().to_bits() - prefix.network().to_bits()).saturating_add(1)
}

fn timeouts(config: &NatConfig) -> Result<(), Refusal> {
    let times = &config.timeouts;
    let least = [
        ("udp_s", times.udp_s, 120, "RFC 4787 REQ-5"),
        ("tcp_established_s", times.tcp_established_s, 7_440, "RFC 5382 REQ-5"),
        ("tcp_transitory_s", times.tcp_transitory_s, 240, "RFC 5382 REQ-5"),
        ("icmp_s", times.icmp_s, 60, "RFC 5508 REQ-2"),
    ];
    for (key, seconds, least_s, source) in least {
        if !(least_s..=TIMEOUT_MAX_S).contains(&seconds) {
            let what = format!("the timeout '{key}' is {seconds} s");
            let advice = format!("say {least_s} s ({source}) to {TIMEOUT_MAX_S} s");
            return Err(Refusal::wrong(what, advice));
        }
    }
    Ok(())
}

/// The inside prefixes, of which none is named twice.
fn prefixes(config: &NatConfig) -> Result<BTreeSet<Ipv4Net>, Refusal> {
    let mut seen = BTreeSet::new();
    for (prefix, _) in config.sources() {
        if !seen.insert(prefix) {
            let what = format!("the inside prefix {prefix} is named twice");
            return Err(Refusal::wrong(what, "leave one: 'masquerade' or one rule of 'snat'"));
        }
    }
    Ok(seen)
}

/// The addresses that flows share, which must be such that hosts may have.
fn shared(config: &NatConfig) -> Result<BTreeSet<Ipv4Addr>, Refusal> {
    let shared: BTreeSet<Ipv4Addr> = config.shared_addresses().into_iter().collect();
    let statics = config.one_to_one.iter().map(|one| one.outside);
    let odd = shared.iter().copied().chain(statics).find(|one| {
        one.is_unspecified() || one.is_multicast() || one.is_broadcast() || one.is_loopback()
    });
    match odd {
        None => Ok(shared),
        Some(odd) => {
            let what = format!("{odd} is no address that a host could have outside");
            Err(Refusal::wrong(what, "name addresses that lead to this function"))
        }
    }
}

fn statics(config: &NatConfig, shared: &BTreeSet<Ipv4Addr>) -> Result<(), Refusal> {
    let (mut inside, mut outside) = (BTreeSet::new(), BTreeSet::new());
    for one in &config.one_to_one {
        let twice =
            [(!inside.insert(one.inside), one.inside), (!outside.insert(one.outside), one.outside)];
        if let Some((_, address)) = twice.into_iter().find(|(is_twice, _)| *is_twice) {
            let what = format!("'static' names {address} twice");
            return Err(Refusal::wrong(what, "give each host an outside address of its own"));
        }
        if shared.contains(&one.outside) {
            let what = format!(
                "{} belongs to the host {} by 'static', and is shared by 'pool' or 'snat'",
                one.outside, one.inside
            );
            return Err(Refusal::wrong(what, "leave it in one of them"));
        }
    }
    Ok(())
}

/// No address is on both sides.
fn sides(
    config: &NatConfig,
    prefixes: &BTreeSet<Ipv4Net>,
    outside: &BTreeSet<Ipv4Addr>,
) -> Result<(), Refusal> {
    let within = |prefix: &Ipv4Net| outside.range(prefix.network()..=prefix.broadcast()).next();
    let both = prefixes.iter().find_map(|prefix| Some((prefix.to_string(), *within(prefix)?)));
    let hosts = config.one_to_one.iter().map(|one| one.inside);
    let mut hosts = hosts.chain(config.dnat.iter().map(|forward| forward.inside));
    let both = both
        .or_else(|| hosts.find(|host| outside.contains(host)).map(|host| (host.to_string(), host)));
    match both {
        None => Ok(()),
        Some((inside, outside)) => {
            let what = format!("{inside} is inside, and {outside} is said to be outside");
            Err(Refusal::wrong(what, "an address is on one side: take it out of the other"))
        }
    }
}

/// Of forwarded ports, each leads to one place, and each place has one of them.
fn forwards(config: &NatConfig, shared: &BTreeSet<Ipv4Addr>) -> Result<(), Refusal> {
    type Seen = BTreeMap<(IpProtocolNumber, Ipv4Addr, u16), (u16, usize)>;
    let (mut outside, mut inside) = (Seen::new(), Seen::new());
    let statics: BTreeSet<Ipv4Addr> = config.one_to_one.iter().map(|one| one.inside).collect();
    for (at, forward) in config.dnat.iter().enumerate() {
        let number = at + 1;
        if !shared.contains(&forward.to) {
            let what = format!("dnat {number} is for {}, which is not in 'pool'", forward.to);
            return Err(Refusal::wrong(what, "add the address to 'pool', or correct 'to'"));
        }
        if statics.contains(&forward.inside) {
            let what = format!(
                "dnat {number} leads to {}, which has an outside address of its own by 'static'",
                forward.inside
            );
            return Err(Refusal::wrong(
                what,
                "take one of them out: answers could leave by either",
            ));
        }
        lengths(forward, number)?;
        let protocol = forward.protocol.number().0;
        let put = |seen: &mut Seen, address, ports: PortRange, word: &str, advice: &str| {
            let before = seen.range(..=(protocol, address, ports.max())).next_back();
            let meets = before.filter(|((of, host, _), (last, _))| {
                (*of, *host) == (protocol, address) && *last >= ports.min()
            });
            if let Some((_, (_, other))) = meets {
                let name = forward.protocol.name();
                let what = format!(
                    "dnat {} and dnat {number} have the same {word} ports of {address}, {name}",
                    other + 1
                );
                return Err(Refusal::wrong(what, advice));
            }
            seen.insert((protocol, address, ports.min()), (ports.max(), at));
            Ok(())
        };
        put(
            &mut outside,
            forward.to,
            forward.port,
            "outside",
            "a port leads to one place: take one out",
        )?;
        let advice = "take one out: answers of the host could leave by either";
        put(&mut inside, forward.inside, forward.inside_ports(), "inside", advice)?;
    }
    Ok(())
}

/// The number of a protocol of IP.
type IpProtocolNumber = u8;

fn lengths(forward: &PortForward, number: usize) -> Result<(), Refusal> {
    let ports = |range: PortRange| u32::from(range.max()) - u32::from(range.min()) + 1;
    let (outside, inside) = (ports(forward.port), ports(forward.inside_ports()));
    if outside == inside {
        return Ok(());
    }
    let what = format!("dnat {number} has {outside} ports outside and {inside} inside");
    Err(Refusal::wrong(what, "name as many inside, or leave 'inside_port' out for the same ones"))
}

/// Each host has a block of ports in this range, if hosts have blocks at all.
pub(super) fn blocks(config: &NatConfig, ports: PortRange) -> Result<(), Refusal> {
    let Some(block) = config.block else { return Ok(()) };
    let all = u32::from(ports.max()) - u32::from(ports.min()) + 1;
    let of_address = all.checked_div(block.into()).unwrap_or(0);
    if of_address == 0 {
        let what = format!("'block' is {block}, of {all} ports");
        return Err(Refusal::wrong(what, "say 1 to as many as 'ports' has"));
    }
    let masqueraded = config.masquerade.iter().map(|prefix| u64::from(hosts(prefix))).sum();
    let masquerade = (!config.masquerade.is_empty()).then_some((
        "masquerade".to_owned(),
        masqueraded,
        config.pool.as_slice(),
    ));
    let snat = config.snat.iter().enumerate().map(|(at, rule)| {
        (format!("snat {}", at + 1), u64::from(hosts(&rule.inside)), rule.to.as_slice())
    });
    let mut taken: BTreeMap<Ipv4Addr, String> = BTreeMap::new();
    for (name, hosts, addresses) in snat.chain(masquerade) {
        let addresses: BTreeSet<Ipv4Addr> = addresses.iter().flat_map(super::all_of).collect();
        for address in &addresses {
            if let Some(other) = taken.insert(*address, name.clone()) {
                let what = format!(
                    "with 'block', {address} serves {other} and {name}, whose blocks would meet"
                );
                return Err(Refusal::wrong(what, "give each rule addresses of its own"));
            }
        }
        let room = addresses.len() as u64 * u64::from(of_address);
        if hosts > room {
            let what = format!(
                "{name} has {hosts} inside addresses, and room for {room} blocks of {block} ports: {} \
                 addresses with {of_address} each",
                addresses.len()
            );
            return Err(Refusal::wrong(
                what,
                "name more outside addresses, or say a smaller 'block'",
            ));
        }
    }
    Ok(())
}
