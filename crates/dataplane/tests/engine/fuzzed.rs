//! Entries for fuzzing: bytes become towns, frames and datagrams, and the rig keeps the counters. The
//! strategies are those of the property tests, fed with the bytes in place of random numbers.

use crate::accounting::{self, Shot};
use crate::rig::Rig;
use crate::scene::{rules, three_hosts};
use crate::slices::{claims, path, slice, users};
use crate::town::{Town, tunnel_end};
use catena_dataplane::engine::{EngineConfig, TunnelKind};
use catena_io::Offload;
use catena_model::resource::Encapsulation;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::net::IpAddr;

/// Frames or datagrams of one input at most.
const PIECES_MAX: usize = 64;
const BUFFERS: usize = 384;
/// Flows that a node remembers.
const FLOWS: usize = 64;
/// Bytes that choose one part of what happens.
const PART_BYTES: usize = 8;

/// Memories that few flows fill, made anew for each input; one input always does the same.
fn small(config: &mut EngineConfig) {
    config.flows_max = FLOWS;
    config.inside_max = FLOWS;
    config.classified_max = FLOWS;
    config.flow_seed = 1;
    config.probe_secret = 2;
}

/// A town whose nodes know chains over all encapsulations in tunnels, and a slice.
fn town() -> Town {
    let mut town = three_hosts();
    town.chain("west", Encapsulation::Nsh, &[&["v1"], &["v3"]], &rules(5_001));
    town.chain("east", Encapsulation::Mpls, &[&["v2"], &["v4"]], &rules(5_002));
    town.chain("south", Encapsulation::Srv6, &[&["v1"], &["v4"]], &rules(5_003));
    town.chain("north", Encapsulation::Srv6Ethernet, &[&["v2"], &["v3"]], &rules(5_004));
    town.chain("middle", Encapsulation::Srv6Csid, &[&["v2"], &["v4"], &["v1"]], &rules(5_005));
    town.slices = vec![slice(1, claims(Some(5), users(1, 3)))];
    town.slice_paths = vec![path(1, catena_model::PathId(100))];
    town
}

/// Cuts an input: two bytes that say where each piece goes, two of its length, and the piece.
fn pieces(mut bytes: &[u8]) -> Vec<([u8; 2], &[u8])> {
    let mut pieces = Vec::new();
    while let Some(([a, b, high, low], rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        pieces.push(([*a, *b], piece));
        bytes = rest;
    }
    pieces.truncate(PIECES_MAX);
    pieces
}

/// Datagrams of any bytes, from nodes and strangers, at the tunnels of three nodes.
pub fn tunnel_input(bytes: &[u8]) {
    let mut rig = Rig::with(town(), small, BUFFERS);
    for ([to, from], piece) in pieces(bytes) {
        let kind = TunnelKind::ALL[usize::from(to >> 2) % TunnelKind::ALL.len()];
        let stranger: IpAddr = [203, 0, 113, from].into();
        let source = if from < 200 { tunnel_end(usize::from(from % 3), kind) } else { stranger };
        rig.send_datagram(usize::from(to % 3), kind, source, piece);
    }
    rig.check();
}

/// Frames of any bytes into any port.
pub fn port_input(bytes: &[u8]) {
    let mut rig = Rig::with(town(), small, BUFFERS);
    for ([port, time], piece) in pieces(bytes) {
        let name = rig.town.ports[usize::from(port) % rig.town.ports.len()].name.clone();
        rig.queue(&name, piece, Offload::default());
        if time % 4 == 0 {
            rig.pass(u64::from(time));
        }
    }
    rig.run();
    rig.check();
}

/// What a strategy makes of eight bytes. Each part of an input has its own, so that a changed byte changes
/// one part of what happens.
fn drawn<S: Strategy>(strategy: &S, bytes: &[u8]) -> S::Value {
    let mut seed = [0; 32];
    for (place, byte) in seed.iter_mut().zip(bytes) {
        *place = *byte;
    }
    let config = Config { failure_persistence: None, ..Config::default() };
    let source = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let tree = strategy.new_tree(&mut TestRunner::new_with_rng(config, source));
    tree.expect("none of the strategies refuses what it has drawn").current()
}

/// Random towns and shots, as in `every_packet_is_accounted_for`, chosen by the bytes: two towns, what
/// functions do, and a shot for each eight bytes more.
pub fn towns(bytes: &[u8]) {
    let mut parts = bytes.chunks(PART_BYTES);
    let mut part = || parts.next().unwrap_or_default();
    let [first, second] = [(); 2].map(|()| drawn(&accounting::towns(), part()));
    let behaviours = drawn(&(proptest::collection::vec(0usize..6, 4), 1u32..4), part());
    let mut rig = Rig::with(first.clone(), small, BUFFERS);
    accounting::behave(&mut rig, &first, &behaviours.0);
    let shots: Vec<Shot> =
        parts.take(PIECES_MAX).map(|bytes| drawn(&accounting::shots(), bytes)).collect();
    let half = shots.len() / 2;
    for (round, shot) in shots.iter().enumerate() {
        if round == half {
            accounting::chains_of(&mut rig, &second, behaviours.1);
        }
        accounting::shoot(&mut rig, shot);
        rig.run();
    }
    rig.check();
}
