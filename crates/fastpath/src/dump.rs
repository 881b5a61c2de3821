//! All that the kernel's tables hold, as text: what passes by a switch is to leave them as they were. Knows which words
//! count; refuses to know what the others stand for.

use crate::records::{Port, Transit};
use crate::tables::Tables;
use crate::transform::FlowKey;
use crate::transits::{PASSES_MAX, Way};
use catena_wire::source_route::Profile;
use std::io;

impl Tables {
    /// Everything in the tables but what is counted: how much has passed, and how often what frames depend on has
    /// ended. Costs all of them.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn dump(&self) -> io::Result<String> {
        let mut flows: Vec<FlowKey> = Vec::new();
        self.walk(|key, _| flows.push(*key))?;
        let mut ports: Vec<(u32, Port)> = Vec::new();
        self.walk_ports(|interface, port| ports.push((interface, port)))?;
        ports.sort_by_key(|(interface, _)| *interface);
        let sources = self.sources()?;
        let transits = self.transits();
        let places: Vec<_> = (0..=u8::MAX).map(|number| transits.place(number)).collect();
        let divisors: Vec<_> = (0..PASSES_MAX).map(|pass| transits.divisor(pass)).collect();
        let rows = self.ways().map(|way| (way, self.row(way)));
        let used: Vec<_> = rows.filter(|(_, row)| row.is_used()).collect();
        let sizes = [self.flows_max(), self.slots_max(), self.gates_max(), self.accounts_max()];
        let settings = self.settings();
        Ok(format!(
            "{flows:?} {ports:?} {sources:?} {places:?} {divisors:?} {used:?} {sizes:?} {settings:?}"
        ))
    }

    /// From each place by each profile to each place.
    pub fn ways(&self) -> impl Iterator<Item = Way> + use<> {
        let places = self.transits().places();
        let to = move |from, profile| (0..places).map(move |to| Way { from, profile, to });
        (0..places).flat_map(move |from| {
            Profile::ALL.into_iter().flat_map(move |profile| to(from, profile))
        })
    }

    fn row(&self, way: Way) -> Row {
        let Transit { guards, interface, reserved, .. } = self.transits().entry(way);
        let holds = guards.map(|guard| (guard.slot, guard == self.guard(guard.slot)));
        Row { interface, holds, reserved }
    }
}

/// What is in the row of a way and does not count.
#[derive(Debug)]
struct Row {
    interface: u32,
    /// The slots that it depends on, and whether they are as they were.
    holds: [(u32, bool); 2],
    reserved: u64,
}

impl Row {
    fn is_used(&self) -> bool {
        (self.interface, self.reserved) != (0, 0) || self.holds.iter().any(|(slot, _)| *slot != 0)
    }
}
