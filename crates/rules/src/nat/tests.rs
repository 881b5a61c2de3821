//! What is read, and what is refused and how that is said.

use super::*;

macro_rules! written {
    ($name:literal) => {
        include_str!(concat!("../../../../conformance/nf/nat/", $name))
    };
}

const WRITTEN: [(&str, &str); 3] = [
    ("office.yaml", written!("office.yaml")),
    ("carrier.yaml", written!("carrier.yaml")),
    ("home.json", written!("home.json")),
];

#[test]
fn written_configurations_are_read() {
    for (name, text) in WRITTEN {
        read(text, name).unwrap_or_else(|error| panic!("{error}"));
    }
    let home = read(written!("home.json"), "home.json").unwrap();
    let wanted = NatConfig {
        masquerade: vec!["10.0.1.0/24".parse().unwrap()],
        pool: vec!["203.0.113.4/32".parse().unwrap()],
        ..NatConfig::default()
    };
    assert_eq!(home, wanted);
    assert_eq!(<(u16, u16)>::from(home.ports), (1_024, 65_535));
    let office = read(written!("office.yaml"), "office.yaml").unwrap();
    let [web, media] = &office.dnat[..] else { panic!("two are forwarded") };
    let ranges = [web.port, web.inside_ports(), media.port, media.inside_ports()];
    let wanted = [(8_080, 8_080), (80, 80), (6_000, 6_009), (7_000, 7_009)];
    assert_eq!(ranges.map(<(u16, u16)>::from), wanted);
    assert_eq!(office.filtering, FilteringBehaviour::AddressAndPortDependent);
    assert_eq!(office.shared_addresses().len(), 4);
    let carrier = read(written!("carrier.yaml"), "carrier.yaml").unwrap();
    assert_eq!((carrier.block, carrier.ipv6), (Some(1_000), Ipv6Policy::Block));
}

/// Each text is refused, at this line, in words that say this.
const REFUSED: [(&str, u32, &str); 37] = [
    ("{}", 0, "it translates nothing; name inside prefixes under 'masquerade'"),
    ("pool: [203.0.113.4]", 0, "it translates nothing"),
    ("masquerade: [10.0.1.0/24]", 0, "'masquerade' has no addresses to translate into"),
    (
        "masquerade: [10.0.1.7/24]\npool: [203.0.113.4]",
        1,
        "say 10.0.1.0/24 for all of it, or 10.0.1.7",
    ),
    ("pool: [203.0.113.4]\nmasquerade: [inside]", 2, "'inside' is no address and no prefix"),
    (
        "pool: [\"2001:db8::1\"]\nmasquerade: [10.0.1.0/24]",
        1,
        "is of IPv6, which is not translated",
    ),
    ("masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\ntypo: 1", 3, "unknown field `typo`"),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\nports: 9-3",
        3,
        "a port from 1 to 65535, or a range",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\nports: 0-3",
        3,
        "a port from 1 to 65535, or a range",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\nports: 70000",
        3,
        "a port from 1 to 65535, or a range",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\npool: [203.0.113.5]",
        1,
        "duplicate field `pool`",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\nmapping: symmetric",
        3,
        "endpoint-independent",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\nfiltering: none",
        3,
        "address-and-port-dependent",
    ),
    ("masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\nipv6: drop", 3, "unknown variant `drop`"),
    ("masquerade: [10.0.1.0/24]\npool: [203.0.113.0/23]", 2, "say 203.0.112.0/23 for all of it"),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.112.0/23]",
        0,
        "512 outside addresses of at most 256",
    ),
    (
        "masquerade: [10.0.1.0/24, 10.0.1.0/24]\npool: [203.0.113.4]",
        0,
        "10.0.1.0/24 is named twice",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [10.0.1.4]",
        0,
        "10.0.1.0/24 is inside, and 10.0.1.4 is said to be outside",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [224.0.0.1]",
        0,
        "224.0.0.1 is no address that a host could have",
    ),
    ("snat: [{inside: 10.0.1.0/24, to: []}]", 0, "snat 1 has no addresses"),
    (
        "static: [{inside: 10.0.1.1, outside: 203.0.113.4}, {inside: 10.0.1.1, outside: 203.0.113.5}]",
        0,
        "'static' names 10.0.1.1 twice",
    ),
    (
        "static: [{inside: 10.0.1.1, outside: 203.0.113.4}, {inside: 10.0.1.2, outside: 203.0.113.4}]",
        0,
        "'static' names 203.0.113.4 twice",
    ),
    (
        "static: [{inside: 10.0.1.1, outside: 203.0.113.4}]\npool: [203.0.113.4]",
        0,
        "203.0.113.4 belongs to the host 10.0.1.1 by 'static', and is shared",
    ),
    (
        "static: [{inside: 203.0.113.5, outside: 203.0.113.4}, {inside: 10.0.1.2, outside: 203.0.113.5}]",
        0,
        "203.0.113.5 is inside, and 203.0.113.5 is said to be outside",
    ),
    (
        "dnat: [{to: 203.0.113.4, protocol: tcp, port: 80, inside: 10.0.1.7}]",
        0,
        "dnat 1 is for 203.0.113.4, which is not in 'pool'; add the address to 'pool'",
    ),
    (
        "pool: [203.0.113.4]\ndnat: [{to: 203.0.113.4, protocol: sctp, port: 80, inside: 10.0.1.7}]",
        2,
        "unknown variant `sctp`",
    ),
    (
        "pool: [203.0.113.4]\ndnat:\n- {to: 203.0.113.4, protocol: tcp, port: 80-90, inside: 10.0.1.7}\n\
      - {to: 203.0.113.4, protocol: tcp, port: 85, inside: 10.0.1.8}",
        0,
        "dnat 1 and dnat 2 have the same outside ports of 203.0.113.4, tcp",
    ),
    (
        "pool: [203.0.113.4]\ndnat:\n- {to: 203.0.113.4, protocol: tcp, port: 80, inside: 10.0.1.7}\n\
      - {to: 203.0.113.4, protocol: tcp, port: 8080, inside: 10.0.1.7, inside_port: 80}",
        0,
        "dnat 1 and dnat 2 have the same inside ports of 10.0.1.7, tcp",
    ),
    (
        "pool: [203.0.113.4]\ndnat: [{to: 203.0.113.4, protocol: tcp, port: 80-81, inside: 10.0.1.7, inside_port: 80}]",
        0,
        "dnat 1 has 2 ports outside and 1 inside",
    ),
    (
        "pool: [203.0.113.4]\ndnat: [{to: 203.0.113.4, protocol: tcp, port: 80, inside: 10.0.1.7}]\n\
      static: [{inside: 10.0.1.7, outside: 203.0.113.9}]",
        0,
        "which has an outside address of its own by 'static'",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\nblock: 512",
        0,
        "masquerade has 256 inside addresses, and room for 126 blocks of 512 ports: 1 addresses with 126 each",
    ),
    ("masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\nblock: 0", 0, "'block' is 0"),
    (
        "masquerade: [10.0.1.0/30]\npool: [203.0.113.4]\nsnat: [{inside: 10.0.2.1, to: [203.0.113.4]}]\nblock: 8",
        0,
        "203.0.113.4 serves snat 1 and masquerade",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\nflows_per_host: 0",
        0,
        "'flows_per_host' is 0",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\ntimeouts: {udp_s: 30}",
        0,
        "'udp_s' is 30 s; say 120 s (RFC 4787 REQ-5)",
    ),
    (
        "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\ntimeouts: {tcp_established_s: 60}",
        0,
        "(RFC 5382 REQ-5)",
    ),
    ("masquerade: 10.0.1.0/24\npool: [203.0.113.4]", 1, "expected a sequence"),
];

#[test]
fn what_contradicts_itself_is_refused_and_named() {
    for (text, line, words) in REFUSED {
        let error = read(text, "nat.yaml").expect_err(text);
        let said = error.to_string();
        assert!(said.contains(words), "{text}\n{said}\n{words}");
        assert!(said.starts_with("nat.yaml") && !error.advice.is_empty(), "{said}");
        assert_eq!(error.line, line, "{said}");
    }
}

#[test]
fn too_much_is_refused() {
    use catena_model::limits::{FUNCTION_CONFIG_BYTES_MAX, FUNCTION_RULES_MAX, NAT_PREFIXES_MAX};
    let many = |count: usize, item: &dyn Fn(usize) -> String| {
        (0..count).map(item).collect::<Vec<_>>().join(", ")
    };
    let prefix = |at: usize| format!("10.{}.{}.0/24", at / 256, at % 256);
    let prefixes = many(NAT_PREFIXES_MAX + 1, &prefix);
    let error = read(&format!("masquerade: [{prefixes}]\npool: [203.0.113.4]"), "n").unwrap_err();
    assert!(error.what.contains("1025 inside prefixes of at most 1024"), "{error}");
    let host = |at: usize| {
        let (high, low) = (at / 256, at % 256);
        format!("{{inside: 10.0.{high}.{low}, outside: 11.0.{high}.{low}}}")
    };
    read(&format!("static: [{}]", many(FUNCTION_RULES_MAX, &host)), "n").unwrap();
    let error =
        read(&format!("static: [{}]", many(FUNCTION_RULES_MAX + 1, &host)), "n").unwrap_err();
    assert!(error.what.contains("more than 16384 rules"), "{error}");
    let long = format!("# {}", "x".repeat(FUNCTION_CONFIG_BYTES_MAX));
    assert!(read(&long, "n").unwrap_err().what.contains("bytes of at most"));
    let deep = format!("masquerade: {}", "[".repeat(10_000));
    assert!(read(&deep, "n").is_err());
}

/// Each cut and each flipped bit of what people write is read or refused.
#[test]
fn damaged_texts_are_read_or_refused() {
    let mut read_so = [0; 2];
    for (name, text) in WRITTEN {
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            read_so[usize::from(read(&text[..cut], name).is_ok())] += 1;
        }
        for bit in 0..8 * text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(text) = String::from_utf8(bytes) else { continue };
            read_so[usize::from(read(&text, name).is_ok())] += 1;
        }
    }
    assert!(read_so.iter().all(|count| *count > 200), "{read_so:?}");
}
