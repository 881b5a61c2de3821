//! The disk of a node or of the controller is full: the error says so, nothing is half done, and
//! with room again everything goes on.

use crate::account::{self, ChainTotal};
use crate::deaths::{kill, start_agent_again, start_controller_again, wait_gone};
use crate::house::{House, in_own_house};
use crate::patience::wait_for;
use crate::traffic::{Family, Receiver, Sender, address, send_and_count};
use catena_client::{ClientError, Kind};
use catena_model::status::ChainState;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const PORT: u16 = 5_060;
/// Name of what fills the disk.
const FILLER: &str = "filler";

fn document(name: &str, port: u16, functions: &[&str]) -> Value {
    let steps: Vec<Value> =
        functions.iter().map(|name| json!({"name": name, "direction": "same"})).collect();
    json!({
        "name": name, "source": "S", "destination": "D", "chain": steps,
        "match_fields": {"protocol": "udp", "destination_port": port},
    })
}

fn to(port: u16) -> SocketAddr {
    SocketAddr::new(address("D", Family::V4), port)
}

/// Puts a small disk below a folder of the lab, with what the folder had on it.
fn mount_small_disk(house: &House, node: &str, folder: &str, size: &str) -> PathBuf {
    let copy = tempfile::tempdir().expect("a folder");
    let outside = house.path(folder);
    copy_files(&outside, copy.path());
    let lab = format!("{}/{node}", house.name);
    let options = format!("mode=0700,size={size}");
    let mut mount = std::process::Command::new(crate::house::CATENA);
    mount.args(["lab", "shell", &lab, "mount", "-t", "tmpfs", "-o", &options, "tmpfs", folder]);
    let output = mount.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    copy_files(copy.path(), &outside);
    outside
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().expect("a kind") {
            kind if kind.is_dir() => {
                fs::create_dir_all(&target).expect("a folder");
                copy_files(&source, &target);
            }
            kind if kind.is_file() => drop(fs::copy(&source, &target).expect("a copy")),
            // A socket is made anew by whoever listens.
            _ => {}
        }
    }
}

/// Writes until nothing more fits.
fn fill(disk: &Path) {
    let mut file = File::create(disk.join(FILLER)).expect("a file");
    let mut piece = vec![0x5a; 4_096];
    loop {
        match file.write(&piece) {
            Ok(0) => panic!("a disk that takes nothing says why"),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull && piece.len() > 1 => {
                piece.truncate(piece.len() / 2);
            }
            Err(error) if error.kind() == ErrorKind::StorageFull => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn empty(disk: &Path) {
    fs::remove_file(disk.join(FILLER)).expect("it goes");
}

#[test]
fn a_node_with_a_full_disk_says_so_keeps_its_program_and_takes_the_next_with_room() {
    in_own_house("pair.yaml", |house| {
        const HOST: &str = "host2";
        let steady = house.deploy(document("steady", PORT, &["v1", "v2"]));
        let agent = house.process("agent", Some(HOST));
        let dataplane = house.process("dataplane", Some(HOST));
        for process in [&agent, &dataplane] {
            kill(process);
            wait_gone(house, process);
        }
        let disk = mount_small_disk(house, HOST, "/run/catena/node/host2/state", "128k");
        start_agent_again(house, HOST, &agent);
        house.wait_settled();
        house.wait_active(&steady.chain);
        fill(&disk);
        let ring_full = account::ring_full(house);
        let receiver = Receiver::new(&house.node("D"), to(PORT));
        let sending = Sender::new(&house.node("S"), to(PORT)).keep_sending();
        // Changes are small: some still fit where the last has left a block begun.
        let declare = |number: u16| {
            let next = house.declare(document(&format!("next{number}"), PORT + number, &["v2"]));
            // The other node may be the slower one to answer.
            let is_refused = wait_for("a refusal by name, or room", || {
                let status = house.chain(&next.chain).status;
                let words = ["host2", "No space left on device", "make room"];
                let is_told = words.iter().all(|word| status.reason.contains(word));
                match status.state {
                    ChainState::Active => Ok(false),
                    ChainState::Building if is_told => Ok(true),
                    _ => Err(status.reason),
                }
            });
            if !is_refused {
                house.client.delete(Kind::PortChain, &next.chain).expect("it is withdrawn");
            }
            is_refused.then_some((next, PORT + number))
        };
        let (next, port) = (1..20).find_map(declare).expect("a full disk takes no more");
        // Its packets are not steered, none of them.
        send_and_count(&house.node("S"), &house.node("D"), to(port), 100);
        assert_eq!(ChainTotal::of(&house.chain(&next.chain)).entered, 0);
        empty(&disk);
        house.wait_active(&next.chain);
        house.wait_settled();
        send_and_count(&house.node("S"), &house.node("D"), to(port), 100);
        account::assert_chain(house, &next.chain, &ChainTotal::whole(100, &["v2"]));
        let sent = sending.stop();
        receiver.assert_all(sent);
        assert_eq!(account::ring_full(house), ring_full);
    });
}

#[test]
fn a_controller_with_a_full_disk_refuses_by_name_and_forgets_nothing() {
    in_own_house("pair.yaml", |house| {
        let steady = house.deploy(document("steady", PORT, &["v1", "v2"]));
        let controller = house.process("controller", None);
        kill(&controller);
        wait_gone(house, &controller);
        let disk = mount_small_disk(house, "controller", "/run/catena/controller", "4m");
        start_controller_again(house, &controller);
        house.wait_settled();
        let receiver = Receiver::new(&house.node("D"), to(PORT));
        let sending = Sender::new(&house.node("S"), to(PORT)).keep_sending();
        fill(&disk);
        let mut made = Vec::new();
        // What is left in pages that the store has already may still be taken.
        let refusal = loop {
            let network = json!({"name": "n", "description": "x".repeat(200)});
            match house.client.create(Kind::Network, &network) {
                Ok(network) => made.push(network["id"].as_str().expect("an id").to_owned()),
                Err(error) => break error,
            }
            assert!(made.len() < 10_000, "the disk never filled");
        };
        println!("{} were taken, then: {refusal}", made.len());
        let is_full = matches!(refusal, ClientError::Refused { status: 507, .. });
        assert!(is_full && refusal.to_string().contains("the disk is full"), "{refusal}");
        let ids = |house: &House| {
            let networks = house.client.list(Kind::Network, &[]).expect("a list");
            let named = networks.iter().filter(|network| network["name"] == "n");
            let mut ids: Vec<String> =
                named.filter_map(|network| network["id"].as_str().map(str::to_owned)).collect();
            ids.sort();
            ids
        };
        made.sort();
        assert_eq!(ids(house), made, "what was refused is not there, what was taken is");
        house.wait_active(&steady.chain);
        empty(&disk);
        let next = house.deploy(document("next", PORT + 1, &["v2"]));
        send_and_count(&house.node("S"), &house.node("D"), to(PORT + 1), 100);
        account::assert_chain(house, &next.chain, &ChainTotal::whole(100, &["v2"]));
        let controller = house.process("controller", None);
        kill(&controller);
        wait_gone(house, &controller);
        start_controller_again(house, &controller);
        house.wait_settled();
        assert_eq!(ids(house), made);
        house.wait_active(&steady.chain);
        house.wait_active(&next.chain);
        let sent = sending.stop();
        receiver.assert_all(sent);
    });
}
