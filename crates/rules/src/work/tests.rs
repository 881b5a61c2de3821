//! What is read, and what is refused in which words.

use super::*;

const WAITS: &str = include_str!("../../../../conformance/nf/work/waits.yaml");
const COMPUTES: &str = include_str!("../../../../conformance/nf/work/computes.json");

#[test]
fn what_is_written_is_read_as_it_says() {
    let draw = Draw { distribution: Distribution::Exponential, mean: 50_000 };
    let waits = WorkConfig { work: Work::Waits { draw, queue: 1_000 }, seed: 7 };
    assert_eq!(read(WAITS, "file"), Ok(waits));
    let draw = Draw { distribution: Distribution::Fixed, mean: 1_000 };
    assert_eq!(read(COMPUTES, "file"), Ok(WorkConfig { work: Work::Computes { draw }, seed: 0 }));
}

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    let cases = [
        ("50000", "0", "mean_ns is 0; write 1 to 60000000000"),
        ("50000", "60000000001", "mean_ns is 60000000001"),
        ("1000", "0", "queue is 0; write 1 to 65536"),
        ("1000", "65537", "queue is 65537"),
        ("exponential", "normal", "unknown variant `normal`"),
        ("waits", "sleeps", "unknown field `sleeps`"),
        ("seed: 7", "computes: {distribution: fixed, mean_iterations: 1}", "one thing to do"),
        ("seed: 7", "computes: {distribution: fixed, mean_iterations: 0}", "one thing to do"),
    ];
    for (one, other, part) in cases {
        let error = read(&WAITS.replacen(one, other, 1), "load.yaml").expect_err(part);
        assert!(error.to_string().contains(part) && !error.advice.is_empty(), "{error}");
    }
    let none = COMPUTES.replace("1000", "0");
    assert!(read(&none, "f").unwrap_err().what.contains("mean_iterations is 0"));
}

#[test]
fn every_cut_and_every_flip_is_read_or_refused() {
    let (mut good, mut bad) = (0, 0);
    for text in [WAITS, COMPUTES] {
        for at in 0..text.len() * 8 {
            let mut turned = text.as_bytes().to_vec();
            turned[at / 8] ^= 1 << (at % 8);
            for bytes in [&turned[..], &text.as_bytes()[..at / 8]] {
                let Ok(text) = std::str::from_utf8(bytes) else { continue };
                match read(text, "file") {
                    Ok(_) => good += 1,
                    Err(_) => bad += 1,
                }
            }
        }
    }
    assert!(good > 50 && bad > 500, "{good} {bad}");
}
