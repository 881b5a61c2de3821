//! SIGTERM is a clean end of every role: it answers with success, costs no packet and leaves its
//! files whole.

use crate::account;
use crate::deaths::{spawn_agent_again, spawn_controller_again, wait_gone};
use crate::house::{House, in_own_house};
use crate::patience::wait_for;
use crate::procfs::Process;
use crate::traffic::{Family, Receiver, Sender, address};
use catena_kernel::process::spawn_bound;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::net::SocketAddr;
use std::process::Child;

const PORT: u16 = 5_250;
const HOST: &str = "host1";

fn tell_to_stop(process: &Process) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).expect("a process number");
    kill_process(pid, Signal::TERM).expect("it runs");
}

/// Ends a process that was started by us, behind a shell of the lab that passes its answer on.
fn assert_ends_well(house: &House, role: &str, node: Option<&str>, mut shell: Child) {
    let process = house.process(role, node);
    tell_to_stop(&process);
    let ended = shell.wait().expect("it ends");
    assert!(ended.success(), "{role}: {ended}");
    wait_gone(house, &process);
}

/// Ends one that the lab started.
fn end(house: &House, process: &Process) {
    tell_to_stop(process);
    wait_gone(house, process);
}

#[test]
fn every_role_ends_cleanly_when_it_is_told_to_and_no_packet_is_lost() {
    in_own_house("pair.yaml", |house| {
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let chain = house.deploy(json!({
            "name": "steady", "source": "S", "destination": "D",
            "chain": [{"name": "v1", "direction": "same"}, {"name": "v2", "direction": "same"}],
            "match_fields": {"protocol": "udp", "destination_port": PORT},
        }));
        let ring_full = account::ring_full(house);
        let receiver = Receiver::new(&house.node("D"), to);
        let sending = Sender::new(&house.node("S"), to).keep_sending();

        let controller = house.process("controller", None);
        end(house, &controller);
        let shell = spawn_controller_again(house, &controller);
        house.wait_settled();
        let log = house.path("/run/catena/controller/catena.db-wal");
        assert!(log.exists(), "while it runs there is one");
        assert_ends_well(house, "controller", None, shell);
        assert!(!log.exists(), "nothing hangs on the log");
        drop(spawn_controller_again(house, &controller));

        let agent = house.process("agent", Some(HOST));
        let dataplane = house.process("dataplane", Some(HOST));
        end(house, &agent);
        let shell = spawn_agent_again(house, HOST, &agent);
        house.wait_settled();
        assert_ends_well(house, "agent", Some(HOST), shell);
        assert_eq!(house.process("dataplane", Some(HOST)), dataplane, "it goes on");
        drop(spawn_agent_again(house, HOST, &agent));
        house.wait_settled();

        // One more data plane, that nobody has given a program.
        let mut words = dataplane.words[1..].to_vec();
        let state = words.iter().position(|word| word == "--state").expect("a state") + 1;
        words[state] = "/run/catena/spare".to_owned();
        let node = words.iter().position(|word| word == "--node").expect("a name") + 1;
        words[node] = "spare".to_owned();
        std::fs::create_dir_all(house.path(&words[state])).expect("a folder");
        let shell = spawn_bound(house.shell(HOST, &words, "spare.log")).expect("it starts");
        let socket = house.path("/run/catena/spare/dataplane.sock");
        wait_for("the spare data plane", || socket.exists().then_some(()).ok_or("none".into()));
        assert_ends_well(house, "dataplane", Some("spare"), shell);

        house.wait_active(&chain.chain);
        let sent = sending.stop();
        receiver.assert_all(sent);
        assert_eq!(account::ring_full(house), ring_full);
    });
}
