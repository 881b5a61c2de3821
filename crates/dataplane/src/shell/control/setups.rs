//! Flows that workers ask for on their way to the agent, and the answers back. Knows who asks and when; refuses to know
//! what an answer means. What cannot be sent is left out: the engine asks again.

use super::Control;
use crate::shell::clock;
use crate::shell::order::Order;
use catena_model::limits::SETUP_MESSAGE_FLOWS_MAX;
use catena_model::setup::{FlowAnswer, FlowAsked};
use catena_protocol::message::{ControllerPresence, FlowAnswers, FlowsAsked, from_dataplane};
use catena_protocol::setup::{Asker, pack_asked, read_answer};
use std::collections::BTreeMap;

/// What this thread knows of the controller.
#[derive(Debug, Default)]
pub(super) struct Setups {
    /// The agent says that it has a session.
    pub(super) has_session: bool,
    /// What workers were told last.
    is_there: bool,
}

impl Control {
    /// Sends questions of a worker to the agent.
    pub(super) fn ask_for_flows(&mut self, worker: usize, flows: &[FlowAsked]) {
        let worker = u32::try_from(worker).unwrap_or(u32::MAX);
        for flows in flows.chunks(SETUP_MESSAGE_FLOWS_MAX) {
            let Some(agent) = self.agent.as_mut().filter(|_| self.setups.has_session) else {
                return;
            };
            let asker = Asker { worker, sent_ns: clock::now_ns() };
            let flows = flows.iter().map(|asked| pack_asked(asked, asker)).collect();
            if let Err(end) = agent.send(from_dataplane::Message::FlowsAsked(FlowsAsked { flows }))
            {
                tracing::info!("{end}; the data plane goes on");
                self.agent = None;
            }
        }
    }

    /// The agent says whether it has a session with the controller.
    pub(super) fn take_presence(&mut self, presence: ControllerPresence) {
        self.setups.has_session = presence.is_there;
        self.tell_workers(presence.is_there);
    }

    /// The controller answers: whoever asked is told.
    pub(super) fn hand_out(&self, answers: &FlowAnswers) {
        let now_ns = clock::now_ns();
        let mut of_worker: BTreeMap<u32, Vec<FlowAnswer>> = BTreeMap::new();
        for packed in &answers.flows {
            match read_answer(packed, now_ns) {
                Ok(answer) => of_worker.entry(packed.worker).or_default().push(answer),
                Err(error) => tracing::warn!("an answer for a flow is of no use: {error}"),
            }
        }
        for (worker, answers) in of_worker {
            let worker = usize::try_from(worker).unwrap_or(usize::MAX);
            self.workers.tell(worker, Order::SetUp(answers));
        }
    }

    /// Without an agent nobody can be asked.
    pub(super) fn tell_presence(&mut self) {
        self.tell_workers(self.agent.is_some() && self.setups.has_session);
    }

    fn tell_workers(&mut self, is_there: bool) {
        if std::mem::replace(&mut self.setups.is_there, is_there) != is_there {
            for worker in 0..self.workers.count() {
                self.workers.tell(worker, Order::Controller { is_there });
            }
        }
    }
}
