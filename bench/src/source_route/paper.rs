//! What the paper's evaluation is made of, as formulas: entries of chains, switches of fat trees, bytes between
//! switches and controller, bytes of headers.

use catena_wire::source_route::classic::{Density, labels_for};
use catena_wire::source_route::native::PortWidth;

/// Ports that a header of the paper holds.
const HEADER_PORTS: usize = 10;
/// A packet-in of OpenFlow 1.0: its own bytes, and as much of the packet as goes with it.
const PACKET_IN: usize = 18 + 128;
/// A flow-mod of OpenFlow 1.0 that sends a flow out of a port: body, and one action.
const FLOW_MOD: usize = 72 + 8;
/// The vendor message that gives a switch a header to write: its own bytes, and the body of a flow-mod with actions for
/// address, VLAN, label and port.
const HEADER_MOD: usize = 12 + 120;

/// Where the functions of a chain are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// In racks of one pod, each in another than the one before.
    Pod,
    /// Each in another pod than the one before.
    Pods,
}

impl Spread {
    /// Switches that a packet visits from the core to the last of so many functions.
    pub(super) const fn switches(self, functions: usize) -> usize {
        match self {
            Self::Pod => 3 * functions,
            Self::Pods => 5 * functions - 2,
        }
    }
}

/// Headers where switches write them as soon as one has ended.
pub(super) const fn headers(switches: usize) -> usize {
    switches.div_ceil(HEADER_PORTS)
}

/// Switches at the core of a fat tree, and in all.
pub(super) const fn switches(k: usize) -> (usize, usize) {
    (k * k / 4, 5 * k * k / 4)
}

/// Bytes on the control channel for a flow: from switches to the controller, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bytes {
    pub(super) up: usize,
    pub(super) down: usize,
}

/// Who sets a flow up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Controller {
    /// Every switch of the way asks, one after the other.
    SwitchBySwitch,
    /// The first switch asks, and all of the way are told.
    WholeWay,
    /// The first switch asks, and is told the headers.
    Headers {
        /// Where one is at its end, the next switch writes another.
        are_cut: bool,
    },
}

impl Controller {
    /// For a flow over so many switches.
    pub(super) const fn bytes(self, switches: usize) -> Bytes {
        match self {
            Self::SwitchBySwitch => Bytes { up: PACKET_IN * switches, down: FLOW_MOD * switches },
            Self::WholeWay => Bytes { up: PACKET_IN, down: FLOW_MOD * switches },
            Self::Headers { are_cut } => {
                let headers = if are_cut { headers(switches) } else { 1 };
                Bytes { up: PACKET_IN, down: HEADER_MOD * headers }
            }
        }
    }
}

/// The paper's figures 8 and 9: each switch that knows rules asks for a flow, or each at the core alone.
pub(super) const fn fat_tree(k: usize) -> [Bytes; 2] {
    let (core, all) = switches(k);
    [
        Bytes { up: PACKET_IN * all, down: FLOW_MOD * all },
        Bytes { up: PACKET_IN * core, down: HEADER_MOD * core },
    ]
}

/// An encapsulation and the bytes that it adds to a frame over so many ports.
pub(super) type Size = (&'static str, fn(usize) -> usize);

/// Outer IPv6, and the routing header of so many segments.
const fn srv6(segments: usize) -> usize {
    match segments {
        0 => 40,
        _ => 48 + 16 * segments,
    }
}

/// By the formats of `wire` where we have them, else by their definitions.
pub(super) const SIZES: [Size; 10] = [
    ("dedicated", |ports| 1 + ports),
    ("classic", |ports| 4 + 4 * labels_for(ports, Density::Labels)),
    ("native_w8", |ports| native(ports, PortWidth::Eight)),
    ("native_w6", |ports| native(ports, PortWidth::Six)),
    ("sr_mpls", |ports| 4 * ports),
    ("polka_8", |ports| ports),
    ("polka_16", |ports| 2 * ports),
    ("srv6", srv6),
    ("srv6_next", |ports| srv6(ports.div_ceil(6) - 1)),
    ("srv6_replace", |ports| srv6((ports - 1).div_ceil(4))),
];

/// Without identifier, tag and detours.
const fn native(ports: usize, width: PortWidth) -> usize {
    6 + (ports * width.bits() as usize).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors `state`: functions, switches and headers of ten ports in a pod, the same across pods.
    const STATE: [[usize; 5]; 15] = [
        [1, 3, 1, 3, 1],
        [2, 6, 1, 8, 1],
        [3, 9, 1, 13, 2],
        [4, 12, 2, 18, 2],
        [5, 15, 2, 23, 3],
        [6, 18, 2, 28, 3],
        [7, 21, 3, 33, 4],
        [8, 24, 3, 38, 4],
        [9, 27, 3, 43, 5],
        [10, 30, 3, 48, 5],
        [11, 33, 4, 53, 6],
        [12, 36, 4, 58, 6],
        [13, 39, 4, 63, 7],
        [14, 42, 5, 68, 7],
        [15, 45, 5, 73, 8],
    ];

    #[test]
    fn a_chain_has_as_many_entries_as_the_vectors_say() {
        for [functions, pod, pod_headers, pods, pods_headers] in STATE {
            let found = [Spread::Pod, Spread::Pods].map(|spread| spread.switches(functions));
            assert_eq!(found, [pod, pods]);
            assert_eq!(found.map(headers), [pod_headers, pods_headers]);
        }
    }

    #[test]
    fn a_flow_costs_as_many_control_bytes_as_the_vectors_say() {
        let is = |controller: Controller, switches, up, down| {
            assert_eq!(controller.bytes(switches), Bytes { up, down });
        };
        for (switches, each, all, cut) in [
            (3, (438, 240), 240, 132),
            (9, (1_314, 720), 720, 132),
            (15, (2_190, 1_200), 1_200, 264),
            (30, (4_380, 2_400), 2_400, 396),
        ] {
            is(Controller::SwitchBySwitch, switches, each.0, each.1);
            is(Controller::WholeWay, switches, 146, all);
            is(Controller::Headers { are_cut: false }, switches, 146, 132);
            is(Controller::Headers { are_cut: true }, switches, 146, cut);
        }
    }

    #[test]
    fn a_fat_tree_is_as_the_vectors_say() {
        for (k, core, all, up, down) in [
            (4, 4, 20, [2_920, 584], [1_600, 528]),
            (8, 16, 80, [11_680, 2_336], [6_400, 2_112]),
            (16, 64, 320, [46_720, 9_344], [25_600, 8_448]),
            (24, 144, 720, [105_120, 21_024], [57_600, 19_008]),
            (32, 256, 1_280, [186_880, 37_376], [102_400, 33_792]),
            (64, 1_024, 5_120, [747_520, 149_504], [409_600, 135_168]),
        ] {
            assert_eq!(switches(k), (core, all));
            let found = fat_tree(k);
            assert_eq!((found.map(|bytes| bytes.up), found.map(|bytes| bytes.down)), (up, down));
            assert_eq!(found[0].up, 5 * found[1].up);
        }
    }

    #[test]
    fn headers_are_as_long_as_the_vectors_say() {
        for (ports, bytes) in [
            (3, [4, 8, 9, 9, 12, 3, 6, 96, 40, 64]),
            (5, [6, 8, 11, 10, 20, 5, 10, 128, 40, 64]),
            (7, [8, 8, 13, 12, 28, 7, 14, 160, 64, 80]),
            (10, [11, 8, 16, 14, 40, 10, 20, 208, 64, 96]),
            (15, [16, 16, 21, 18, 60, 15, 30, 288, 80, 112]),
            (20, [21, 24, 26, 21, 80, 20, 40, 368, 96, 128]),
            (30, [31, 40, 36, 29, 120, 30, 60, 528, 112, 176]),
        ] {
            assert_eq!(SIZES.map(|(_, size)| size(ports)), bytes, "{ports}");
        }
    }
}
