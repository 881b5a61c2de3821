//! A function that tells the truth of itself is verified, and each kind of liar is caught.

use super::*;
use crate::function::{Answer, StateEntry, Waiting};
use crate::outcome::{Event, Part};
use catena_model::profile::{FieldSet, Profile};
use catena_wire::field::Field;

/// What a planted function does, whatever it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Nothing,
    WritesTtl,
    DropsOddPorts,
    Rejects,
    Replaces,
    Tells,
    HandsOut,
    /// Drops what comes second within a group of packets.
    DropsEverySecondOf(StateScope),
    /// Answers otherwise than it does.
    Denies,
    /// Keeps its count to itself.
    ForgetsWhatItCounted,
    /// Lets packets wait for ever.
    Keeps,
    /// Gives back something else than what waited.
    GivesBackAnother,
}

#[derive(Clone)]
struct Planted {
    habit: Habit,
    profile: Profile,
    met: BTreeMap<Vec<u8>, u64>,
    count: RuleCount,
    kept: u64,
}

impl Planted {
    fn new(habit: Habit, profile: Profile) -> Self {
        Self { habit, profile, met: BTreeMap::new(), count: RuleCount::default(), kept: 0 }
    }

    fn is_odd(packet: &Packet<'_>) -> bool {
        Field::SourcePort.read(packet.frame, &packet.view).is_some_and(|port| port & 1 == 1)
    }

    fn group(packet: &Packet<'_>, scope: StateScope) -> Vec<u8> {
        let frame = packet.frame.to_vec();
        let (at, direction, metadata) = (Time::default(), Direction::Forward, Metadata::default());
        group(&Input { at, direction, frame, metadata }, scope)
    }
}

impl Function for Planted {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn process(
        &mut self,
        now: Time,
        way: Direction,
        batch: &[Packet<'_>],
        outcomes: &mut Outcomes,
    ) {
        outcomes.begin(batch.len());
        for (at, packet) in batch.iter().enumerate() {
            self.count.packets += 1;
            let rule = DropCause::Rule(0);
            match self.habit {
                Habit::Nothing | Habit::ForgetsWhatItCounted => {}
                Habit::Keeps | Habit::GivesBackAnother => {
                    outcomes.decide(at, Verdict::Hold);
                    self.kept += 1;
                }
                Habit::WritesTtl => {
                    if Field::Ttl.read(packet.frame, &packet.view).is_some() {
                        outcomes.patch(at, Patch::of(Field::Ttl, 9));
                    }
                }
                Habit::DropsOddPorts | Habit::Denies => {
                    if Self::is_odd(packet) {
                        outcomes.drop_packet(at, rule);
                    }
                }
                Habit::Rejects => {
                    let made = (at, GeneratedKind::Unreachable, way.reversed());
                    outcomes.generate(made, 60, |_| Some(60));
                }
                Habit::Replaces => {
                    outcomes.replace(at, 60, |_| Some(60));
                }
                Habit::Tells => {
                    outcomes.tell(at, Event { at: now, kind: EventKind::Logged, rule: 0 });
                }
                Habit::HandsOut => {
                    outcomes.hand_out(at, HandedOutKind::Ipfix, 60, |_| Some(60));
                }
                Habit::DropsEverySecondOf(scope) => {
                    let met = self.met.entry(Self::group(packet, scope)).or_default();
                    *met += 1;
                    if (*met).is_multiple_of(2) {
                        outcomes.drop_packet(at, rule);
                    }
                }
            }
        }
    }

    fn elapse(&mut self, _now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
        if self.habit == Habit::GivesBackAnother && self.kept > 0 {
            self.kept -= 1;
            let made = (0, GeneratedKind::Released, Direction::Forward);
            outcomes.generate(made, 60, |_| Some(60));
        }
    }

    fn waiting(&self) -> Waiting {
        let gives_back = self.habit == Habit::GivesBackAnother && self.kept > 0;
        Waiting { packets: self.kept, next: gives_back.then_some(Time::default()) }
    }

    fn ask(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        let mut outcomes = Outcomes::default();
        let mut copy = self.clone();
        if self.habit != Habit::Denies {
            copy.process(now, direction, &[*packet], &mut outcomes);
        }
        let verdict = outcomes.verdicts().first().copied().unwrap_or_default();
        Answer { verdict, patches: outcomes.patches_of(0).copied().collect(), rules: vec![0] }
    }

    fn export(&mut self, _all: bool, into: &mut Vec<StateEntry>) {
        let met = self.met.iter();
        into.extend(met.map(|(key, met)| {
            let value = Some(met.to_be_bytes().to_vec());
            StateEntry { key: [b"g", key.as_slice()].concat(), value }
        }));
        if self.habit != Habit::ForgetsWhatItCounted {
            let value = Some(self.count.packets.to_be_bytes().to_vec());
            into.push(StateEntry { key: b"count".to_vec(), value });
        }
    }

    fn import(&mut self, entries: &[StateEntry]) -> usize {
        for entry in entries {
            let bytes: [u8; 8] = entry.value.clone().unwrap().try_into().unwrap();
            let number = u64::from_be_bytes(bytes);
            match entry.key.split_first() {
                Some((b'g', group)) => drop(self.met.insert(group.to_vec(), number)),
                _ => self.count.packets = number,
            }
        }
        entries.len()
    }

    fn report(&self, into: &mut Vec<RuleCount>) {
        into.push(self.count);
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        (rule == 0).then(|| "the habit".to_owned())
    }
}

/// All that packets are made of, so that no reading is denied.
fn open() -> Profile {
    Profile { reads: FieldSet::all(), ..Profile::IDENTITY }
}

fn prove(habit: Habit, profile: Profile) -> Result<Proof, Fault> {
    let inputs = traffic::draw(11, 3_000);
    verify(|| Planted::new(habit, profile), &inputs, 5).map_err(|disproof| disproof.fault)
}

#[test]
fn a_function_that_tells_the_truth_is_verified() {
    let ports =
        FieldSet::EMPTY.with(Field::SourcePort).with(Field::Protocol).with(Field::FragmentOffset);
    let drops = Profile { reads: ports, drops: true, ..Profile::IDENTITY };
    let proof = prove(Habit::DropsOddPorts, drops).unwrap();
    assert!(proof.packets == 3_000 && proof.dropped > 100, "{proof:?}");
    let writes = Profile { writes: FieldSet::EMPTY.with(Field::Ttl), ..Profile::IDENTITY };
    assert!(prove(Habit::WritesTtl, writes).unwrap().patches > 2_000);
    let tells = Profile { has_effects: true, ..open() };
    assert_eq!(prove(Habit::Tells, tells).unwrap().events, 3_000);
    assert_eq!(prove(Habit::HandsOut, tells).unwrap().handed_out, 3_000);
    let generates = Profile { generates: true, ..open() };
    assert_eq!(prove(Habit::Rejects, generates).unwrap().generated, 3_000);
    assert!(prove(Habit::Nothing, Profile::IDENTITY).is_ok());
    for scope in [StateScope::Flow, StateScope::All] {
        let state =
            Profile { drops: true, state: scope, is_ordered: scope == StateScope::All, ..open() };
        assert!(prove(Habit::DropsEverySecondOf(scope), state).unwrap().dropped > 100, "{scope:?}");
    }
}

#[test]
fn each_kind_of_liar_is_caught() {
    let drops = Profile { drops: true, ..open() };
    let everything = |scope| Habit::DropsEverySecondOf(scope);
    let cases = [
        (Habit::WritesTtl, open(), Fault::Wrote(Part::Field(Field::Ttl))),
        (
            Habit::WritesTtl,
            Profile { writes: FieldSet::EMPTY.with_bits(Field::Ttl, 0x0f), ..open() },
            Fault::Wrote(Part::Field(Field::Ttl)),
        ),
        (Habit::DropsOddPorts, open(), Fault::Dropped),
        (Habit::Rejects, open(), Fault::Generated),
        (Habit::Replaces, open(), Fault::Replaced),
        (Habit::Tells, open(), Fault::Told),
        (Habit::HandsOut, open(), Fault::Told),
        (Habit::DropsOddPorts, Profile { drops: true, ..Profile::IDENTITY }, Fault::Read),
        // It looks at one bit more than it says.
        (
            Habit::DropsOddPorts,
            Profile {
                reads: FieldSet::EMPTY.with_bits(Field::SourcePort, 0xfffe),
                drops: true,
                ..Profile::IDENTITY
            },
            Fault::Read,
        ),
        (everything(StateScope::All), Profile { state: StateScope::Flow, ..drops }, Fault::Order),
        (
            everything(StateScope::Flow),
            Profile { state: StateScope::Packet, ..drops },
            Fault::Order,
        ),
        (
            everything(StateScope::All),
            Profile { state: StateScope::Flow, is_ordered: true, ..drops },
            Fault::Scope,
        ),
        (Habit::Denies, drops, Fault::Asked),
        (Habit::ForgetsWhatItCounted, open(), Fault::NotCarried),
        (Habit::Keeps, open(), Fault::Held),
        (Habit::Keeps, Profile { holds: true, ..open() }, Fault::NotReleased),
        (Habit::GivesBackAnother, Profile { holds: true, ..open() }, Fault::NotReleased),
    ];
    for (habit, profile, fault) in cases {
        assert_eq!(prove(habit, profile), Err(fault), "{habit:?}");
    }
}

#[test]
fn what_is_drawn_is_of_many_kinds_and_follows_from_the_seed() {
    let inputs = traffic::draw(3, 2_000);
    assert_eq!(inputs, traffic::draw(3, 2_000));
    assert_ne!(inputs[..50], traffic::draw(4, 50)[..]);
    let views: Vec<_> = inputs
        .iter()
        .map(|input| catena_wire::frame::FrameView::parse(&input.frame).unwrap())
        .collect();
    let kinds: std::collections::BTreeSet<_> = views
        .iter()
        .map(|view| {
            format!(
                "{:?} {:?} {:?} {}",
                view.network,
                view.protocol,
                view.fragment,
                view.vlan.is_some()
            )
        })
        .collect();
    assert!(kinds.len() >= 15, "{kinds:?}");
}

#[test]
fn an_error_is_in_the_group_of_the_flow_that_it_quotes() {
    let inputs = traffic::draw(5, 5_000);
    let view = |input: &Input| catena_wire::frame::FrameView::parse(&input.frame).unwrap();
    let groups: std::collections::BTreeSet<Vec<u8>> = inputs
        .iter()
        .filter(|input| !view(input).is_icmp_error())
        .map(|input| group(input, StateScope::Flow))
        .collect();
    let errors = inputs.iter().filter(|input| view(input).is_icmp_error());
    let known = errors.filter(|input| groups.contains(&group(input, StateScope::Flow))).count();
    assert!(known > 50, "{known} errors are about former packets");
}
