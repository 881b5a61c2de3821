//! The kernel's tables, as the engine asks for them: gates for flows on their way, and clocks. Knows
//! `fastpath`'s tables; refuses to know why a flow is put there.

use super::clock;
use crate::engine::{HandOver, Losses, OffloadTables, Passed};
use catena_fastpath::{Event, FlowKey, Guard, Settings, Tables, Transform, Way};
use catena_model::account::Volume;
use catena_model::limits::KERNEL_FLOWS_MAX;
use catena_model::program::Locator;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// The tables of this node's program.
pub struct KernelTables {
    tables: Tables,
    /// The gate of each flow in the tables.
    gates: HashMap<FlowKey, u32>,
    /// A gate that was let go goes to the end: a processor may still be reading the old flow.
    free: VecDeque<u32>,
    /// What had been lost before.
    lost_before: Losses,
    is_retired: bool,
}

impl KernelTables {
    /// Takes the tables over: what another data plane has left in them is forgotten.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn open(tables: Tables) -> io::Result<Self> {
        tables.bump_all();
        let mut left = Vec::new();
        tables.walk(|key, _| left.push(*key))?;
        for key in left {
            tables.remove(&key)?;
        }
        tables.transits().forget_all();
        let free = (1..tables.gates_max()).collect();
        let lost_before = lost(&tables);
        let gates = HashMap::new();
        let kernel_tables = Self { tables, gates, free, lost_before, is_retired: false };
        kernel_tables.set_off(false);
        Ok(kernel_tables)
    }

    fn set_off(&self, is_off: bool) {
        let settings = self.tables.settings();
        self.tables.set_settings(Settings { is_off: u32::from(is_off), ..settings });
    }
}

impl Drop for KernelTables {
    /// Whoever forwards without these tables must not have the kernel do so by them.
    fn drop(&mut self) {
        self.retire();
    }
}

impl OffloadTables for KernelTables {
    fn retire(&mut self) {
        // Once: the one in its place has begun to use the tables then.
        if !std::mem::replace(&mut self.is_retired, true) {
            self.tables.bump_all();
        }
    }

    fn dump(&self) -> io::Result<Option<String>> {
        self.tables.dump().map(Some)
    }

    fn flows(&self) -> u32 {
        // A switch passes on by links, and has no flow.
        if self.places() > 0 { 0 } else { self.tables.flows_max().min(KERNEL_FLOWS_MAX) }
    }

    fn accounts(&self) -> u32 {
        self.tables.accounts_max()
    }

    fn guards(&self) -> u32 {
        self.tables.slots_max().saturating_sub(self.places().into())
    }

    fn serve_underlay(&mut self, own: Option<Ipv4Addr>, locator: Option<Locator>) {
        let underlay_address = own.map_or(0, |own| u32::from_ne_bytes(own.octets()));
        let settings = self.tables.settings().at_locator(locator);
        self.tables.set_settings(Settings { underlay_address, ..settings });
    }

    fn know_source(&mut self, node: IpAddr, number: Option<u16>) -> bool {
        match number {
            Some(number) => self.tables.add_source(node, number).is_ok(),
            None => self.tables.remove_source(node).is_ok(),
        }
    }

    fn install(&mut self, key: &FlowKey, transform: &Transform) -> bool {
        let Some(number) = self.free.pop_front() else { return false };
        let Some(gate) = self.tables.gate(number) else { return false };
        gate.reset();
        match self.tables.install(key, transform, Some(number)) {
            Ok(()) => {
                if let Some(former) = self.gates.insert(*key, number) {
                    self.free.push_back(former);
                }
                true
            }
            Err(error) => {
                tracing::debug!("a transform is not taken: {error}");
                self.free.push_back(number);
                false
            }
        }
    }

    fn hand_over(&mut self, key: &FlowKey, forwarded: u32) -> HandOver {
        let gate = self.gates.get(key).and_then(|number| self.tables.gate(*number));
        let Some(gate) = gate else { return HandOver::Gone };
        if gate.open_after(u64::from(forwarded)) { HandOver::Done } else { HandOver::Waits }
    }

    fn remove(&mut self, key: &FlowKey) -> Option<Passed> {
        let passed = self.passed(key);
        // A flow that the kernel has forgotten by itself is gone as well.
        self.tables.remove(key).ok();
        self.free.extend(self.gates.remove(key));
        passed
    }

    fn passed(&mut self, key: &FlowKey) -> Option<Passed> {
        let entry = self.tables.entry(key).ok().flatten()?;
        let idle_ns = if entry.seen_ns == 0 {
            u64::MAX
        } else {
            clock::now_ns().saturating_sub(entry.seen_ns)
        };
        Some(Passed { packets: entry.packets, idle_ns })
    }

    fn account(&mut self, account: u32) -> Volume {
        self.tables.account(account)
    }

    fn bump(&mut self, slot: u32) -> u32 {
        self.tables.bump(slot);
        self.tables.guard(slot).epoch
    }

    fn switch(&mut self, is_on: bool) {
        self.set_off(!is_on);
    }

    fn stale(&mut self, slot: u32) -> u64 {
        self.tables.stale(slot)
    }

    fn sent_up(&mut self) -> u64 {
        Event::PUNTED.iter().map(|event| self.tables.events(*event)).sum()
    }

    fn losses(&mut self) -> Losses {
        let (now, before) = (lost(&self.tables), self.lost_before);
        Losses {
            refused: now.refused.saturating_sub(before.refused),
            copies_refused: now.copies_refused.saturating_sub(before.copies_refused),
            strays: now.strays.saturating_sub(before.strays),
        }
    }

    fn places(&self) -> u8 {
        self.tables.transits().places()
    }

    fn set_place(&mut self, number: u8, place: Option<u8>) {
        self.tables.transits().set_place(number, place);
    }

    fn end_place(&mut self, place: u8) -> Guard {
        // Behind those of all that flows depend on.
        let slot = self.guards() + u32::from(place);
        self.tables.bump(slot);
        self.tables.guard(slot)
    }

    fn divide_by(&mut self, pass: u8, polynomial: u32) {
        self.tables.transits().divide_by(pass, polynomial);
    }

    fn let_pass(&mut self, way: Way, interface: u32, guards: [Guard; 2]) {
        self.tables.transits().set(way, interface, guards);
    }

    fn let_none_pass(&mut self, way: Way) {
        self.tables.transits().clear(way);
    }

    fn counted(&mut self, way: Way) -> u64 {
        self.tables.transits().gate(way).map_or(0, |gate| gate.count())
    }

    fn open_way(&mut self, way: Way, forwarded: u64) -> bool {
        self.tables.transits().gate(way).is_some_and(|gate| gate.open_after(forwarded))
    }

    fn passed_on(&mut self, way: Way) -> Volume {
        self.tables.transits().passed(way)
    }
}

/// What the program has lost since it was loaded.
fn lost(tables: &Tables) -> Losses {
    Losses {
        refused: tables.events(Event::Broken),
        copies_refused: tables.events(Event::CloneFailed),
        strays: tables.events(Event::Swallowed),
    }
}
