//! Where packets come in: what ports may not send, what is never classified, and each rule of the classifier. Knows
//! the order in which a packet meets them; refuses to know how a header is made.

use super::conditions::{Conditions, FRAGMENT, PRIORITY_TAGGED, TO_GROUP, UNTAGGED, VLAN_PRESENT};
use super::headers::Writing;
use super::{Export, first};
use catena_model::id::NetworkId;
use catena_model::openflow::{SwitchPort, TABLE_ORDINARY, TABLE_SOURCE, TABLE_UNSAID};
use catena_model::program::{PortEntry, PortRole, RuleEntry, RulePlace};
use catena_model::resource::Encapsulation;
use catena_model::slice::SlicePlace;
use ipnet::IpNet;

const FOREIGN: u16 = 0xfff0;
const NEVER_CLASSIFIED: u16 = 0xffe0;
const WHOLE_PORT: u16 = 0xffd0;
/// That of the first rule; each of those behind it has the next two.
const RULES_FROM: u16 = 0xff00;
const ORDINARY: u16 = 1;

/// Whatever comes by a port of the node, but for its links.
const GROUPS_AND_LINK_LOCAL: [&str; 5] = [
    "ip,nw_dst=224.0.0.0/4",
    "ip,nw_dst=255.255.255.255",
    "ip,nw_dst=169.254.0.0/16",
    "ipv6,ipv6_dst=ff00::/8",
    "ipv6,ipv6_dst=fe80::/10",
];
/// Router and neighbour discovery, redirects among it (RFC 4861).
const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

impl<'p> Export<'p> {
    /// What holds for each port before the rules and behind them.
    pub(super) fn places(&mut self) {
        let entries = self.entries;
        for port in entries.ports.values() {
            let at = self.switch_port(port);
            self.foreign(port, &at);
            match port.role {
                PortRole::Function => self.function(port, &at),
                PortRole::Endpoint => self.endpoint(port, &at),
            }
        }
    }

    /// No port sends what only links bring.
    fn foreign(&mut self, port: &PortEntry, at: &SwitchPort) {
        let purpose = format!("port '{}' sends no header of a chain", at.name);
        let all = Encapsulation::ALL.into_iter();
        let mut types: Vec<String> = all
            .filter(|one| port.role == PortRole::Endpoint || one.is_source_route())
            .filter_map(|one| one.capabilities().ether_type)
            .map(|ether_type| format!("dl_type={:#06x}", ether_type.0))
            .collect();
        // Labels without a tag are those of functions that speak them.
        types.push(format!("vlan_vid={VLAN_PRESENT:#x}/{VLAN_PRESENT:#x},dl_type=0x8847"));
        let drops = types.into_iter().map(|words| first(&purpose, FOREIGN, at, vec![words]));
        self.rules.extend(drops);
    }

    fn function(&mut self, port: &PortEntry, at: &SwitchPort) {
        let entries = self.entries;
        let node = self.node;
        let instances =
            || entries.paths.values().flat_map(|path| &path.hops).flat_map(|hop| &hop.instances);
        let sends_on = instances().any(|one| one.egress == port.id && one.node == *node);
        let begins =
            entries.rules.values().any(|rule| rule.matches.place == RulePlace::Port(port.id));
        let (table, why) = match sends_on || begins {
            true => (TABLE_UNSAID, "behind a function"),
            false => (TABLE_ORDINARY, "of no function on a path"),
        };
        let purpose = format!("port '{}', {why}", at.name);
        let mut rule = first(&purpose, ORDINARY, at, Vec::new());
        rule.then = Some(table);
        self.rules.push(rule);
        if table == TABLE_UNSAID {
            self.unsaid(
                format!("what port '{}' gives back", at.name),
                "what comes from a function is known by a memory of flows, which rules do not have",
            );
        }
    }

    fn endpoint(&mut self, port: &PortEntry, at: &SwitchPort) {
        let purpose = format!("ordinary traffic of port '{}'", at.name);
        let mut go_on = |priority, words: String| {
            let mut rule = first(&purpose, priority, at, vec![words]);
            rule.matches.retain(|words| !words.is_empty());
            rule.then = Some(TABLE_ORDINARY);
            self.rules.push(rule);
        };
        go_on(ORDINARY, String::new());
        let discovery = DISCOVERY.map(|kind| format!("icmp6,icmp_type={kind}"));
        let meant_for_link = GROUPS_AND_LINK_LOCAL.map(str::to_owned).into_iter().chain(discovery);
        meant_for_link.for_each(|words| go_on(NEVER_CLASSIFIED, words));
        let network = self.entries.networks.get(&port.network);
        for prefix in network.into_iter().flat_map(|network| &network.prefixes) {
            if let IpNet::V4(prefix) = prefix
                && prefix.prefix_len() < 31
            {
                let broadcast = prefix.broadcast();
                go_on(NEVER_CLASSIFIED, format!("ip,dl_dst=ff:ff:ff:ff:ff:ff,nw_dst={broadcast}"));
            }
        }
        let why = if self.slices_take_from(port) {
            "slices take its packets by what is in their tunnels, which rules do not see"
        } else if port.own_sources.is_some() {
            "it is a function's machine's, whose own traffic is told from what it only passes on"
        } else {
            return;
        };
        self.unsaid(format!("what port '{}' sends", at.name), why);
        let mut rule = first(&format!("port '{}'", at.name), WHOLE_PORT, at, Vec::new());
        rule.then = Some(TABLE_UNSAID);
        self.rules.push(rule);
    }

    fn slices_take_from(&self, port: &PortEntry) -> bool {
        self.entries.slices.values().any(|slice| match slice.matches.place {
            SlicePlace::Port(one) => one == port.id,
            SlicePlace::Endpoints => true,
            SlicePlace::After(_) => false,
        })
    }

    /// The rules in their order: of two that take a packet, the first decides.
    pub(super) fn classifier(&mut self) {
        let entries = self.entries;
        for (index, rule) in entries.rules.values().enumerate() {
            let path = entries.paths.get(&rule.path);
            let words =
                path.map_or_else(|| format!("path {}", rule.path), |path| self.path_words(path));
            let what = format!("rule '{}' into {words}", rule.name);
            let written = match path {
                Some(path) => self.writing(path),
                None => Err("its path is not there".to_owned()),
            };
            let priority = u16::try_from(index).ok().and_then(|index| index.checked_mul(2));
            let priority = priority.and_then(|down| RULES_FROM.checked_sub(down));
            let conditions = Conditions::of(&rule.matches);
            let (Some(priority), Some(conditions)) =
                (priority.filter(|left| *left > 2), conditions)
            else {
                self.refuse_rest(index, &what);
                return;
            };
            let destination = path.map(|path| path.destination);
            if rule.matches.place.port().is_none() && destination.is_none() {
                self.unsaid(what, "its path is not there");
                continue;
            }
            if matches!(rule.matches.place, RulePlace::After(_)) {
                self.unsaid(what, "it takes packets at the end of a path, behind a function");
                continue;
            }
            if let Err(why) = &written {
                self.unsaid(what.clone(), why.clone());
            }
            let place = Placed { rule, what: &what, priority, conditions: &conditions };
            for at in self.ports_of(rule, destination) {
                self.place(&place, &at, written.as_ref().ok());
            }
        }
    }

    /// What comes behind a rule that cannot be written could take its packets: nothing of these ports is carried.
    fn refuse_rest(&mut self, index: usize, what: &str) {
        let why = format!(
            "it is rule {}, and it and those behind it have no priority of OpenFlow left, or it looks \
             at a field that OpenFlow does not know",
            index + 1
        );
        self.unsaid(what, why);
        let entries = self.entries;
        let ends = entries.ports.values().filter(|port| port.role == PortRole::Endpoint);
        for port in ends {
            let mut rule = first(
                &format!("{what}, and those behind it"),
                2,
                &self.switch_port(port),
                Vec::new(),
            );
            rule.then = Some(TABLE_UNSAID);
            self.rules.push(rule);
        }
    }

    /// Where a rule takes packets from, among endpoints.
    fn ports_of(&self, rule: &RuleEntry, destination: Option<NetworkId>) -> Vec<SwitchPort> {
        let ports = self.entries.ports.values().filter(|port| port.role == PortRole::Endpoint);
        let is_its = |port: &&std::sync::Arc<PortEntry>| match rule.matches.place {
            RulePlace::Port(one) => one == port.id,
            RulePlace::Endpoints => Some(port.network) == destination,
            RulePlace::After(_) => false,
        };
        ports.filter(is_its).map(|port| self.switch_port(port)).collect()
    }

    /// A rule at a port.
    fn place(&mut self, placed: &Placed<'_>, at: &SwitchPort, written: Option<&Writing>) {
        let Placed { rule, what, priority, conditions } = placed;
        let tag = match rule.matches.vlan {
            Some(vlan) => format!("dl_vlan={}", vlan.get()),
            None => UNTAGGED.to_owned(),
        };
        let with = |words: &[String], more: &[&str]| {
            let more = more.iter().map(|word| (*word).to_owned());
            words.iter().cloned().chain(more).collect::<Vec<String>>()
        };
        // A priority without a VLAN is no tag to rules.
        let tags: &[&str] = match rule.matches.vlan {
            Some(_) => &[&tag],
            None => &[UNTAGGED, PRIORITY_TAGGED],
        };
        let before = format!("{what}: what has no header");
        for tag in tags {
            for words in &conditions.all {
                self.rules.push(first(&before, priority + 1, at, with(words, &[tag, TO_GROUP])));
            }
            for words in &conditions.fragments {
                let mut rule = first(&before, priority + 1, at, with(words, &[tag, FRAGMENT]));
                rule.then = Some(TABLE_UNSAID);
                self.rules.push(rule);
            }
            for words in &conditions.all {
                let mut rule = first(what, *priority, at, with(words, &[tag]));
                match written {
                    None => rule.then = Some(TABLE_UNSAID),
                    // Neither profile keeps a tag: the packet ends.
                    Some(_) if *tag != UNTAGGED => {}
                    Some(Writing { actions, link }) => {
                        rule.actions.clone_from(actions);
                        rule.to = Some(link.clone());
                        rule.then = Some(TABLE_SOURCE);
                    }
                }
                self.rules.push(rule);
            }
        }
    }
}

/// A rule and its place among all.
struct Placed<'r> {
    rule: &'r RuleEntry,
    what: &'r str,
    priority: u16,
    conditions: &'r Conditions,
}
