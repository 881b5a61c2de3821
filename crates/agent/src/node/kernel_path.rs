//! The kernel path of the node: who has its tables, and which underlay it is followed for. Refuses to
//! know how an interface is found and what is loaded there.

use super::{KernelPath, Node, PuntDevice};
use catena_model::topology::NodeRole;
use catena_protocol::message::{State, to_dataplane};

impl Node {
    /// Gives a data plane that has none the kernel's tables, and takes over those that one has from
    /// an earlier agent. Where that fails packets flow by them all the same, and ports that come
    /// later are decided one by one.
    pub(super) async fn share_kernel_path(&mut self, state: &State) {
        self.kernel_path = KernelPath::None;
        self.must_free_underlay = false;
        if state.has_kernel_path {
            if self.interfaces.adopt_fast_path(state) {
                self.kernel_path = KernelPath::Used;
            }
            return;
        }
        let Some((given, descriptors)) = self.interfaces.give_fast_path().await else {
            self.must_free_underlay = true;
            return;
        };
        if self.send(to_dataplane::Message::KernelPath(given), descriptors) {
            self.kernel_path = KernelPath::Given;
        }
    }

    /// The punt device is another than it was: a new one has a new socket.
    pub(super) async fn take_punt_device(&mut self, seen: PuntDevice) {
        let is_remade = seen.remade != self.punt_device.remade;
        self.punt_device = seen;
        if is_remade
            && self.kernel_path == KernelPath::Used
            && let Some((given, descriptors)) = self.interfaces.give_fast_path().await
            && self.send(to_dataplane::Message::KernelPath(given), descriptors)
        {
            self.kernel_path = KernelPath::Given;
        }
    }

    /// What comes in by ports must be able to come up.
    pub(super) fn hinder_ports(&mut self) {
        let is_asked = self.kernel_path == KernelPath::Used;
        self.ports.hinder(if is_asked { &self.punt_device.hindrance } else { "" });
    }

    /// Where the kernel repeats decisions, it does so for the tunnels of an IPv4 underlay too. A switch has none.
    pub(super) fn follow_underlay(&mut self) {
        if self.config.role == NodeRole::Switch {
            return;
        }
        if !self.config.underlay_address.to_canonical().is_ipv4() {
            return;
        }
        if std::mem::take(&mut self.must_free_underlay) {
            self.interfaces.free_underlay();
        }
        match self.link.clone().filter(|_| self.kernel_path == KernelPath::Used) {
            Some(dataplane) if self.underlay.is_none() => {
                self.underlay = self.interfaces.follow_underlay(dataplane);
            }
            Some(_) => {}
            None => self.leave_underlay(),
        }
    }

    pub(super) fn leave_underlay(&mut self) {
        if let Some(follower) = self.underlay.take() {
            follower.abort();
        }
    }
}
