//! What a lab file is told that asks of records, and whose packets take none along or are not looked at.

use super::{GOOD, told};

#[test]
fn the_proof_of_records_needs_packets_that_take_some_along_and_captures_of_them() {
    let with = |telemetry: &str, capture: &str| {
        let chain = GOOD.replace("direction: same}]", &format!("direction: same}}]{telemetry}"));
        told(&format!("{chain}underlay: both\n{capture}check: [telemetry]\n"))
    };
    let telemetry = ", encapsulation: srv6, telemetry: {}";
    assert_eq!(with(telemetry, "capture: {at: [S, D, v2], links: true}\n"), "");
    for capture in ["", "capture: {at: [S, D, v2]}\n", "capture: {links: true}\n"] {
        let problem = with(telemetry, capture);
        assert!(
            problem.contains("check[0]: is judged from captures here and between"),
            "{problem}"
        );
    }
    for telemetry in ["", ", telemetry: null"] {
        let problem = with(telemetry, "capture: {at: [S, D, v2], links: true}\n");
        assert!(problem.contains("check[0]: is about what packets take along"), "{problem}");
    }
}
