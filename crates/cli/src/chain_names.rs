//! What chains are called in what is told as it happens. Knows which chains share a name; refuses to
//! know what happens to them.

use catena_model::Event;
use catena_model::event::Declaration;
use catena_model::id::ChainId;
use std::collections::{BTreeMap, BTreeSet};

/// The chains that are there, by name: several projects may use one.
#[derive(Default)]
pub(crate) struct ChainNames {
    names: BTreeMap<ChainId, String>,
    namesakes: BTreeMap<String, BTreeSet<ChainId>>,
}

impl ChainNames {
    /// Learns from an event which chains there are.
    pub(crate) fn hear(&mut self, event: &Event) {
        match event {
            Event::Chain { name, status } => self.learn(status.chain, name),
            Event::ChainWithdrawing { chain, name, .. } => self.learn(*chain, name),
            Event::ChainGone { chain, .. } => self.forget(*chain),
            Event::Node { .. }
            | Event::Link { .. }
            | Event::LinkGone { .. }
            | Event::Cable { .. }
            | Event::Changed { .. }
            | Event::Declared(_)
            | Event::Trouble { .. } => {}
        }
    }

    /// The name of a chain, with its id where the name alone does not say which it is.
    pub(crate) fn words(&self, chain: ChainId, name: &str) -> String {
        let is_other = |namesake: &ChainId| *namesake != chain;
        let has_others = self.namesakes.get(name).is_some_and(|all| all.iter().any(is_other));
        match name {
            "" => chain.to_string(),
            name if has_others => format!("{name} ({chain})"),
            name => name.to_owned(),
        }
    }

    /// A resource that was declared, by kind and name.
    pub(crate) fn resource(&self, declaration: &Declaration) -> String {
        let Declaration { kind, id, name, .. } = declaration;
        let name = name.as_ref().unwrap_or(id);
        match id.parse() {
            Ok(chain) if kind == "chain" => format!("chain {}", self.words(ChainId(chain), name)),
            _ => format!("{kind} {name}"),
        }
    }

    fn learn(&mut self, chain: ChainId, name: &str) {
        if self.names.get(&chain).is_some_and(|known| known == name) {
            return;
        }
        self.forget(chain);
        self.names.insert(chain, name.to_owned());
        self.namesakes.entry(name.to_owned()).or_default().insert(chain);
    }

    fn forget(&mut self, chain: ChainId) {
        let Some(name) = self.names.remove(&chain) else { return };
        if let Some(namesakes) = self.namesakes.get_mut(&name) {
            namesakes.remove(&chain);
            if namesakes.is_empty() {
                self.namesakes.remove(&name);
            }
        }
    }
}
