//! The hash is fixed for ever: other hosts and other builds must agree with this one.

use std::collections::HashSet;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn key(source: &str, destination: &str, protocol: IpProtocol, ports: (u16, u16)) -> FlowKey {
    FlowKey {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol,
        source_port: ports.0,
        destination_port: ports.1,
    }
}

fn samples() -> Vec<FlowKey> {
    let mut keys = Vec::new();
    for host in 0..64_u16 {
        for port in 0..64 {
            let (v4, v6) = (std::format!("10.0.0.{host}"), std::format!("2001:db8::{host:x}"));
            keys.push(key(&v4, "10.0.1.1", IpProtocol::TCP, (40_000 + port, 80)));
            keys.push(key(&v6, "2001:db8:1::1", IpProtocol::UDP, (40_000 + port, 53)));
        }
    }
    keys
}

#[test]
fn a_seed_gives_another_hash_and_none_the_stable_one() {
    for key in samples() {
        assert_eq!(key.seeded_hash(0), key.stable_hash());
        assert_ne!(key.seeded_hash(1), key.stable_hash());
    }
}

#[test]
fn similar_flows_fill_a_small_table_evenly() {
    let keys = samples();
    for shift in [0, 8, 24, 48, 56] {
        let mut filled = [0_u32; 256];
        for key in &keys {
            filled[usize::from((key.stable_hash() >> shift) as u8)] += 1;
        }
        // 32 expected, standard deviation 5.6.
        assert!(filled.iter().all(|&count| (6..70).contains(&count)), "{filled:?}");
    }
}

#[test]
fn similar_flows_do_not_collide() {
    let hashes: HashSet<u64> = samples().iter().map(FlowKey::stable_hash).collect();
    assert_eq!(hashes.len(), samples().len());
}

#[test]
fn each_part_of_the_key_counts() {
    let base = key("10.0.0.1", "10.0.0.2", IpProtocol::TCP, (1, 2));
    let others = [
        key("10.0.0.3", "10.0.0.2", IpProtocol::TCP, (1, 2)),
        key("10.0.0.1", "10.0.0.3", IpProtocol::TCP, (1, 2)),
        key("10.0.0.1", "10.0.0.2", IpProtocol::UDP, (1, 2)),
        key("10.0.0.1", "10.0.0.2", IpProtocol::TCP, (3, 2)),
        key("10.0.0.1", "10.0.0.2", IpProtocol::TCP, (1, 3)),
        key("::ffff:10.0.0.1", "::ffff:10.0.0.2", IpProtocol::TCP, (1, 2)),
    ];
    for other in others {
        let distance = (base.stable_hash() ^ other.stable_hash()).count_ones();
        assert!((12..=52).contains(&distance), "{other:?} differs in {distance} bits");
    }
}

/// Keys whose ends lie in every order, with equal addresses and ports among them.
fn any_key() -> impl Strategy<Value = FlowKey> {
    let address = || {
        prop_oneof![
            any::<u32>().prop_map(|bits| IpAddr::V4(bits.into())),
            (0..4_u32).prop_map(|bits| IpAddr::V4(bits.into())),
        ]
    };
    let wide = || any::<u128>().prop_map(|bits| IpAddr::V6(bits.into()));
    let ends = prop_oneof![(address(), address()), (wide(), wide())];
    let protocol = prop_oneof![
        Just(IpProtocol::TCP),
        Just(IpProtocol::UDP),
        Just(IpProtocol::ICMP),
        Just(IpProtocol::ICMPV6),
        any::<u8>().prop_map(IpProtocol),
    ];
    let port = || prop_oneof![any::<u16>(), 0..3_u16];
    (ends, protocol, port(), port()).prop_map(
        |((source, destination), protocol, source_port, destination_port)| FlowKey {
            source,
            destination,
            protocol,
            source_port,
            destination_port,
        },
    )
}

proptest! {
    #[test]
    fn both_directions_of_a_flow_have_one_symmetric_hash(key in any_key(), seed in any::<u64>()) {
        let back = key.reversed();
        prop_assert_eq!(back.reversed(), key);
        prop_assert_eq!(back.symmetric_hash(seed), key.symmetric_hash(seed));
        let both = [key.seeded_hash(seed), back.seeded_hash(seed)];
        prop_assert!(both.contains(&key.symmetric_hash(seed)), "it is the hash of one of the two");
    }
}

#[test]
fn an_echo_and_its_reply_have_one_symmetric_hash() {
    let echo = key("10.0.0.9", "10.0.0.2", IpProtocol::ICMP, (77, 0));
    let reply = key("10.0.0.2", "10.0.0.9", IpProtocol::ICMP, (77, 0));
    assert_eq!(echo.reversed(), reply);
    assert_eq!(echo.symmetric_hash(0), reply.symmetric_hash(0));
    let other = FlowKey { source_port: 78, ..echo };
    assert_ne!(echo.symmetric_hash(0), other.symmetric_hash(0));
}

#[test]
fn flows_that_differ_in_one_end_have_different_symmetric_hashes() {
    let hashes: HashSet<u64> = samples().iter().map(|key| key.symmetric_hash(0)).collect();
    assert_eq!(hashes.len(), samples().len());
    // Not an exclusive or of both ends: ports that change places are another flow.
    let one = key("10.0.0.1", "10.0.0.2", IpProtocol::TCP, (1, 2));
    let crossed = key("10.0.0.1", "10.0.0.2", IpProtocol::TCP, (2, 1));
    assert_ne!(one.symmetric_hash(0), crossed.symmetric_hash(0));
}

/// Flows to addresses of one network, chosen so that all have one hash, as far as that is known.
fn aimed(seed: u64) -> Vec<FlowKey> {
    let of = |low: u64| -> IpAddr {
        core::net::Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | u128::from(low)).into()
    };
    let high = 0x2001_0db8_0000_0000;
    let aim = |low: u64| {
        let source = of(low);
        let to = mix(absorb(mix_start(seed), wide(source)) ^ high) ^ 0x0123_4567_89ab_cdef;
        FlowKey { source, destination: of(to), ..key("::1", "::2", IpProtocol::UDP, (1, 2)) }
    };
    (1..100).map(aim).collect()
}

#[test]
fn who_does_not_know_the_seed_cannot_make_flows_of_one_hash() {
    let hashes = |seed| aimed(0).iter().map(|key| key.symmetric_hash(seed)).collect::<HashSet<_>>();
    assert_eq!(hashes(0).len(), 1, "without a seed everybody can");
    assert_eq!(hashes(0x5eed).len(), aimed(0).len());
}
