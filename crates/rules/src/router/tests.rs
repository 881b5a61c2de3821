//! What is read, and what is refused in which words.

use super::*;

const NETS: &str = include_str!("../../../../conformance/nf/router/two-nets.yaml");
const LEAST: &str = include_str!("../../../../conformance/nf/router/least.json");

#[test]
fn what_is_written_is_read_as_it_says() {
    let [nets, least] = [NETS, LEAST].map(|text| read(text, "file").unwrap());
    assert_eq!(least.routes, []);
    assert_eq!(nets.at_in.mac, MacAddr([2, 0, 0, 0, 1, 1]));
    assert_eq!(nets.at_out.addresses[1], "2001:db8:ffff::2".parse::<IpAddr>().unwrap());
    let target = |at: usize| nets.routes[at].target().unwrap();
    assert_eq!(target(1), RouteTarget::Via(Side::Out, MacAddr([2, 0, 0, 0, 2, 2])));
    assert_eq!(target(2), RouteTarget::Refused(RefusedRoute::Unreachable));
    assert_eq!(nets.routes[3].to, "10.2.9.7/32".parse().unwrap());
}

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    let cases = [
        ("02:00:00:00:01:01", "03:00:00:00:01:01", "'in' is that of a group"),
        ("02:00:00:00:01:01", "02:00", "02:00"),
        ("[192.0.2.1, ", "[192.0.2.1, 192.0.2.9, ", "'in' has 2 addresses of one version"),
        ("[192.0.2.2, ", "[127.0.0.1, ", "'out' has the address 127.0.0.1"),
        ("10.2.0.0/16", "10.2.0.1/16", "say 10.2.0.0/16 for all of it"),
        ("10.2.0.0/16", "10.1.0.0/16", "two routes to 10.1.0.0/16"),
        ("refuse: prohibit", "refuse: throw", "unknown variant `throw`"),
        ("refuse: unreachable", "side: out", "the route to 10.2.9.0/24 says not where"),
        ("refuse: unreachable", "refuse: blackhole, side: out", "says not where it leads"),
        ("\"02:00:00:00:02:02\"}", "\"ff:ff:ff:ff:ff:ff\"}", "is a group of stations"),
        ("routes:", "rotes:", "unknown field `rotes`"),
    ];
    for (one, other, part) in cases {
        let wrong = NETS.replacen(one, other, 1);
        assert_ne!(wrong, NETS, "{one}");
        let error = read(&wrong, "edge.yaml").expect_err(part);
        assert!(error.to_string().contains(part) && !error.advice.is_empty(), "{error}");
    }
    let routes = |count: usize| {
        let route =
            |at: usize| format!("{{to: 10.{}.{}.0/24, refuse: blackhole}}", at / 256, at % 256);
        let all: Vec<String> = (0..count).map(route).collect();
        let text = format!("routes: [{}]", all.join(", "));
        NETS.split("routes:").next().map(|head| head.to_owned() + &text).unwrap()
    };
    assert!(read(&routes(ROUTER_ROUTES_MAX), "f").is_ok());
    let error = read(&routes(ROUTER_ROUTES_MAX + 1), "f").unwrap_err();
    assert!(error.what.contains("4097 routes"), "{error}");
}

#[test]
fn every_cut_and_every_flip_is_read_or_refused() {
    let (mut good, mut bad) = (0, 0);
    for text in [NETS, LEAST] {
        for at in 0..text.len() * 8 {
            let mut turned = text.as_bytes().to_vec();
            turned[at / 8] ^= 1 << (at % 8);
            for bytes in [&turned[..], &text.as_bytes()[..at / 8]] {
                let Ok(text) = std::str::from_utf8(bytes) else { continue };
                match read(text, "file") {
                    Ok(config) => {
                        good += 1;
                        assert!(config.routes.iter().all(|route| route.target().is_some()));
                    }
                    Err(_) => bad += 1,
                }
            }
        }
    }
    assert!(good > 300 && bad > 3_000, "{good} {bad}");
}
