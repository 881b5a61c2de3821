//! The profile, held against the code.

use super::*;
use crate::harness::{traffic, verify};

const CONFIG: &str = "
services:
  - {name: four, address: 10.0.0.1, protocol: tcp, port: 80, table_size: 251,
     backends: [{address: 10.0.9.1, port: 8080}, {address: 10.0.9.2, port: 80, weight: 2}],
     passive: {consecutive_failures: 1}}
  - {name: six, address: '2001:db8::1', protocol: udp, port: 53, table_size: 251, sticky: client,
     backends: [{address: '2001:db8:9::1', port: 53}]}
sessions_max: 8
";

#[test]
fn the_profile_is_true() {
    let config = catena_rules::balancer::read(CONFIG, "test").unwrap();
    let inputs = traffic::draw(41, 10_000);
    let proof =
        verify(|| Balancer::new(&config), &inputs, 3).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(proof.patches > 20 && proof.dropped > 0, "{proof:?}");
    println!("{proof:?}");
}
