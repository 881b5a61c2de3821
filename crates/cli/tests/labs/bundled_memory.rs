//! What bundled functions remember outlives the data plane that they run in.

use crate::account;
use crate::bundled::{PATIENCE, connect, talk};
use crate::deaths::kill_until_replaced;
use crate::house::in_own_house;
use crate::patience::wait_for;
use crate::traffic::{Family, address};
use std::net::{SocketAddr, TcpListener};

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

#[test]
fn a_connection_outlives_the_data_plane_of_the_firewall_that_knows_it() {
    in_own_house("pair.yaml", |house| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("guarded.yaml");
        std::fs::write(folder.path().join("edge.iptables"), RULES).expect("a file");
        std::fs::write(&file, DOCUMENT).expect("a file");
        house.tell(&["apply", "-f", &file.display().to_string(), "--wait"]);
        let at = SocketAddr::new(address("D", Family::V4), PORT);
        let listener = house.node("D").inside(|| TcpListener::bind(at).expect("a free port"));
        let mut near = connect(house, PORT, PATIENCE).expect("it is let through");
        let (mut far, _) = listener.accept().expect("it arrives");
        talk(&mut near, &mut far);

        let written = house.path("/run/catena/node").join("host2/state/functions.log");
        let bytes = || std::fs::metadata(&written).map_or(0, |file| file.len());
        for _ in 0..2 {
            // What is written first may have been told before; what comes behind it was not.
            for _ in 0..2 {
                let before = bytes();
                talk(&mut near, &mut far);
                wait_for("what functions remember on disk", || match bytes() {
                    now if now != before => Ok(()),
                    now => Err(format!("{now} bytes in {}", written.display())),
                });
            }
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
