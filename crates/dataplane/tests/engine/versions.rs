//! Two versions of a chain at once, with packets held inside functions: a stage on which tests
//! decide what each function gives back, when, and in which shape, and see every packet's route.

use crate::frames::Spec;
use crate::rig::Behaviour;
use crate::rig::{Rig, Seen, route};
use crate::scene::{CHAINED_PORT, packet, packet_v6, rules, three_hosts};
use catena_io::{Offload, PartialChecksum, Segmentation, SegmentationKind};
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::segment::{SegmentKind, SuperFrame};
use catena_wire::{ipv4, tcp, udp};
use std::collections::BTreeMap;

pub(crate) const FUNCTIONS: [&str; 4] = ["v1", "v2", "v3", "v4"];
/// Data bytes of one wire packet of the stage; the first four are its number.
pub(crate) const DATA_BYTES: usize = 64;

/// How a function gives a frame back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As a router: other MACs, time to live one less, checksums anew.
    Routed,
    /// As it came.
    Bridged,
    /// Routed, super-frames as single packets.
    Cut,
    /// Routed, with other data behind the number.
    Rewritten,
    /// Not at all.
    Lost,
}

/// A frame inside a function.
pub(crate) struct Held {
    pub(crate) at: String,
    frame: Seen,
}

/// A rig whose functions hold everything.
pub(crate) struct Stage {
    pub(crate) rig: Rig,
    pub(crate) held: Vec<Held>,
    /// The functions that each numbered packet has met, and `D`.
    pub(crate) routes: BTreeMap<u32, Vec<String>>,
    pub(crate) lost: Vec<u32>,
    sequences: BTreeMap<u16, u32>,
}

impl Stage {
    /// The old version carries the traffic; the new one is not installed yet.
    pub(crate) fn new(encapsulation: Encapsulation, old: &[&str]) -> Self {
        let mut town = three_hosts();
        town.chain("c", encapsulation, &hops(old), &rules(CHAINED_PORT));
        let mut rig = Rig::with(town, |_| {}, 512);
        for name in FUNCTIONS {
            rig.behaviours.insert(name.into(), Behaviour::Swallow);
        }
        let (held, routes, lost) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { rig, held, routes, lost, sequences: BTreeMap::new() }
    }

    /// Puts a further version on every node; no rule sends into it.
    pub(crate) fn install(&mut self, hops_of_new: &[&str]) {
        let encapsulation = self.rig.town.chains[0].encapsulation;
        self.rig.town.chain("c", encapsulation, &hops(hops_of_new), &[]);
        self.rig.apply();
    }

    /// Sends all rules into the newest version.
    pub(crate) fn turn(&mut self) {
        let chains = &mut self.rig.town.chains;
        let rules = chains.iter_mut().map(|chain| std::mem::take(&mut chain.rules));
        let rules = rules.fold(Vec::new(), |all, more| if more.is_empty() { all } else { more });
        chains.last_mut().unwrap().rules = rules;
        self.rig.apply();
    }

    /// Takes the oldest version away.
    pub(crate) fn remove_old(&mut self) {
        self.rig.town.chains.remove(0);
        self.rig.apply();
    }

    /// Sends `packets` packets of a flow, from this number on; several are one TCP super-frame.
    pub(crate) fn send(&mut self, flow: u16, is_v6: bool, number: u32, packets: u32) {
        let is_tcp = packets > 1;
        let base = if is_v6 { packet_v6 } else { packet }(&self.rig.town, CHAINED_PORT);
        let data = |number: u32| {
            let mut data = vec![0xd7; DATA_BYTES];
            data[..4].copy_from_slice(&number.to_be_bytes());
            data
        };
        let sequence = self.sequences.entry(flow).or_default();
        let spec = Spec {
            ports: (flow, CHAINED_PORT),
            protocol: if is_tcp { IpProtocol::TCP } else { IpProtocol::UDP },
            sequence: *sequence,
            identification: number as u16,
            payload: (number..number + packets).flat_map(data).collect(),
            ..base
        };
        *sequence += packets * u32::try_from(DATA_BYTES).unwrap();
        let frame = spec.frame();
        let offload = if is_tcp { super_frame(&frame, is_v6) } else { Offload::default() };
        for number in number..number + packets {
            self.routes.entry(number).or_default();
        }
        self.rig.send_all("S", [(frame, offload)]);
        self.look();
    }

    /// Notes where everything has come.
    fn look(&mut self) {
        for name in FUNCTIONS {
            for frame in self.rig.seen.remove(&format!("{name}.in")).unwrap_or_default() {
                self.note(name, &frame);
                self.held.push(Held { at: name.to_owned(), frame });
            }
        }
        for frame in self.rig.seen.remove("D").unwrap_or_default() {
            self.note("D", &frame);
        }
        self.rig.seen.clear();
    }

    fn note(&mut self, at: &str, frame: &Seen) {
        for number in numbers(frame) {
            self.routes.get_mut(&number).unwrap().push(at.to_owned());
        }
    }

    /// A function gives back one of the frames that are held.
    pub(crate) fn release(&mut self, index: usize, manner: Manner) {
        let Held { at, frame } = self.held.remove(index);
        if manner == Manner::Lost {
            self.lost.extend(numbers(&frame));
            return;
        }
        let own = self.rig.town.mac(&format!("{at}.out"));
        let pieces = if manner == Manner::Cut { cut(&frame) } else { vec![frame] };
        for Seen { mut bytes, offload } in pieces {
            if manner != Manner::Bridged {
                assert!(route(&mut bytes, PROXY_MAC, own));
            }
            if manner == Manner::Rewritten {
                rewrite(&mut bytes);
            }
            self.rig.queue(&format!("{at}.out"), &bytes, offload);
        }
        self.rig.run();
        self.look();
    }

    /// A function gives back the first two frames that it holds as one super-frame.
    pub(crate) fn release_joined(&mut self) {
        let second = self.held.remove(1).frame;
        let Held { at, frame: Seen { mut bytes, offload } } = self.held.remove(0);
        bytes.extend(&second.bytes[data_offset(&second.bytes)..]);
        let start = usize::from(FrameView::parse(&second.bytes).unwrap().l3_offset);
        let length = u16::try_from(bytes.len() - start).unwrap();
        ipv4::set_total_length(&mut bytes[start..], length).unwrap();
        ipv4::refresh_checksum(&mut bytes[start..]).unwrap();
        assert!(route(&mut bytes, PROXY_MAC, self.rig.town.mac(&format!("{at}.out"))));
        self.rig.queue(&format!("{at}.out"), &bytes, offload);
        self.rig.run();
        self.look();
    }

    /// Releases all that is held, first come first out, until nothing is.
    pub(crate) fn release_all(&mut self, manner: Manner) {
        while !self.held.is_empty() {
            self.release(0, manner);
        }
    }

    /// A counter of a hop of a path, summed over the nodes.
    pub(crate) fn hop_count(
        &self,
        path: u32,
        instance: &str,
        count: impl Fn(&catena_model::HopCounters) -> u64,
    ) -> u64 {
        let counters = self.rig.counters();
        let chains = counters.iter().flat_map(|node| &node.chains);
        let hops = chains.filter(|chain| chain.path.0 == path).flat_map(|chain| &chain.hops);
        hops.filter(|hop| hop.name == instance).map(count).sum()
    }
}

fn hops<'h>(names: &'h [&'h str]) -> Vec<&'h [&'h str]> {
    names.iter().map(std::slice::from_ref).collect()
}

/// The route of a version.
pub(crate) fn route_of(names: &[&str]) -> Vec<String> {
    names.iter().chain(&["D"]).map(ToString::to_string).collect()
}

fn super_frame(frame: &[u8], is_v6: bool) -> Offload {
    let start = FrameView::parse(frame).unwrap().l4_offset.unwrap();
    let kind = if is_v6 { SegmentationKind::TcpV6 } else { SegmentationKind::TcpV4 };
    Offload {
        checksum: Some(PartialChecksum { start, offset: tcp::CHECKSUM_OFFSET as u16 }),
        segmentation: Some(Segmentation {
            kind,
            ecn: false,
            segment_bytes: DATA_BYTES as u16,
            header_bytes: 0,
        }),
    }
}

/// The wire packets of a frame.
pub(crate) fn cut(frame: &Seen) -> Vec<Seen> {
    let Some(segmentation) = frame.offload.segmentation else { return vec![frame.clone()] };
    let planned =
        SuperFrame::parse(&frame.bytes, SegmentKind::Tcp, segmentation.segment_bytes).unwrap();
    let segments = (0..planned.count()).map(|index| {
        let mut bytes = vec![0; planned.segment_len(index)];
        assert_eq!(planned.write_segment(&frame.bytes, index, &mut bytes), bytes.len());
        Seen { bytes, offload: Offload::default() }
    });
    segments.collect()
}

fn data_offset(bytes: &[u8]) -> usize {
    let view = FrameView::parse(bytes).unwrap();
    let header =
        if view.protocol == Some(IpProtocol::TCP) { tcp::HEADER_BYTES } else { udp::HEADER_BYTES };
    usize::from(view.l4_offset.unwrap()) + header
}

/// The numbers of a frame's wire packets.
fn numbers(frame: &Seen) -> Vec<u32> {
    let number = |piece: Seen| {
        let at = data_offset(&piece.bytes);
        u32::from_be_bytes(piece.bytes[at..at + 4].try_into().unwrap())
    };
    cut(frame).into_iter().map(number).collect()
}

/// Changes data behind the number; the checksum is for the kernel that takes it up.
fn rewrite(bytes: &mut [u8]) {
    let at = data_offset(bytes);
    for byte in bytes[at..].chunks_mut(DATA_BYTES).filter_map(|data| data.get_mut(7)) {
        *byte = byte.wrapping_add(1);
    }
}
