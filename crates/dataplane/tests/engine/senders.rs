//! What another node may send: the node that has visited the function before, or another of the
//! same function, and nobody else.

use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, with_chain};
use crate::town::node_address;
use catena_dataplane::engine::EngineConfig;
use catena_model::resource::Encapsulation;

/// Sends the datagram that `from` has sent to a node again, as another node.
fn forge(rig: &mut Rig, from: usize, (node, sender): (usize, usize)) -> bool {
    let sent = rig.datagrams.iter().find(|row| row.from == from).unwrap();
    let (kind, bytes) = (sent.kind, sent.bytes.clone());
    rig.moved();
    rig.send_datagram(node, kind, node_address(sender), &bytes);
    rig.moved().keys().any(|name| name.ends_with("dropped foreign_path"))
}

#[test]
fn a_node_sends_into_no_position_that_it_has_no_business_with() {
    for encapsulation in Encapsulation::TUNNELLED {
        for has_fast_path in [true, false] {
            let lane = |config: &mut EngineConfig| config.has_fast_path = has_fast_path;
            let chain = with_chain(encapsulation, &[&["v1"], &["v2"], &["v4"]]);
            let mut rig = Rig::with(chain, lane, 512);
            rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
            assert_eq!(rig.take("D").len(), 1);
            for _ in 0..2 {
                assert!(forge(&mut rig, 0, (1, 2)), "v2 gets packets of v1's node alone");
                assert!(forge(&mut rig, 1, (2, 0)), "v1's node does not pass v2 by");
                assert!(rig.take("D").is_empty());
            }
            assert!(!forge(&mut rig, 0, (1, 0)), "v1's node may");
            assert_eq!(rig.take("D").len(), 1);
            rig.check();
        }
    }
}

#[test]
fn a_tap_before_a_function_changes_nothing_about_who_sends_to_it() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"], &["v4"]]);
    town.chains[0].taps = vec![1];
    let mut rig = Rig::new(town);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (1, 1));
}

#[test]
fn anybody_who_classifies_sends_to_the_first_function() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v2"]]));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert!(!forge(&mut rig, 0, (1, 2)));
    assert_eq!(rig.take("D").len(), 2);
}
