//! The program against the interpreter: random frames, whole and spoilt, under random transforms.
//! What leaves, how it leaves, and what was counted must be the same.

use crate::frames::{self, Dice, OTHER, OTHER_LOCATOR, OTHER6, OWN, OWN_LOCATOR, OWN6, Way};
use crate::{load, needs_privilege};
use catena_fastpath::reference::{self, Outcome};
use catena_fastpath::{
    Event, FLAG_UNTAGGED_ONLY, FlowKey, Guard, Hook, KERNEL_TAG, Kind, Operation, OuterHeader,
    Port, Program, PuntTag, PuntedFrom, Settings, Sight, Tables, Transform, Verdict,
};
use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::netlink::Netlink;
use catena_model::program::PROXY_MAC;
use catena_wire::srv6::Inner;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Cases of one run; `CATENA_CASES` asks for another number.
const CASES: usize = 100_000;
/// How often everything must have happened.
const HITS_MIN: usize = 100;
const LOOPBACK: u32 = 1;
/// Pairs of interfaces with these MTUs, in the order in which they are made.
const MTUS: [u32; 3] = [1_500, 700, 9_000];
const INTERFACES: [u32; 6] = [2, 3, 4, 5, 6, 7];
const PORT: u16 = 77;
const PUNT: u32 = 9;
/// Protocol number.
const UDP: u8 = 17;

/// How a case came out, for the report.
#[derive(Default)]
struct Report {
    operations: BTreeMap<String, usize>,
    outcomes: BTreeMap<String, usize>,
    ways: BTreeMap<String, usize>,
}

impl Report {
    fn note(lines: &mut BTreeMap<String, usize>, what: impl std::fmt::Debug) {
        *lines.entry(format!("{what:?}")).or_default() += 1;
    }

    fn print_and_check(&self, cases: usize) {
        println!("{cases} cases");
        for (title, lines) in
            [("operation", &self.operations), ("outcome", &self.outcomes), ("way", &self.ways)]
        {
            for (name, count) in lines {
                println!("  {title} {name}: {count}");
                assert!(*count >= HITS_MIN, "{title} {name} happened {count} times only");
            }
        }
        for way in Way::ALL {
            assert!(self.ways.contains_key(&format!("{way:?}")), "none came by {way:?}");
        }
        for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::CloneTo) {
            assert!(self.operations.contains_key(&format!("{kind:?}")), "{kind:?} never happened");
        }
        let outcomes = ["Hit", "Miss", "Stale", "Waiting", "Unkeyed", "Unfit", "LeftToSocket"];
        for outcome in outcomes.map(|name| format!("{name:?}").replace('"', "")) {
            assert!(self.outcomes.contains_key(&outcome), "{outcome} never happened");
        }
    }
}

/// Number of the other node.
const SENDER: u16 = 0x1234;

struct Case {
    way: Way,
    frame: Vec<u8>,
    segment_bytes: Option<u16>,
}

impl Case {
    fn roll(dice: &mut Dice) -> Self {
        let way = dice.pick(&Way::ALL);
        let payload = dice.below(dice.clone().pick(&[8, 200, 1_400]));
        let mut inner = frames::inner(dice, payload);
        if dice.once_in(12) {
            frames::spoil(dice, &mut inner);
        }
        let mut frame = inner;
        if way != Way::Port {
            frame = frames::in_tunnel(way, dice, &frame);
        }
        if dice.once_in(6) {
            frames::spoil(dice, &mut frame);
        }
        if way != Way::Port {
            // What is another's on the link is none of the program's: corners.rs.
            frame[..6].copy_from_slice(&frames::OWN_MAC.0);
        }
        let segment_bytes = dice.once_in(5).then(|| 1 + dice.below(500) as u16);
        Self { way, frame, segment_bytes }
    }

    fn sight(&self) -> Option<Sight> {
        match self.way {
            Way::Port => Sight::at_port(PORT, &self.frame, self.segment_bytes),
            Way::Segments => {
                let own = frames::locator(OWN_LOCATOR);
                Sight::at_locator(own, &self.frame, self.segment_bytes)
                    .filter(|_| self.is_of_node())
                    .map(|sight| sight.sent_by(SENDER))
            }
            _ => Sight::at_underlay(OWN, &self.frame, self.segment_bytes)
                .filter(|_| self.is_of_node())
                .map(|sight| sight.sent_by(SENDER)),
        }
    }

    /// Does it say to come from the other node, the only one that is known?
    fn is_of_node(&self) -> bool {
        match self.way {
            Way::Segments => self.frame[22..38] == OTHER6.octets(),
            _ => self.frame[26..30] == OTHER.octets(),
        }
    }

    fn other(&self) -> IpAddr {
        if self.way == Way::Segments { OTHER6.into() } else { OTHER.into() }
    }

    /// Is it an engine's, or nothing that a kernel's path makes?
    fn is_for_socket(&self) -> bool {
        match self.way {
            Way::Segments => {
                self.frame[60..62] != KERNEL_TAG.to_be_bytes()
                    || self.frame[56] != 4
                    || ![4, 41].contains(&self.frame[54])
            }
            _ => self.frame[40..42] != [0, 0],
        }
    }

    fn hook(&self) -> Hook {
        if self.way == Way::Port { Hook::Port } else { Hook::Underlay }
    }
}

/// Where a frame comes in.
fn came_from(case: &Case) -> PuntedFrom {
    match case.way {
        Way::Port => PuntedFrom::Port(PORT),
        _ if case.is_of_node() => PuntedFrom::node(case.other()),
        _ => PuntedFrom::STRANGERS,
    }
}

/// Puts the headers of some way in front.
fn push(dice: &mut Dice, list: Transform, sight: &Sight) -> Transform {
    let way = dice.pick(&[Way::Nsh, Way::Mpls, Way::Network, Way::Segments]);
    if way == Way::Segments {
        let count = 1 + dice.below(5);
        let inner = if sight.key.family == 6 { Inner::Ipv6 } else { Inner::Ipv4 };
        let header = frames::segments(dice, OWN6, OTHER_LOCATOR, count, inner);
        return list.then_push_segments(&header).unwrap();
    }
    let outer = OuterHeader {
        source: OWN,
        destination: OTHER,
        source_port: dice.word() as u16,
        destination_port: way.udp_port(),
    };
    let header = outer.with(&way.shim(dice)).unwrap();
    list.then_push_tunnel(&header).unwrap()
}

/// A legal list that makes sense for a frame that came this way.
fn roll_transform(dice: &mut Dice, case: &Case, sight: &Sight) -> Transform {
    let mut list = Transform::default();
    if case.way != Way::Port && !dice.once_in(8) && case.segment_bytes.is_none() {
        // All before the inner frame but the outer Ethernet header, and the inner one.
        let bytes = sight.inner_offset as u8;
        let trim = match case.way {
            Way::Segments => Operation::trim_segments(bytes, PROXY_MAC),
            _ => Operation::trim(bytes),
        };
        list = list.then(trim).unwrap();
    }
    if dice.once_in(2) {
        list = list.then(Operation::set_destination(dice.mac())).unwrap();
    }
    for _ in 0..dice.below(3) {
        list = list.then(Operation::count(dice.below(64) as u32)).unwrap();
    }
    let mut is_tunnelled = false;
    // A rehearsal has no kind of segmentation, without which the kernel refuses to move headers.
    if case.segment_bytes.is_none() && dice.once_in(3) {
        is_tunnelled = true;
        list = push(dice, list, sight);
        if dice.once_in(2) {
            list = list.for_unmarked();
        }
    }
    let exits = [Operation::transmit, Operation::hand_over, Operation::transmit_to_neighbour];
    let exit = if is_tunnelled { exits[2] } else { dice.pick(&exits[..2]) };
    let interface = if dice.once_in(50) { 4_242 } else { dice.pick(&INTERFACES) };
    list = list.then(exit(interface)).unwrap();
    if dice.once_in(10) {
        let bound = dice.below(1_600) as u32;
        list = list.bounded_by(bound, bound);
    }
    list
}

/// Of the interface by which a list sends.
fn mtu_of(list: &Transform) -> Option<u32> {
    let interface = list.operations().last().unwrap().number;
    let place = INTERFACES.iter().position(|one| *one == interface)?;
    Some(MTUS[place / 2])
}

fn fits(list: &Transform, case: &Case, sight: &Sight) -> bool {
    reference::fits(list, case.frame.len(), sight, false, mtu_of(list))
}

struct Bench {
    program: Program,
    tables: Tables,
    report: Report,
}

impl Bench {
    fn new() -> Self {
        let (program, tables) = load();
        tables.set_port(LOOPBACK, Port { number: PORT.into(), is_watched: 0, link: 0 }).unwrap();
        for other in [OTHER.into(), OTHER6.into()] {
            tables.add_source(other, SENDER).unwrap();
        }
        let settings = Settings {
            punt_ifindex: PUNT,
            underlay_address: u32::from_ne_bytes(OWN.octets()),
            ..Settings::default()
        };
        tables.set_settings(settings.at_locator(Some(frames::locator(OWN_LOCATOR))));
        Self { program, tables, report: Report::default() }
    }

    /// Runs the program and says which event it counted, once.
    fn run(&self, case: &Case) -> (Verdict, Vec<u8>, Event) {
        let before = Event::ALL.map(|event| self.tables.events(event));
        let (frame, segment_bytes) = (&case.frame, case.segment_bytes);
        let run = self.program.rehearse(case.hook(), LOOPBACK, frame, segment_bytes, 1).unwrap();
        let mut moved: Vec<Event> = Event::ALL
            .into_iter()
            .filter(|event| self.tables.events(*event) != before[*event as usize])
            .collect();
        // What is punted is counted beside its cause, if it came by a tunnel.
        let came_by_tunnel = moved.pop_if(|event| *event == Event::FromUnderlay).is_some();
        assert!(moved.len() <= 1, "one event for a frame: {moved:?}");
        let event = moved.pop().unwrap_or(Event::Swallowed);
        let is_punted = Event::PUNTED.contains(&event);
        assert_eq!(came_by_tunnel, is_punted && case.way != Way::Port, "{event:?}");
        (run.verdict, run.bytes, event)
    }

    /// The verdict on a frame that goes up.
    fn up(&self, case: &Case, cause: Event) -> Verdict {
        Verdict::Punt(PUNT, PuntTag { from: came_from(case), cause })
    }

    fn check_up(&mut self, case: &Case, cause: Event) {
        let (verdict, bytes, event) = self.run(case);
        assert_eq!(verdict, self.up(case, cause));
        assert_eq!((bytes.as_slice(), event), (case.frame.as_slice(), cause), "as it came");
        Report::note(&mut self.report.outcomes, cause);
    }

    /// A frame without key: up, or to the socket or the stack if it is no tunnel packet of ours.
    fn check_unkeyed(&mut self, case: &Case) {
        let (verdict, bytes, event) = self.run(case);
        assert_eq!(bytes, case.frame);
        if verdict == Verdict::Stack && case.way != Way::Port {
            let is_for_socket = event == Event::LeftToSocket;
            if is_for_socket {
                assert!(case.is_for_socket(), "an engine's");
                Report::note(&mut self.report.outcomes, event);
            } else {
                Report::note(&mut self.report.outcomes, "Stack");
            }
            return;
        }
        assert_eq!(verdict, self.up(case, Event::Unkeyed));
        Report::note(&mut self.report.outcomes, Event::Unkeyed);
    }

    fn check_hit(&mut self, case: &Case, sight: &Sight, transform: &Transform) {
        let expected = reference::apply(transform, &case.frame, sight).unwrap();
        let before = self.accounts();
        let (verdict, bytes, event) = self.run(case);
        let Outcome { bytes: leaving, exit, accounts, .. } = expected;
        let (kind, number) = exit.unwrap();
        assert_eq!(verdict, Verdict::Leave(kind, number));
        assert_eq!(event, Event::Hit);
        assert_eq!(bytes, leaving);
        for (number, (before, after)) in (0_u32..).zip(before.iter().zip(self.accounts())) {
            let moved = (after.0 - before.0, after.1 - before.1);
            let said = accounts.get(&number).map_or((0, 0), |a| (a.packets, a.bytes));
            assert_eq!(moved, said, "account {number}");
        }
        let entry = self.tables.entry(&sight.key).unwrap().unwrap();
        assert_eq!((entry.packets, entry.bytes), (sight.volume.packets, sight.volume.bytes));
        assert_ne!(entry.seen_ns, 0);
        for operation in transform.operations() {
            Report::note(&mut self.report.operations, Kind::of(operation.kind).unwrap());
        }
        Report::note(&mut self.report.outcomes, Event::Hit);
        Report::note(&mut self.report.ways, case.way);
    }

    fn accounts(&self) -> Vec<(u64, u64)> {
        let volumes = (0..self.tables.accounts_max()).map(|number| self.tables.account(number));
        volumes.map(|volume| (volume.packets, volume.bytes)).collect()
    }

    fn check(&mut self, dice: &mut Dice, case: &Case) {
        let Some(sight) = case.sight() else { return self.check_unkeyed(case) };
        let transform = roll_transform(dice, case, &sight);
        if case.way != Way::Port && sight.segment_bytes.is_some() && sight.key.protocol == UDP {
            // A row of datagrams out of a tunnel, whatever is known of its flow.
            self.tables.install(&sight.key, &transform, None).unwrap();
            self.check_up(case, Event::Unfit);
            self.tables.remove(&sight.key).unwrap();
            return;
        }
        match dice.below(12) {
            0 => {
                let other = frames::neighbour(dice, sight.key);
                self.tables.install(&other, &transform, None).unwrap();
                self.check_up(case, Event::Miss);
                self.tables.remove(&other).unwrap();
            }
            1 => self.check_stale(dice, case, &sight.key, transform),
            2 => self.check_waiting(dice, case, &sight, &transform),
            _ => {
                let guard = self.tables.guard(1 + dice.below(63) as u32);
                let transform = transform.guarded_by(guard).unwrap();
                self.tables.install(&sight.key, &transform, None).unwrap();
                if fits(&transform, case, &sight) {
                    self.check_hit(case, &sight, &transform);
                } else {
                    self.check_up(case, Event::Unfit);
                }
            }
        }
        self.tables.remove(&sight.key).unwrap();
    }

    /// One of several guards does not hold any more: its slot's count moves and no other.
    fn check_stale(&mut self, dice: &mut Dice, case: &Case, key: &FlowKey, list: Transform) {
        let first = 1 + dice.below(60) as u32;
        let slots: Vec<u32> = (first..first + 1 + dice.below(4) as u32).collect();
        let guarded = slots.iter().try_fold(list, |list, slot| {
            let Guard { slot, epoch } = self.tables.guard(*slot);
            list.guarded_by(Guard { slot, epoch })
        });
        self.tables.install(key, &guarded.unwrap(), None).unwrap();
        let changed = dice.pick(&slots);
        self.tables.bump(changed);
        let stale = || (0..64).map(|slot| self.tables.stale(slot)).collect::<Vec<_>>();
        let mut before = stale();
        self.check_up(case, Event::Stale);
        before[changed as usize] += 1;
        assert_eq!(before, (0..64).map(|slot| self.tables.stale(slot)).collect::<Vec<_>>());
    }

    /// Goes up and is counted until the gate is opened.
    fn check_waiting(&mut self, dice: &mut Dice, case: &Case, sight: &Sight, list: &Transform) {
        if !fits(list, case, sight) {
            return;
        }
        let number = 1 + dice.below(15) as u32;
        self.tables.gate(number).unwrap().reset();
        self.tables.install(&sight.key, list, Some(number)).unwrap();
        let frames = 1 + dice.below(3) as u64;
        for counted in 1..=frames {
            self.check_up(case, Event::Waiting);
            assert_eq!(self.tables.gate(number).unwrap().count(), counted);
        }
        let gate = self.tables.gate(number).unwrap();
        assert!(!gate.open_after(frames - 1) && gate.open_after(frames) && gate.is_open());
        self.check_hit(case, sight, list);
    }
}

async fn make_interfaces(namespace: &NetNamespace) {
    let links = Netlink::open(namespace).unwrap();
    for (pair, mtu) in MTUS.into_iter().enumerate() {
        let (near, far) = (format!("near{pair}"), format!("far{pair}"));
        links.add_veth(&near, &far, namespace, mtu, None, None).await.unwrap();
    }
    let mut made: Vec<(u32, u32)> =
        links.links().await.unwrap().iter().map(|link| (link.index, link.mtu)).collect();
    made.sort_unstable();
    let expected = INTERFACES.iter().enumerate().map(|(place, index)| (*index, MTUS[place / 2]));
    assert!(made[1..].iter().copied().eq(expected), "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_does_to_every_frame_what_the_interpreter_says() {
    needs_privilege!("the_program_does_to_every_frame_what_the_interpreter_says");
    let cases = std::env::var("CATENA_CASES").ok().and_then(|text| text.parse().ok());
    let cases = cases.unwrap_or(CASES);
    // Rehearsals look interfaces up in the namespace of the thread.
    let namespace = NetNamespace::create_unnamed("rehearsals").unwrap();
    make_interfaces(&namespace).await;
    run_in(&namespace, || {
        let mut bench = Bench::new();
        for seed in 0..cases as u64 {
            let mut dice = Dice(seed);
            let case = Case::roll(&mut dice);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                bench.check(&mut dice, &case);
            }));
            if outcome.is_err() {
                panic!("seed {seed}: {:?} {:02x?}", case.way, case.frame);
            }
        }
        bench.report.print_and_check(cases);
    })
    .unwrap();
}

#[test]
fn a_list_that_moves_headers_is_for_untagged_frames() {
    let list = Transform::default().then(Operation::trim(50)).unwrap();
    assert_eq!(list.flags, FLAG_UNTAGGED_ONLY);
    let list = Transform::default().then(Operation::count(1)).unwrap();
    assert_eq!(list.flags, 0);
}
