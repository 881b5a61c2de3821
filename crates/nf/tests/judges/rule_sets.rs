//! Rule sets by chance, as `iptables-restore` and `nft -f` take them: of what traffic shows, so that rules
//! are met.

use catena_nf::harness::traffic::Random;
use std::fmt::Write;

/// What a rule may ask, by its version of IP.
fn conditions(random: &mut Random, is_v6: bool) -> String {
    let mut text = String::new();
    let not = |random: &mut Random| if random.below(5) == 0 { "! " } else { "" };
    let net = |random: &mut Random| {
        let (net, host) = (random.below(4), 1 + random.below(12));
        match (is_v6, random.below(5)) {
            (false, 0) => format!("10.0.{net}.{host}/32"),
            (false, 1) => format!("10.0.{net}.0/24"),
            (false, 2) => format!("10.0.{}.0/23", net & 2),
            (false, 3) => format!("10.0.0.{host}/255.255.0.255"),
            (false, _) => format!("10.0.{net}.{}/30", host & !3),
            (true, 0) => format!("2001:db8:{net}::{host}/128"),
            (true, 1) => format!("2001:db8:{net}::/48"),
            (true, 2) => "2001:db8::/45".to_owned(),
            (true, _) => format!("2001:db8:{net}::{}/126", host & !3),
        }
    };
    for option in ["-s", "-d"] {
        if random.below(3) == 0 {
            let _ = write!(text, "{}{option} {} ", not(random), net(random));
        }
    }
    if random.below(6) == 0 {
        let side =
            random.pick(&["-i one.in", "-o one.in", "-i two.in", "-o two.+"]).unwrap_or_default();
        let _ = write!(text, "{}{side} ", not(random));
    }
    text += &protocol(random, is_v6);
    let other = match (random.below(8), is_v6) {
        (0, false) => "-m ttl --ttl-lt 64 ",
        (0, true) => "-m hl --hl-gt 63 ",
        (1, _) => "-m dscp --dscp 0x2e ",
        (2, _) => "-m length --length 60:400 ",
        (3, false) => "-m iprange --src-range 10.0.0.9-10.0.2.3 ",
        (3, true) => "-m iprange ! --dst-range 2001:db8:1::-2001:db8:2::5 ",
        (4, false) => "-f ",
        _ => "",
    };
    text + other
}

fn protocol(random: &mut Random, is_v6: bool) -> String {
    let not = if random.below(5) == 0 { "! " } else { "" };
    let port = random.pick(&["80", "443", "22:53", ":100", "40000:", "8080"]).unwrap_or_default();
    let ports = random.pick(&["80,443", "22:23,8080", "53,40000:50000"]).unwrap_or_default();
    let name = random.pick(&["tcp", "udp"]).unwrap_or_default();
    let icmp = if is_v6 { ("ipv6-icmp", "icmp6", "icmpv6") } else { ("icmp", "icmp", "icmp") };
    match random.below(11) {
        0 => format!("-p {name} -m {name} {not}--dport {port} "),
        1 => format!("-p {name} -m {name} {not}--sport {port} "),
        2 => format!("-p {name} -m multiport {not}--dports {ports} "),
        3 => format!("-p {name} -m multiport {not}--ports {ports} "),
        4 => format!("-p tcp -m tcp {not}--tcp-flags FIN,SYN,RST,ACK SYN "),
        5 => format!("-p tcp -m tcp {not}--tcp-option 2 "),
        6 => {
            let (protocol, module, option) = icmp;
            let kind = if is_v6 { ["128", "1/1", "3"] } else { ["8", "3/1", "11"] };
            let kind = random.pick(&kind).unwrap_or_default();
            format!("-p {protocol} -m {module} {not}--{option}-type {kind} ")
        }
        7 => format!("{not}-p {name} "),
        8 => "-p 47 ".to_owned(),
        _ => String::new(),
    }
}

fn target(random: &mut Random, is_v6: bool, chains: &[String], is_tcp: bool) -> String {
    let how = if is_v6 { "icmp6-adm-prohibited" } else { "icmp-admin-prohibited" };
    match (random.below(12), chains.first()) {
        (0..=2, _) => "-j ACCEPT".to_owned(),
        (3 | 4, _) => "-j DROP".to_owned(),
        (5, _) => "-j LOG --log-prefix \"seen: \"".to_owned(),
        (6, _) if is_tcp => "-j REJECT --reject-with tcp-reset".to_owned(),
        (6, _) => format!("-j REJECT --reject-with {how}"),
        (7, _) => "-j RETURN".to_owned(),
        (8, Some(_)) => format!("-g {}", chains[random.below(chains.len())]),
        (9 | 10, Some(_)) => format!("-j {}", chains[random.below(chains.len())]),
        _ => String::new(),
    }
}

/// What a rule may ask of a connection.
fn state(random: &mut Random) -> String {
    let not = if random.below(5) == 0 { "! " } else { "" };
    let states =
        ["NEW", "ESTABLISHED", "RELATED,ESTABLISHED", "INVALID", "NEW,RELATED", "INVALID,NEW"];
    format!("-m conntrack {not}--ctstate {} ", random.pick(&states).unwrap_or_default())
}

/// One rule set. `has_states`: half of its rules ask for the states of connections.
pub(crate) fn iptables(random: &mut Random, is_v6: bool, has_states: bool) -> String {
    let policy = random.pick(&["ACCEPT", "DROP"]).unwrap_or_default();
    let chains: Vec<String> = (0..random.below(4)).map(|at| format!("chain{at}")).collect();
    let mut text =
        format!("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD {policy} [0:0]\n:OUTPUT ACCEPT [0:0]\n");
    chains.iter().for_each(|chain| text += &format!(":{chain} - [0:0]\n"));
    let mut rules = |chain: &str, led: &[String], text: &mut String| {
        for _ in 0..1 + random.below(12) {
            let mut asked = conditions(random, is_v6);
            if has_states {
                // No fragment comes to rules where connections are tracked.
                asked = asked.replace("-f ", "");
                asked += &if random.below(2) == 0 { state(random) } else { String::new() };
            }
            // The bucket never fills within a test: a burst, and then nothing.
            let limit =
                if random.below(12) == 0 { "-m limit --limit 2/hour --limit-burst 4 " } else { "" };
            let is_tcp = asked.contains("-p tcp") && !asked.contains("! -p tcp");
            let does = target(random, is_v6, led, is_tcp);
            *text += &format!("-A {chain} {asked}{limit}{does}\n");
        }
    };
    rules("FORWARD", &chains, &mut text);
    for (at, chain) in chains.iter().enumerate() {
        rules(chain, &chains[at + 1..], &mut text);
    }
    text + "COMMIT\n"
}

/// What a rule of nftables may ask.
fn nft_conditions(random: &mut Random) -> String {
    let mut text = String::new();
    let not = if random.below(5) == 0 { "!= " } else { "" };
    let from = random.pick(&[
        "10.0.0.0/24",
        "10.0.2.3",
        "10.0.0.9-10.0.2.3",
        "{ 10.0.1.0/24, 10.0.3.1-10.0.3.6 }",
        "@hosts",
    ]);
    let from_v6 =
        random.pick(&["2001:db8:1::/48", "2001:db8::/45", "{ 2001:db8:2::1, 2001:db8:3::/48 }"]);
    let (from, from_v6) = (from.unwrap_or_default(), from_v6.unwrap_or_default());
    text += &match random.below(8) {
        0 => format!("ip saddr {not}{from} "),
        1 => format!("ip daddr {not}{from} "),
        2 => format!("ip6 saddr {not}{from_v6} "),
        3 => format!("ip6 daddr {not}{from_v6} "),
        4 => "ip saddr . tcp dport { 10.0.0.0/24 . 80, 10.0.1.0-10.0.3.255 . 1-443 } ".to_owned(),
        _ => String::new(),
    };
    let port =
        random.pick(&["80", "22-53", "{ 80, 443, 8000-9000 }", "@ports"]).unwrap_or_default();
    text += &match random.below(12) {
        0 | 1 => format!("tcp dport {not}{port} "),
        2 => format!("udp sport {not}{port} "),
        3 => format!("meta l4proto {{ tcp, udp }} th dport {not}{port} "),
        4 => "tcp flags & (fin | syn | rst | ack) == syn ".to_owned(),
        5 => "tcp flags syn ".to_owned(),
        6 => format!("icmp type {not}echo-request "),
        7 => "icmpv6 type { echo-request, echo-reply } ".to_owned(),
        8 => format!("meta l4proto {not}47 "),
        _ => String::new(),
    };
    text += random
        .pick(&[
            "",
            "",
            "",
            "",
            "iifname \"one.in\" ",
            "oifname != \"one.in\" ",
            "ip ttl < 64 ",
            "ip6 hoplimit >= 64 ",
            "meta length 60-400 ",
            "ip dscp ef ",
            "meta nfproto ipv6 ",
            "ip frag-off & 0x4000 != 0 ",
        ])
        .unwrap_or_default();
    text
}

fn nft_target(random: &mut Random, chains: &[String]) -> String {
    let chain = |random: &mut Random| chains.get(random.below(chains.len())).cloned();
    match (random.below(14), chain(random)) {
        (0..=2, _) => "accept".to_owned(),
        (3 | 4, _) => "drop".to_owned(),
        (5, _) => "log prefix \"seen: \"".to_owned(),
        (6, _) => "reject".to_owned(),
        (7, _) => "return".to_owned(),
        (8, _) => "log prefix \"ended \" drop".to_owned(),
        (9, Some(chain)) => format!("goto {chain}"),
        (10 | 11, Some(chain)) => format!("jump {chain}"),
        (12, Some(chain)) => {
            format!("tcp dport vmap {{ 80 : jump {chain}, 22-53 : drop, 443 : accept }}")
        }
        (12, None) => "meta l4proto vmap { tcp : accept, udp : drop }".to_owned(),
        _ => String::new(),
    }
}

/// Does a rule speak of two protocols, or of two versions of IP? nftables refuses it.
fn contradicts(rule: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| rule.contains(word));
    let protocols: [&[&str]; 5] = [
        &["tcp dport", "tcp flags"],
        &["udp sport"],
        &["icmp type"],
        &["icmpv6 type"],
        &["meta l4proto"],
    ];
    let v4 = ["ip saddr", "ip daddr", "ip ttl", "ip dscp", "ip frag-off", "icmp type"];
    let v6 = ["ip6 ", "icmpv6", "nfproto ipv6"];
    protocols.iter().filter(|words| has(words)).count() > 1 || (has(&v4) && has(&v6))
}

/// One rule of nftables.
fn nft_rule(random: &mut Random, led: &[String]) -> String {
    loop {
        let asked = nft_conditions(random);
        let limit = if random.below(12) == 0 { "limit rate 2/hour burst 4 packets " } else { "" };
        let does = nft_target(random, led);
        let rule = match random.below(6) {
            0 => format!("counter {asked}{limit}{does}\n"),
            _ => format!("{asked}{limit}counter {does}\n"),
        };
        if !contradicts(&rule) {
            return rule;
        }
    }
}

/// One rule set of nftables.
pub(crate) fn nft(random: &mut Random) -> String {
    let chains: Vec<String> = (0..random.below(4)).map(|at| format!("chain{at}")).collect();
    let mut text = "flush ruleset\ntable inet judged {\n\
        set hosts { type ipv4_addr; flags interval; elements = { 10.0.0.1-10.0.0.5, 10.0.2.0/24 } }\n\
        set ports { type inet_service; elements = { 23, 80, 50000 } }\n"
        .to_owned();
    let mut chain = |name: &str, head: &str, led: &[String]| {
        let mut text = format!("chain {name} {{\n{head}");
        for _ in 0..1 + random.below(12) {
            text += &nft_rule(random, led);
        }
        text + "}\n"
    };
    // Whom a chain leads to must be there before.
    let others: Vec<String> =
        (0..chains.len()).map(|at| chain(&chains[at], "", &chains[at + 1..])).collect();
    let head = "type filter hook forward priority 0; policy drop;\n";
    let first = chain("first", head, &chains);
    let head = "type filter hook forward priority 10; policy accept;\n";
    let second = chain("second", head, &[]);
    others.iter().rev().for_each(|other| text += other);
    text + &second + &first + "}\n"
}
