//! A function that reads source routes gets what is left of each packet's header and gives it back, and the packet
//! goes on under it; the function behind it sees plain packets.

use super::aware::Speaker;
use super::witness::HANDING_OVER;
use crate::account::{ChainTotal, assert_chain};
use crate::capture::Capture;
use crate::house::{House, in_own_house};
use crate::traffic::{Family, Receiver, Sender, address};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

const CHAIN: &str = "read";
const PORT: u16 = 5_112;
const PACKETS: u32 = 200;
/// What a frame has where (docs/internals/source-routes.md).
const WIDTH_AT: usize = 14;
const COUNT_AT: usize = 15;
const COUNTER_AT: usize = 16;
const FLAGS_AT: usize = 17;
const PORTS_AT: usize = 18;
const FLAG_PATH: u8 = 0x04;
const FLAG_TAG: u8 = 0x01;
/// Of a path, and of a tag.
const PATH_BYTES: usize = 3;
const TAG_BYTES: usize = 2;
/// Frames of a chain that come to the last host of its way, which has the one port that is left.
const AT_THE_END: &str = "ether proto 0x88b5 and ether[16] = 1 and ether[14] != 0x10";

/// Frames at a function, in and out: the heads of those under a source route, and how many are plain.
fn heard(captures: [Capture; 2]) -> (Vec<Vec<u8>>, usize) {
    let [routed, plain] = captures.map(Capture::frames);
    (routed.into_iter().map(|frame| frame.bytes).collect(), plain.len())
}

fn listen(house: &House, node: &str, folder: &tempfile::TempDir) -> [Capture; 2] {
    let at = house.node(node);
    [("routed", "ether proto 0x88b5"), ("plain", "udp")].map(|(name, filter)| {
        let own: PathBuf = folder.path().join(format!("{node}-{name}"));
        std::fs::create_dir(&own).expect("a folder");
        Capture::start(&at, "customer", filter, &own)
    })
}

/// A header but for its counter and its ways round dead cables.
fn header(frame: &[u8]) -> Vec<u8> {
    let bits = usize::from(frame[WIDTH_AT] & 0x0f) * usize::from(frame[COUNT_AT]);
    let tag = if frame[FLAGS_AT] & FLAG_TAG == 0 { 0 } else { TAG_BYTES };
    let end = PORTS_AT + bits.div_ceil(8) + PATH_BYTES + tag;
    [&frame[WIDTH_AT..COUNTER_AT], &frame[FLAGS_AT..end]].concat()
}

/// Packets through the chain under an encapsulation, whose headers have a tag or none.
fn all_pass(house: &House, encapsulation: &str, is_tagged: bool) {
    house.deploy(json!({
        "name": CHAIN, "source": "S", "destination": "D", "encapsulation": encapsulation,
        "match_fields": {"protocol": "udp", "destination_port": PORT},
        "chain": [{"name": "v1", "direction": "same", "speaks": "source-route/native"},
            {"name": "v2", "direction": "same"}],
    }));
    let folder = tempfile::tempdir().expect("a folder");
    let behind = Capture::start(&house.node("h3"), "l-a3", AT_THE_END, folder.path());
    let [at_v1, at_v2] = ["v1", "v2"].map(|node| listen(house, node, &folder));
    let destination = SocketAddr::new(address("D", Family::V4), PORT);
    let receiver = Receiver::new(&house.node("D"), destination);
    let mut sender = Sender::new(&house.node("S"), destination);
    sender.send_many(PACKETS);
    receiver.assert_all(PACKETS);
    assert_chain(house, CHAIN, &ChainTotal::whole(PACKETS.into(), &["v1", "v2"]));
    std::thread::sleep(HANDING_OVER);
    let (routed, plain) = heard(at_v1);
    assert_eq!((routed.len(), plain), (2 * PACKETS as usize, 0), "{encapsulation}: at v1");
    for frame in &routed {
        let (count, counter, flags) = (frame[COUNT_AT], frame[COUNTER_AT], frame[FLAGS_AT]);
        // On to v2: out of its host, through two switches, and into the function.
        assert!(
            counter >= 3 && counter < count,
            "{encapsulation}: {counter} of {count} ports left"
        );
        assert_eq!(
            flags & (FLAG_PATH | FLAG_TAG),
            FLAG_PATH | u8::from(is_tagged),
            "{encapsulation}"
        );
    }
    let on_the_way: Vec<Vec<u8>> = behind.frames().into_iter().map(|frame| frame.bytes).collect();
    assert_eq!(on_the_way.len(), PACKETS as usize, "{encapsulation}: at the last link");
    let headers =
        |frames: &[Vec<u8>]| frames.iter().map(|one| header(one)).collect::<BTreeSet<_>>();
    assert_eq!(headers(&routed).len(), 1, "{encapsulation}: one chain, one way");
    assert_eq!(headers(&on_the_way), headers(&routed), "{encapsulation}: under what was left");
    let (routed, plain) = heard(at_v2);
    assert_eq!((routed.len(), plain), (0, 2 * PACKETS as usize), "{encapsulation}: at v2");
    house.undeploy(CHAIN);
}

#[test]
fn a_function_that_reads_source_routes_gives_each_packet_back_under_its_header() {
    in_own_house("reading.yaml", |house| {
        let _speaker = Speaker::start(house, "v1");
        all_pass(house, "source-route/native", false);
        all_pass(house, "source-route/native-tagged", true);
    });
}
