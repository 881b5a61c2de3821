//! Entries for fuzzing: bytes become towns, frames and datagrams, and the rig keeps the books. The
//! strategies are those of the property tests, fed with the bytes in place of random numbers.

use crate::accounting::{self, Shot};
use crate::rig::Rig;
use crate::scene::{rules, three_hosts};
use crate::slices::{claims, path, slice, users};
use crate::town::{Town, node_address};
use catena_dataplane::engine::TunnelKind;
use catena_io::Offload;
use catena_model::resource::Encapsulation;
use proptest::prelude::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::net::IpAddr;

/// Frames or datagrams of one input at most.
const PIECES_MAX: usize = 64;
const BUFFERS: usize = 384;

/// A town whose nodes know chains over both encapsulations, and a slice.
fn town() -> Town {
    let mut town = three_hosts();
    town.chain("west", Encapsulation::Nsh, &[&["v1"], &["v3"]], &rules(5_001));
    town.chain("east", Encapsulation::Mpls, &[&["v2"], &["v4"]], &rules(5_002));
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
    let mut rig = Rig::with(town(), |_| {}, BUFFERS);
    for ([to, from], piece) in pieces(bytes) {
        let kind = TunnelKind::ALL[usize::from(to >> 2) % TunnelKind::ALL.len()];
        let stranger: IpAddr = [203, 0, 113, from].into();
        let source = if from < 200 { node_address(usize::from(from % 3)) } else { stranger };
        rig.send_datagram(usize::from(to % 3), kind, source, piece);
    }
    rig.check();
}

/// Frames of any bytes into any port.
pub fn port_input(bytes: &[u8]) {
    let mut rig = Rig::with(town(), |_| {}, BUFFERS);
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

/// Random towns and shots, as in `every_packet_is_accounted_for`, chosen by the bytes.
pub fn towns(bytes: &[u8]) {
    let source = TestRng::from_seed(RngAlgorithm::PassThrough, bytes);
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, source);
    let given = (
        accounting::towns(),
        accounting::towns(),
        proptest::collection::vec(0usize..6, 4),
        proptest::collection::vec(accounting::shots(), 1..24),
        1u32..4,
    );
    // Too few bytes for a choice are no input.
    let Ok(tree) = given.new_tree(&mut runner) else { return };
    let (first, second, behaviours, shots, shift): (Town, Town, Vec<usize>, Vec<Shot>, u32) =
        proptest::strategy::ValueTree::current(&tree);
    let mut rig = Rig::with(first.clone(), |_| {}, BUFFERS);
    accounting::behave(&mut rig, &first, &behaviours);
    let half = shots.len() / 2;
    for (round, shot) in shots.iter().enumerate() {
        if round == half {
            accounting::chains_of(&mut rig, &second, shift);
        }
        accounting::shoot(&mut rig, shot);
        rig.run();
    }
    rig.check();
}
