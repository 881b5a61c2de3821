//! What is read, and what is refused in which words.

use super::*;

const WRITTEN: [(&str, &str); 3] = [
    ("least.yaml", include_str!("../../../../conformance/nf/balancer/least.yaml")),
    ("web.yaml", include_str!("../../../../conformance/nf/balancer/web.yaml")),
    ("six.json", include_str!("../../../../conformance/nf/balancer/six.json")),
];

#[test]
fn what_is_written_is_read_as_it_says() {
    let [least, web, six] = WRITTEN.map(|(file, text)| read(text, file).unwrap());
    assert_eq!(least.sessions_max, FUNCTION_FLOWS_MAX);
    assert_eq!((least.when_full, least.timeouts), (WhenFull::Drop, SessionTimeouts::default()));
    assert_eq!(least.services[0].slots(), TABLE_SLOTS_FEW);
    assert_eq!(least.services[0].backends[0].weight, 1);
    assert_eq!((web.sessions_max, web.when_full, web.seed), (4_096, WhenFull::Pass, 11));
    let service = &web.services[0];
    assert_eq!((service.sticky, service.when_dead), (Sticky::Client, WhenDead::Move));
    assert_eq!((service.backends[0].weight, service.backends[1].drain), (2, true));
    assert_eq!(service.backends[1].mac, Some(MacAddr([2, 0, 0, 0, 0, 0x12])));
    let health = service.health.as_ref().unwrap();
    assert_eq!((health.kind, health.path.as_str()), (HealthKind::Http, "/health"));
    assert_eq!((health.rise, health.fall, health.interval_ms), (3, 4, 5_000));
    let passive = service.passive.unwrap();
    assert_eq!((passive.consecutive_failures, passive.max_ejection_percent), (3, 40));
    assert_eq!(passive.base_ejection_ms, 30_000);
    assert_eq!(six.services[0].address, "2001:db8:f::10".parse::<IpAddr>().unwrap());
    assert_eq!(six.services[0].when_dead, WhenDead::Keep);
}

#[test]
fn cut_and_turned_texts_are_read_or_refused() {
    let (mut good, mut bad) = (0, 0);
    for (file, text) in WRITTEN {
        let mut judge = |bytes: &[u8]| {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            match read(text, file) {
                Ok(config) => {
                    good += 1;
                    assert!(config.check().is_ok());
                }
                Err(wrong) => {
                    bad += 1;
                    assert!(!wrong.what.is_empty() && !wrong.advice.is_empty(), "{wrong:?}");
                    assert!(wrong.line as usize <= text.lines().count() + 1, "{wrong}");
                }
            }
        };
        for at in 0..text.len() {
            judge(&text.as_bytes()[..at]);
            for bit in 0..8 {
                let mut turned = text.as_bytes().to_vec();
                turned[at] ^= 1 << bit;
                judge(&turned);
            }
        }
    }
    assert!(good > 500 && bad > 2_000, "{good} {bad}");
}

/// The text of `web.yaml` with one thing in the place of another, and what is said of it.
#[test]
fn what_does_not_hold_is_refused_with_its_words() {
    let [least, web, six] = WRITTEN.map(|(_, text)| text);
    let long = "x".repeat(64);
    let path = format!("/{}", "x".repeat(255));
    let twice = "backends: [{address: 10.0.0.1, port: 53}, {address: 10.0.0.1, port: 53}]";
    let one = "backends: [{address: 10.0.0.1, port: 53}]";
    let cases: [(&str, &str, &str, &str); 49] = [
        (web, "sessions_max: 4096", "sessions_max: 0", "sessions_max is 0"),
        (web, "sessions_max: 4096", "sessions_max: 99999999", "sessions_max is 99999999"),
        (web, "when_full: pass", "when_full: hope", "hope"),
        (web, "asked_s: 5", "asked_s: 0", "timeouts.asked_s is 0"),
        (web, "established_s: 3600", "established_s: 10000001", "timeouts.established_s is"),
        (web, "closed_s: 4", "closed_s: 0", "timeouts.closed_s is 0"),
        (web, "udp_s: 30", "udp_s: 0", "timeouts.udp_s is 0"),
        (web, "client_s: 60", "client_s: 0", "timeouts.client_s is 0"),
        (web, "name: web", "name: ''", "its name is none"),
        (web, "name: web", "name: 'two words'", "its name is none"),
        (web, "name: web", &format!("name: {long}"), "its name is none"),
        (web, "address: 203.0.113.10", "address: 0.0.0.0", "address is 0.0.0.0"),
        (web, "address: 203.0.113.10", "address: 224.0.0.1", "address is 224.0.0.1"),
        (web, "address: 203.0.113.10", "address: 127.0.0.1", "address is 127.0.0.1"),
        (web, "address: 203.0.113.10", "address: 10.0.1.11", "and a virtual address"),
        (web, "address: 203.0.113.10", "address: 203.0.113.9", "come from 203.0.113.9"),
        (web, "address: 203.0.113.10", "address: here", "invalid IP address"),
        (web, "port: 80\n", "port: 0\n", "port is 0"),
        (web, "port: 80\n", "port: 80\n    speed: 1\n", "unknown field `speed`"),
        (web, "protocol: tcp", "protocol: sctp", "sctp"),
        (web, "protocol: tcp", "protocol: udp", "checks ask by TCP, and it speaks UDP"),
        (web, "table_size: 251", "table_size: 252", "table_size is 252"),
        (web, "table_size: 251", "table_size: 241", "table_size is 241"),
        (web, "weight: 2", "weight: 0", "is 0"),
        (web, "weight: 2", "weight: 1001", "weight of backend 10.0.1.11 is 1001"),
        (web, "10.0.1.11, port: 8080", "10.0.1.11, port: 0", "port of backend 10.0.1.11 is 0"),
        (web, "10.0.1.11", "2001:db8::1", "is of another version of IP than 203.0.113.10"),
        (web, "10.0.1.11", "10.0.1.12", "stands twice"),
        (web, "02:00:00:00:00:12", "01:00:00:00:00:12", "the MAC of backend 10.0.1.12"),
        (web, "02:00:00:00:00:09", "01:00:00:00:00:09", "health.mac is one of a group"),
        (web, "path: /health", "path: health", "health.path is \"health\""),
        (web, "path: /health", &format!("path: {path}"), "health.path is"),
        (web, "from: 203.0.113.9", "from: '2001:db8::9'", "health.from 2001:db8::9 is of another"),
        (web, "rise: 3", "rise: 0", "health.rise is 0"),
        (web, "fall: 4", "fall: 0", "health.fall is 0"),
        (web, "rise: 3", "timeout_ms: 5001", "health.timeout_ms is 5001"),
        (web, "rise: 3", "interval_ms: 0", "health.interval_ms is 0"),
        (web, "consecutive_failures: 3", "consecutive_failures: 0", "consecutive_failures is 0"),
        (web, "consecutive_failures: 3", "answer_ms: 0", "passive.answer_ms is 0"),
        (web, "consecutive_failures: 3", "base_ejection_ms: 300001", "base_ejection_ms is 300001"),
        (web, "percent: 40", "percent: 101", "passive.max_ejection_percent is 101"),
        (web, "10.0.1.11", "224.0.0.5", "a backend's address is 224.0.0.5"),
        (web, "from: 203.0.113.9", "from: 127.0.0.1", "health.from is 127.0.0.1"),
        (web, "rise: 3", "port: 0", "health.port is 0"),
        (web, "consecutive_failures: 3", "max_ejection_ms: 0", "passive.max_ejection_ms is 0"),
        (web, "services:", "service:", "unknown field `service`"),
        (least, one, "backends: []", "it has 0 backends"),
        (least, one, twice, "backend 10.0.0.1 port 53 stands twice"),
        (six, "\"port\": 443", "\"port\": 443, \"port\": 444", "duplicate field `port`"),
    ];
    for (text, part, other, words) in cases {
        assert!(text.contains(part), "{part}");
        let wrong = read(&text.replacen(part, other, 1), "lb.yaml");
        let wrong = wrong.map(|_| ()).expect_err(&format!("{part} as {other}"));
        assert!(wrong.what.contains(words), "{other}: {wrong}");
        assert!(!wrong.advice.is_empty() && wrong.file == "lb.yaml", "{wrong}");
    }
}

#[test]
fn what_contradicts_another_service_is_refused_at_its_line() {
    let line = WRITTEN[0].1.lines().nth(1).unwrap();
    let of = |more: &str| read(&format!("services:\n{line}\n{more}\n"), "lb.yaml");
    let wrong = of(line).unwrap_err();
    assert!(wrong.what.contains("another service has this name"), "{wrong}");
    let wrong = of(&line.replace("name: dns", "name: other")).unwrap_err();
    assert!(wrong.what.contains("another service has its address, protocol and port"), "{wrong}");
    assert_eq!(wrong.line, 3, "{wrong}");
    assert!(
        of(&line.replace("name: dns", "name: other").replace("port: 53, b", "port: 54, b")).is_ok()
    );
    let wrong = read("services: []\n", "lb.yaml").unwrap_err();
    assert!(wrong.what.contains("there are 0 services"), "{wrong}");
    let many: String = (0..=catena_model::limits::BALANCER_SERVICES_MAX)
        .map(|at| line.replace("name: dns", &format!("name: s{at}")) + "\n")
        .collect();
    let wrong = read(&format!("services:\n{many}"), "lb.yaml").unwrap_err();
    assert!(wrong.what.contains("services"), "{wrong}");
    let passive = WRITTEN[0].1.replace("port: 53, b", "port: 53, passive: {}, b");
    let wrong = read(&passive, "lb.yaml").unwrap_err();
    assert!(wrong.what.contains("passive health counts answers to SYN"), "{wrong}");
    let wrong = read(&" ".repeat(FUNCTION_CONFIG_BYTES_MAX + 1), "lb.yaml").unwrap_err();
    assert!(wrong.what.contains("bytes"), "{wrong}");
}

#[test]
fn more_backends_or_slots_than_there_may_be_are_refused() {
    use catena_model::limits::{BALANCER_BACKENDS_MAX, BALANCER_SLOTS_MAX};
    let service = |name: usize, backends: usize, size: &str| {
        let all: Vec<String> = (0..backends)
            .map(|at| format!("{{address: 10.1.{}.{}, port: 53}}", at / 200, 1 + at % 200))
            .collect();
        format!(
            "  - {{name: s{name}, address: 203.0.113.1, protocol: udp, port: {}, {size} backends: [{}]}}\n",
            name + 1,
            all.join(", ")
        )
    };
    let wrong = read(&format!("services:\n{}", service(0, BALANCER_BACKENDS_MAX + 1, "")), "lb");
    assert!(wrong.unwrap_err().what.contains("backends"));
    let count = 1 + BALANCER_SLOTS_MAX / 655_373;
    let all: String = (0..count).map(|name| service(name, 1, "table_size: 655373,")).collect();
    let wrong = read(&format!("services:\n{all}"), "lb").unwrap_err();
    assert!(wrong.what.contains("slots"), "{wrong}");
    let all: String = (0..17).map(|name| service(name, 256, "table_size: 257,")).collect();
    let wrong = read(&format!("services:\n{all}"), "lb").unwrap_err();
    assert!(wrong.what.contains("backends together"), "{wrong}");
}
