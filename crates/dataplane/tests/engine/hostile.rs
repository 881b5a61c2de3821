//! Frames that lie: families of malformed and hostile frames, sent into a port that slices take from.
//! Each ends by name or goes on as ordinary traffic; nothing panics, and the counters balance. The table
//! is that of the counters (`reference/hostile-frames.md`).
//!
//! Run with `CATENA_UPDATE_GOLDENS=1` to write the page anew, then read the difference.

use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{PLAIN_PORT, packet, packet_v6};
use crate::slices::{frame, scene, user};
use crate::town::Town;
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::resource::Encapsulation;
use catena_wire::geneve::GeneveHeader;
use catena_wire::gre::GreHeader;
use catena_wire::ports;
use catena_wire::scalar::{EtherType, IpProtocol, Vni};
use catena_wire::vxlan::VxlanHeader;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Where the headers of a frame without tags and options begin.
const IP: usize = 14;
const UPPER: usize = 34;
const DATA: usize = 42;

/// Frames of one kind, and where they may end: nowhere is delivery.
struct Family {
    name: &'static str,
    frames: Vec<Vec<u8>>,
    ends: &'static [Option<DropReason>],
}

fn emitted<E: std::fmt::Debug>(emit: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    let length = emit(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

fn udp(town: &Town, port: u16, payload: Vec<u8>) -> Vec<u8> {
    Spec { ports: (50_000, port), payload, ..packet(town, PLAIN_PORT) }.frame()
}

fn ip(town: &Town, protocol: IpProtocol, payload: Vec<u8>) -> Vec<u8> {
    Spec { protocol, payload, ..packet(town, PLAIN_PORT) }.frame()
}

fn vxlan(vni: u32) -> Vec<u8> {
    emitted(|into| VxlanHeader { vni: Vni::new(vni).unwrap() }.emit(into))
}

fn geneve(options: &[u8]) -> Vec<u8> {
    let header = GeneveHeader {
        vni: Vni::new(5).unwrap(),
        protocol: EtherType::TRANSPARENT_ETHERNET,
        is_oam: false,
        is_critical: false,
        options,
    };
    emitted(|into| header.emit(into))
}

fn gre(key: Option<u32>) -> Vec<u8> {
    let header = GreHeader { protocol: EtherType::IPV4, checksum: None, key, sequence: None };
    emitted(|into| header.emit(into))
}

/// The frame with each of these changes: a place and what is written there.
fn damaged(frame: &[u8], changes: &[&[(usize, u8)]]) -> Vec<Vec<u8>> {
    let damage = |bytes: &&[(usize, u8)]| {
        let mut frame = frame.to_vec();
        for (place, value) in *bytes {
            frame[*place] = *value;
        }
        frame
    };
    changes.iter().map(damage).collect()
}

fn nested(town: &Town, layers: u32) -> Vec<u8> {
    let plain = packet(town, PLAIN_PORT).frame();
    (0..layers).fold(plain, |inner, vni| udp(town, ports::VXLAN, [vxlan(vni), inner].concat()))
}

/// GRE in GRE, each time in the packet itself: what a loop of tunnels makes.
fn loop_of_gre(town: &Town, layers: u32) -> Vec<u8> {
    let plain = packet(town, PLAIN_PORT).frame();
    (0..layers).fold(plain, |inner, _| {
        ip(town, IpProtocol::GRE, [gre(None), inner[IP..].to_vec()].concat())
    })
}

fn stt(town: &Town, frame_bytes: u16, have: usize) -> Vec<u8> {
    let mut tcp = vec![0; 20 + have];
    tcp[..4].copy_from_slice(&[0xc3, 0x50, 0x1d, 0x2f]);
    tcp[4..6].copy_from_slice(&frame_bytes.to_be_bytes());
    tcp[12] = 0x50;
    let mut frame = ip(town, IpProtocol(6), Vec::new());
    frame.truncate(UPPER);
    frame.extend(tcp);
    let total = u16::try_from(frame.len() - IP).unwrap();
    frame[IP + 2..IP + 4].copy_from_slice(&total.to_be_bytes());
    frame
}

fn gpe_nsh(town: &Town, base: [u8; 4]) -> Vec<u8> {
    let mut payload = vec![0x0c, 0, 0, 4, 0, 0, 5, 0];
    payload.extend(base);
    payload.resize(8 + 24, 0);
    payload.extend(packet(town, PLAIN_PORT).frame());
    udp(town, ports::VXLAN_GPE, payload)
}

/// A G-PDU with extension headers of this length field, each naming the next.
fn extensions(town: &Town, words: u8, count: usize) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0x40];
    for _ in 0..count {
        body.extend([words, 0, 0, 0x40]);
    }
    let length = u8::try_from(body.len()).unwrap();
    let gtp = [vec![0x34, 255, 0, length, 0, 0, 0, 7], body].concat();
    udp(town, ports::GTP_U, gtp)
}

fn ipv6_extensions(town: &Town, count: usize, words: u8) -> Vec<u8> {
    let mut chain = Vec::new();
    for _ in 0..count {
        chain.extend([60, words, 1, 4, 0, 0, 0, 0]);
    }
    chain.extend([59, 0, 1, 4, 0, 0, 0, 0]);
    Spec { protocol: IpProtocol(60), payload: chain, ..packet_v6(town, PLAIN_PORT) }.frame()
}

fn tags(town: &Town, count: usize) -> Vec<u8> {
    let plain = packet(town, PLAIN_PORT).frame();
    let tags = [0x81, 0x00, 0x00, 0x05].repeat(count);
    [&plain[..12], &tags, &plain[12..]].concat()
}

fn fragment(town: &Town, offset: u16, more: bool, bytes: usize) -> Vec<u8> {
    let whole = frame(town, user(5, 1));
    let payload = whole[UPPER..UPPER + bytes].to_vec();
    let base = Spec { fragment: (offset, more), ..packet(town, PLAIN_PORT) };
    Spec { protocol: IpProtocol(if offset > 0 { 17 } else { 99 }), payload, ..base }.frame()
}

/// The first fragment keeps its protocol: the emitter of tests would make a header of its own.
fn first_fragment(town: &Town, bytes: usize) -> Vec<u8> {
    let mut frame = fragment(town, 0, true, bytes);
    frame[IP + 9] = 17;
    frame
}

fn families(town: &Town) -> Vec<Family> {
    use DropReason::{
        ForeignChainHeader, FragmentOverlap, MalformedEthernet, MalformedIp, MalformedTransport,
        MalformedTunnel, SecondFirstFragment, TunnelTooDeep, UnsupportedEncapsulation,
        VlanNotInNetwork,
    };
    let tunnel: &[_] = &[Some(MalformedTunnel)];
    let users = frame(town, user(5, 1));
    let family = |name, frames, ends| Family { name, frames, ends };
    let plain = packet(town, PLAIN_PORT).frame();
    let in_vxlan = udp(town, ports::VXLAN, [vxlan(5), plain.clone()].concat());
    let inner_ip = DATA + 8 + 14;
    let gtp = inner_ip + 28;
    let of_gre = ip(town, IpProtocol::GRE, [gre(Some(7)), plain[IP..].to_vec()].concat());
    let options = udp(town, ports::GENEVE, [geneve(&[0; 8]), plain.clone()].concat());
    let cut_inside =
        (DATA..users.len()).map(|end| udp(town, ports::VXLAN, users[DATA..end].to_vec()));
    let cut_inside = cut_inside.collect();
    let every_prefix = (0..users.len()).map(|length| users[..length].to_vec()).collect();
    let chain_header = [&plain[..12], &[0x89, 0x4f], &plain[14..]].concat();
    vec![
        family(
            "tunnels in one another beyond the limit",
            vec![nested(town, 9), nested(town, 12)],
            &[Some(TunnelTooDeep)],
        ),
        family(
            "a loop of tunnels: GRE in itself",
            vec![loop_of_gre(town, 9), loop_of_gre(town, 20)],
            &[Some(TunnelTooDeep)],
        ),
        family(
            "VXLAN without its flag, or cut short",
            {
                let mut frames = damaged(&in_vxlan, &[&[(DATA, 0)]]);
                frames.push(udp(town, ports::VXLAN, vxlan(5)[..7].to_vec()));
                frames.push(udp(town, ports::VXLAN, [vxlan(5), plain[..13].to_vec()].concat()));
                frames
            },
            tunnel,
        ),
        family(
            "VXLAN-GPE of another version, or without its flag",
            damaged(&gpe_nsh(town, [0x0f, 0xc6, 1, 3]), &[&[(DATA, 0x1c)], &[(DATA, 0x04)]]),
            tunnel,
        ),
        family(
            "NSH of length 0 and of more than there is",
            vec![
                gpe_nsh(town, [0x0f, 0xc0, 1, 3]),
                gpe_nsh(town, [0x0f, 0xff, 2, 3]),
                gpe_nsh(town, [0x4f, 0xc6, 1, 3]),
                gpe_nsh(town, [0x0f, 0xc6, 9, 3]),
            ],
            tunnel,
        ),
        family(
            "GENEVE options that end behind the options, or the frame",
            damaged(&options, &[&[(DATA + 8 + 3, 5)], &[(DATA, 0x3f)], &[(DATA, 0x42)]]),
            tunnel,
        ),
        family(
            "GRE with source routing, reserved bits, without its key",
            {
                let mut frames =
                    damaged(&of_gre, &[&[(UPPER, 0x60)], &[(UPPER, 0x28)], &[(UPPER + 1, 1)]]);
                frames.push(ip(town, IpProtocol::GRE, vec![0x20, 0, 8, 0, 1]));
                frames
            },
            tunnel,
        ),
        family(
            "STT that says less than it holds, or has no header",
            vec![stt(town, 3, 40), stt(town, 10, 10)],
            tunnel,
        ),
        family(
            "GTP-U of another version, or longer than its datagram",
            damaged(&users, &[&[(gtp, 0x50)], &[(gtp, 0x20)], &[(gtp + 2, 0xff)]]),
            tunnel,
        ),
        family(
            "GTP-U extension headers of length 0, without an end",
            vec![extensions(town, 0, 1), extensions(town, 1, 9), extensions(town, 200, 1)],
            tunnel,
        ),
        family(
            "IP in a tunnel whose lengths lie",
            damaged(
                &in_vxlan,
                &[
                    &[(inner_ip, 0x43)],
                    &[(inner_ip + 2, 0xff)],
                    &[(inner_ip, 0x65)],
                    &[(inner_ip + 24, 0xff)],
                ],
            ),
            tunnel,
        ),
        family(
            "IPv4 whose lengths lie",
            damaged(
                &plain,
                &[
                    &[(IP, 0x44)],
                    &[(IP, 0x4f)],
                    &[(IP + 2, 0xff)],
                    &[(IP + 2, 0), (IP + 3, 19)],
                    &[(IP, 0x65)],
                ],
            ),
            &[Some(MalformedIp)],
        ),
        family(
            "UDP whose length lies",
            damaged(&plain, &[&[(UPPER + 4, 0xff)], &[(UPPER + 4, 0), (UPPER + 5, 7)]]),
            &[Some(MalformedTransport)],
        ),
        family(
            "chains of IPv6 extension headers",
            vec![ipv6_extensions(town, 9, 0), ipv6_extensions(town, 1, 255)],
            &[Some(MalformedIp)],
        ),
        family(
            "stacks of VLAN tags",
            vec![tags(town, 1), tags(town, 2), tags(town, 3), tags(town, 300)],
            &[Some(VlanNotInNetwork), Some(MalformedEthernet)],
        ),
        family(
            "tiny first fragments",
            vec![first_fragment(town, 4), first_fragment(town, 0)],
            &[Some(MalformedTransport)],
        ),
        family(
            "overlapping first fragments, and those of a tunnel that come alone",
            vec![
                first_fragment(town, 96),
                first_fragment(town, 88),
                fragment(town, 1, true, 64),
                fragment(town, 0x1fff, false, 8),
            ],
            &[None, Some(FragmentOverlap), Some(SecondFirstFragment)],
        ),
        family("chain headers of a tenant", vec![chain_header], &[Some(ForeignChainHeader)]),
        family("a user's tunnels cut anywhere, the outer headers whole", cut_inside, tunnel),
        family(
            "a user's frame cut anywhere",
            every_prefix,
            &[Some(MalformedEthernet), Some(MalformedIp), Some(UnsupportedEncapsulation)],
        ),
    ]
}

/// What became of a frame that was sent into S: a drop by name, or none.
fn outcome(rig: &mut Rig, frame: &[u8]) -> Option<DropReason> {
    rig.moved();
    rig.send("S", frame);
    rig.sleep(1_000);
    let moved = rig.moved();
    let drops: Vec<_> = moved.iter().filter(|(name, _)| name.contains(" dropped ")).collect();
    rig.seen.clear();
    rig.datagrams.clear();
    rig.log.clear();
    let named = DropReason::ALL
        .iter()
        .copied()
        .find(|reason| drops.iter().any(|(name, _)| name.ends_with(&format!(" dropped {reason}"))));
    assert_eq!(named.is_some(), !drops.is_empty());
    named
}

#[test]
fn every_hostile_frame_ends_by_name_or_goes_on_and_the_book_says_which() {
    let mut rig = Rig::new(scene(Encapsulation::Nsh));
    let mut page = String::from(
        "# Hostile frames\n\nWhat becomes of malformed and hostile frames at a port that slices take \
         packets from. Where no slice does, nothing inside a tunnel is judged: such frames are \
         ordinary traffic there. Every line is a test; the names are those of the [drop \
         reasons](drop-reasons.md).\n\n| Frames | Sent | What becomes of them |\n|---|---|---|\n",
    );
    for Family { name, frames, ends } in families(&rig.town.clone()) {
        let mut met = BTreeSet::new();
        for frame in &frames {
            let end = outcome(&mut rig, frame);
            assert!(ends.contains(&end), "{name}: {end:?}");
            met.insert(end.map_or("goes on".to_owned(), |reason| format!("`{reason}`")));
        }
        rig.check();
        let met: Vec<String> = met.into_iter().collect();
        writeln!(page, "| {name} | {} | {} |", frames.len(), met.join(", ")).unwrap();
    }
    golden(&page);
}

fn golden(page: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/book/src/reference/hostile-frames.md");
    if std::env::var_os("CATENA_UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    assert_eq!(page, std::fs::read_to_string(&path).unwrap_or_default(), "the book is stale");
}

/// The goldens that are whole frames.
fn goldens() -> Vec<Vec<u8>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let files = ["inside", "frame"].map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let mut paths: Vec<PathBuf> =
        files.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| -> Vec<u8> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let digits: Vec<u8> = lines.flat_map(str::bytes).filter(u8::is_ascii_hexdigit).collect();
        let (pairs, _) = digits.as_chunks::<2>();
        let octet = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        pairs.iter().map(octet).collect()
    };
    paths.iter().map(read).collect()
}

#[test]
fn a_hundred_thousand_damaged_frames_are_all_accounted_for() {
    const FRAMES: usize = 100_000;
    const BATCH: usize = 200;
    let mut rig = Rig::new(scene(Encapsulation::Nsh));
    let mut goldens = goldens();
    goldens.push(frame(&rig.town, user(5, 1)));
    goldens.push(frame(&rig.town, user(5, 20)));
    let mut word = 0x0dd_ba11_u64;
    let mut next = |bound: usize| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) as usize % bound
    };
    for _ in 0..FRAMES / BATCH {
        let frames: Vec<(Vec<u8>, Offload)> = (0..BATCH)
            .map(|_| {
                let mut bytes = goldens[next(goldens.len())].clone();
                for _ in 0..next(6) {
                    let place = next(bytes.len());
                    bytes[place] = next(256) as u8;
                }
                match next(8) {
                    0 => bytes.truncate(next(bytes.len()).max(1)),
                    1 => bytes.resize(bytes.len() + next(200), 0x41),
                    _ => {}
                }
                (bytes, Offload::default())
            })
            .collect();
        rig.send_all("S", frames);
        rig.seen.clear();
        rig.datagrams.clear();
        rig.log.clear();
        rig.now_ns += 1_000_000;
    }
    rig.sleep(1_000);
    rig.check();
    let counters = rig.counters();
    let port = counters[0].ports.iter().find(|port| port.name == "S").unwrap();
    assert_eq!(port.account.received.packets, FRAMES as u64);
    for reason in [DropReason::MalformedTunnel, DropReason::MalformedIp] {
        assert!(port.account.dropped.get(&reason).is_some_and(|n| *n > 100), "{reason}");
    }
    let entered: u64 = rig.slice_counters(0).iter().map(|slice| slice.entered.packets).sum();
    assert!(entered > 1_000, "slices took {entered}");
}
