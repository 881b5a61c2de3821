//! What Linux was recorded to make of headers, asked again of the running kernel.

use std::net::Ipv6Addr;

use catena_wire::{ipv4, ipv6};

use super::{BEHIND_RECEIVER_V4, KEY_ID, SECRET, Testbed, from_router, keys};
use crate::needs_privilege;

const RECORDED: &str = include_str!("../../../../../conformance/srv6/linux_answers.txt");
/// The packet around all headers.
const PACKET: &str = include_str!("../../../../../conformance/srv6_int/journey_1_ingress.hex");
/// Its headers, bytes from its start.
const ROUTING_START: usize = 40;
const ROUTING_END: usize = 104;

/// Cases that a kernel answers otherwise than the recorded one: name, the beginning of that kernel's release, its
/// answer, and why.
const EXCEPTIONS: &[(&str, &str, &str, &str)] = &[];

/// A header, who is asked about it, and what was answered.
struct Case {
    name: &'static str,
    behaviour: &'static str,
    answer: &'static str,
    header: Vec<u8>,
}

impl Case {
    fn read(block: &'static str) -> Self {
        let (title, header) = block.trim().split_once('\n').unwrap();
        let (name, title) = title.split_once(": ").unwrap();
        let (behaviour, answer) = title.split_once(" -> ").unwrap();
        Self { name, behaviour, answer, header: hex(header) }
    }

    fn active(&self) -> Ipv6Addr {
        let start = 8 + 16 * usize::from(self.header[3]);
        <[u8; 16]>::try_from(&self.header[start..start + 16]).unwrap().into()
    }

    /// What the router is to know of the segment.
    fn route(&self) -> String {
        let behaviour = match self.behaviour {
            "End.DX4" => format!("End.DX4 nh4 {BEHIND_RECEIVER_V4}"),
            _ => "End".to_owned(),
        };
        format!("{}/128 encap seg6local action {behaviour} dev to-r", self.active())
    }

    /// The packet, to its active segment.
    fn packet(&self) -> Vec<u8> {
        let around = hex(PACKET);
        let mut packet = [&around[..ROUTING_START], &self.header, &around[ROUTING_END..]].concat();
        let length = u16::try_from(packet.len() - ROUTING_START).unwrap();
        ipv6::set_payload_length(&mut packet, length).unwrap();
        ipv6::set_destination(&mut packet, self.active()).unwrap();
        packet
    }

    /// The frame that comes out, by an answer as it is written down.
    fn expected(&self, answer: &str) -> Option<Vec<u8>> {
        if answer == "nothing" {
            return None;
        }
        if answer == "the packet inside" {
            let mut inside = hex(PACKET).split_off(ROUTING_END);
            ipv4::set_ttl(&mut inside, 62).unwrap();
            return Some(from_router(&inside));
        }
        let (segments_left, destination) = answer.split_once(' ').unwrap();
        let destination: Ipv6Addr = destination.parse().unwrap();
        let mut packet = self.packet();
        packet[ROUTING_START + 3] = segments_left.parse().unwrap();
        ipv6::set_destination(&mut packet, destination).unwrap();
        ipv6::set_hop_limit(&mut packet, 63).unwrap();
        Some(from_router(&packet))
    }
}

fn hex(text: &str) -> Vec<u8> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let digits: Vec<u8> = lines.flat_map(str::bytes).filter(u8::is_ascii_hexdigit).collect();
    let (octets, half) = digits.as_chunks::<2>();
    assert!(half.is_empty(), "half an octet");
    let octet = |digits: &[u8; 2]| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap();
    octets.iter().map(octet).collect()
}

#[tokio::test]
async fn the_running_kernel_answers_as_it_was_recorded() {
    needs_privilege!("the_running_kernel_answers_as_it_was_recorded");
    let mut testbed = Testbed::new(&[]).await;
    let (_, cases) = RECORDED.split_once("\n\n").unwrap();
    let mut cases: Vec<Case> = cases.split("\n\n").map(Case::read).collect();
    // A namespace forgets no key, so those come first that do without.
    cases.sort_by_key(|case| case.behaviour != "End without the key");
    let release = rustix::system::uname();
    let release = release.release().to_str().unwrap();
    let mut differing = Vec::new();
    let mut knows_key = false;
    for case in &cases {
        if case.behaviour != "End without the key" && !knows_key {
            keys::set(&testbed.router.namespace, KEY_ID, &SECRET);
            knows_key = true;
        }
        let exception =
            EXCEPTIONS.iter().find(|(name, of, ..)| *name == case.name && release.starts_with(of));
        let answer = exception.map_or(case.answer, |(name, _, answer, why)| {
            println!("{name} on Linux {release}: {why}");
            answer
        });
        testbed.ip(&format!("-6 route add {}", case.route()));
        let answered = testbed.answer(&case.packet());
        testbed.ip(&format!("-6 route del {}", case.route()));
        if answered != case.expected(answer) {
            differing
                .push(format!("{}: {answer}, but Linux {release}: {answered:02x?}", case.name));
        }
    }
    assert_eq!(cases.len(), 17);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
