//! What the rules of a chain's functions say together: who looks at what another one drops, and who names addresses
//! that packets no longer have there.
//!
//! Knows the order of functions on one way. Refuses to change it.

mod blind;

use super::bdd::{Set, TooLarge};
use super::decision::{AllStand, Walk, subjects, walk};
use super::finding::{Finding, FindingKind, Site, Way};
use super::headers::Headers;
use super::rule_sets::TOLD_MAX;
use catena_model::profile::{FieldSet, Profile, StateScope};
use catena_rules::condition::{Range, Subject, Test};
use catena_rules::nat::NatConfig;
use catena_rules::rule_set::{RuleSet, Verdict};
use catena_rules::snort::{Action, Ends, IdsRule, IdsRules, Protocol};
use catena_rules::{ReadRules, Side};
use catena_wire::field::Field;
use ipnet::Ipv4Net;
use std::collections::BTreeSet;

/// A function of a chain.
#[derive(Clone, Debug)]
pub struct ChainFunction<'r> {
    /// Its name.
    pub name: &'r str,
    /// Its rules.
    pub rules: &'r ReadRules,
    /// What it is.
    pub profile: Profile,
}

/// Looks through a chain, its functions in the order in which packets of a way meet them, for one version of IP.
pub(super) fn analyse(
    functions: &[ChainFunction<'_>],
    way: Way,
    is_v6: bool,
) -> Result<Vec<Finding>, TooLarge> {
    let mut asked = BTreeSet::new();
    for function in functions {
        asked.extend(sets(function.rules).iter().flat_map(subjects));
        if let ReadRules::Encryption(selectors) = function.rules {
            asked.extend(selectors.subjects());
        }
    }
    let mut headers = Headers::new(is_v6, &asked)?;
    headers.limit_to(match way {
        Way::Forth => Side::In,
        Way::Back => Side::Out,
    })?;
    for function in functions {
        sets(function.rules).iter().for_each(|set| headers.name(&set.groups));
        if let ReadRules::Encryption(selectors) = function.rules {
            headers.name(&selectors.groups);
        }
    }
    let mut findings = blind::inspections(functions, way, &mut headers)?;
    for (at, function) in functions.iter().enumerate() {
        // What gets copies drops nothing of the chain.
        let filters = if function.profile.drops { sets(function.rules) } else { &[] };
        for set in filters {
            let walk = walk(set, is_v6, &mut headers)?;
            let ended = walk.decide(&mut headers, &mut AllStand)?.ended(&mut headers)?;
            let ended = headers.bdd.and(ended, headers.universe())?;
            let reads = function.profile.reads;
            let filter = Filter { name: function.name, way, reads, walk: &walk, ended };
            // From behind, as far as packets are still as they came.
            let before = functions.get(..at).unwrap_or_default();
            for other in before.iter().rev() {
                if let ReadRules::Inspection(rules) = other.rules {
                    findings.extend(inspected(rules, other.name, &filter, &mut headers)?);
                }
                if let (ReadRules::Translation(config), false) = (other.rules, is_v6) {
                    findings.extend(translated(config, other.name, &filter, &mut headers)?);
                }
                if may_rewrite(&other.profile) {
                    break;
                }
            }
            findings.extend(early(before, &filter, &mut headers));
        }
    }
    Ok(findings)
}

/// A firewall's rules, and the packets that end there.
struct Filter<'f> {
    name: &'f str,
    way: Way,
    reads: FieldSet,
    walk: &'f Walk<'f>,
    ended: Set,
}

fn sets(rules: &ReadRules) -> &[RuleSet] {
    match rules {
        ReadRules::Filter(sets) => sets,
        _ => &[],
    }
}

fn may_rewrite(profile: &Profile) -> bool {
    profile.replaces || !profile.writes.is_empty()
}

impl Filter<'_> {
    /// Rules that end some of these packets.
    fn enders(&self, packets: Set, headers: &mut Headers) -> Vec<Site> {
        let mut sites = Vec::new();
        for (place, seen) in &self.walk.seen {
            let rule = &self.walk.set.chains[place.0].rules[place.1];
            let ends = |verdict| matches!(verdict, Verdict::Drop | Verdict::Reject(_));
            if sites.len() < TOLD_MAX
                && rule.verdicts().any(ends)
                && headers.bdd.meets(seen.taken, packets)
            {
                sites.push(Site { file: self.walk.set.file.clone(), line: rule.line });
            }
        }
        sites
    }
}

/// An ids in front of a firewall looks at what is dropped behind it.
fn inspected(
    rules: &IdsRules,
    name: &str,
    filter: &Filter<'_>,
    headers: &mut Headers,
) -> Result<Option<Finding>, TooLarge> {
    let (mut class, mut lines) = (Set::NONE, Vec::new());
    for rule in rules.rules.iter().filter(|rule| rule.action != Action::Pass) {
        let own = ids_packets(rule, headers)?;
        let dropped = headers.bdd.and(own, filter.ended)?;
        if !dropped.is_empty() {
            class = headers.bdd.or(class, dropped)?;
            lines.push(rule.line);
        }
    }
    let Some(line) = lines.first().copied() else { return Ok(None) };
    let told = headers.in_words(class);
    Ok(Some(Finding {
        kind: FindingKind::InspectedThenDropped,
        way: Some(filter.way),
        site: Site { file: rules.file.clone(), line },
        what: filter.way.tell(format!(
            "{name} looks for attacks in packets that {} drops behind it, by {} of its {} rules",
            filter.name,
            lines.len(),
            rules.rules.len()
        )),
        advice: format!(
            "with {} before {name} on that way, it has less to do; it then tells no more of attacks in what is dropped",
            filter.name
        ),
        class: told,
        others: filter.enders(class, headers),
    }))
}

/// Packets whose headers a rule of an ids asks for.
fn ids_packets(rule: &IdsRule, headers: &mut Headers) -> Result<Set, TooLarge> {
    let protocols: &[u128] = match rule.protocol {
        Protocol::Ip => &[],
        Protocol::Icmp => &[1, 58],
        Protocol::Udp => &[17],
        Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream | Protocol::Http => &[6],
    };
    let mut packets = headers.universe();
    if !protocols.is_empty() {
        let test = Test::among(protocols.iter().map(|protocol| Range::one(*protocol)).collect());
        let own = headers.values(Subject::Field(Field::Protocol), &test)?;
        packets = headers.bdd.and(packets, own)?;
    }
    let has_ports = !matches!(rule.protocol, Protocol::Ip | Protocol::Icmp);
    let mut one_way = |from: &Ends, to: &Ends| {
        let from = ends(from, (Field::Source, Field::SourcePort), has_ports, headers)?;
        let to = ends(to, (Field::Destination, Field::DestinationPort), has_ports, headers)?;
        headers.bdd.and(from, to)
    };
    let mut ways = one_way(&rule.source, &rule.destination)?;
    if rule.is_both_ways {
        let back = one_way(&rule.destination, &rule.source)?;
        ways = headers.bdd.or(ways, back)?;
    }
    headers.bdd.and(packets, ways)
}

fn ends(
    ends: &Ends,
    (address, port): (Field, Field),
    has_ports: bool,
    headers: &mut Headers,
) -> Result<Set, TooLarge> {
    let test = |ranges: &[(u128, u128)]| {
        Test::among(
            ranges.iter().map(|(first, last)| Range { first: *first, last: *last }).collect(),
        )
    };
    let addresses = ends.addresses.ranges()[usize::from(headers.is_v6())];
    let mut packets = headers.values(Subject::Field(address), &test(addresses))?;
    if has_ports {
        let ports = headers.values(Subject::Field(port), &test(ends.ports.ranges()[0]))?;
        packets = headers.bdd.and(packets, ports)?;
    }
    Ok(packets)
}

/// Rules of a firewall behind a nat that ask for addresses which packets have before it alone.
fn translated(
    config: &NatConfig,
    name: &str,
    filter: &Filter<'_>,
    headers: &mut Headers,
) -> Result<Vec<Finding>, TooLarge> {
    // On the way back packets have left the outside addresses behind.
    let (field, nets, told) = match filter.way {
        Way::Forth => (
            Field::Source,
            inside(config),
            "no packet on its way out comes from the inside addresses",
        ),
        Way::Back => (
            Field::Destination,
            outside(config),
            "no packet on its way in goes to the outside addresses",
        ),
    };
    let ranges = nets.into_iter().map(|net| Range {
        first: net.network().to_bits().into(),
        last: net.broadcast().to_bits().into(),
    });
    let named = headers.values(Subject::Field(field), &Test::among(ranges.collect()))?;
    let mut findings = Vec::new();
    for (place, seen) in &filter.walk.seen {
        if seen.taken.is_empty() || headers.bdd.meets(seen.taken, !named) {
            continue;
        }
        let rule = &filter.walk.set.chains[place.0].rules[place.1];
        findings.push(Finding {
            kind: FindingKind::TranslatedBefore,
            way: Some(filter.way),
            site: Site { file: filter.walk.set.file.clone(), line: rule.line },
            what: filter.way.tell(format!(
                "{} stands behind {name}, where {told} that it asks for: {}",
                filter.name, rule.text
            )),
            advice: format!(
                "put {} before {name} on that way, or name the addresses that packets have there",
                filter.name
            ),
            class: headers.in_words(seen.taken),
            others: Vec::new(),
        });
    }
    Ok(findings)
}

/// Addresses that a nat takes from packets on their way out.
fn inside(config: &NatConfig) -> Vec<Ipv4Net> {
    let own = config.one_to_one.iter().map(|one| one.inside.into());
    config.sources().map(|(inside, _)| inside).chain(own).collect()
}

/// Those that it takes from packets on their way in.
fn outside(config: &NatConfig) -> Vec<Ipv4Net> {
    let shared = config.sources().flat_map(|(_, outside)| outside).copied();
    let own = config.one_to_one.iter().map(|one| one.outside.into());
    shared.chain(config.dnat.iter().map(|one| one.to.into())).chain(own).collect()
}

/// Drops that nothing before the firewall would miss.
fn early(
    before: &[ChainFunction<'_>],
    filter: &Filter<'_>,
    headers: &mut Headers,
) -> Option<Finding> {
    // What counts alone, and changes nothing that the firewall reads, would not miss them.
    let is_pure = |function: &ChainFunction<'_>| {
        let Profile { has_effects, effects_are_sums, state, generates, holds, .. } =
            function.profile;
        let leaves_more = has_effects && !effects_are_sums || state != StateScope::Packet;
        let Profile { drops, replaces, writes, .. } = function.profile;
        let is_read = !writes.with_checksums().intersection(&filter.reads).is_empty();
        !(leaves_more || generates || holds || drops || replaces || is_read)
    };
    if before.is_empty() || filter.ended.is_empty() || !before.iter().all(is_pure) {
        return None;
    }
    Some(Finding {
        kind: FindingKind::EarlyDrop,
        way: Some(filter.way),
        site: Site { file: filter.walk.set.file.clone(), line: 0 },
        what: filter.way.tell(format!(
            "what {} drops passes {} functions before it, which at most count it",
            filter.name,
            before.len()
        )),
        advice: format!("put {} first on that way", filter.name),
        class: headers.in_words(filter.ended),
        others: Vec::new(),
    })
}
