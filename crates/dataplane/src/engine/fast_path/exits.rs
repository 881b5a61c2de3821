//! Where the switch sends ordinary traffic and where paths deliver, for the latest that were asked
//! for. Knows that the answer depends on tables and question alone; refuses to give it.

use crate::engine::packet::index::{NetworkIndex, PortIndex};
use catena_wire::scalar::MacAddr;
use std::net::Ipv4Addr;

/// Answers that are kept of each kind.
const KEPT: usize = 512;
/// Odd numbers without pattern.
const FACTORS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

/// What is asked, in so many words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question<const WORDS: usize>([u64; WORDS]);

impl Question<4> {
    /// [`Question::delivered`] for IPv6.
    #[inline]
    pub(super) fn delivered_v6(
        path: u32,
        link: Option<(NetworkIndex, MacAddr)>,
        to: (u64, u64),
    ) -> Self {
        Self([linked(link), path.into(), to.0, to.1])
    }
}

impl Question<2> {
    /// Where does a path, by its index, deliver what is addressed to a MAC in a network and to an
    /// address? Without a network, the MAC says nothing.
    #[inline]
    pub(super) fn delivered(
        path: u32,
        link: Option<(NetworkIndex, MacAddr)>,
        to: Ipv4Addr,
    ) -> Self {
        Self([linked(link), u64::from(path) << 32 | u64::from(to.to_bits())])
    }

    /// Where does a network send what a port sends to a MAC?
    #[inline]
    pub(super) fn switched(port: PortIndex, network: NetworkIndex, to: MacAddr) -> Self {
        Self([word(network, to), port.0.into()])
    }
}

impl<const WORDS: usize> Question<WORDS> {
    /// That of nobody.
    const NONE: Self = Self([0; WORDS]);

    #[inline]
    fn place(self) -> usize {
        let words = self.0.iter().zip(&FACTORS);
        let hash = words.fold(0, |hash, (word, factor)| hash ^ word.wrapping_mul(*factor));
        (hash >> 40) as usize % KEPT
    }
}

#[inline]
fn linked(link: Option<(NetworkIndex, MacAddr)>) -> u64 {
    // No network has the last index: there are fewer.
    link.map_or(u64::MAX, |(network, mac)| word(network, mac))
}

#[inline]
fn word(network: NetworkIndex, MacAddr([a, b, c, d, e, f]): MacAddr) -> u64 {
    u64::from(network.0) << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// By which port a packet leaves, and to which MAC if not to that which it is addressed to.
pub(super) type Exit = (PortIndex, Option<MacAddr>);

/// The latest answers to questions of one kind.
#[derive(Debug, Default)]
pub(super) struct Exits<const WORDS: usize>(Box<[(Question<WORDS>, Option<Exit>)]>);

impl<const WORDS: usize> Exits<WORDS> {
    pub(super) fn new() -> Self {
        Self(vec![(Question::NONE, None); KEPT].into_boxed_slice())
    }

    /// Other tables are in force.
    pub(super) fn forget(&mut self) {
        self.0.fill((Question::NONE, None));
    }

    /// The answer to a question; none: the fast path has none, and the slow path shall say why.
    #[inline]
    pub(super) fn get(
        &mut self,
        question: Question<WORDS>,
        answer: impl FnOnce() -> Option<Exit>,
    ) -> Option<Exit> {
        let kept = self.0.get_mut(question.place())?;
        if kept.0 != question || kept.1.is_none() {
            *kept = (question, answer());
        }
        kept.1
    }
}
