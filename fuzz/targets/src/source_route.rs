//! Readers of source routes: a step writes the counter or takes a label off, or nothing, and what was read is
//! written as it was read.

use catena_wire::scalar::MacAddr;
use catena_wire::source_route::classic::ClassicView;
use catena_wire::source_route::marked::{self, MarkedHeader};
use catena_wire::source_route::native::{Detour, NativeHeader, NativeView, TagKey};
use catena_wire::source_route::polka::residues::{Irreducible, Reducer};
use catena_wire::source_route::polka::{PolkaHeader, PolkaView};
use catena_wire::source_route::safe::{self, SafeHeader};
use catena_wire::source_route::sr_mpls::{self, SrMplsHeader, SrMplsView};
use catena_wire::source_route::{Next, PORTS_MAX, advance};
use std::sync::LazyLock;

/// What the node that walks divides numbers by, one of each degree.
static OWN: LazyLock<[Vec<Reducer>; 2]> = LazyLock::new(|| {
    [8, 16].map(|degree| Irreducible::of_degree(degree).take(2).map(Reducer::new).collect())
});
const KEY: TagKey = TagKey([7; 16]);
/// Larger than any header.
const HEADER_BYTES_MAX: usize = 1 << 17;

pub(crate) fn frame(bytes: &[u8]) {
    walk(bytes, &OWN[0]);
    walk(bytes, &OWN[1]);
    if let Ok(view) = NativeView::parse(bytes) {
        native(&view, bytes);
    }
    if let Ok(view) = ClassicView::parse(bytes) {
        let mut positions = 1..=view.counter();
        assert!(positions.all(|position| view.port(position).is_some()), "it holds what it counts");
    }
    if let Ok(header) = SafeHeader::parse(bytes) {
        let mut written = bytes.to_vec();
        assert_eq!(header.emit(&mut written), Ok(safe::LEN));
        assert_eq!(SafeHeader::parse(&written), Ok(header));
    }
    if let Ok(view) = PolkaView::parse(bytes) {
        numbered(&view, bytes);
    }
    if let Ok(view) = SrMplsView::parse(bytes) {
        labelled(&view, bytes);
    }
    if let Ok(header) = MarkedHeader::parse(bytes) {
        let mut written = bytes.to_vec();
        assert_eq!(header.emit(&mut written), Ok(marked::LEN));
        assert_eq!(MarkedHeader::parse(&written), Ok(header));
        let _ = marked::restore(&mut written, MacAddr([2; 6]));
    }
}

fn labelled(view: &SrMplsView<'_>, bytes: &[u8]) {
    let way: Vec<u8> = view.way().collect();
    // What has no port left is no way to be written.
    let Ok(header) = SrMplsHeader::new(&way, view.path()) else { return };
    let mut written = bytes.to_vec();
    assert_eq!(header.emit(&mut written), Ok(view.len_bytes()));
    let again = SrMplsView::parse(&written).expect("what was written can be read");
    assert_eq!((again.way().collect::<Vec<_>>(), again.path()), (way, view.path()));
}

fn numbered(view: &PolkaView<'_>, bytes: &[u8]) {
    let header = PolkaHeader {
        degree: view.degree(),
        pass: view.pass(),
        hops: view.hops(),
        number: view.number(),
        path: view.path(),
        ether_type: view.ether_type(),
    };
    let mut written = bytes.to_vec();
    assert_eq!(header.emit(&mut written), Ok(view.len_bytes()));
    assert_eq!(written, bytes, "all of it is read");
}

/// Takes every port.
fn walk(bytes: &[u8], own: &[Reducer]) {
    let mut frame = bytes.to_vec();
    for _ in 0..=PORTS_MAX {
        let before = frame.clone();
        let next = advance(&mut frame, own);
        let changed = frame.iter().zip(&before).filter(|(now, then)| now != then).count();
        match next {
            Ok(Next::Port(_)) => assert_eq!(changed, 1, "a step writes the counter"),
            Ok(Next::Pop(_)) => popped(&mut frame, &before),
            Ok(Next::End) | Err(_) => return assert_eq!(changed, 0),
        }
    }
    panic!("the way has no end");
}

/// Takes off what a step has: the next label has the time to live of the first, one less.
fn popped(frame: &mut Vec<u8>, before: &[u8]) {
    frame.drain(..sr_mpls::PORT_BYTES);
    let mut expected = [&before[..14], &before[18..]].concat();
    expected[17] = before[17] - 1;
    assert_eq!(*frame, expected, "a step takes a label off");
}

fn native(view: &NativeView<'_>, bytes: &[u8]) {
    let way: Vec<u8> = (1..=view.count()).rev().map(|position| view.port(position)).collect();
    let ports: Vec<(u8, u8, Vec<u8>)> =
        view.detours().map(|one| (one.counter, one.rejoin, one.ports().collect())).collect();
    let detours: Vec<Detour<'_>> = ports
        .iter()
        .map(|(counter, rejoin, ports)| Detour { counter: *counter, rejoin: *rejoin, ports })
        .collect();
    let header = NativeHeader {
        width: view.width(),
        way: &way,
        path: view.path(),
        tag: None,
        detours: &detours,
        ether_type: view.ether_type(),
    };
    let mut written = vec![0xa5; HEADER_BYTES_MAX];
    let length = header.emit(&mut written).expect("what was read can be written");
    let again = NativeView::parse(&written[..length]).expect("what was written can be read");
    assert_eq!((again.path(), again.ether_type()), (view.path(), view.ether_type()));
    assert!((1..=view.count()).all(|position| again.port(position) == view.port(position)));
    let mut detoured = vec![0xa5; HEADER_BYTES_MAX];
    detoured[..12].copy_from_slice(&bytes[..12]);
    if let Ok(length) = view.detour(Some(&KEY), &mut detoured) {
        let after = NativeView::parse(&detoured[..length]).expect("a detour is a way");
        assert!(after.detours().count() < view.detours().count(), "it has been taken");
        walk(&detoured[..length], &[]);
    }
}
