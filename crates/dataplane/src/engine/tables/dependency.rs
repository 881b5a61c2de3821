//! What decisions depend on, and which of it a rule that comes or goes changes. Knows rules and tables;
//! refuses to know flows. It may name too much, never too little.

use super::Tables;
use super::descent::Dependency;
use super::slices::Scope;
use catena_model::program::RulePlace;
use std::collections::BTreeSet;

/// What depends on a rule as it is: the packets that it takes go elsewhere without it.
pub(crate) fn taken_by_rule(tables: &Tables, number: u32, changed: &mut BTreeSet<Dependency>) {
    let Some(rule) = tables.rules.entry(number) else { return };
    changed.insert(Dependency::Path(rule.path));
    if let RulePlace::After(ended) = rule.matches.place {
        changed.insert(Dependency::Path(ended));
    }
}

/// What depends on others, or on none, and may be taken by a rule that is new at its place.
pub(crate) fn met_by_rule(tables: &Tables, number: u32, changed: &mut BTreeSet<Dependency>) {
    let rules = &tables.rules;
    let Some((rule, place)) = rules.entry(number).zip(rules.place_of(number)) else { return };
    let mut places = vec![place];
    let network = match rule.matches.place {
        RulePlace::After(ended) => {
            changed.insert(Dependency::Path(ended));
            None
        }
        RulePlace::Port(port) => {
            let network = tables.names.port(port).map(|port| tables.port(port).network);
            places.extend(network.map(Scope::network));
            network
        }
        RulePlace::Endpoints => {
            let path = tables.positions.index_of(rule.path);
            let network = path.and_then(|path| tables.path(path).destination);
            let ports = network.map(|network| tables.network(network).ports.iter());
            places.extend(ports.into_iter().flatten().map(|port| Scope::port(*port)));
            network
        }
    };
    changed.extend(network.map(|network| Dependency::Ordinary(tables.network(network).entry.id)));
    let others = places.into_iter().flat_map(|place| rules.meeting(place, rule));
    let others = others.filter(|other| *other != number).filter_map(|other| rules.entry(other));
    changed.extend(others.map(|other| Dependency::Path(other.path)));
}
