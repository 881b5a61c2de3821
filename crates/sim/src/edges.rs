//! Switches that operators mark as edges: what was asked for, and what was answered. Knows names; refuses to
//! know ways.

use crate::config::Fabric;
use crate::world::World;
use catena_model::NodeName;
use catena_model::topology::NodeRole;

impl World {
    fn switches(&self) -> impl Iterator<Item = &NodeName> {
        let switches = self.nodes.iter().filter(|node| node.role == NodeRole::Switch);
        switches.map(|node| &node.name)
    }

    /// An operator marks any switch as an edge, or takes its mark off.
    pub(crate) fn mark_any(&mut self) {
        let switches: Vec<NodeName> = self.switches().cloned().collect();
        let is_edge = self.random.chance(700);
        if let Some(switch) = self.random.pick(&switches).cloned() {
            self.mark(switch, is_edge);
        }
    }

    /// When everything is healed, all switches become edges.
    pub(crate) fn mark_what_is_missing(&mut self) {
        if let Some(switch) = self.unmarked_switch().cloned() {
            self.mark(switch, true);
        }
    }

    fn mark(&mut self, switch: NodeName, is_edge: bool) {
        let Some(controller) = &mut self.controller else { return };
        if self.operator.marking.is_some() || !controller.mark(&switch, is_edge) {
            return;
        }
        self.trace.note(format_args!("operator: {switch} is an edge: {is_edge}"));
        self.operator.marking = Some((switch, is_edge));
        let wait = self.wait_us(20, 2_000);
        self.reconcile_soon(wait);
    }

    /// The answer leaves: from here on the mark must never be lost.
    pub(crate) fn acknowledge_mark(&mut self) {
        let Some(controller) = &self.controller else { return };
        let marking =
            self.operator.marking.take_if(|(one, is_edge)| controller.is_marked(one, *is_edge));
        if let Some((switch, is_edge)) = marking {
            self.operator.marks.insert(switch, is_edge);
            self.trace.note("operator: acknowledged");
        }
    }

    /// A controller starts: no mark is lost, and none is there that nobody asked for.
    pub(crate) fn check_marks(&mut self) {
        let Some(controller) = &self.controller else { return };
        let inventory = controller.reconciler.inventory();
        let found = |name: &NodeName| inventory.facts(name).is_some_and(|facts| facts.is_edge);
        let asked =
            self.operator.marking.take().filter(|(switch, is_edge)| found(switch) == *is_edge);
        self.operator.marks.extend(asked);
        let known = |name: &NodeName| self.operator.marks.get(name).copied().unwrap_or_default();
        let lost = self.switches().find(|name| found(name) != known(name));
        if let Some(name) = lost.cloned() {
            let is_edge = known(&name);
            self.fail(format!("the controller lost that {name} is an edge: {is_edge}"));
        }
    }

    /// A switch that is to be an edge in the end, and is none yet.
    pub(crate) fn unmarked_switch(&self) -> Option<&NodeName> {
        let is_edge = |name: &NodeName| self.operator.marks.get(name) == Some(&true);
        let mut switches = self.switches().filter(|_| self.config.fabric == Fabric::Ring);
        switches.find(|name| !is_edge(name))
    }
}
