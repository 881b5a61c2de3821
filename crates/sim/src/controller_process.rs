//! The controller as a process: starting, queues between its tasks, waiting for its disk, dying.

use crate::controller::{ConnectionId, Controller, ControllerEffect};
use crate::delivery::{AGAIN, words};
use crate::disk::Death;
use crate::journal_store::lock;
use crate::network::{End, Envelope, Line};
use crate::world::{Event, World};
use catena_model::status::DrainProof;
use catena_plan::DRAIN_INTERVAL;
use catena_protocol::message::{FromAgent, to_agent};
use std::sync::Arc;
use std::time::Duration;

/// How long a node may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// How long after a failure of the store the reconciler tries again.
const RETRY_WAIT: Duration = Duration::from_secs(1);

impl World {
    pub(crate) fn start_controller(&mut self) {
        if self.controller.is_some() {
            return;
        }
        match Controller::start(&self.journal, self.config.planted) {
            Ok(controller) => {
                self.controller_number += 1;
                let found = Arc::clone(&controller.declared.intent);
                let ledger = Arc::clone(&controller.reconciler.blueprint().ledger);
                self.trace.note(format_args!(
                    "controller starts at revision {}, blueprint {}",
                    controller.declared.revision, ledger.number
                ));
                self.controller = Some(controller);
                self.busy_until = self.now;
                self.is_reconcile_due = false;
                self.is_reading_due = false;
                // Who dies before its disk has settled builds upon nothing that it found.
                if self.die_if_due() {
                    return;
                }
                self.check_found(&found);
                self.check_ledger(&ledger);
                self.check_marks();
                self.reconcile_soon(Duration::ZERO);
            }
            Err(error) => self.fail(format!("the controller cannot start: {error}")),
        }
    }

    /// Did the process die at its disk? Nothing that it wanted since leaves then.
    pub(crate) fn die_if_due(&mut self) -> bool {
        let is_dead = lock(&self.journal).fuse.is_dead();
        if is_dead {
            self.trace.note("controller dies at its disk");
            let death = if self.random.chance(500) { Death::PowerCut } else { Death::Killed };
            self.kill_controller(death);
        }
        is_dead
    }

    pub(crate) fn kill_controller(&mut self, death: Death) {
        if self.controller.take().is_none() {
            return;
        }
        // Events of this incarnation mean nothing any more.
        self.controller_number += 1;
        lock(&self.journal).crash(death, &mut self.random);
        for id in self.network.of(Line::Session, None) {
            if death == Death::PowerCut {
                self.expect_silence(id);
                self.network.close(id, End::Other);
            } else {
                self.send(id, End::Agent, Envelope::Close);
                self.network.close(id, End::Other);
            }
        }
        let wait = self.wait_us(20_000, 2_500_000);
        self.after(wait, Event::StartController);
    }

    fn is_controller(&self, number: u32) -> bool {
        self.controller.is_some() && self.controller_number == number
    }

    // ----- sessions -----

    pub(crate) fn controller_hears(&mut self, id: ConnectionId, message: FromAgent) {
        let Some(controller) = &mut self.controller else { return };
        controller.hear(id, message);
        let has_replaced = !controller.replaced().is_empty();
        let is_complete = self.is_reading_due && controller.is_reading_complete();
        let effects = controller.take_wishes();
        self.carry_out(effects);
        if has_replaced {
            let wait = self.wait_us(0, 3_000);
            self.after(wait, Event::EndReplaced { controller: self.controller_number });
        }
        if is_complete {
            self.end_reading(self.controller_number, self.readings);
        }
        self.after_news();
    }

    pub(crate) fn end_replaced(&mut self, number: u32) {
        if !self.is_controller(number) {
            return;
        }
        let replaced = self.controller.as_ref().map(Controller::replaced).unwrap_or_default();
        for id in replaced {
            self.close(id, End::Other);
        }
    }

    pub(crate) fn controller_loses(&mut self, id: ConnectionId) {
        if let Some(controller) = &mut self.controller {
            controller.disconnect(id);
        }
        self.after_news();
    }

    fn after_news(&mut self) {
        if self.controller.as_ref().is_some_and(Controller::has_news) {
            let wait = self.wait_us(20, 2_000);
            self.reconcile_soon(wait);
        }
    }

    pub(crate) fn carry_out(&mut self, effects: Vec<ControllerEffect>) {
        for effect in effects {
            match effect {
                ControllerEffect::Close(id) => self.close(id, End::Other),
                ControllerEffect::Send(id, message) => {
                    if let Some(to_agent::Message::Delta(program)) = &message.message {
                        self.check_handed_out(program.number);
                        let node = self.network.get(id).map(|connection| connection.node);
                        if let Some(node) = node {
                            self.checks.remember_sent(node, program);
                        }
                    }
                    self.trace
                        .note(format_args!("controller to session {id}: {}", words(&message)));
                    self.tell_agent(id, &message);
                }
            }
        }
    }

    // ----- the reconciler -----

    pub(crate) fn reconcile_soon(&mut self, wait: Duration) {
        if !std::mem::replace(&mut self.is_reconcile_due, true) {
            let controller = self.controller_number;
            self.after(wait, Event::Reconcile { controller });
        }
    }

    pub(crate) fn reconcile(&mut self, number: u32) {
        if !self.is_controller(number) {
            return;
        }
        if self.now < self.busy_until {
            return self.at(self.busy_until, Event::Reconcile { controller: number });
        }
        self.is_reconcile_due = false;
        let Some(controller) = &mut self.controller else { return };
        let step = controller.advance();
        let effects = controller.take_wishes();
        if let Some(ledger) = &step.planned {
            self.trace.note(format_args!("controller: blueprint {}", ledger.number));
            self.checks.planned(ledger);
            self.checks.tally.blueprints += 1;
        }
        if self.config.planted == crate::Planted::HandsOutBeforePersisting {
            self.carry_out(effects);
            self.die_if_due();
        } else if !self.die_if_due() {
            self.leave_after_disk(effects, false);
        }
        if let Some(trouble) = step.trouble {
            self.trace.note(format_args!("controller in trouble: {trouble}"));
            self.reconcile_soon(RETRY_WAIT);
        }
        self.read_soon();
    }

    /// What follows from a commit leaves when the disk has answered.
    pub(crate) fn leave_after_disk(&mut self, effects: Vec<ControllerEffect>, acknowledges: bool) {
        let slow = self.config.faults.slow_disk && !self.is_healing && self.random.chance(40);
        let wait = if slow { self.wait_us(50_000, 1_200_000) } else { self.wait_us(100, 4_000) };
        self.busy_until = self.now + wait;
        let controller = self.controller_number;
        self.after(wait, Event::Flush { controller, effects, acknowledges });
    }

    pub(crate) fn flush(
        &mut self,
        number: u32,
        effects: Vec<ControllerEffect>,
        acknowledges: bool,
    ) {
        if !self.is_controller(number) {
            return;
        }
        if acknowledges {
            self.acknowledge_change();
        }
        self.acknowledge_mark();
        self.carry_out(effects);
    }

    // ----- counters -----

    fn read_soon(&mut self) {
        if !std::mem::replace(&mut self.is_reading_due, true) {
            let controller = self.controller_number;
            self.after(DRAIN_INTERVAL, Event::ReadCounters { controller });
        }
    }

    pub(crate) fn read_counters(&mut self, number: u32) {
        if !self.is_controller(number) {
            return;
        }
        let now = self.now;
        let Some(controller) = &mut self.controller else { return };
        if !controller.begin_reading(now) {
            self.is_reading_due = false;
            return;
        }
        self.readings += 1;
        let reading = self.readings;
        let effects = controller.take_wishes();
        self.carry_out(effects);
        self.after(ANSWER_WAIT, Event::EndReading { controller: number, reading });
    }

    pub(crate) fn end_reading(&mut self, number: u32, reading: u64) {
        if !self.is_controller(number) || self.readings != reading {
            return;
        }
        self.readings += 1;
        let now = self.now;
        let Some(controller) = &mut self.controller else { return };
        for (path, proof) in controller.end_reading(now) {
            self.trace.note(format_args!("path {path} is drained: {proof:?}"));
            match proof {
                DrainProof::Counted => self.check_drained(path),
                DrainProof::Bound { .. } => self.give_up_packets(path),
            }
        }
        self.is_reading_due = false;
        self.read_soon();
        self.after_news();
    }

    pub(crate) fn again(&mut self) -> Duration {
        self.wait_us(AGAIN.0, AGAIN.1)
    }
}
