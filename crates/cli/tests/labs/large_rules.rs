//! Rules that are larger than a request: a document names their file, the command line sends it by itself, and the
//! data plane judges by their last one.

use crate::account;
use crate::bundled::{PATIENCE, SILENCE, connect, talk};
use crate::house::{House, in_shared_house};
use crate::patience::wait_for;
use crate::traffic::{Family, address};
use std::fmt::Write;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

const OPEN: u16 = 5_100;
const SHUT: u16 = 5_180;
const RULES: usize = 8_000;
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

/// Many rules about others, each with its reason, and one at the end that drops what goes to this port.
fn rules(shut: u16) -> String {
    let reason = "x".repeat(200);
    let mut text = "*filter\n:FORWARD ACCEPT [0:0]\n".to_owned();
    for number in 0..RULES {
        let (high, low) = (number / 250, number % 250);
        let rule = format!(
            "-A FORWARD -s 198.51.{high}.{low}/32 -p tcp -m comment --comment \"{reason}\" -j DROP"
        );
        writeln!(text, "{rule}").expect("a text grows");
    }
    write!(text, "-A FORWARD -p tcp -m tcp --dport {shut} -j DROP\nCOMMIT\n").expect("it grows");
    text
}

/// At the port that is open and at that which the last rule shuts.
fn listeners(house: &House) -> [TcpListener; 2] {
    let listen = |port| {
        let to = SocketAddr::new(address("D", Family::V4), port);
        TcpListener::bind(to).expect("a free port")
    };
    house.node("D").inside(|| [OPEN, SHUT].map(listen))
}

/// One connection is let through, whose ends it answers, and another dropped by the last rule.
fn assert_judged_to_the_last(house: &House, listeners: &[TcpListener; 2]) -> [TcpStream; 2] {
    let mut near = connect(house, OPEN, PATIENCE).expect("it is let through");
    let (mut far, _) = listeners[0].accept().expect("it arrives");
    talk(&mut near, &mut far);
    let dropped = connect(house, SHUT, SILENCE).expect_err("the last rule drops it");
    assert_eq!(dropped.kind(), ErrorKind::TimedOut);
    [near, far]
}

#[test]
fn rules_that_are_larger_than_a_request_are_sent_by_themselves_and_judge_to_their_last() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("guarded.yaml");
        std::fs::write(&file, DOCUMENT).expect("a file");
        let file = file.display().to_string();
        let write = |text: &str| {
            std::fs::write(folder.path().join("edge.iptables"), text).expect("a file");
        };
        let text = rules(SHUT);
        assert!(text.len() > 1024 * 1024, "{}", text.len());
        write(&text);
        let before = house.declared();
        let told = house.tell(&["apply", "-f", &file, "--wait"]);
        assert!(told.contains("chain guarded   active"), "{told}");
        let sent = house.client.rule_sets().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((sent.len(), sent[0].bytes), (1, text.len()));
        assert_eq!(sent[0].functions, ["edge"]);
        let listeners = listeners(house);
        let [mut near, mut far] = assert_judged_to_the_last(house, &listeners);
        let packet =
            format!("tcp {}:40123 > {}:{SHUT}", address("S", Family::V4), address("D", Family::V4));
        let story = house.tell(&["explain", &packet, "--from", "port:S@customer"]);
        let last = format!("'edge' drops it: edge.iptables line {}", RULES + 3);
        assert!(story.contains(&last), "{story}");
        assert_eq!(house.tell(&["apply", "-f", &file]).trim(), "no changes");

        // Others take their place under a connection, and nothing is lost.
        write(&rules(SHUT + 1));
        let told = house.tell(&["apply", "-f", &file, "--wait"]);
        assert!(told.contains("moved 2 paths") && told.contains("lost 0"), "{told}");
        talk(&mut near, &mut far);
        let mut near = connect(house, SHUT, PATIENCE).expect("it is let through now");
        let (mut far, _) = listeners[1].accept().expect("it arrives");
        talk(&mut near, &mut far);
        // What is wrong is told by its line, as of a small file.
        write(&rules(SHUT).replace("-m tcp --dport 5180", "-m u32 --u32 1"));
        let told = house.refuse(&["apply", "-f", &file]);
        assert!(told.contains(&format!("edge.iptables line {}", RULES + 3)), "{told}");
        account::assert_holds(house);

        house.tell(&["apply", "-f", &file, "--undeploy"]);
        assert_eq!(house.declared(), before, "nothing of it is left");
        let left = house.client.rule_sets().unwrap_or_else(|error| panic!("{error}"));
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn large_rules_judge_in_a_process_of_their_own_too() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("guarded.yaml");
        let apart = DOCUMENT.replace("[host2]", "[host2]\n      door: apart");
        std::fs::write(&file, apart).expect("a file");
        let file = file.display().to_string();
        std::fs::write(folder.path().join("edge.iptables"), rules(SHUT)).expect("a file");
        house.tell(&["apply", "-f", &file, "--wait"]);
        wait_for("the function", || {
            let shown = house.tell(&["function", "show", "edge"]);
            if shown.contains("1 of 1 instances run") { Ok(()) } else { Err(shown) }
        });
        assert_judged_to_the_last(house, &listeners(house));
        house.tell(&["apply", "-f", &file, "--undeploy"]);
    });
}
