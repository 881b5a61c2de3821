//! The underlay of the kernel path: which address it is followed for. Refuses to know how its
//! interface is found and what is loaded there.

use super::{KernelPath, Node};
use std::net::IpAddr;

impl Node {
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
