//! Configurations of the NAT, in our words and in the kernel's.

use std::net::Ipv4Addr;

/// An address and a port.
pub(crate) type Place = (Ipv4Addr, u16);

/// A configuration in our words and in the kernel's.
pub(crate) struct Configuration {
    pub(crate) name: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) program: (&'static str, &'static [&'static str]),
    pub(crate) kernel: &'static str,
    /// Outside addresses that flows may get.
    pub(crate) outside: &'static [Ipv4Addr],
    /// Where those from outside begin: an outside endpoint, and the host that it leads to.
    pub(crate) open: &'static [(Place, Place)],
}

const fn at(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, last)
}

const fn host(net: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, net, last)
}

pub(crate) const CONFIGURATIONS: [Configuration; 4] = [
    Configuration {
        name: "masquerade",
        ours: "masquerade: [10.0.1.0/24]\npool: [192.0.2.2]\n",
        program: ("iptables-legacy-restore", &["--noflush"]),
        kernel: "*nat\n-A POSTROUTING -s 10.0.1.0/24 -o two.in -j MASQUERADE\nCOMMIT\n",
        outside: &[Ipv4Addr::new(192, 0, 2, 2)],
        open: &[],
    },
    Configuration {
        name: "pool",
        ours: "masquerade: [10.0.1.0/24]\npool: [203.0.113.4, 203.0.113.5, 203.0.113.6]\nports: 2000-2999\n",
        program: ("iptables-legacy-restore", &["--noflush"]),
        kernel: "*nat\n\
            -A POSTROUTING -s 10.0.1.0/24 -o two.in -p tcp -j SNAT \
            --to-source 203.0.113.4-203.0.113.6:2000-2999 --persistent\n\
            -A POSTROUTING -s 10.0.1.0/24 -o two.in -p udp -j SNAT \
            --to-source 203.0.113.4-203.0.113.6:2000-2999 --persistent\n\
            -A POSTROUTING -s 10.0.1.0/24 -o two.in -j SNAT --to-source 203.0.113.4-203.0.113.6 --persistent\nCOMMIT\n",
        outside: &[at(4), at(5), at(6)],
        open: &[],
    },
    Configuration {
        name: "forwarded",
        ours: "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\ndnat:\n\
            - {to: 203.0.113.4, protocol: tcp, port: 8080, inside: 10.0.1.7, inside_port: 80}\n\
            - {to: 203.0.113.4, protocol: udp, port: 6000-6009, inside: 10.0.1.8, inside_port: 7000-7009}\n\
            static: [{inside: 10.0.3.9, outside: 203.0.113.9}]\n",
        program: ("iptables-legacy-restore", &["--noflush"]),
        kernel: "*nat\n\
            -A PREROUTING -i two.in -d 203.0.113.4 -p tcp --dport 8080 -j DNAT --to-destination 10.0.1.7:80\n\
            -A PREROUTING -i two.in -d 203.0.113.4 -p udp --dport 6000:6009 -j DNAT \
            --to-destination 10.0.1.8:7000-7009/6000\n\
            -A PREROUTING -i two.in -d 203.0.113.9 -j DNAT --to-destination 10.0.3.9\n\
            -A POSTROUTING -s 10.0.3.9 -o two.in -j SNAT --to-source 203.0.113.9\n\
            -A POSTROUTING -s 10.0.1.0/24 -o two.in -j SNAT --to-source 203.0.113.4\nCOMMIT\n",
        outside: &[at(4)],
        open: &[
            ((at(4), 8_080), (host(1, 7), 80)),
            ((at(4), 6_004), (host(1, 8), 7_004)),
            ((at(9), 2_222), (host(3, 9), 2_222)),
        ],
    },
    Configuration {
        name: "nft",
        ours: "snat: [{inside: 10.0.1.0/24, to: [203.0.113.20]}]\npool: [203.0.113.4]\n\
            dnat: [{to: 203.0.113.4, protocol: tcp, port: 443, inside: 10.0.2.7}]\n\
            static: [{inside: 10.0.3.9, outside: 203.0.113.9}]\n",
        program: ("nft", &["-f", "-"]),
        kernel: "table ip nat {\n\
            chain pre { type nat hook prerouting priority dstnat; policy accept;\n\
              iifname two.in ip daddr 203.0.113.4 tcp dport 443 dnat to 10.0.2.7\n\
              iifname two.in ip daddr 203.0.113.9 dnat to 10.0.3.9\n }\n\
            chain post { type nat hook postrouting priority srcnat; policy accept;\n\
              oifname two.in ip saddr 10.0.3.9 snat to 203.0.113.9\n\
              oifname two.in ip saddr 10.0.1.0/24 snat to 203.0.113.20\n }\n}\n",
        outside: &[at(20)],
        open: &[((at(4), 443), (host(2, 7), 443)), ((at(9), 25), (host(3, 9), 25))],
    },
];
