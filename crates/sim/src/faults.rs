//! What goes wrong, and the turns in which it does. The words are those of the list of faults that
//! simulator and labs share.

use crate::disk::Death;
use crate::journal_store::lock;
use crate::network::{End, Line};
use crate::world::{Event, World};
use catena_model::id::PortId;
use std::time::Duration;

impl World {
    /// The operator, a packet or a fault; after the last one everything is healed.
    pub(crate) fn turn(&mut self) {
        if self.is_healing {
            return self.inspect();
        }
        if self.turns_left == 0 {
            return self.heal_everything();
        }
        self.turns_left -= 1;
        match self.random.below(100) {
            0..20 => self.change(),
            20..28 => self.fault(),
            28..34 if self.config.fabric.has_switches() && self.config.faults.cables => {
                self.fault_at_cable();
            }
            _ => (0..4).for_each(|_| self.enter_packet()),
        }
        let wait = if self.random.chance(20) {
            self.wait_us(200_000, 3_000_000)
        } else {
            self.wait_us(200, 40_000)
        };
        self.after(wait, Event::Turn);
    }

    fn fault(&mut self) {
        let faults = self.config.faults;
        let node = self.random.index(self.nodes.len());
        match self.random.below(17) {
            0 if faults.crashes => self.crash_controller(Death::Killed),
            1 if faults.power_cuts => self.crash_controller(Death::PowerCut),
            2 if faults.crashes => self.crash_agent(node),
            3 if faults.crashes => self.crash_dataplane(node),
            4 if faults.power_cuts => {
                self.trace.note(format_args!("fault: power-cut({})", self.name(node)));
                self.cut_power(node);
            }
            5 | 6 if faults.crashes => {
                let left = u32::try_from(self.random.below(6)).unwrap_or(0);
                self.trace.note(format_args!("fault: crash(controller) in {left} operations"));
                lock(&self.journal).fuse.light(left);
            }
            7 if faults.crashes => {
                let left = u32::try_from(self.random.below(4)).unwrap_or(0);
                let name = self.name(node);
                self.trace
                    .note(format_args!("fault: crash({name} dataplane) in {left} operations"));
                if let Some(node) = self.nodes.get_mut(node) {
                    node.disk.fuse.light(left);
                }
            }
            8 if faults.partitions => self.partition(node, &[End::Agent, End::Other]),
            9 if faults.partitions => self.partition(node, &[End::Agent]),
            10 if faults.partitions => self.partition(node, &[End::Other]),
            11 if faults.breaks => self.break_session(node),
            12 if faults.full_disk => self.fill_disk(None),
            13 if faults.full_disk => self.fill_disk(Some(node)),
            14 | 15 if faults.replays => self.replay(node),
            16 if faults.interfaces => self.lose_interface(node),
            _ => {}
        }
    }

    fn crash_controller(&mut self, death: Death) {
        self.trace.note(format_args!("fault: crash(controller) {death:?}"));
        self.checks.tally.crashes += 1;
        self.kill_controller(death);
    }

    fn crash_agent(&mut self, node: usize) {
        self.trace.note(format_args!("fault: crash({} agent)", self.name(node)));
        self.checks.tally.crashes += 1;
        self.kill_agent(node);
    }

    fn crash_dataplane(&mut self, node: usize) {
        self.trace.note(format_args!("fault: crash({} dataplane)", self.name(node)));
        self.checks.tally.crashes += 1;
        self.kill_dataplane(node, Death::Killed);
    }

    fn partition(&mut self, node: usize, towards: &[End]) {
        self.trace.note(format_args!("fault: partition({} towards {towards:?})", self.name(node)));
        self.checks.tally.partitions += 1;
        for end in towards {
            self.network.cut(node, *end);
        }
        for id in self.network.of(Line::Session, Some(node)) {
            self.expect_silence(id);
        }
        // Some stay away until everything is healed.
        if !self.random.chance(150) {
            let wait = self.wait_us(10_000, 6_000_000);
            self.after(wait, Event::Heal(node));
        }
    }

    pub(crate) fn heal(&mut self, node: usize) {
        if self.network.is_any_way_cut(node) {
            self.trace.note(format_args!("{} is reachable again", self.name(node)));
            self.network.heal(node);
            self.release(node);
        }
    }

    fn break_session(&mut self, node: usize) {
        for id in self.network.of(Line::Session, Some(node)) {
            self.trace.note(format_args!("fault: session {id} of {} breaks", self.name(node)));
            if let Some(connection) = self.network.get_mut(id) {
                connection.is_broken = true;
            }
            for end in [End::Agent, End::Other] {
                let wait = self.wait_us(0, 1_500_000);
                self.after(wait, Event::Silence { connection: id, end });
            }
        }
    }

    fn fill_disk(&mut self, node: Option<usize>) {
        let name = node.map_or_else(|| "controller".into(), |node| self.name(node));
        self.trace.note(format_args!("fault: full-disk({name})"));
        self.set_full(node, true);
        let wait = self.wait_us(10_000, 4_000_000);
        self.after(wait, Event::DiskHasRoom(node));
    }

    fn set_full(&mut self, node: Option<usize>, is_full: bool) {
        match node {
            None => lock(&self.journal).is_full = is_full,
            Some(index) => {
                if let Some(node) = self.nodes.get_mut(index) {
                    node.disk.is_full = is_full;
                }
            }
        }
    }

    pub(crate) fn give_room(&mut self, node: Option<usize>) {
        self.set_full(node, false);
    }

    /// A former program comes again, as if the controller sent it now.
    fn replay(&mut self, node: usize) {
        let Some(program) = self.checks.sent_to(node, &mut self.random) else { return };
        let session = self.nodes.get(node).filter(|node| node.is_welcome);
        let Some(id) = session.and_then(|node| node.session) else { return };
        self.trace.note(format_args!(
            "fault: stale-program-replay({}, {})",
            self.name(node),
            program.number
        ));
        self.agent_hears(id, node, catena_protocol::message::to_agent::Message::Delta(program));
    }

    fn lose_interface(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let ports: Vec<PortId> = node.interfaces.iter().copied().collect();
        let Some(port) = self.random.pick(&ports).copied() else { return };
        node.interfaces.remove(&port);
        let told = node.dataplane.as_mut().and_then(|dataplane| dataplane.lose(port));
        let link = node.link;
        self.trace.note(format_args!("fault: interface-flap({}, {port})", self.name(index)));
        if let (Some(message), Some(link)) = (told, link) {
            self.answer_agent(link, message);
        }
        let wait = self.wait_us(10_000, 3_000_000);
        self.after(wait, Event::InterfaceBack { node: index, port });
    }

    pub(crate) fn interface_back(&mut self, index: usize, port: PortId) {
        if let Some(node) = self.nodes.get_mut(index) {
            node.interfaces.insert(port);
        }
        self.advance_agent(index);
    }

    /// No fault from here on, and none that lasts.
    fn heal_everything(&mut self) {
        self.trace.note("everything is healed");
        self.is_healing = true;
        self.checks.healed_at = self.now;
        self.give_room(None);
        for node in 0..self.nodes.len() {
            self.heal(node);
            self.give_room(Some(node));
        }
        self.heal_cables();
        lock(&self.journal).fuse = crate::disk::Fuse::default();
        for node in &mut self.nodes {
            node.disk.fuse = crate::disk::Fuse::default();
        }
        self.after(Duration::from_millis(100), Event::Turn);
    }
}
