//! The profile, held against the code; what becomes of packets and backends, by kind.

mod bench;
mod carried;
mod checked;
mod sticks;
mod translated;

use super::*;
use crate::harness::{traffic, verify};

/// Of most hosts of the traffic, half are virtual and half serve.
fn config(sessions_max: usize, sticky: &str, when_full: &str, is_checked: bool) -> String {
    let mut text = format!("sessions_max: {sessions_max}\nwhen_full: {when_full}\nservices:\n");
    for (protocol, passive) in [("tcp", ", passive: {consecutive_failures: 1}"), ("udp", "")] {
        for (net, port) in (0..48).zip([80, 443, 53, 22].into_iter().cycle()) {
            let (host, net) = (1 + net % 12, net / 12 % 2);
            for (name, prefix) in
                [("four", format!("10.0.{net}.")), ("six", format!("2001:db8:{net}::"))]
            {
                let (v4, hex) = (name == "four", format!("{host:x}"));
                let asker = if v4 { "10.0.3.5" } else { "2001:db8:3::5" };
                let health = if is_checked && protocol == "tcp" {
                    format!(", health: {{kind: http, from: '{asker}'}}")
                } else {
                    String::new()
                };
                let own = if v4 { host.to_string() } else { hex };
                let back = if v4 { "10.0.2." } else { "2001:db8:2::" };
                let mac = if is_checked { ", mac: '02:00:00:00:00:77'" } else { "" };
                text += &format!(
                    "  - {{name: {name}-{protocol}-{net}-{host}-{port}, address: '{prefix}{own}', \
                     protocol: {protocol}, port: {port}, table_size: 251, sticky: {sticky}, \
                     backends: [{{address: '{back}1', port: 80{mac}}}, {{address: '{back}2', port: {port}0, \
                     weight: 2}}]{passive}{health}}}\n"
                );
            }
            if net == 1 && host == 12 {
                break;
            }
        }
    }
    text
}

#[test]
fn the_profile_is_true() {
    let inputs = traffic::draw(41, 10_000);
    for (most, sticky, full, is_checked) in [
        (8, "client", "drop", false),
        (65_536, "connection", "drop", false),
        (8, "connection", "pass", false),
        (64, "connection", "drop", true),
        (64, "client", "pass", true),
    ] {
        let text = config(most, sticky, full, is_checked);
        let config = catena_rules::balancer::read(&text, "test").unwrap();
        let proof =
            verify(|| Balancer::new(&config), &inputs, 3).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{proof:?}");
        assert!(proof.patches > 200, "{proof:?}");
        // What comes to who asks ends there.
        assert!(!is_checked || proof.dropped > 150, "{proof:?}");
    }
}
