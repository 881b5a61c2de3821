//! The kernel path of the node: who has its tables, and which underlay it is followed for. Refuses to
//! know how an interface is found and what is loaded there.

use super::{KernelPath, Node};
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
