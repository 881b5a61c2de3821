//! What goes to functions and other nodes, byte for byte against `conformance/`, also where the kernel
//! repeats it.

use crate::differential::with_interfaces;
use crate::packets::Sent;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, all_context, packet, packet_v6, with_chain};
use crate::side::Left;
use crate::town::Town;
use crate::twin::{Report, Twin};
use catena_io::Offload;
use catena_model::resource::Encapsulation::{self, Mpls, Nsh};

/// So often one packet after the other: the first is decided, the last is repeated.
const TIMES: usize = 4;
const PORTS: usize = 10;

/// Who must send the last of the packets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Kernel,
    /// No transform can say it.
    Engine,
}

struct Case {
    golden: &'static str,
    town: Town,
    port: u16,
    is_v6: bool,
    by: By,
}

fn case(golden: &'static str, by: By, encapsulation: Encapsulation, hops: &[&[&str]]) -> Case {
    let town = with_chain(encapsulation, hops);
    Case { golden, town, port: CHAINED_PORT, is_v6: false, by }
}

fn cases() -> Vec<Case> {
    let (one, two): ([&[&str]; 1], [&[&str]; 2]) = ([&["v2"]], [&["v1"], &["v2"]]);
    let v6 = |case: Case| Case { is_v6: true, ..case };
    let tapped = |mut case: Case| {
        case.town.chains[0].taps = vec![1];
        case
    };
    let speaking = |mut case: Case, encapsulation| {
        case.town.speaking("v1", encapsulation);
        case
    };
    let telling = |mut case: Case| {
        case.town.chains[0].context = all_context();
        case
    };
    let at_v1: [&[&str]; 1] = [&["v1"]];
    vec![
        case("nsh_first_hop.hex", By::Kernel, Nsh, &one),
        v6(case("nsh_second_hop_ipv6.hex", By::Kernel, Nsh, &two)),
        tapped(case("nsh_tap_copy.hex", By::Engine, Nsh, &two)),
        speaking(case("nsh_over_ethernet.hex", By::Engine, Nsh, &at_v1), Nsh),
        telling(case("nsh_md_type_2_first_hop.hex", By::Engine, Nsh, &one)),
        telling(v6(case("nsh_md_type_2_second_hop_ipv6.hex", By::Engine, Nsh, &two))),
        speaking(telling(case("nsh_md_type_2_over_ethernet.hex", By::Engine, Nsh, &at_v1)), Nsh),
        case("mpls_first_hop.hex", By::Kernel, Mpls, &one),
        v6(case("mpls_second_hop_ipv6.hex", By::Kernel, Mpls, &two)),
        tapped(case("mpls_tap_copy.hex", By::Engine, Mpls, &two)),
        speaking(case("mpls_over_ethernet.hex", By::Engine, Mpls, &at_v1), Mpls),
        Case { port: PLAIN_PORT, ..case("vxlan.hex", By::Kernel, Nsh, &one) },
    ]
}

/// The bytes of a golden.
fn stored(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/engine");
    let text = std::fs::read_to_string(format!("{path}/{name}")).expect("the golden is stored");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let octets = lines.flat_map(|line| line.split(' '));
    octets.map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect()
}

fn bytes(left: &Left) -> &[u8] {
    match left {
        Left::Frame { bytes, .. } | Left::Datagram { bytes, .. } => bytes,
    }
}

fn check(case: Case, interfaces: &[u32]) {
    let Case { golden, town, port, is_v6, by } = case;
    let spec = if is_v6 { packet_v6(&town, port) } else { packet(&town, port) };
    let stored = stored(golden);
    let mut twin = Twin::new(town, 0, interfaces, Report::default());
    let mut last = Vec::new();
    for _ in 0..TIMES {
        let (bytes_of_s, offload) = (spec.frame(), Offload::default());
        let sent = Sent { port: "S".to_owned(), bytes: bytes_of_s, offload };
        let (left, outcomes) = twin.follow(sent);
        assert!(left.iter().any(|left| bytes(left) == stored), "{golden}: {left:x?}");
        last = outcomes;
    }
    let is_carried = last.iter().all(|what| what == "carried");
    assert_eq!(if is_carried { By::Kernel } else { By::Engine }, by, "{golden}: {last:?}");
    twin.compare_counters();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_kernel_repeats_reads_as_it_is_stored() {
    let name = "what_the_kernel_repeats_reads_as_it_is_stored";
    with_interfaces(name, PORTS, |interfaces| {
        cases().into_iter().for_each(|case| check(case, interfaces));
    })
    .await;
}
