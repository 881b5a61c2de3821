//! What a sweep measures, and in which order. Pure.

use crate::vocabulary::{Lab, LabChain};
use catena_model::resource::Encapsulation;

/// One point of the sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// The encapsulation, where the sweep says.
    pub(super) encapsulation: Option<Encapsulation>,
    /// The only chain, where they are measured one by one.
    pub(super) chain: Option<String>,
}

impl Case {
    /// As in folders and messages; a profile of source routes has a stroke in its name, and a folder none.
    pub(super) fn name(&self) -> String {
        let encapsulation = self.encapsulation.map(|one| one.name().replace('/', "-"));
        let chain = self.chain.as_deref().into_iter();
        let parts: Vec<&str> = chain.chain(encapsulation.as_deref()).collect();
        if parts.is_empty() { "all".to_owned() } else { parts.join("-") }
    }

    /// What carries a chain at first, where something else than its document says so.
    pub(super) fn carrier_of(&self, lab: &Lab, chain: &LabChain) -> Option<Encapsulation> {
        let updates = lab.updates.as_ref();
        let moved = updates.filter(|updates| {
            self.chain.as_ref().map_or(updates.chain == chain.name, |only| *only == chain.name)
        });
        self.encapsulation.or_else(|| moved?.begins_with)
    }
}

/// All points of a lab's sweep, each once.
pub(super) fn cases(lab: &Lab) -> Vec<Case> {
    let sweep = &lab.sweep;
    let encapsulations: Vec<Option<Encapsulation>> = match sweep.encapsulations.as_slice() {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let chains: Vec<Option<&LabChain>> = match sweep.chains.as_slice() {
        [] => vec![None],
        // One and the same under another name is measured once, and told of both.
        some => some
            .iter()
            .filter_map(|name| lab.chain(name))
            .filter(|chain| lab.measured_for(chain).name == chain.name)
            .map(Some)
            .collect(),
    };
    let mut cases: Vec<Case> = Vec::new();
    for chain in chains {
        for encapsulation in &encapsulations {
            // Without functions nothing is encapsulated: one case stands for all.
            let is_bare = chain.is_some_and(|chain| chain.document.chain.is_empty());
            let case = Case {
                encapsulation: encapsulation.filter(|_| !is_bare),
                chain: chain.map(|chain| chain.name.clone()),
            };
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
    }
    cases
}

/// Every point so often, with the number of its repeat: in rounds over all of them, so that a drift of
/// the machine touches all alike.
pub(super) fn rounds<T>(repeats: u32, points: &[T]) -> impl Iterator<Item = (u32, &T)> {
    (1..=repeats).flat_map(move |repeat| points.iter().map(move |point| (repeat, point)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_chain_begins_with_what_the_case_says_or_with_the_first_of_its_moves() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let of = |file: &str, encapsulation: Option<Encapsulation>| {
            let lab = Lab::read(&folder.join(file), false).unwrap();
            Case { encapsulation, chain: None }.carrier_of(&lab, &lab.chains[0])
        };
        let native = Some(Encapsulation::SourceRouteNative);
        assert_eq!(of("source-route.yaml", native), native);
        assert_eq!(of("source-route.yaml", None), None);
        assert_eq!(of("source-route-moves.yaml", None), Some(Encapsulation::Nsh));
    }

    #[test]
    fn the_name_of_a_case_is_that_of_one_folder() {
        let case =
            Case { encapsulation: Some(Encapsulation::SourceRouteNative), chain: Some("C".into()) };
        assert_eq!(case.name(), "C-source-route-native");
    }

    #[test]
    fn lengths_and_places_of_the_tcp_lab_take_turns() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/openstack-tcp.yaml");
        let lab = Lab::read(&file, false).unwrap();
        let cases = cases(&lab);
        let order: Vec<_> = rounds(lab.sweep.repeat, &cases).collect();
        assert!(lab.sweep.repeat > 1 && cases.len() > 6, "{order:?}");
        for (at, (repeat, case)) in order.iter().enumerate() {
            let since_then =
                order[..at].iter().rev().take_while(|(_, other)| other != case).count();
            let wanted = if *repeat == 1 { at } else { cases.len() - 1 };
            assert_eq!(since_then, wanted, "{} of repeat {repeat}", case.name());
        }
    }
}
