//! Holds a function against its profile: whatever the profile says makes no difference is changed, and
//! nothing else may change; whatever it says cannot happen may not happen.
//!
//! Knows the contract alone. Refuses to know any function. A function of one's own is verified by it as
//! ours are.

mod dialogue;
mod held;
pub mod ruled;
mod scramble;
#[cfg(test)]
mod tests;
pub mod traffic;

use crate::check::{self, Fault};
use crate::function::{Function, Portion, RuleCount, StateEntry};
use crate::outcome::{
    DropCause, EventKind, GeneratedKind, HandedOutKind, Outcomes, Patch, Verdict,
};
use crate::packet::{Direction, Metadata, Packet, Time};
use catena_model::profile::{Meta, StateScope};
use std::collections::BTreeMap;
use std::fmt;
use traffic::{Random, group};

/// A packet of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// When it comes.
    pub at: Time,
    /// Which way it goes.
    pub direction: Direction,
    /// Its frame, as on the wire.
    pub frame: Vec<u8>,
    /// What tunnels said of it.
    pub metadata: Metadata,
}

/// What became of one packet, told without places in batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether it goes on.
    pub verdict: Verdict,
    /// How it is changed.
    pub patches: Vec<Patch>,
    /// What was told of it, with the rules that say so.
    pub events: Vec<(EventKind, u32)>,
    /// Packets that were made because of it.
    pub generated: Vec<(GeneratedKind, Direction, Vec<u8>)>,
    /// The packet in its place.
    pub replaced: Option<Vec<u8>>,
    /// Messages that were due at it.
    pub handed_out: Vec<(HandedOutKind, Vec<u8>)>,
}

/// A profile that is not true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disproof {
    /// What it is about.
    pub fault: Fault,
    /// The packet that shows it, by its place among those of the test.
    pub packet: usize,
    /// What became of the packet, and what should have.
    pub difference: Option<Box<(Seen, Seen)>>,
}

impl fmt::Display for Disproof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {}: {}", self.packet, self.fault)?;
        if let Some(difference) = &self.difference {
            write!(f, ": {:?} in place of {:?}", difference.1, difference.0)?;
        }
        Ok(())
    }
}

impl std::error::Error for Disproof {}

/// What a proof has looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Packets of the test.
    pub packets: usize,
    /// Packets that were dropped.
    pub dropped: usize,
    /// Patches.
    pub patches: usize,
    /// Events.
    pub events: usize,
    /// Packets that were made.
    pub generated: usize,
    /// Messages that were handed out.
    pub handed_out: usize,
    /// Packets that waited.
    pub held: usize,
}

/// Packets of a state scope that are asked of functions of their own: making one may cost.
const ALONE_MAX: usize = 300;

/// Holds a function against its profile. `make` makes it anew; `inputs` must be in the order of their
/// times.
///
/// # Errors
/// The first packet that shows that the profile is not true.
pub fn verify<F: Function>(
    make: impl Fn() -> F,
    inputs: &[Input],
    seed: u64,
) -> Result<Proof, Disproof> {
    let mut random = Random::new(seed);
    let (seen, counts) = run(&mut make(), inputs, &mut random)?;
    let same = |fault: Fault, others: &[(usize, Seen)]| {
        let differing = others.iter().find(|(at, other)| seen.get(*at) != Some(other));
        match differing {
            None => Ok(()),
            Some((at, other)) => Err(Disproof {
                fault,
                packet: *at,
                difference: seen.get(*at).map(|one| Box::new((one.clone(), other.clone()))),
            }),
        }
    };
    let profile = *make().profile();
    // What is not read may be anything.
    let scrambled: Vec<Input> =
        inputs.iter().map(|input| scramble::scramble(input, &profile.reads, &mut random)).collect();
    let (others, _) = run(&mut make(), &in_time(scrambled, inputs, &profile.reads), &mut random)?;
    same(Fault::Read, &others.into_iter().enumerate().collect::<Vec<_>>())?;
    // So may the order of groups of packets that do not meet.
    if !profile.is_ordered && profile.state != StateScope::All {
        let mut order: Vec<usize> = (0..inputs.len()).collect();
        let mut keys: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        let mut key = |at: usize| match profile.state {
            StateScope::Packet => random.number(),
            scope => *keys.entry(group(&inputs[at], scope)).or_insert_with(|| random.number()),
        };
        let keys: Vec<u64> = (0..inputs.len()).map(&mut key).collect();
        order.sort_by_key(|at| keys[*at]);
        let still = |at: &usize| Input { at: Time::default(), ..inputs[*at].clone() };
        let moved: Vec<Input> = order.iter().map(still).collect();
        let together: Vec<Input> = (0..inputs.len()).map(|at| still(&at)).collect();
        let (plain, _) = run(&mut make(), &together, &mut random)?;
        let (others, _) = run(&mut make(), &moved, &mut random)?;
        for (at, other) in order.iter().zip(others) {
            if plain[*at] != other {
                let difference = Some(Box::new((plain[*at].clone(), other)));
                return Err(Disproof { fault: Fault::Order, packet: *at, difference });
            }
        }
    }
    alone(&make, inputs, profile.state, &same)?;
    carried(&make, inputs, (&seen, &counts), &mut random)?;
    asked(&make, inputs, &seen)?;
    held::come_back(&mut make(), inputs)?;
    let verdicts = || seen.iter().map(|one| one.verdict);
    Ok(Proof {
        packets: inputs.len(),
        dropped: verdicts().filter(|verdict| matches!(verdict, Verdict::Drop(_))).count(),
        patches: seen.iter().map(|one| one.patches.len()).sum(),
        events: seen.iter().map(|one| one.events.len()).sum(),
        generated: seen.iter().map(|one| one.generated.len()).sum(),
        handed_out: seen.iter().map(|one| one.handed_out.len()).sum(),
        held: verdicts().filter(|verdict| *verdict == Verdict::Hold).count(),
    })
}

/// Where times are not read, packets may come at any; else they keep theirs.
fn in_time(
    mut scrambled: Vec<Input>,
    inputs: &[Input],
    reads: &catena_model::profile::FieldSet,
) -> Vec<Input> {
    if !reads.has_meta(Meta::ReceivedAt) {
        let last = inputs.last().map_or(0, |input| input.at.0);
        for (at, input) in scrambled.iter_mut().enumerate() {
            input.at = Time(last / 3 + at as u64);
        }
    }
    scrambled
}

/// Asks for all packets in batches of random lengths, holds what comes against the profile, and tells it
/// packet by packet.
fn run(
    function: &mut impl Function,
    inputs: &[Input],
    random: &mut Random,
) -> Result<(Vec<Seen>, Vec<RuleCount>), Disproof> {
    let mut seen = Vec::with_capacity(inputs.len());
    let mut outcomes = Outcomes::default();
    let mut rest = inputs;
    while let Some(first) = rest.first() {
        let is_like_it =
            |input: &&Input| (input.at, input.direction) == (first.at, first.direction);
        let alike = rest.iter().take_while(is_like_it).count();
        let (batch, behind) = rest.split_at(alike.min(1 + random.below(32)));
        rest = behind;
        let packets: Vec<Packet<'_>> = batch.iter().filter_map(packet_of).collect();
        function.process(first.at, first.direction, &packets, &mut outcomes);
        let start = seen.len();
        let disproof = |fault| Disproof { fault, packet: start, difference: None };
        check::outcomes(function.profile(), packets.len(), &outcomes).map_err(disproof)?;
        seen.extend((0..packets.len()).map(|at| told(&outcomes, at)));
    }
    let mut counts = Vec::new();
    function.report(&mut counts);
    Ok((seen, counts))
}

/// The packet of an input; none: its frame is none, and such inputs are not made.
fn packet_of(input: &Input) -> Option<Packet<'_>> {
    Packet::read(&input.frame).ok().map(|packet| Packet { metadata: input.metadata, ..packet })
}

/// What became of one packet of a batch.
fn told(outcomes: &Outcomes, at: usize) -> Seen {
    let of = |number: u32| number as usize == at;
    let events = outcomes.events().iter().filter(|(number, _)| of(*number));
    // What comes back was decided at another packet; it is looked at by itself.
    let is_new = |kind: GeneratedKind| kind != GeneratedKind::Released;
    let generated =
        outcomes.generated().iter().filter(|(number, made)| of(*number) && is_new(made.kind));
    let replaced = outcomes.replaced().iter().find(|(number, _)| of(*number));
    let handed_out = outcomes.handed_out().iter().filter(|(number, _)| of(*number));
    Seen {
        verdict: outcomes.verdicts().get(at).copied().unwrap_or_default(),
        patches: outcomes.patches_of(at).copied().collect(),
        events: events.map(|(_, event)| (event.kind, event.rule)).collect(),
        generated: generated
            .map(|(_, made)| {
                (made.kind, made.direction, outcomes.bytes(made.frame.clone()).to_vec())
            })
            .collect(),
        replaced: replaced.map(|(_, frame)| outcomes.bytes(frame.clone()).to_vec()),
        handed_out: handed_out
            .map(|(_, one)| (one.kind, outcomes.bytes(one.message.clone()).to_vec()))
            .collect(),
    }
}

/// What packets come to whose function has seen nothing beyond the scope of its state.
fn alone<F: Function>(
    make: &impl Fn() -> F,
    inputs: &[Input],
    scope: StateScope,
    same: &impl Fn(Fault, &[(usize, Seen)]) -> Result<(), Disproof>,
) -> Result<(), Disproof> {
    if scope == StateScope::All {
        return Ok(());
    }
    let mut groups: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (at, input) in inputs.iter().enumerate() {
        let key =
            if scope == StateScope::Packet { at.to_be_bytes().into() } else { group(input, scope) };
        groups.entry(key).or_default().push(at);
    }
    let step = groups.len().div_ceil(ALONE_MAX).max(1);
    for members in groups.values().step_by(step) {
        let own: Vec<Input> = members.iter().map(|at| inputs[*at].clone()).collect();
        let (seen, _) = run(&mut make(), &own, &mut Random::new(1))?;
        same(Fault::Scope, &members.iter().copied().zip(seen).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// A function that takes over what another has exported half way goes on as that one does.
fn carried<F: Function>(
    make: &impl Fn() -> F,
    inputs: &[Input],
    (seen, counts): (&[Seen], &[RuleCount]),
    random: &mut Random,
) -> Result<(), Disproof> {
    let (before, behind) = inputs.split_at(inputs.len() / 2);
    let mut first = make();
    let mut entries = Vec::new();
    let mut changes = Vec::new();
    for part in before.chunks(before.len().div_ceil(3).max(1)) {
        run(&mut first, part, random)?;
        first.export(false, &mut changes);
    }
    first.export(true, &mut entries);
    let portions = in_portions(&mut make(), before, random)?;
    for exported in [entries, changes, portions] {
        let mut second = make();
        second.import(&exported);
        let (others, own) = run(&mut second, behind, random)?;
        let differing = (before.len()..).zip(others).find(|(at, other)| seen[*at] != *other);
        if let Some((packet, other)) = differing {
            let difference = Some(Box::new((seen[packet].clone(), other)));
            return Err(Disproof { fault: Fault::NotCarried, packet, difference });
        }
        if own != counts {
            return Err(Disproof {
                fault: Fault::NotCarried,
                packet: inputs.len(),
                difference: None,
            });
        }
    }
    Ok(())
}

/// What somebody has who takes portions of exports between packets: first of everything, then of what has changed.
fn in_portions<F: Function>(
    function: &mut F,
    inputs: &[Input],
    random: &mut Random,
) -> Result<Vec<StateEntry>, Disproof> {
    const PACKETS: usize = 64;
    const BUDGET: usize = 2_000;
    let (mut kept, mut all, mut is_first) = (BTreeMap::new(), true, true);
    let mut take = |function: &mut F| {
        let mut entries = Vec::new();
        let portion = Portion { all, is_first, budget: BUDGET };
        let is_more = function.export_portion(portion, &mut entries);
        (all, is_first) = (all && is_more, !is_more);
        for StateEntry { key, value } in entries {
            match value {
                None if key.len() == 1 => (all, is_first, kept) = (true, true, BTreeMap::new()),
                None => drop(kept.remove(&key)),
                Some(value) => drop(kept.insert(key, value)),
            }
        }
        is_more || all
    };
    for part in inputs.chunks(PACKETS) {
        run(function, part, random)?;
        take(function);
    }
    // The rest of the last one, and what has changed meanwhile.
    for _ in 0..2 {
        while take(function) {}
    }
    Ok(kept.into_iter().map(|(key, value)| StateEntry { key, value: Some(value) }).collect())
}

/// What `ask` answers is what happens then, and asking changes nothing.
fn asked<F: Function>(
    make: &impl Fn() -> F,
    inputs: &[Input],
    seen: &[Seen],
) -> Result<(), Disproof> {
    let mut function = make();
    let mut outcomes = Outcomes::default();
    for (at, input) in inputs.iter().enumerate() {
        let Some(packet) = packet_of(input) else { continue };
        let answers = [0, 1].map(|_| function.ask(input.at, input.direction, &packet));
        function.process(input.at, input.direction, &[packet], &mut outcomes);
        let wanted = told(&outcomes, 0);
        let [answer, again] = answers;
        let is_true = answer.verdict == wanted.verdict
            && answer.patches == wanted.patches
            && answer == again
            && seen[at] == wanted;
        let names_rule = match answer.verdict {
            Verdict::Drop(DropCause::Rule(rule)) => answer.rules.contains(&rule),
            Verdict::Drop(DropCause::Full) | Verdict::Pass | Verdict::Hold => true,
        };
        if !is_true || !names_rule {
            let difference = Some(Box::new((seen[at].clone(), wanted)));
            return Err(Disproof { fault: Fault::Asked, packet: at, difference });
        }
    }
    Ok(())
}
