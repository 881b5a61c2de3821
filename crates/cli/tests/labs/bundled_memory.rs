//! What bundled functions remember outlives the data plane that they run in, and the process that they have beside it.

use crate::account;
use crate::bundled::{PATIENCE, connect, talk};
use crate::deaths::{kill, kill_until_replaced, wait_until_replaced};
use crate::house::{House, in_own_house};
use crate::patience::wait_for;
use crate::procfs::Process;
use crate::traffic::{Family, address};
use std::net::{SocketAddr, TcpListener, TcpStream};

const PORT: u16 = 5_190;
const DOCUMENT: &str = "
functions:
  - name: edge
    template:
      runs: {bundled: firewall}
      config: {file: edge.iptables}
      networks: [customer]
      on: [host2]
chains:
  - {name: guarded, source: S, destination: D, classify: tcp, through: [edge], symmetric: true}
";
/// Whoever is in the middle of a connection must be known.
const RULES: &str = "*filter\n:FORWARD DROP [0:0]\n\
                     -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
                     -A FORWARD -p tcp -m tcp --syn -m conntrack --ctstate NEW -j ACCEPT\nCOMMIT\n";

/// A firewall by this document, whose rules are beside it.
fn guard(house: &House, document: &str) -> TcpListener {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("guarded.yaml");
    std::fs::write(folder.path().join("edge.iptables"), RULES).expect("a file");
    std::fs::write(&file, document).expect("a file");
    house.tell(&["apply", "-f", &file.display().to_string(), "--wait"]);
    let at = SocketAddr::new(address("D", Family::V4), PORT);
    house.node("D").inside(|| TcpListener::bind(at).expect("a free port"))
}

/// What the firewall remembers is written down while these two talk.
fn talk_until_written(house: &House, near: &mut TcpStream, far: &mut TcpStream) {
    let written = house.path("/run/catena/node").join("host2/state/functions.log");
    let bytes = || std::fs::metadata(&written).map_or(0, |file| file.len());
    // What is written first may have been told before; what comes behind it was not.
    for _ in 0..2 {
        let before = bytes();
        talk(near, far);
        wait_for("what functions remember on disk", || match bytes() {
            now if now != before => Ok(()),
            now => Err(format!("{now} bytes in {}", written.display())),
        });
    }
}

#[test]
fn a_connection_outlives_the_data_plane_of_the_firewall_that_knows_it() {
    in_own_house("pair.yaml", |house| {
        let listener = guard(house, DOCUMENT);
        let mut near = connect(house, PORT, PATIENCE).expect("it is let through");
        let (mut far, _) = listener.accept().expect("it arrives");
        talk(&mut near, &mut far);

        for _ in 0..2 {
            talk_until_written(house, &mut near, &mut far);
            let dataplane = house.process("dataplane", Some("host2"));
            kill_until_replaced(house, &dataplane);
            talk(&mut near, &mut far);
        }
        let mut another = connect(house, PORT, PATIENCE).expect("new ones come, too");
        let (mut other, _) = listener.accept().expect("it arrives");
        talk(&mut another, &mut other);
        account::assert_holds(house);
    });
}

/// The process of the firewall, which its data plane on host2 has started.
fn beside(house: &House) -> Result<Process, String> {
    let is_it = |process: &Process| process.words.ends_with(&["nf".into(), "beside".into()]);
    let mut found: Vec<Process> = house.processes().into_iter().filter(is_it).collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        count => Err(format!("{count} processes of functions: {found:?}")),
    }
}

#[test]
fn a_connection_outlives_the_process_of_the_firewall_that_knows_it() {
    in_own_house("pair.yaml", |house| {
        let document = DOCUMENT.replace("on: [host2]", "on: [host2]\n      door: beside");
        let listener = guard(house, &document);
        let mut near = connect(house, PORT, PATIENCE).expect("it is let through");
        let (mut far, _) = listener.accept().expect("it arrives");
        talk(&mut near, &mut far);
        let dataplane = house.process("dataplane", Some("host2"));
        for _ in 0..2 {
            talk_until_written(house, &mut near, &mut far);
            let former = beside(house).expect("a process");
            kill(&former);
            wait_for("another process of the firewall", || match beside(house) {
                Ok(now) if now.pid != former.pid => Ok(()),
                other => Err(format!("{other:?}")),
            });
            talk(&mut near, &mut far);
        }
        wait_for("the chain to say so", || {
            let told = house.tell(&["chain", "show", "guarded"]);
            let is_said = told.contains("of function 'edge' has died 2 times since");
            if is_said && told.contains("degraded") { Ok(()) } else { Err(told) }
        });
        let told = house.tell(&["function", "show", "edge"]);
        assert!(told.contains("died 2 times and began anew"), "{told}");
        assert!(told.contains("bytes of packets copied to its process"), "{told}");
        assert_eq!(house.process("dataplane", Some("host2")).pid, dataplane.pid);
        account::assert_holds(house);
        // Without whoever starts processes nothing begins anew, but for the data plane that needs one.
        let other = house.process("dataplane", Some("host1"));
        talk_until_written(house, &mut near, &mut far);
        let is_starter =
            |process: &Process| process.words.ends_with(&["nf".into(), "starter".into()]);
        let starters = house.processes().into_iter().filter(is_starter);
        starters.for_each(|starter| kill(&starter));
        wait_until_replaced(house, &dataplane);
        talk(&mut near, &mut far);
        assert_eq!(house.process("dataplane", Some("host1")).pid, other.pid);
        account::assert_holds(house);
    });
}
