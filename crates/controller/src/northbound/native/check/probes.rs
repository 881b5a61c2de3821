//! The probes of a check: for each way into a chain, packets that its rule takes. Knows rules and
//! addresses; refuses to know what becomes of a probe.

use catena_model::classifier::FieldWord;
use catena_model::entry::Entries;
use catena_model::explain::FrameBytes;
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{NeighbourEntry, PROXY_MAC, PortRole, RuleEntry, RulePlace};
use catena_model::resource::{IpFamily, Transport};
use catena_model::{NodeName, PathId};
use catena_plan::{Blueprint, PathRecord};
use catena_wire::flow::FlowKey;
use catena_wire::probe::{ProbeCarrier, ProbeFrame, ProbeMark};
use catena_wire::scalar::{IpProtocol, MacAddr, PortRange};
use catena_wire::tcp::TcpFlags;
use catena_wire::varying::VaryingFields;
use ipnet::IpNet;
use std::net::IpAddr;

/// Small probes of each way in, each of another flow, so that every instance of a function of a
/// few is likely to be met.
pub(super) const FLOWS: u16 = 16;
/// Source port of the first, where the rule does not say.
const FIRST_PORT: u16 = 40_001;
/// Where a rule takes every destination port: discard (RFC 863).
const DISCARD_PORT: u16 = 9;

/// The probes of one path from one port.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) path: PathId,
    pub(super) node: NodeName,
    pub(super) port: PortId,
    /// Number of the first; the others follow.
    pub(super) first: u64,
    /// The last is as large as the network takes.
    pub(super) frames: Vec<FrameBytes>,
}

/// Makes the probes of a path; numbers begin at `first`.
///
/// # Errors
/// Why there are none, for people.
pub(super) fn of_path(
    blueprint: &Blueprint,
    id: PathId,
    record: &PathRecord,
    mtu: u16,
    seal: u64,
    first: u64,
) -> Result<Batch, String> {
    let mut why = "no rule sends into it yet".to_owned();
    for placed in &record.rules {
        for (node, program) in blueprint.programs.iter() {
            if placed.node.as_ref().is_some_and(|own| own != node) {
                continue;
            }
            match way_in(&program.entries, record, &placed.rule) {
                Ok(way) => {
                    let frames = way.frames(&program.entries, &placed.rule, (mtu, seal, first));
                    let (node, port) = (node.clone(), way.port);
                    return Ok(Batch { path: id, node, port, first, frames });
                }
                Err(reason) => why = reason,
            }
        }
    }
    Err(why)
}

struct WayIn {
    port: PortId,
    mac: MacAddr,
    next_hop: MacAddr,
    source: IpAddr,
    destination: IpAddr,
}

fn way_in(entries: &Entries, record: &PathRecord, rule: &RuleEntry) -> Result<WayIn, String> {
    let matches = &rule.matches;
    let mut ports = entries.ports.values().filter(|port| match matches.place {
        RulePlace::Port(wanted) => port.id == wanted,
        RulePlace::Endpoints => {
            port.role == PortRole::Endpoint && port.network == record.destination
        }
        RulePlace::After(_) => false,
    });
    let rule_name = &rule.name;
    let none = || format!("rule '{rule_name}' has no port on a node that runs it");
    let fits = |address: IpAddr, prefix: Option<IpNet>| {
        IpFamily::of(address) == matches.family && prefix.is_none_or(|p| p.contains(&address))
    };
    let port = ports.find(|port| entries.networks.contains_key(&port.network));
    let port = port.ok_or_else(none)?;
    let neighbours = || entries.neighbours.values().map(AsRef::as_ref);
    let mut own = neighbours().filter(|n| n.mac == port.mac);
    let source = own.find(|known| fits(known.address, matches.source)).map(|known| known.address);
    let source = source.or_else(|| host(matches.source));
    let mut others = strangers(neighbours(), record.destination, |mac| {
        mac == port.mac || record.ports.iter().any(|placed| placed.port.mac == mac)
    });
    let known = others
        .find(|known| Some(known.address) != source && fits(known.address, matches.destination));
    let destination = known.map(|known| known.address).or_else(|| host(matches.destination));
    let missing = |which| format!("no {which} address is known that rule '{rule_name}' takes");
    Ok(WayIn {
        port: port.id,
        mac: port.mac,
        next_hop: known.map_or(PROXY_MAC, |known| known.mac),
        source: source.ok_or_else(|| missing("source"))?,
        destination: destination.ok_or_else(|| missing("destination"))?,
    })
}

/// Those of a network whom the packets of a path may be for: a function keeps what is for itself.
fn strangers<'e>(
    neighbours: impl Iterator<Item = &'e NeighbourEntry>,
    network: NetworkId,
    is_own: impl Fn(MacAddr) -> bool,
) -> impl Iterator<Item = &'e NeighbourEntry> {
    neighbours.filter(move |known| known.network == network && !is_own(known.mac))
}

/// Some host of a prefix.
fn host(prefix: Option<IpNet>) -> Option<IpAddr> {
    let prefix = prefix?;
    prefix.hosts().next().or(Some(prefix.addr()))
}

impl WayIn {
    fn frames(
        &self,
        entries: &Entries,
        rule: &RuleEntry,
        (mtu, seal, first): (u16, u64, u64),
    ) -> Vec<FrameBytes> {
        let matches = &rule.matches;
        let (protocol, carrier) = match matches.transport {
            Some(Transport::Tcp) => (IpProtocol::TCP, ProbeCarrier::Tcp),
            Some(Transport::Icmp) => (IpProtocol::ICMP, ProbeCarrier::Echo),
            Some(Transport::Udp) | None => (IpProtocol::UDP, ProbeCarrier::Udp),
        };
        let varying = shown(entries, rule, carrier);
        let sizes = std::iter::repeat_n(0, usize::from(FLOWS)).chain([usize::from(mtu)]);
        let frames = (0..).zip(sizes).map(|(index, packet_bytes)| {
            let source_port = matches.source_ports.map_or(FIRST_PORT + index, |range| {
                range.min() + index % (range.max() - range.min()).saturating_add(1)
            });
            let frame = ProbeFrame {
                destination: self.next_hop,
                source: self.mac,
                flow: FlowKey {
                    source: self.source,
                    destination: self.destination,
                    protocol,
                    source_port,
                    destination_port: matches
                        .destination_ports
                        .map_or(DISCARD_PORT, PortRange::min),
                },
                carrier,
                varying,
                mark: ProbeMark { number: first + u64::from(index), seal },
                packet_bytes,
            };
            let mut room = vec![0; FRAME_BYTES_MAX];
            let length = frame.emit(&mut room).unwrap_or_default();
            room.truncate(length);
            FrameBytes(room)
        });
        frames.collect()
    }
}

/// What probes of a rule show beside their flow: what it wants, and nothing by which a rule before it would
/// take them, if there is such a thing.
fn shown(entries: &Entries, rule: &RuleEntry, carrier: ProbeCarrier) -> VaryingFields {
    let wanted = &rule.matches;
    let is_before = |other: &RuleEntry| {
        other.priority >= rule.priority && other.path != rule.path && !other.matches.fields.is_any()
    };
    let may_meet = |other: &RuleEntry| match (other.matches.place, wanted.place) {
        (RulePlace::After(_), _) => false,
        (one, two) => one == two || one == RulePlace::Endpoints || two == RulePlace::Endpoints,
    };
    let packets = wanted.flow();
    let is_met = |other: &RuleEntry| may_meet(other) && other.matches.flow().meets(&packets);
    let before = entries.rules.values().filter(|other| is_before(other) && is_met(other));
    let before: Vec<_> = before.map(|other| other.matches.fields).collect();
    let usual = carrier.varying();
    let flags = [TcpFlags::SYN, TcpFlags::ACK, TcpFlags::SYN.with(TcpFlags::ACK), TcpFlags::RST];
    let all =
        flags.into_iter().flat_map(|flags| (0..1 << DSCP_BITS).map(move |dscp| (dscp, flags)));
    let mut made = all.map(|(dscp, flags)| {
        let mut varying = VaryingFields { dscp, tcp_flags: usual.tcp_flags.map(|_| flags) };
        wanted.fields.impose(&mut varying);
        varying
    });
    let is_left = |varying: &VaryingFields| {
        let word = FieldWord::of(varying);
        !before.iter().any(|fields| fields.takes(word))
    };
    let first = made.clone().next().unwrap_or(usual);
    made.find(is_left).unwrap_or(first)
}

/// Bits of a code point (RFC 2474).
const DSCP_BITS: u32 = 6;

/// The largest packet and its Ethernet header.
const FRAME_BYTES_MAX: usize = u16::MAX as usize + 14;

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::entry::RuleKey;
    use catena_model::id::RuleId;
    use catena_model::program::RuleMatch;
    use uuid::Uuid;

    #[test]
    fn no_probe_is_addressed_to_a_function_that_it_must_pass() {
        let network = |number| NetworkId(Uuid::from_u128(number));
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        let neighbour = |of, last| NeighbourEntry {
            network: network(of),
            address: IpAddr::from([10, 0, 0, last]),
            mac: mac(last),
        };
        // The source, a function of the path, one of another network, and somebody else.
        let all = [neighbour(1, 1), neighbour(1, 2), neighbour(2, 3), neighbour(1, 4)];
        let own = [mac(1), mac(2)];
        let found: Vec<IpAddr> = strangers(all.iter(), network(1), |mac| own.contains(&mac))
            .map(|n| n.address)
            .collect();
        assert_eq!(found, [IpAddr::from([10, 0, 0, 4])]);
    }

    #[test]
    fn probes_show_what_their_rule_wants_and_nothing_that_one_before_it_takes() {
        let rule = |number: u32, priority, said: &str| RuleEntry {
            id: RuleId(Uuid::from_u128(number.into())),
            name: String::new(),
            priority,
            matches: RuleMatch {
                place: RulePlace::Endpoints,
                vlan: None,
                family: IpFamily::Ipv4,
                transport: Some(Transport::Tcp),
                source: None,
                destination: None,
                source_ports: None,
                destination_ports: None,
                fields: serde_json::from_str(said).unwrap(),
            },
            path: PathId(number),
        };
        let all = rule(1, 8, "{}");
        let shown_beside = |others: &[RuleEntry], rule: &RuleEntry| {
            let mut entries = Entries::default();
            for (part, other) in (0..).zip(others) {
                let (priority, path) = (std::cmp::Reverse(other.priority), other.path);
                let key = RuleKey {
                    priority,
                    order: Vec::new(),
                    path,
                    rule: other.id,
                    source: path,
                    part,
                };
                entries.rules.insert(key, std::sync::Arc::new(other.clone()));
            }
            shown(&entries, rule, ProbeCarrier::Tcp)
        };
        let packet = |dscp, flags| VaryingFields { dscp, tcp_flags: Some(flags) };
        assert_eq!(shown_beside(&[], &all), packet(0, TcpFlags::SYN));
        let [plain, opening, ack] =
            [r#"{"dscp":"cs0"}"#, r#"{"tcp_flags":"syn"}"#, r#"{"tcp_flags":"ack"}"#];
        let plain = rule(2, 14, plain);
        assert_eq!(shown_beside(std::slice::from_ref(&plain), &all), packet(1, TcpFlags::SYN));
        assert_eq!(shown_beside(&[], &plain), packet(0, TcpFlags::SYN));
        let opening = rule(3, 9, opening);
        assert_eq!(shown_beside(std::slice::from_ref(&opening), &all), packet(0, TcpFlags::ACK));
        assert_eq!(shown_beside(&[opening], &rule(4, 9, ack)), packet(0, TcpFlags::ACK));
    }
}
