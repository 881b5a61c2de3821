//! What tenants' own stacks make that our tunnels must not spoil: TCP inside their own VXLAN, whose
//! super-frames carry the kernel's word about the inner packet, and SCTP, whose checksum is a CRC.

use crate::account;
use crate::house::{House, in_shared_house, lab_file};
use crate::node::Node;
use crate::patience::is_full;
use crate::streams::stream;
use crate::traffic::{Family, address};
use catena_model::DropReason;
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const PORT: u16 = 5_060;
const VXLAN_PORT: u16 = 4_789;
/// Ends of the tenant's tunnel.
const INSIDE: [[&str; 2]; 2] = [["192.168.77.1", "192.168.77.2"], ["fd77::1", "fd77::2"]];
const SCTP_PACKETS: &str = "25";

/// A tunnel of the tenant's between S and D, gone with this value.
struct OwnTunnel([Node; 2]);

impl OwnTunnel {
    fn new(house: &House, outer: Family, device: &str) -> Self {
        let ends = ["S", "D"];
        for (at, name) in ends.iter().enumerate() {
            let (local, remote) = (address(name, outer), address(ends[1 - at], outer));
            let node = house.node(name);
            node.ip(&format!(
                "link add own0 type vxlan id 7 local {local} remote {remote} dstport {VXLAN_PORT} dev customer"
            ));
            node.ip(&format!("addr add {}/24 dev own0", INSIDE[0][at]));
            node.ip(&format!("addr add {}/64 dev own0 nodad", INSIDE[1][at]));
            node.ip(&format!("link set own0 {device} up"));
        }
        Self(ends.map(|name| house.node(name)))
    }
}

impl Drop for OwnTunnel {
    fn drop(&mut self) {
        for node in &self.0 {
            node.attempt("ip", &["link", "del", "own0"]);
        }
    }
}

fn unsupported(house: &House) -> u64 {
    let of = |node: &catena_model::account::NodeCounters| {
        node.total().dropped.get(&DropReason::UnsupportedOffload).copied().unwrap_or_default()
    };
    account::counters(house).iter().map(of).sum()
}

#[test]
fn tcp_runs_in_a_tenants_own_vxlan_between_hosts() {
    in_shared_house(|house| {
        let time = Duration::from_millis(if is_full() { 5_000 } else { 300 });
        // As it comes, and with a device that takes no super-frame.
        for device in ["gso_max_size 65536", "gso_max_size 1400"] {
            for outer in Family::BOTH {
                let chain = house.deploy(json!({
                    "name": "own", "source": "S", "destination": "D", "encapsulation": "nsh",
                    "chain": [{"name": "v8", "direction": "same"}, {"name": "v9", "direction": "same"}],
                    "match_fields": {
                        "ethertype": outer.ethertype(), "protocol": "udp", "destination_port": VXLAN_PORT,
                    },
                }));
                let _tunnel = OwnTunnel::new(house, outer, device);
                let before = unsupported(house);
                for [_, to] in INSIDE {
                    let to: IpAddr = to.parse().expect("an address");
                    let (source, destination) = (house.node("S"), house.node("D"));
                    let bytes = stream(&source, &destination, SocketAddr::new(to, PORT), time);
                    let rate = bytes * 8 / u64::try_from(time.as_micros()).expect("a short time");
                    println!("{device}, {outer:?} around {to}: {rate} Mbit/s");
                    assert!(bytes > 0);
                }
                assert_eq!(unsupported(house), before, "super-frames that nobody could cut");
                let counted = account::ChainTotal::of(&house.chain(&chain.chain));
                for (name, _, returned) in counted.hops.values() {
                    assert!(*returned > 0, "{name}: {counted:?}");
                }
                house.undeploy(&chain.chain);
            }
        }
        account::assert_holds(house);
    });
}

#[test]
fn sctp_arrives_with_its_own_checksum_between_hosts() {
    let script = lab_file("sctp_frames.py").display().to_string();
    in_shared_house(|house| {
        let (source, destination) = (house.node("S"), house.node("D"));
        let mac = destination.mac("customer");
        for family in Family::BOTH {
            let chain = house.deploy(json!({
                "name": "sctp", "source": "S", "destination": "D", "encapsulation": "mpls",
                "chain": [{"name": "v8", "direction": "same"}, {"name": "v9", "direction": "same"}],
                "match_fields": {"ethertype": family.ethertype()},
            }));
            let ends = ["S", "D"].map(|name| address(name, family).to_string());
            for kind in ["open", "whole"] {
                let mut judge =
                    destination.start("python3", &[&script, "judge", "customer", SCTP_PACKETS]);
                let mut said = BufReader::new(judge.stdout.take().expect("its words"));
                let mut line = String::new();
                said.read_line(&mut line).expect("it begins");
                assert_eq!(line, "ready\n");
                let words = ["send", "customer", &mac, &ends[0], &ends[1], kind, SCTP_PACKETS];
                let words: Vec<&str> = std::iter::once(script.as_str()).chain(words).collect();
                source.run("python3", &words);
                line.clear();
                said.read_to_string(&mut line).expect("it ends");
                judge.wait().expect("it ends");
                assert_eq!(line, format!("{SCTP_PACKETS} right, 0 wrong\n"), "{family:?} {kind}");
            }
            let counted = account::ChainTotal::of(&house.chain(&chain.chain));
            for (name, _, returned) in counted.hops.values() {
                assert!(*returned >= 50, "{name}: {counted:?}");
            }
            house.undeploy(&chain.chain);
        }
        account::assert_holds(house);
    });
}
