//! Which interfaces are links, as patterns say: `*` stands for any characters, `?` for one. Pure.

use crate::fast_path::{PUNT_IN, PUNT_OUT};
use crate::needed::LOOPBACK;

/// The patterns of `--link`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns(Vec<String>);

impl Patterns {
    pub(crate) fn new(patterns: &[String]) -> Self {
        Self(patterns.to_vec())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Is an interface of this name a link? Never what is the node's own alone.
    pub(crate) fn matches(&self, interface: &str) -> bool {
        ![LOOPBACK, PUNT_IN, PUNT_OUT].contains(&interface)
            && self.0.iter().any(|pattern| fits(pattern.as_bytes(), interface.as_bytes()))
    }
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // Where the last star is, and what it stands for so far: no more than one is ever looked at again.
    let (mut at, mut place, mut star) = (0, 0, None);
    while let Some(octet) = name.get(place) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == octet => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, place) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_what_they_should() {
        let fits = |pattern: &str, name: &str| Patterns::new(&[pattern.into()]).matches(name);
        for (pattern, name) in [
            ("eth1", "eth1"),
            ("eth*", "eth"),
            ("eth*", "eth12"),
            ("e?h?", "eth1"),
            ("*p*s0", "enp3s0"),
            ("*", "anything"),
            ("a*b*c", "axbxbc"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("eth1", "eth12"),
            ("eth?", "eth"),
            ("eth?", "eth12"),
            ("*p*s0", "enp3s1"),
            ("a*b*c", "axbxb"),
            ("", "eth1"),
            ("*", LOOPBACK),
            (PUNT_IN, PUNT_IN),
            ("ct-*", PUNT_OUT),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        assert!(!fits(&"*a".repeat(1_000), &"a".repeat(999)), "and soon");
    }
}
