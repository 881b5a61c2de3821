//! Rule sets that flows can say: by hand, with all that they can ask, and drawn. Knows words of iptables and nftables;
//! refuses to know what becomes of packets.

use catena_nf::harness::traffic::Random;

/// Jumps there and back, `goto`, `RETURN`, and each match that flows know, negated and not.
pub(super) const V4: &str = "*filter
:FORWARD DROP [0:0]
:web - [0:0]
:rest - [0:0]
:deep - [0:0]
-A FORWARD -s 10.0.3.0/24 -d 10.0.3.0/24 -j DROP
-A FORWARD -p tcp -m tcp ! --dport 1024:65535 -j web
-A FORWARD ! -p tcp -m ttl --ttl-lt 3 -j DROP
-A FORWARD -f -j ACCEPT
-A FORWARD -p icmp -m icmp --icmp-type 8/1 -j DROP
-A FORWARD -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A FORWARD -p icmp -m icmp ! --icmp-type any -j ACCEPT
-A FORWARD -m dscp ! --dscp 0 -g rest
-A FORWARD ! -s 10.0.1.0/24 -i eth1 -j deep
-A FORWARD -m iprange --src-range 10.0.0.3-10.0.1.7 -j ACCEPT
-A FORWARD -p udp
-A FORWARD -p udp -m multiport ! --ports 53,443,8000:50000 -j ACCEPT
-A FORWARD -d 10.0.0.2/255.0.255.255 -j ACCEPT
-A web -p tcp -m tcp --tcp-flags SYN,ACK SYN -j deep
-A web -p tcp -m tcp ! --tcp-flags SYN,RST,ACK,FIN ACK -j RETURN
-A web ! -f -o eth1 -j ACCEPT
-A deep -s 10.0.2.0/23 -j RETURN
-A deep -p tcp -m multiport --ports 22,23 -j DROP
-A deep -m mac --mac-source 02:00:00:00:00:02 -p tcp -m tcp --dport 80 -j ACCEPT
-A deep ! -d 10.0.1.0/24 -j rest
-A rest ! -p udp -s 10.0.1.4 -j DROP
-A rest -p tcp -m tcp --sport 1:65534 --dport 1:65534 ! -s 10.0.0.9 ! -d 10.0.0.9 -m ttl ! --ttl-eq 64 -j ACCEPT
-A rest -p 47 -j ACCEPT
COMMIT
";

/// The same for IPv6.
pub(super) const V6: &str = "*filter
:FORWARD ACCEPT [0:0]
:side - [0:0]
:deep - [0:0]
-A FORWARD -p udp -m udp --dport 53 -j side
-A FORWARD -s 2001:db8:3::/48 ! -d 2001:db8:1::3 -m hl --hl-gt 62 -j DROP
-A FORWARD -p ipv6-icmp -m icmp6 --icmpv6-type 1 -j DROP
-A FORWARD -p ipv6-icmp -m icmp6 ! --icmpv6-type 128/0 -g deep
-A FORWARD -i eth1 -p tcp -j side
-A FORWARD ! -p tcp -d 2001:db8:2::/48 -j DROP
-A FORWARD -m dscp --dscp 46 -s 2001:db8::/ffff:ffff:fffe:: -j DROP
-A side -s 2001:db8::/47 -p tcp -m tcp --dport 22:80 -j DROP
-A side -d 2001:db8:0:0::5 -j RETURN
-A side -p udp -j deep
-A side -p tcp -m tcp --tcp-flags ALL SYN,ACK -j ACCEPT
-A side -p tcp -m tcp ! --dport 443 -j DROP
-A deep -s 2001:db8::/32 -m hl --hl-lt 64 -j DROP
-A deep -i eth0 -j ACCEPT
COMMIT
";

/// Both versions: maps of verdicts, tuples, sets, and two base chains.
pub(super) const INET: &str = include_str!("inet.json");

/// A rule set that is drawn: conditions in any number, negated or not, chains that lead into one another.
pub(super) fn drawn(seed: u64, is_v6: bool) -> String {
    let mut random = Random::new(seed * 2 + u64::from(is_v6) + 77);
    let policy = random.pick(&["ACCEPT", "DROP"]).unwrap();
    let mut text =
        format!("*filter\n:FORWARD {policy} [0:0]\n:a - [0:0]\n:b - [0:0]\n:c - [0:0]\n");
    for (chain, rules, targets) in [
        ("FORWARD", 9, ["-j a", "-g b", "-j c", "-j a"]),
        ("a", 6, ["-j b", "-g c", "-j RETURN", "-j c"]),
        ("b", 5, ["-j c", "-j RETURN", "-j ACCEPT", "-j DROP"]),
        ("c", 4, ["-j RETURN", "-j ACCEPT", "-j DROP", "-j DROP"]),
    ] {
        for _ in 0..rules {
            text += &format!("-A {chain}");
            conditions(&mut random, is_v6, &mut text);
            let own = random.pick(&targets).unwrap();
            let target = random.pick(&[own, own, "-j ACCEPT", "-j DROP", ""]).unwrap();
            text += &format!(" {target}\n");
        }
    }
    text + "COMMIT\n"
}

fn conditions(random: &mut Random, is_v6: bool, text: &mut String) {
    let not = |random: &mut Random| random.pick(&["", "", "! "]).unwrap();
    for end in ["-s", "-d"] {
        if random.below(3) == 0 {
            let (net, host) = (random.below(4), 1 + random.below(12));
            let prefix = match (is_v6, random.below(3)) {
                (false, 0) => format!("10.0.{net}.{host}"),
                (false, 1) => format!("10.0.{net}.0/24"),
                (false, _) => format!("10.0.{}.0/23", net & 2),
                (true, 0) => format!("2001:db8:{net}::{host:x}"),
                (true, 1) => format!("2001:db8:{net}::/48"),
                (true, _) => format!("2001:db8:{}::/47", net & 2),
            };
            *text += &format!(" {}{end} {prefix}", not(random));
        }
    }
    let protocol = random.pick(&["tcp", "tcp", "udp", "icmp", "47", "", "", ""]).unwrap();
    match protocol {
        "" => {}
        "tcp" | "udp" => {
            *text += &format!(" -p {protocol}");
            let first = random.pick(&[0_usize, 22, 53, 80, 443, 8_080]).unwrap();
            let last = (first + random.below(40_000)).min(65_535);
            match random.below(5) {
                0 => *text += &format!(" -m {protocol} {}--dport {first}:{last}", not(random)),
                1 => *text += &format!(" -m {protocol} {}--sport {first}", not(random)),
                2 => *text += &format!(" -m multiport {}--ports {first},{last},23", not(random)),
                3 if protocol == "tcp" => {
                    let flags =
                        random.pick(&["SYN,ACK SYN", "ALL ACK", "RST,FIN RST,FIN"]).unwrap();
                    *text += &format!(" -m tcp {}--tcp-flags {flags}", not(random));
                }
                _ => {}
            }
        }
        "icmp" => {
            let (word, kind) = match is_v6 {
                true => ("icmpv6", random.pick(&["1", "128", "129/1"]).unwrap()),
                false => ("icmp", random.pick(&["3/1", "8", "11"]).unwrap()),
            };
            let (protocol, module) = if is_v6 { ("ipv6-icmp", "icmp6") } else { ("icmp", "icmp") };
            *text += &format!(" -p {protocol} -m {module} {}--{word}-type {kind}", not(random));
        }
        other => *text += &format!(" {}-p {other}", not(random)),
    }
    match random.below(8) {
        0 => *text += &format!(" {}-i eth0", not(random)),
        1 => *text += &format!(" -m dscp {}--dscp 46", not(random)),
        2 if is_v6 => *text += " -m hl --hl-lt 64",
        2 => *text += " -m ttl --ttl-gt 63",
        3 if !is_v6 => *text += &format!(" {}-f", not(random)),
        _ => {}
    }
}
