//! Functions made of nothing but their profiles: what they do follows from all that they may read, so that whatever a
//! verdict overlooks shows in what comes out.

use catena_model::profile::{Profile, StateScope};
use catena_wire::field::Field;
use std::collections::BTreeMap;

/// Fields of the packets here.
pub(super) const FIELDS: [Field; 12] = [
    Field::Source,
    Field::Destination,
    Field::DestinationPort,
    Field::Dscp,
    Field::Length,
    Field::Payload,
    Field::SourcePort,
    Field::Protocol,
    Field::Ttl,
    Field::VlanId,
    Field::EthernetSource,
    Field::EthernetDestination,
];

pub(super) type Packet = BTreeMap<Field, u128>;

/// What a function answers about one packet.
#[derive(Clone, Debug, Default)]
struct Answer {
    drops: bool,
    patches: Vec<(Field, u128, u128)>,
    another: Option<Packet>,
    effect: Option<u64>,
    made: Option<Packet>,
}

/// A function with its state.
#[derive(Clone, Debug)]
pub(super) struct Toy {
    profile: Profile,
    state: u64,
    sum: u64,
}

/// All that can be seen of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// What came out for each packet, those made on the way included.
    out: Vec<Vec<Packet>>,
    /// Who dropped, for each packet that was.
    drops: Vec<(usize, usize)>,
    /// Effects by packet, place and value.
    effects: Vec<(usize, usize, u64)>,
    /// States and sums in the end.
    states: Vec<(u64, u64)>,
}

impl Seen {
    /// Packets that were dropped, and effects: a comparison of nothing says nothing.
    pub(super) fn weight(&self) -> (usize, usize) {
        (self.drops.len(), self.effects.len())
    }
}

fn mixed(of: impl IntoIterator<Item = u128>) -> u64 {
    of.into_iter().fold(0xcbf2_9ce4_8422_2325, |sum, value| {
        let folded = (value ^ value >> 64) as u64;
        let next = (sum ^ folded).wrapping_mul(0x0100_0000_01b3);
        next ^ next >> 29
    })
}

impl Toy {
    pub(super) const fn new(profile: Profile) -> Self {
        Self { profile, state: 1, sum: 0 }
    }

    /// Does its state decide about packets?
    fn decides_by_state(&self) -> bool {
        self.profile.state != StateScope::Packet || self.profile.is_ordered
    }

    /// What it answers; nothing is changed.
    fn ask(&self, packet: &Packet) -> (Answer, u64) {
        let profile = &self.profile;
        let read = FIELDS.iter().map(|field| packet[field] & profile.reads.bits(*field));
        let state = self.decides_by_state().then_some(u128::from(self.state));
        let all = mixed(read.chain(state));
        let valued = |field: Field| u128::from(mixed([all.into(), field as u128])) & field.all();
        let written = FIELDS.into_iter().filter(|field| profile.writes.bits(*field) != 0);
        let answer = Answer {
            drops: profile.drops && all % 3 == 0,
            patches: written
                .map(|field| (field, valued(field), profile.writes.bits(field)))
                .collect(),
            another: profile.replaces.then(|| {
                let whole = mixed(packet.values().copied());
                let fields =
                    FIELDS.into_iter().map(|field| (field, u128::from(whole ^ all) & field.all()));
                fields.collect()
            }),
            effect: profile.has_effects.then_some(all),
            // What it quotes or answers, it reads.
            made: (profile.generates && all % 5 == 0)
                .then(|| FIELDS.into_iter().map(|field| (field, valued(field))).collect()),
        };
        (answer, all)
    }

    /// Takes note of what it answered.
    fn note(&mut self, all: u64) {
        if self.decides_by_state() {
            self.state = mixed([self.state.into(), all.into()]);
        }
        if self.profile.has_effects {
            self.sum = self.sum.wrapping_add(all);
        }
    }
}

fn patched(mut packet: Packet, patches: &[(Field, u128, u128)]) -> Packet {
    for (field, value, mask) in patches {
        let old = packet[field];
        packet.insert(*field, old & !mask | value & mask);
    }
    packet
}

/// One after the other.
pub(super) fn in_series(toys: &[Toy], packets: &[Packet]) -> Seen {
    let mut toys = toys.to_vec();
    let mut seen = Seen::default();
    for (token, packet) in packets.iter().enumerate() {
        seen.out.push(Vec::new());
        // A packet that is made goes through those behind its maker, before the one that it is about.
        let mut waiting = vec![(0, packet.clone())];
        while let Some((from, mut packet)) = waiting.pop() {
            let mut is_dropped = false;
            for (at, toy) in toys.iter_mut().enumerate().skip(from) {
                let (answer, all) = toy.ask(&packet);
                toy.note(all);
                seen.effects.extend(answer.effect.map(|effect| (token, at, effect)));
                waiting.extend(answer.made.map(|made| (at + 1, made)));
                if answer.drops {
                    seen.drops.push((token, at));
                    is_dropped = true;
                    break;
                }
                packet = answer.another.unwrap_or_else(|| patched(packet, &answer.patches));
            }
            if !is_dropped {
                seen.out[token].push(packet);
            }
        }
    }
    seen.states = toys.iter().map(|toy| (toy.state, toy.sum)).collect();
    seen
}

/// Stages one after the other, the members of each side by side.
#[derive(Clone, Copy)]
pub(super) struct Plan<'p> {
    pub(super) stages: &'p [Vec<usize>],
    /// Are effects of the second one held until the first one's verdict?
    pub(super) is_held: &'p dyn Fn(usize, usize) -> bool,
}

/// All members of a stage see the packet as it came to it; the first that drops in the chain's order drops, and what
/// others behind it hold is not added.
pub(super) fn in_stages(toys: &[Toy], plan: Plan<'_>, packets: &[Packet]) -> Seen {
    let mut toys = toys.to_vec();
    let mut seen = Seen::default();
    for (token, packet) in packets.iter().enumerate() {
        seen.out.push(Vec::new());
        let mut waiting = vec![(0, packet.clone())];
        while let Some((from, packet)) = waiting.pop() {
            let mut packet = Some(packet);
            for stage in plan.stages.iter().filter(|stage| stage.iter().all(|at| *at >= from)) {
                let Some(whole) = packet else { break };
                let mut answers = Vec::new();
                for at in stage {
                    let (answer, all) = toys[*at].ask(&whole);
                    answers.push((*at, answer, all));
                }
                packet = joined(&mut toys, plan, (token, whole), answers, &mut waiting, &mut seen);
            }
            seen.out[token].extend(packet);
        }
    }
    seen.states = toys.iter().map(|toy| (toy.state, toy.sum)).collect();
    seen
}

/// The packet, unless it is dropped, once all have answered.
fn joined(
    toys: &mut [Toy],
    plan: Plan<'_>,
    (token, mut packet): (usize, Packet),
    answers: Vec<(usize, Answer, u64)>,
    waiting: &mut Vec<(usize, Packet)>,
    seen: &mut Seen,
) -> Option<Packet> {
    let mut dropper = None;
    for (at, answer, all) in answers {
        if dropper.is_some_and(|dropper| (plan.is_held)(dropper, at)) {
            continue;
        }
        toys[at].note(all);
        seen.effects.extend(answer.effect.map(|effect| (token, at, effect)));
        waiting.extend(answer.made.map(|made| (at + 1, made)));
        if answer.drops && dropper.is_none() {
            seen.drops.push((token, at));
            dropper = Some(at);
        }
        packet = answer.another.unwrap_or_else(|| patched(packet, &answer.patches));
    }
    dropper.is_none().then_some(packet)
}
