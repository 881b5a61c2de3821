//! A vector of packets between the stages. Knows how far each packet has come; refuses to know
//! what a stage decides.

pub(crate) mod decision;
pub(crate) mod owner;

use crate::engine::collections::shares::Holder;
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::{NetworkIndex, PortIndex, SliceIndex};
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::packet::{Packet, parse};
use catena_io::Buffer;
use catena_model::DropReason;
use catena_model::account::Volume;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet;
use catena_wire::frame::FrameView;
use catena_wire::scalar::MacAddr;
use decision::Verdict;
use owner::{Owner, PathRef};
use std::vec::Drain;

/// Most packets that pass the stages together.
pub const VECTOR_PACKETS_MAX: usize = 256;

/// How far a packet has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Taken from an endpoint's port.
    FromEndpoint(PortIndex),
    /// Taken from a function's port.
    FromFunction(PortIndex),
    /// On a path; `network` is where its Ethernet addresses have a meaning, if anywhere here.
    OnPath { position: PathPosition, network: Option<NetworkIndex> },
    /// At a function inside the data plane.
    Inside(InsideVisit),
    /// Come out of one, on its path again, as [`Self::OnPath`].
    Passed { position: PathPosition, network: Option<NetworkIndex> },
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
    /// To be set aside until the controller has answered for its flow, which a rule sends in here.
    AwaitsSetup { port: PortIndex, start: PathPosition },
    /// Merged into an earlier packet.
    Absorbed,
    /// Nothing left but to do it.
    Decided(Verdict),
}

/// A packet's visit to a function inside the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InsideVisit {
    pub(crate) position: PathPosition,
    /// The number of its bundle.
    pub(crate) function: u32,
    /// The path leads through it against the order of its ports.
    pub(crate) is_backward: bool,
    /// Index into the path's local instances.
    pub(crate) local: u32,
}

/// A place kept in a lane, until the packet is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptPlace {
    pub(crate) lane: u32,
    pub(crate) holder: Holder,
}

/// Some of the packets that are still to be forwarded, in their order.
pub(crate) struct Batch<'b, 'd> {
    packets: &'b mut Drain<'d, Packet>,
    left: usize,
}

impl<'b, 'd> Batch<'b, 'd> {
    pub(crate) fn new(packets: &'b mut Drain<'d, Packet>, left: usize) -> Self {
        Self { packets, left }
    }

    /// Those that have not been taken.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Packet] {
        let all = self.packets.as_slice();
        all.get(..self.left).unwrap_or(all)
    }
}

impl Iterator for Batch<'_, '_> {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        self.left = self.left.checked_sub(1)?;
        self.packets.next()
    }
}

/// Where ordinary traffic enters its tenant network here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// By a port.
    Port(PortIndex),
    /// From another node: it goes to no third.
    Tunnel,
    /// From the proxy: the end of a path, or what its answers attracted.
    Proxy,
}

/// A packet in the vector.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) buffer: Buffer,
    pub(crate) owner: Owner,
    pub(crate) view: FrameView,
    pub(crate) volume: Volume,
    /// The path whose counters see what becomes of the packet; none once it has left it.
    pub(crate) path: Option<PathRef>,
    /// Hash of the flow, or of the addresses of what is no IP packet.
    pub(crate) flow_hash: u64,
    /// Whose packet it is, as the tunnels around it tell.
    pub(crate) user: Subscriber,
    /// The slice that took it here.
    pub(crate) slice: Option<SliceIndex>,
    /// 0: the packet that came in; else which copy of it, for whoever listens.
    pub(crate) copy: u16,
    /// The MAC it shall be delivered to, where that is not the one it carries.
    pub(crate) new_destination: Option<MacAddr>,
    pub(crate) step: Step,
}

impl Work {
    /// A packet that was made here, whole and of no path, about which all is decided. `seed`: by which flows choose.
    pub(crate) fn made(
        (buffer, view): (Buffer, FrameView),
        owner: Owner,
        seed: u64,
        verdict: Verdict,
    ) -> Self {
        Self {
            flow_hash: parse::flow_hash(&view, seed),
            volume: Volume { packets: 1, bytes: buffer.len() as u64 },
            buffer,
            owner,
            view,
            path: None,
            user: Subscriber::Unknown,
            slice: None,
            copy: 0,
            new_destination: None,
            step: Step::Decided(verdict),
        }
    }

    /// On the path of a slice, users of one tunnel choose their instances each for himself.
    pub(crate) fn choose_by_user(&mut self, position: PathPosition, seed: u64) {
        if position.is_of_slice() {
            self.flow_hash = self.user.flow_hash(seed, || self.flow_hash);
        }
    }

    /// What its flow is called where others may read it: without the seed by which it chooses, which
    /// would be known from it.
    pub(crate) fn open_hash(&self, position: PathPosition) -> u64 {
        let outer = || parse::flow_hash(&self.view, 0);
        if position.is_of_slice() { self.user.flow_hash(0, outer) } else { outer() }
    }

    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.step = Step::Decided(Verdict::Drop(reason));
    }

    /// Hands a frame of a local port that no path takes to the switch. Tenant networks are
    /// untagged: a tag is only for rules to match. More of them than were read hide from rules what a
    /// receiver takes off and sees.
    pub(crate) fn switch_from_port(&mut self, network: NetworkIndex, port: PortIndex) {
        if self.view.vlan.is_some() || ethernet::is_tag(self.view.ethertype) {
            self.drop(DropReason::VlanNotInNetwork);
        } else {
            self.step = Step::Ordinary { network, from: Source::Port(port) };
        }
    }
}
