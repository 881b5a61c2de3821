//! A vector of packets between the stages. Knows how far each packet has come; refuses to know
//! what a stage decides.

use super::counters::{Owner, PathSeat};
use super::encap::PathPosition;
use super::receive;
use super::scheduler::KeptPlace;
use super::slices::SliceIndex;
use super::tables::{NetworkIndex, PortIndex};
use super::transform::Verdict;
use super::user::User;
use catena_io::{Buffer, Offload};
use catena_model::DropReason;
use catena_model::account::Volume;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet;
use catena_wire::frame::FrameView;
use catena_wire::scalar::MacAddr;

/// Most packets that pass the stages together.
pub const VECTOR_PACKETS_MAX: usize = 256;

/// How far a packet has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Taken from an endpoint's port.
    FromEndpoint(PortIndex),
    /// Taken from a function's port.
    FromFunction(PortIndex),
    /// On a path; `network` is where its Ethernet addresses have a meaning, if anywhere here.
    OnPath { position: PathPosition, network: Option<NetworkIndex> },
    /// Ordinary traffic of a tenant network.
    Ordinary { network: NetworkIndex, from: Source },
    /// From a function's port, with a chain header in this encapsulation behind its Ethernet
    /// header, which has been taken off.
    Headed { port: PortIndex, encapsulation: Encapsulation },
    /// A function's own, or what passes as such: no path expects it at its port.
    OwnTraffic(PortIndex),
    /// Come back from an unaware function at this position.
    Visited { port: PortIndex, position: PathPosition },
    /// To be set aside until its slice's turn.
    Waiting(KeptPlace),
    /// Merged into an earlier packet.
    Absorbed,
    /// Nothing left but to do it.
    Decided(Verdict),
}

/// Where ordinary traffic enters its tenant network here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// By a port.
    Port(PortIndex),
    /// From another node: it goes to no third.
    Tunnel,
    /// From the proxy: the end of a path, or what its answers attracted.
    Proxy,
}

/// A packet in the vector.
pub(super) struct Work {
    pub(super) buffer: Buffer,
    pub(super) owner: Owner,
    pub(super) view: FrameView,
    pub(super) volume: Volume,
    /// The path whose counters see what becomes of the packet; none once it has left it.
    pub(super) path: Option<PathSeat>,
    /// Hash of the flow, or of the addresses of what is no IP packet.
    pub(super) flow_hash: u64,
    /// Whose packet it is, as the tunnels around it tell.
    pub(super) user: User,
    /// The slice that took it here.
    pub(super) slice: Option<SliceIndex>,
    /// 0: the packet that came in; else which copy of it, for whoever listens.
    pub(super) copy: u16,
    /// The MAC it shall be delivered to, where that is not the one it carries.
    pub(super) new_destination: Option<MacAddr>,
    pub(super) step: Step,
}

impl Work {
    /// On the path of a slice, users of one tunnel choose their instances each for himself.
    pub(super) fn choose_by_user(&mut self, position: PathPosition, seed: u64) {
        if position.is_of_slice() {
            self.flow_hash = self.user.flow_hash(seed, || self.flow_hash);
        }
    }

    /// What its flow is called where others may read it: without the seed by which it chooses, which
    /// would be known from it.
    pub(super) fn open_hash(&self, position: PathPosition) -> u64 {
        let outer = || receive::flow_hash(&self.view, 0);
        if position.is_of_slice() { self.user.flow_hash(0, outer) } else { outer() }
    }

    pub(super) fn drop(&mut self, reason: DropReason) {
        self.step = Step::Decided(Verdict::Drop(reason));
    }

    /// Hands a frame of a local port that no path takes to the switch. Tenant networks are
    /// untagged: a tag is only for rules to match. More of them than were read hide from rules what a
    /// receiver takes off and sees.
    pub(super) fn switch_from_port(&mut self, network: NetworkIndex, port: PortIndex) {
        if self.view.vlan.is_some() || ethernet::is_tag(self.view.ethertype) {
            self.drop(DropReason::VlanNotInNetwork);
        } else {
            self.step = Step::Ordinary { network, from: Source::Port(port) };
        }
    }
}

/// Removes bytes at the front of a frame and moves its offload with it; false (and the frame is
/// not to be used) when they reach into what is still to be done.
pub(crate) fn trim_front(buffer: &mut Buffer, bytes: usize) -> bool {
    let Ok(shift) = u16::try_from(bytes) else { return false };
    let Some(offload) = shifted(buffer.offload, shift) else { return false };
    buffer.offload = offload;
    buffer.trim_front(bytes)
}

fn shifted(offload: Offload, shift: u16) -> Option<Offload> {
    let mut moved = offload;
    if let Some(checksum) = &mut moved.checksum {
        checksum.start = checksum.start.checked_sub(shift)?;
    }
    if let Some(segmentation) = &mut moved.segmentation {
        segmentation.header_bytes = segmentation.header_bytes.saturating_sub(shift);
    }
    Some(moved)
}
