//! Rules read, and refused with their lines.

use super::*;
use crate::refusal::Refusal;
use proptest::prelude::*;

fn options() -> ReadOptions {
    ReadOptions { file: "edge.rules".into(), ..ReadOptions::default() }
}

fn read_text(text: &str) -> Result<IdsRules, RuleError> {
    read(
        text,
        &[("HOME_NET".to_owned(), "[10.0.0.0/8,!10.1.0.0/16]".to_owned())].into(),
        &options(),
    )
}

fn one(options: &str) -> IdsRule {
    let text = format!("alert tcp any any -> any any (msg:\"m\"; {options} sid:1;)");
    read_text(&text).unwrap_or_else(|wrong| panic!("{wrong}")).rules.remove(0)
}

fn wrong(options: &str) -> String {
    let text = format!("# first\nalert tcp any any -> any any (msg:\"m\"; {options} sid:1;)");
    read_text(&text).expect_err(options).to_string()
}

#[test]
fn headers_have_variables_lists_and_exceptions() {
    let text = "portvar WEB [80,8000:8080,!8005]\n\
                alert tcp $HOME_NET !$WEB <> [2001:db8::/32,!2001:db8::1] $WEB (sid:1;)";
    let rules = read_text(text).unwrap();
    let rule = &rules.rules[0];
    let has = |ends: &Ends, address: &str, port| ends.has(address.parse().unwrap(), Some(port));
    assert!(rule.is_both_ways);
    assert!(has(&rule.source, "10.0.0.1", 79) && !has(&rule.source, "10.0.0.1", 80));
    assert!(!has(&rule.source, "10.1.0.1", 79) && has(&rule.source, "10.2.0.1", 8005));
    assert!(
        has(&rule.destination, "2001:db8::2", 8004) && !has(&rule.destination, "2001:db8::1", 80)
    );
    assert!(
        !has(&rule.destination, "2001:db8::2", 8005) && !has(&rule.destination, "10.0.0.1", 80)
    );
}

#[test]
fn contents_keep_their_bytes_and_places() {
    let rule = one(
        "content:\"A|0d 0a|\\;\\\"\"; nocase; offset:3; depth:9; content:!\"b\"; distance:-1; within:5;",
    );
    let Check::Content(first) = &rule.checks[0].1 else { panic!() };
    assert_eq!(first.bytes, b"a\r\n;\"");
    assert_eq!((first.from, first.within, first.ignores_case), (3, Some(9), true));
    let Check::Content(second) = &rule.checks[1].1 else { panic!() };
    assert_eq!(
        (second.from, second.within, second.is_negated, second.is_relative),
        (-1, Some(5), true, true)
    );
    assert_eq!(rule.fast, Some((Buffer::Payload, b"a\r\n;\"".to_vec())));
    let rule = one("content:\"long one\"; content:\"xyz\"; fast_pattern:1,2;");
    assert_eq!(rule.fast, Some((Buffer::Payload, b"yz".to_vec())));
    let rule = one("content:\"/a\"; http_uri; http.host; content:\"b\"; pcre:\"/c/Ui\";");
    let buffers: Vec<Buffer> = rule.checks.iter().map(|(buffer, _)| *buffer).collect();
    assert_eq!(buffers, [Buffer::Uri, Buffer::Host, Buffer::Uri]);
}

#[test]
fn patterns_mean_what_pcre_means() {
    let holds = |pattern: &str, bytes: &[u8]| {
        let rule = one(&format!("pcre:\"{pattern}\";"));
        let Check::Pattern(pattern) = &rule.checks[0].1 else { panic!() };
        pattern.regex.is_match(bytes)
    };
    assert!(holds("/^a\\/b$/", b"a/b\n") && !holds("/^a\\/b$/E", b"a/b\n"));
    assert!(holds("/[a&&b]x/", b"&x") && holds("/[[x]/", b"[") && holds("/\\x00\\e/", b"\0\x1b"));
    assert!(holds("/a.c/s", b"a\nc") && !holds("/a.c/", b"a\nc"));
    assert!(!holds("/bc/A", b"abc") && holds("/B C/ix", b"bc") && holds("/\\xff/", b"\xff"));
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_advice() {
    for (options, told) in [
        ("content:\"\";", "has 0 bytes"),
        ("content:\"|0d 0|\";", "not hexadecimal"),
        ("content:\"ab\"; depth:1;", "longer than its depth"),
        ("content:\"ab\"; offset:1; distance:2;", "both from the start and from the last match"),
        ("nocase;", "belongs to no content"),
        ("content:!\"ab\"; fast_pattern;", "cannot be looked for first"),
        ("pcre:\"/(?=a)/\";", "look-around"),
        ("pcre:\"/(a)\\1/\";", "backreferences"),
        ("pcre:\"/a++/\";", "possessive"),
        ("pcre:\"/(\\w{900}){90}/\";", "size limit"),
        ("byte_test:9,>,1,0;", "9 bytes of 1 to 8"),
        ("byte_test:2,~,1,0;", "no operator"),
        ("dsize:9<>9;", "takes nothing"),
        ("flags:Q;", "cannot be read"),
        ("flow:sideways;", "says nothing of a flow"),
        ("flow:to_server,to_client;", "contradicts itself"),
        ("flowbits:set;", "no name of a flowbit"),
        ("threshold:type limit,track by_src,count 1;", "lacks a part"),
        ("classtype:none-such;", "is not known"),
        ("itype:8;", "not about ICMP"),
        ("tls.sni;", "not supported"),
        ("http.uri; content:\"a\"; dsize:1;", "single packets"),
        ("msg:\"open;", "does not end"),
    ] {
        let text = wrong(options);
        assert!(
            text.starts_with("edge.rules line 2: ") && text.contains(told),
            "{options}: {text}"
        );
        assert!(text.contains("; "), "{text} has advice");
    }
    for (text, told) in [
        ("alert tcp any any -> any any", "no options in brackets"),
        ("alert tcp any any <- any any (sid:1;)", "no direction"),
        ("alert tcp $NONE any -> any any (sid:1;)", "$NONE is not defined"),
        ("ipvar A $A\nalert tcp $A any -> any any (sid:1;)", "deep"),
        ("alert tcp any any -> any 99999 (sid:1;)", "is no port"),
        ("alert tcp any any -> any any (msg:\"x\";)", "no sid"),
        ("alert ip any any -> any 80 (sid:1;)", "without ports"),
        ("shout tcp any any -> any any (sid:1;)", "is no action"),
    ] {
        let said = read_text(text).expect_err(text).to_string();
        assert!(said.contains(told), "{text}: {said}");
    }
    let twice = "alert tcp any any -> any any (sid:1;)\nalert udp any any -> any any (sid:1;)";
    assert!(read_text(twice).unwrap_err().to_string().contains("first in line 1"));
}

#[test]
fn what_is_not_supported_may_be_left_out() {
    let text = "alert tcp any any -> any any (tls.sni; content:\"a\"; sid:1;)\n\
                alert tcp any any -> any any (flowbits:set,x; pcre:\"/(?!a)/\"; sid:2;)\n\
                alert udp any any -> any any (flowbits:isset,y; sid:3;)";
    let skip = ReadOptions { unsupported: Unsupported::Skip, ..options() };
    let rules = read(text, &BTreeMap::new(), &skip).unwrap();
    assert_eq!((rules.rules.len(), rules.flowbits), (1, vec!["y".to_owned()]));
    let lines: Vec<u32> = rules.skipped.iter().map(|one| one.line).collect();
    assert_eq!(lines, [1, 2]);
    let wrong = "alert tcp any any -> any any (dsize:x; sid:1;)";
    assert!(read(wrong, &BTreeMap::new(), &skip).is_err(), "mistakes are no matter of support");
}

const SAMPLE: &str = "alert tcp [10.0.0.1,!192.0.2.0/24] 1: -> $HOME_NET !80 (msg:\"a \\\"b\\\"\"; flow:established; \
    content:!\"x|41 42|\"; nocase; http.uri; content:\"y\"; pcre:\"/^[a-z]+\\/$/Ri\"; byte_test:2,!&,0x1f,-1,relative; \
    flowbits:toggle,z; threshold:type both,track by_rule,count 3,seconds 4; isdataat:!9,relative; sid:1;)";

#[test]
fn all_cuts_and_bit_flips_are_read_or_refused() {
    assert_eq!(read_text(SAMPLE).map(|rules| rules.rules.len()), Ok(1));
    for end in 0..SAMPLE.len() {
        let _ = read_text(&SAMPLE[..end]).is_ok();
    }
    let mut read = 0;
    for at in 0..SAMPLE.len() {
        for bit in 0..7 {
            let mut bytes = SAMPLE.as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            let text = String::from_utf8(bytes).expect("seven bits");
            read += usize::from(read_text(&text).is_ok());
        }
    }
    assert!(read > 50, "{read} flips leave a rule");
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,200}") {
        let _ = read_text(&text).is_ok();
        let inner = format!("alert tcp any any -> any any ({text} sid:1;)");
        let _ = read_text(&inner).is_ok();
    }

    #[test]
    fn sets_are_what_their_parts_say(
        ranges in proptest::collection::vec((any::<bool>(), 0_u16..200, 0_u16..60), 1..8),
    ) {
        let words = ranges.iter().map(|(without, first, length)| {
            format!("{}{first}:{}", if *without { "!" } else { "" }, first + length)
        });
        let text = format!("[{}]", words.collect::<Vec<_>>().join(","));
        let set: Result<_, Refusal> = set::Sets::new(&BTreeMap::new()).read(set::Kind::Ports, &text);
        let is_in = |port: u16| {
            let of = |wanted: bool| ranges.iter().any(|(without, first, length)| {
                *without == wanted && (*first..=first + length).contains(&port)
            });
            (of(false) || ranges.iter().all(|(without, ..)| *without)) && !of(true)
        };
        match set {
            Ok(set) => (0..300).for_each(|port| assert_eq!(set.has_port(port), is_in(port), "{port} in {text}")),
            Err(_) => assert!((0..=u16::MAX).all(|port| !is_in(port)), "{text}"),
        }
    }
}
