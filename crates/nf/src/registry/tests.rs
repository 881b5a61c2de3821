//! Configurations that are right, and what is said of those that are not.

use super::*;

fn refusal(kind: &str, config: &str) -> String {
    let configuration = Configuration::new(kind, config);
    match make(&configuration, &Surroundings::default()) {
        Ok(_) => panic!("{kind} {config} was taken"),
        Err(error) => error.to_string(),
    }
}

fn ids_rules(text: &str) -> String {
    serde_json::json!({"file": {"name": "web.rules", "text": text}}).to_string()
}

#[test]
fn each_kind_is_made_of_its_configuration() {
    let rules = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -i wan -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n";
    let config = serde_json::json!({
        "file": {"name": "edge.iptables", "text": rules},
        "interfaces": {"wan": "out"},
    });
    let to_collector = r#"{"ipfix": "[2001:db8::1]:4739"}"#;
    let alerts = ids_rules("alert tcp any any -> any 80 (sid:1;)");
    let classes = |text: &str| {
        serde_json::json!({"file": {"name": "classes.yaml", "text": text}}).to_string()
    };
    let police = "classes: [{name: all, police: {srtcm: {cir: 1mbit, cbs: 1500, ebs: 0}}}]";
    for (kind, config, drops, collector) in [
        ("firewall", config.to_string(), true, None),
        ("ids", alerts.clone(), false, None),
        ("ips", alerts, true, None),
        ("monitor", r#"{"domain": 7}"#.to_owned(), false, None),
        ("monitor", to_collector.to_owned(), false, Some("[2001:db8::1]:4739".to_owned())),
        ("marker", classes("classes: [{name: all, mark: ef}]"), false, None),
        ("policer", classes(police), true, None),
    ] {
        let configuration = Configuration::new(kind, config);
        let made = make(&configuration, &Surroundings::default()).unwrap();
        assert_eq!((made.function.profile().drops, made.collector), (drops, collector), "{kind}");
    }
}

#[test]
fn what_is_wrong_is_told_in_its_writers_words() {
    let rules = |line: &str| {
        let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{line}\nCOMMIT\n");
        serde_json::json!({"file": {"name": "edge.iptables", "text": text}}).to_string()
    };
    for (kind, config, parts) in [
        ("proxy", "{}".to_owned(), ["'proxy'", "balancer, firewall, ids, ips, marker, monitor, nat, policer"]),
        ("router", "{}".to_owned(), ["stands in no chain yet", "`catena nf run router`"]),
        (
            "marker",
            serde_json::json!({"file": {"name": "m.yaml", "text": "classes:\n- {name: a, mark: x}"}})
                .to_string(),
            ["m.yaml line 2", "code point"],
        ),
        ("firewall", "{}".to_owned(), ["missing field `file`", "page of this function"]),
        (
            "firewall",
            rules("-A FORWARD -m u32 --u32 1 -j DROP"),
            ["edge.iptables line 3", "unsupported: skip"],
        ),
        ("firewall", rules("-A FORWARD -i eth7 -j DROP"), ["edge.iptables line 3", "eth7"]),
        ("monitor", r#"{"ipfix": "collector"}"#.to_owned(), ["'collector'", "collector:4739"]),
        ("ids", ids_rules("alert tcp any any -> any any (sid:x;)"), ["web.rules line 1", "sid"]),
        ("ips", ids_rules("alert tcp any any -> $HOME any (sid:1;)"), ["web.rules line 1", "HOME"]),
        (
            "ids",
            ids_rules("alert tls any any -> any any (sid:1;)"),
            ["web.rules line 1", "unsupported: skip"],
        ),
        ("monitor", r#"{"idle": 3}"#.to_owned(), ["unknown field `idle`", "idle_seconds"]),
        ("monitor", r#"{"idle_seconds": 0}"#.to_owned(), ["1 s at least", "monitor"]),
    ] {
        let told = refusal(kind, &config);
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        assert!(!told.contains("column"), "{told}");
    }
}

#[test]
fn what_is_left_out_is_told() {
    let text = "*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m u32 --u32 1 -j DROP\nCOMMIT\n";
    let config = serde_json::json!({
        "file": {"name": "edge.iptables", "text": text}, "unsupported": "skip",
    });
    let configuration = Configuration::new("firewall", config.to_string());
    let remarks = make(&configuration, &Surroundings::default()).unwrap().remarks;
    for (line, part) in [(4, "-m u32 --u32 1 -j DROP"), (2, "INPUT")] {
        let is_it = |told: &&String| told.starts_with(&format!("edge.iptables line {line}: "));
        let told = remarks.iter().find(is_it).unwrap();
        assert!(told.contains(part), "{told}");
    }
}

fn translated(kind: &str, config: &serde_json::Value) -> Translations {
    let configuration = Configuration::new(kind, config.to_string());
    assert!(make(&configuration, &Surroundings::default()).is_ok());
    translations(&configuration).unwrap()
}

#[test]
fn what_a_nat_makes_of_sources_follows_from_its_configuration() {
    let config = serde_json::json!({
        "masquerade": ["10.0.1.0/24"], "pool": ["203.0.113.4", "203.0.113.6/31"],
        "dnat": [{"to": "203.0.113.4", "protocol": "tcp", "port": 8080, "inside": "10.0.1.7", "inside_port": 80}],
        "static": [{"inside": "10.0.3.9", "outside": "203.0.113.9"}],
    });
    let Translations { mappings, at_ingress, at_egress, inquiries } = translated("nat", &config);
    let told: Vec<String> = mappings
        .iter()
        .map(|one| {
            let end = |pattern: &catena_model::resource::TuplePattern| {
                assert!(pattern.destination_prefix.is_none());
                let (prefix, ports) = (pattern.source_prefix.unwrap(), pattern.source_ports);
                format!("{prefix} {:?}", ports.min.zip(ports.max))
            };
            format!("{} -> {}", end(&one.ingress), end(&one.egress))
        })
        .collect();
    assert_eq!(
        told,
        [
            "10.0.3.9/32 None -> 203.0.113.9/32 None",
            "10.0.1.7/32 Some((80, 80)) -> 203.0.113.4/32 Some((8080, 8080))",
            "10.0.1.0/24 None -> 203.0.113.4/32 Some((1024, 65535))",
            "10.0.1.0/24 None -> 203.0.113.6/31 Some((1024, 65535))",
        ]
    );
    let outside: Vec<String> = at_egress.iter().map(ToString::to_string).collect();
    assert_eq!(outside, ["203.0.113.4", "203.0.113.6", "203.0.113.7", "203.0.113.9"]);
    assert!(at_ingress.is_empty() && inquiries.is_empty());
    let monitor = Configuration::new("monitor", "{}");
    assert_eq!(translations(&monitor).unwrap(), Translations::default());
}

#[test]
fn what_a_balancer_makes_of_destinations_follows_from_its_configuration() {
    let backend = |last: u8| serde_json::json!({"address": format!("10.0.2.{last}"), "port": 8080});
    let mut config = serde_json::json!({"services": [{
        "name": "web", "address": "10.0.1.80", "protocol": "tcp", "port": 80, "backends": [backend(1), backend(2)],
    }]});
    let Translations { mappings, at_ingress, at_egress, inquiries } =
        translated("balancer", &config);
    let ends = mappings
        .iter()
        .map(|one| [&one.ingress, &one.egress].map(|pattern| pattern.destination_prefix));
    let prefix = |text: &str| Some(text.parse().unwrap());
    let expected = ["10.0.2.1/32", "10.0.2.2/32"].map(|to| [prefix("10.0.1.80/32"), prefix(to)]);
    assert_eq!(ends.collect::<Vec<_>>(), expected);
    assert_eq!(at_ingress, ["10.0.1.80".parse::<IpAddr>().unwrap()]);
    assert!(at_egress.is_empty() && inquiries.is_empty());
    config["services"][0]["health"] =
        serde_json::json!({"kind": "tcp", "from": "10.0.1.81", "port": 81});
    let Translations { at_egress, inquiries, .. } = translated("balancer", &config);
    assert_eq!(at_egress, ["10.0.1.81".parse::<IpAddr>().unwrap()]);
    let asked = inquiries.iter().map(|one| {
        assert_eq!(one.source_prefix, prefix("10.0.1.81/32"));
        (one.destination_prefix, one.destination_ports.min, one.destination_ports.max)
    });
    let backend = |text| (prefix(text), Some(81), Some(81));
    assert_eq!(asked.collect::<Vec<_>>(), ["10.0.2.1/32", "10.0.2.2/32"].map(backend));
    config["services"][0]["health"]["timeout_ms"] = 99.into();
    let told = refusal("balancer", &config.to_string());
    assert!(told.contains("'web' has a 'health'") && told.contains("100 or more"), "{told}");
}

#[test]
fn a_work_that_computes_within_bounds_stands_inside_and_all_of_them_apart() {
    let work = |text: &str| {
        Configuration::new(
            "work",
            serde_json::json!({"file": {"name": "work.yaml", "text": text}}).to_string(),
        )
    };
    let surroundings = Surroundings::default();
    let computes =
        |mean: u64| work(&format!("computes: {{distribution: fixed, mean_iterations: {mean}}}"));
    let waits = work("waits: {distribution: fixed, mean_ns: 10, queue: 1}");
    assert!(make(&computes(1_000_000), &surroundings).is_ok());
    for (one, said) in [
        (
            computes(1_000_001),
            "mean_iterations is 1000001, and a data plane has turns for at most 1000000",
        ),
        (waits, "packets wait in a work, which no data plane lets them"),
    ] {
        let error = make(&one, &surroundings).err().unwrap().to_string();
        assert!(error.contains(said) && error.contains("'door: apart'"), "{error}");
        assert!(make_apart(&one, &surroundings).is_ok());
    }
    let shaper = Configuration::new("shaper", "{}");
    let error = make(&shaper, &surroundings).err().unwrap().to_string();
    assert!(error.contains("packets wait in a shaper"), "{error}");
    assert_eq!(names().matches("work").count(), 1);
}
