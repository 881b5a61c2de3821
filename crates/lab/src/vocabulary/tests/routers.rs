//! What a lab file is told of routers that join nothing, or too much.

use super::{labs, told};
use crate::vocabulary::{Lab, Subnets};
use std::path::Path;

const ROUTED: &str = "\
name: routed
hosts: {h1: {}, h2: {}, h3: {}}
switches: [left, right]
underlay: both
routers: {r1: {runs: seg6}}
links: [h1-left, h2-left, h3-right, r1-left, r1-right]
";

#[test]
fn routers_join_subnets_and_say_what_they_run_or_nothing() {
    for said in ["{r1: {runs: seg6}}", "{r1: {}}", "{r1: }"] {
        assert_eq!(told(&ROUTED.replace("{r1: {runs: seg6}}", said)), "", "{said}");
    }
    assert_eq!(told(&ROUTED.replace("underlay: both", "underlay: ipv6")), "");
}

#[test]
fn each_mistake_about_routers_is_told_with_the_remedy() {
    let cases = [
        (
            "runs: seg6",
            "runs: ospf",
            "x.yaml:5: routers.r1.runs: 'ospf' is nothing that a router runs; write runs: seg6, or leave it out",
        ),
        ("runs: seg6", "role: seg6", "unknown field `role`, expected `runs`"),
        (
            ", r1-right]",
            "]",
            "x.yaml:5: routers.r1: has 1 link to plain switches; link it to two or more: switches: [left, right], \
             links: [r1-left, r1-right]",
        ),
        (", r1-left, r1-right]", "]", "x.yaml:5: routers.r1: has 0 links to plain switches"),
        (
            "r1-right]",
            "r1-right, r1-h1]",
            "x.yaml:6: links[5]: joins router 'r1' to 'h1', which is no plain switch; put one between, which is a \
             subnet: switches: [left], links: [r1-left, h1-left]",
        ),
        (
            "r1-right]",
            "r1-right, left-right]",
            "x.yaml:5: routers.r1: is linked twice to one subnet, at 'left' and 'right'; leave one link out",
        ),
        ("r1-right]", "r1-right, left-r1]", "is linked twice to one subnet, at 'left' and 'left'"),
        (
            "routers: {r1:",
            "routers: {h2:",
            "x.yaml:5: routers.h2: the name 'h2' is taken; give every host, switch, router, endpoint and function",
        ),
        ("routers: {r1:", "routers: {r-1:", "routers.r-1: 'r-1' cannot name it"),
        ("{r1: {runs: seg6}}", "{r1: {}, r1: {}}", "routers.r1: is given twice"),
        (
            "[left, right]\n",
            "[left, right, far]\n",
            "x.yaml:6: links: no router joins the subnets of 'h1' and 'h3'; link a router to both plain switches, \
             'left' and 'far'",
        ),
        (
            "underlay: both\n",
            "",
            "x.yaml:4: routers: are for IPv6 between nodes, and there is IPv4 alone; add underlay: both, or ipv6",
        ),
        (
            "h1-left",
            "h1-middle",
            "no host or switch is named 'middle'; name one of h1, h2, h3, left, right, r1",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(ROUTED.contains(from), "{from}");
        let text = ROUTED.replacen(from, to, 1);
        let text = if to.contains("far") { text.replace("h3-right", "h3-far") } else { text };
        let problem = told(&text);
        assert!(problem.contains(expected), "{to}: {problem:?}");
    }
    let many: Vec<String> = (0..51).map(|number| format!("r{number}: ")).collect();
    let many = ROUTED.replace("{r1: {runs: seg6}}", &format!("{{{}}}", many.join(", ")));
    let problem = told(&many);
    assert!(problem.contains("routers: holds 51 routers; use at most 50"), "{problem}");
}

#[test]
fn a_way_leads_by_as_few_routers_as_may_be_and_plain_switches_in_a_row_are_one_subnet() {
    let text = "\
name: ring
hosts: {h1: {}, h2: {}, h3: {}, h4: {}}
switches: [a, b, c, d, more]
underlay: both
routers: {ab: {}, bc: {}, cd: {}, da: {}}
links: [h1-a, h2-b, h3-c, h4-more, d-more, ab-a, ab-b, bc-b, bc-c, cd-c, cd-d, da-more, da-a]
";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    std::fs::write(&file, text).unwrap();
    let lab = Lab::read(&file, false).unwrap();
    let subnets = Subnets::of_lab(&lab);
    assert_eq!(subnets.count(), 4);
    let way = |from: &str, to: &str| subnets.way(subnets.of_node(from), subnets.of_node(to));
    for (from, to, routers) in [
        ("h1", "h1", &[][..]),
        ("h1", "h2", &["ab"]),
        ("h1", "h4", &["da"]),
        ("h1", "h3", &["ab", "bc"]),
        ("h3", "h1", &["bc", "ab"]),
        ("h4", "h2", &["cd", "bc"]),
    ] {
        assert_eq!(way(from, to).unwrap(), routers, "{from} to {to}");
    }
}

#[test]
fn plain_switches_that_nothing_joins_are_one_subnet_where_there_is_no_router() {
    let lab = Lab::read(&labs().join("srv6-int.yaml"), false).unwrap();
    assert!(lab.routers.is_empty());
    let apart = ROUTED.replace("routers: {r1: {runs: seg6}}\n", "");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    std::fs::write(&file, apart.replace(", r1-left, r1-right", "")).unwrap();
    let lab = Lab::read(Path::new(&file), false).unwrap();
    let subnets = Subnets::of_lab(&lab);
    assert_eq!((subnets.count(), subnets.of_node("h3")), (1, 0));
}
