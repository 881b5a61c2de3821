//! The kernel path of the node: who has its tables, and which underlay it is followed for. Refuses to
//! know how an interface is found and what is loaded there.

use super::{KernelPath, Node, PuntDevice};
use catena_protocol::message::{State, to_dataplane};
use std::net::IpAddr;

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

    /// Where the kernel repeats decisions, it does so for the tunnels of an IPv4 underlay too.
    pub(super) fn follow_underlay(&mut self) {
        let dataplane = self.link.clone().filter(|_| self.kernel_path == KernelPath::Used);
        let accepted = self.accepted.as_ref().map(|accepted| accepted.program.program.underlay);
        let address = accepted.map(|underlay| underlay.address).filter(IpAddr::is_ipv4);
        if self.must_free_underlay
            && let Some(address) = address
        {
            self.must_free_underlay = false;
            self.interfaces.free_underlay(address);
        }
        let wanted = dataplane.zip(address);
        let is_followed = self.underlay.as_ref().map(|(address, _)| *address);
        if is_followed == wanted.as_ref().map(|(_, address)| *address) {
            return;
        }
        self.leave_underlay();
        self.underlay = wanted.and_then(|(dataplane, address)| {
            Some((address, self.interfaces.follow_underlay(address, dataplane)?))
        });
    }

    pub(super) fn leave_underlay(&mut self) {
        if let Some((_, follower)) = self.underlay.take() {
            follower.abort();
        }
    }
}
