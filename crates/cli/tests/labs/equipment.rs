//! Ordinary equipment and `classic-80`, whose fields take whatever values ways give them: a device between two
//! interfaces loses no header but such as the lint names, and of these those that the book tells of.

use crate::capture::Capture;
use crate::hostile::send_frames;
use crate::node::Node;
use crate::patience::Chance;
use catena_lab::open_vswitch::{BRIDGE, Switch};
use catena_wire::source_route::classic::{ClassicHeader, Density, Reserved};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command};
use tempfile::TempDir;

const SOURCE: [u8; 6] = [0x06, 0, 0, 0, 0, 1];
/// Ways by chance, beside those that look like something else.
const WAYS: u64 = 3_000;
const PORTS_MAX: u64 = 30;
/// How often a frame is sent before it counts as lost.
const ROUNDS: u32 = 3;
/// The last octets of the addresses that no bridge forwards; not 0, which one does that is in no spanning tree.
const GROUPS: std::ops::Range<u8> = 1..0x10;

/// A device between the interfaces `one` and `two`.
struct Device {
    node: Node,
    folder: TempDir,
    children: Vec<Child>,
}

impl Drop for Device {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Device {
    fn new(name: &str) -> Self {
        let (node, folder) = (Node::made(name), tempfile::tempdir().expect("a folder"));
        // Nobody there shall say anything of his own.
        node.set("net/ipv6/conf/default/disable_ipv6", "1");
        for end in ["one", "two"] {
            node.ip(&format!("link add {end} type veth peer name {end}.in"));
            node.ip(&format!("link set {end} up"));
            node.ip(&format!("link set {end}.in up"));
        }
        Self { node, folder, children: Vec::new() }
    }

    /// A bridge of the kernel, as it is made.
    fn bridge() -> Self {
        let device = Self::new("bridge");
        device.node.ip("link add device type bridge");
        device.node.ip("link set one.in master device");
        device.node.ip("link set two.in master device");
        device.node.ip("link set device up");
        device
    }

    /// Open vSwitch in user space, as it is made.
    fn open_vswitch() -> Self {
        let mut device = Self::new("openvswitch");
        let (folder, room) = (device.folder.path(), device.node.namespace());
        let switch = Switch { folder, room };
        let started = switch.start(&mut device.children, &[]);
        started.expect("Open vSwitch starts");
        for end in ["one.in", "two.in"] {
            switch.configure(&["add-port", BRIDGE, end]).expect("it takes the interface");
        }
        device
    }

    /// Those of these frames that come out behind it as they went in. What does not is sent again, as a machine that is
    /// busy may have had no room for it.
    fn carried<'f>(&self, frames: &'f [Vec<u8>]) -> BTreeSet<&'f Vec<u8>> {
        let mut carried = BTreeSet::new();
        for _ in 0..ROUNDS {
            let missing = frames.iter().filter(|frame| !carried.contains(frame));
            let missing: Vec<Vec<u8>> = missing.cloned().collect();
            let capture = Capture::start(&self.node, "two", "", self.folder.path());
            send_frames(&self.node, "one", &missing);
            let seen: BTreeSet<Vec<u8>> =
                capture.frames().into_iter().map(|frame| frame.bytes).collect();
            carried.extend(frames.iter().filter(|frame| seen.contains(*frame)));
        }
        carried
    }
}

/// A frame along a way, told from all others by its number.
fn frame(way: &[u8], number: u32) -> Vec<u8> {
    let header = ClassicHeader::new(way, Density::Labels).expect("a way of ports");
    let mut frame = vec![0; header.len_bytes()];
    frame[6..12].copy_from_slice(&SOURCE);
    header.emit(&mut frame).expect("there is room for it");
    frame.extend([0x45, 0, 0, 60]);
    frame.extend(number.to_be_bytes());
    frame.resize(frame.len() + 52, 0);
    frame
}

fn reserved(way: &[u8]) -> BTreeSet<Reserved> {
    ClassicHeader::new(way, Density::Labels).expect("a way of ports").reserved().collect()
}

/// Ways of every kind that the lint names, and others by chance.
fn ways() -> Vec<Vec<u8>> {
    let mut chance =
        Chance::new("ordinary_equipment_loses_no_header_of_classic_80_that_the_lint_does_not_name");
    let mut port = |low: u64| u8::try_from(low + chance.below(256 - low)).unwrap_or(u8::MAX);
    let mut ways: Vec<Vec<u8>> = vec![vec![255; 10], vec![4, 4]];
    // The last ports are the address, the last of all its first octet.
    ways.extend(GROUPS.map(|octet| vec![9, 9, 9, 9, octet, 0, 0, 0xc2, 0x80, 1]));
    ways.extend((0..WAYS).map(|number| {
        let ports = 1 + number % PORTS_MAX;
        (0..ports).map(|_| port(1)).collect()
    }));
    // What would be read as another profile is not written.
    ways.retain(|way| !reserved(way).contains(&Reserved::LooksSafe));
    ways
}

/// It loses, or changes, what has one of these looks, and no other frame.
fn loses(device: &Device, looks: &[Reserved]) {
    let ways = ways();
    let frames: Vec<Vec<u8>> = (0..).zip(&ways).map(|(number, way)| frame(way, number)).collect();
    let carried = device.carried(&frames);
    let mut lost: BTreeMap<Reserved, u32> = BTreeMap::new();
    for (way, frame) in ways.iter().zip(&frames) {
        let named = reserved(way);
        let cause = looks.iter().find(|look| named.contains(look));
        let (name, is_carried) = (&device.node.name, carried.contains(&frame));
        assert_eq!(is_carried, cause.is_none(), "{name}: {way:?}, which the lint calls {named:?}");
        cause.iter().for_each(|cause| *lost.entry(**cause).or_default() += 1);
    }
    println!(
        "{}: of {} headers {lost:?} do not come out as they were",
        device.node.name,
        frames.len()
    );
    assert_eq!(lost.len(), looks.len(), "{lost:?}");
}

#[test]
fn ordinary_equipment_loses_no_header_of_classic_80_that_the_lint_does_not_name() {
    const TEST: &str =
        "ordinary_equipment_loses_no_header_of_classic_80_that_the_lint_does_not_name";
    loses(&Device::bridge(), &[Reserved::BridgeGroup]);
    if Command::new("ovs-vswitchd").arg("--version").output().is_err() {
        println!("SKIPPED: {TEST}: Open vSwitch is not installed");
        return;
    }
    loses(&Device::open_vswitch(), &[Reserved::BridgeGroup, Reserved::PriorityTag]);
}
