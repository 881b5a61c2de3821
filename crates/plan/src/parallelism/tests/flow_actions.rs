//! Actions of flows carried out one after the other and side by side, in an interpreter of a few lines, against what is
//! said of their pairs.

use crate::parallelism::PacketCopy;
use crate::parallelism::actions::{
    ActionVerdict, FlowAction, PrintedFlaw, judge_actions, printed_flaw, printed_rule,
};
use crate::parallelism::flow_lists::{
    ListedFlow, PrintedDecision, algorithm_1, judge_flows, meeting_flows,
};
use FlowAction::{Controller, Drop, Meter, Output, Pop, Push, SelectGroup, SetField, Track};
use catena_wire::field::Field;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A packet: its headers, the one in front last, each with some fields.
type Headers = Vec<BTreeMap<Field, u128>>;

/// A copy that has left, and where.
type Copies = Vec<(u32, Headers)>;

/// What a function has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Memory {
    metered: u32,
    tracked: BTreeSet<Option<u128>>,
    /// Connections that find room beside two.
    more: usize,
}

/// A packet on its way through one function.
#[derive(Clone, Debug)]
struct Run {
    headers: Headers,
    copies: Copies,
    /// What was written: into which header, which field, what.
    writes: Vec<(usize, Field, u128)>,
    is_dropped: bool,
    /// Are its headers others than before?
    is_rebuilt: bool,
}

impl Run {
    fn of(headers: Headers) -> Self {
        Self {
            headers,
            copies: Vec::new(),
            writes: Vec::new(),
            is_dropped: false,
            is_rebuilt: false,
        }
    }

    fn front(&self) -> &BTreeMap<Field, u128> {
        self.headers.last().expect("a header")
    }

    /// What a header of IP in front says of its flow; none: another one is in front.
    fn tuple(&self) -> Option<u128> {
        self.front().get(&Field::Source).copied()
    }

    fn carry_out(&mut self, action: FlowAction, memory: &mut Memory) {
        if self.is_dropped {
            return;
        }
        let copy = self.headers.clone();
        self.is_rebuilt |= matches!(action, Push | Pop);
        match action {
            Output(port) => self.copies.push((port, copy)),
            SelectGroup(group) => {
                let bucket = self.tuple().map_or(2, |tuple| (tuple % 2) as u32);
                self.copies.push((group * 10 + bucket, copy));
            }
            Controller => self.copies.push((u32::MAX, copy)),
            SetField(field, value) => {
                let front = self.headers.len() - 1;
                self.headers[front].insert(field, value);
                self.writes.push((front, field, value));
            }
            // The lifetime is copied outwards and inwards (RFC 3443); other fields each header has of its own.
            Push => {
                let ttl = self.front().get(&Field::Ttl).copied().unwrap_or(64);
                self.headers.push(BTreeMap::from([(Field::Ttl, ttl)]));
            }
            Pop if self.headers.len() > 1 => {
                let gone = self.headers.pop().expect("a header");
                let front = self.headers.len() - 1;
                self.headers[front].extend(gone.get(&Field::Ttl).map(|ttl| (Field::Ttl, *ttl)));
            }
            Pop => {}
            // Of three packets the first does not pass.
            Meter(_) => {
                memory.metered += 1;
                self.is_dropped = memory.metered % 3 == 1;
            }
            // Few connections find room.
            Track => {
                let has_room = memory.tracked.len() < 2 + memory.more;
                if has_room {
                    memory.tracked.insert(self.tuple());
                }
                self.is_dropped = !memory.tracked.contains(&self.tuple());
            }
            Drop => self.is_dropped = true,
        }
    }
}

/// What has become of a packet: it, unless it was dropped, and its copies.
type Outcome = (Option<Headers>, Copies);

/// How two functions work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// The second has what the first leaves.
    Serial,
    /// Each has a copy of its own.
    Copied,
    /// Both have one buffer, and the second happens to be first.
    InPlace,
}

/// A function: what it does to a packet.
type Acts<'f> = &'f dyn Fn(&mut Run, &mut Memory);

/// Both functions on some packets, one packet after the other.
fn outcomes(
    how: How,
    [first, second]: [Acts<'_>; 2],
    packets: &[Headers],
) -> (Vec<Outcome>, [Memory; 2]) {
    let mut memories = [0, 1].map(|more| Memory { more, ..Memory::default() });
    let [one, two] = &mut memories;
    let outcome = packets.iter().map(|packet| {
        let mut run = Run::of(packet.clone());
        match how {
            How::Serial => {
                first(&mut run, one);
                if !run.is_dropped {
                    second(&mut run, two);
                }
                ended(run.headers, run.copies, run.is_dropped)
            }
            How::Copied => {
                let mut other = run.clone();
                first(&mut run, one);
                second(&mut other, two);
                let mut headers = if run.is_rebuilt { run.headers } else { other.headers };
                for (header, field, value) in run.writes.iter().chain(&other.writes) {
                    if let Some(header) = headers.get_mut(*header) {
                        header.insert(*field, *value);
                    }
                }
                run.copies.extend(other.copies);
                ended(headers, run.copies, run.is_dropped || other.is_dropped)
            }
            How::InPlace => {
                let mut other = run;
                second(&mut other, two);
                let mut run = Run::of(other.headers);
                first(&mut run, one);
                run.copies.extend(other.copies);
                ended(run.headers, run.copies, run.is_dropped || other.is_dropped)
            }
        }
    });
    (outcome.collect(), memories)
}

fn ended(headers: Headers, copies: Copies, is_dropped: bool) -> Outcome {
    ((!is_dropped).then_some(headers), copies)
}

/// Packets of a few flows, some with a header in front of that of IP.
fn packets() -> Vec<Headers> {
    let plain = (0..12_u128).map(|at| {
        BTreeMap::from([
            (Field::Source, at * 7 % 5),
            (Field::Destination, at % 3),
            (Field::Ttl, 60 + at % 4),
            (Field::Dscp, at % 2),
        ])
    });
    let tagged = |(at, header): (usize, BTreeMap<Field, u128>)| match at % 4 {
        2 => vec![header, BTreeMap::from([(Field::Ttl, 30)])],
        1 => vec![header, BTreeMap::from([(Field::Ttl, 20)]), BTreeMap::from([(Field::Ttl, 10)])],
        _ => vec![header],
    };
    plain.enumerate().map(tagged).collect()
}

fn are_equal(how: How, first: FlowAction, second: FlowAction) -> bool {
    let one: Acts<'_> = &|run, memory| run.carry_out(first, memory);
    let two: Acts<'_> = &|run, memory| run.carry_out(second, memory);
    outcomes(how, [one, two], &packets()) == outcomes(How::Serial, [one, two], &packets())
}

/// One of each, and fields of each kind: of the flow, copied between headers, and of neither.
const FIRST: [FlowAction; 11] = [
    Output(1),
    SelectGroup(1),
    Controller,
    SetField(Field::Source, 9),
    SetField(Field::Ttl, 9),
    SetField(Field::Dscp, 9),
    Push,
    Pop,
    Meter(1),
    Track,
    Drop,
];

/// The same for whoever comes behind, with other values.
fn second_of(action: FlowAction) -> FlowAction {
    match action {
        Output(_) => Output(2),
        SelectGroup(_) => SelectGroup(2),
        Meter(_) => Meter(2),
        SetField(field, _) => SetField(field, 11),
        other => other,
    }
}

fn pairs() -> impl Iterator<Item = (FlowAction, FlowAction)> {
    FIRST.into_iter().flat_map(|first| FIRST.map(second_of).map(|second| (first, second)))
}

/// Pairs that wait by the table, and for which waiting changes nothing here: what a meter, `ct` or another header in
/// front would change is not looked at by the second, or fields that no other header takes over.
fn waits_needlessly(first: FlowAction, second: FlowAction) -> bool {
    match first {
        Meter(_) | Track => matches!(second, SetField(..) | Push | Pop | Drop),
        Push | Pop => matches!(second, Meter(_) | Drop),
        SetField(field, _) => field != Field::Ttl && matches!(second, Push | Pop),
        _ => false,
    }
}

#[test]
fn pairs_of_actions_do_side_by_side_what_they_do_in_order() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (first, second) in pairs() {
        let verdict = judge_actions(first, second);
        let (copied, in_place) =
            (are_equal(How::Copied, first, second), are_equal(How::InPlace, first, second));
        let told = format!("{first:?} before {second:?}: {verdict:?}, {copied} {in_place}");
        match verdict {
            ActionVerdict::Beside(PacketCopy::Nothing) => assert!(copied && in_place, "{told}"),
            ActionVerdict::Beside(_) => assert!(copied && !in_place, "{told}"),
            ActionVerdict::Serial(_) => {
                assert_eq!(copied, waits_needlessly(first, second), "{told}");
            }
            ActionVerdict::Unreached => {
                let nothing: Acts<'_> = &|_, _| {};
                let drop: Acts<'_> = &|run, memory| run.carry_out(first, memory);
                let two: Acts<'_> = &|run, memory| run.carry_out(second, memory);
                let alone = outcomes(How::Serial, [drop, nothing], &packets());
                assert_eq!(outcomes(How::Serial, [drop, two], &packets()), alone, "{told}");
            }
        }
        *counts.entry(verdict.to_string()).or_default() += 1;
    }
    let counts: Vec<(&str, usize)> = counts.iter().map(|(word, count)| (&**word, *count)).collect();
    assert_eq!(counts, [("-", 11), ("0", 32), ("F", 6), ("H", 12), ("S", 60)]);
}

/// A pair as the book names it: of settings, whether they are of one field.
fn named(first: FlowAction, second: FlowAction) -> (String, String) {
    let which = match (first, second) {
        (SetField(own, _), SetField(other, _)) if own == other => " (same field)",
        (SetField(..), SetField(..)) => " (other field)",
        _ => "",
    };
    (first.name().to_owned(), format!("{}{which}", second.name()))
}

/// The pairs that the book names, with what is wrong.
fn named_in_the_book() -> BTreeMap<(String, String), String> {
    const BOOK: &str = include_str!("../../../../../docs/book/src/concepts/parallelism.md");
    let (_, table) = BOOK.split_once("## Actions of flows").expect("a section");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.flat_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names = |cell: &str| -> Vec<String> {
            cell.split(", ").map(|name| name.replace('`', "")).collect()
        };
        let (firsts, seconds, what) = (names(cells[1]), names(cells[2]), cells[3].to_owned());
        firsts.into_iter().flat_map(move |first| {
            let what = what.clone();
            seconds.clone().into_iter().map(move |second| ((first.clone(), second), what.clone()))
        })
    });
    rows.collect()
}

/// Where the printed rule is wrong, packets show it; and the book names each such pair, and no other.
#[test]
fn the_book_names_each_pair_that_the_printed_rule_gets_wrong() {
    let mut wrong: BTreeMap<(String, String), String> = BTreeMap::new();
    for (first, second) in pairs() {
        let (copied, in_place) =
            (are_equal(How::Copied, first, second), are_equal(How::InPlace, first, second));
        let told = format!("{first:?} before {second:?}");
        let printed = printed_rule(first, second);
        let what = match printed_flaw(first, second) {
            Some(PrintedFlaw::NeedsCopy(copy)) => {
                assert!(printed == Some(true) && copied && !in_place, "{told}");
                match copy {
                    PacketCopy::Headers => "needs the headers copied",
                    _ => "needs a full copy",
                }
            }
            Some(PrintedFlaw::TooStrict(copy)) => {
                assert!(printed == Some(false) && copied, "{told}");
                assert_eq!(in_place, copy == PacketCopy::Nothing, "{told}");
                if in_place { "too strict" } else { "too strict: the later value stands" }
            }
            Some(PrintedFlaw::Unsaid(verdict)) => {
                assert!(printed.is_none(), "{told}");
                match verdict {
                    ActionVerdict::Unreached => "unsaid: unreached",
                    _ => "unsaid: serial",
                }
            }
            None => continue,
        };
        wrong.insert(named(first, second), what.to_owned());
    }
    assert_eq!(wrong.len(), 45);
    assert_eq!(wrong, named_in_the_book());
}

/// Of a flow that sets a field and then sends, the printed algorithm also puts sending beside setting; an action waits
/// for itself; with one flow it sees one action; and nothing is said of flows of two functions.
#[test]
fn algorithm_1_as_printed_contradicts_itself_and_sees_no_functions() {
    let flow =
        |actions: &[FlowAction]| ListedFlow { actions: actions.to_vec(), ..ListedFlow::default() };
    let decided =
        |first, second, is_parallel| PrintedDecision { flow: 0, first, second, is_parallel };
    let set = SetField(Field::Source, 9);
    let two = [flow(&[set, Output(1)]), flow(&[])];
    assert_eq!(
        algorithm_1(&two),
        [decided(0, 0, false), decided(0, 1, false), decided(1, 0, true), decided(1, 1, true)]
    );
    // As many actions as there are flows are looked at, and none of the third.
    assert_eq!(algorithm_1(&two[..1]), [decided(0, 0, false)]);
    let three = [flow(&[set, Output(1), Output(2)]), flow(&[])];
    assert!(algorithm_1(&three).iter().all(|decided| decided.first < 2 && decided.second < 2));
    // A function that drops before one that sends: not a word.
    let functions = [flow(&[Drop]), flow(&[Output(1)])];
    assert!(algorithm_1(&functions).iter().all(|decided| decided.flow == 1));
    assert_eq!(judge_flows(&functions[..1], &functions[1..]), ActionVerdict::Unreached);
}

/// The functions of the paper's Table I, as flows: an ids that copies what goes to a net, and a firewall.
#[test]
fn flows_that_no_packet_meets_both_of_may_stand_side_by_side() {
    let on = |field, value, mask, actions: &[FlowAction]| ListedFlow {
        matches: BTreeMap::from([(field, (value, mask))]),
        actions: actions.to_vec(),
        ..ListedFlow::default()
    };
    let ids = [on(Field::Destination, 0x0a01_0000, 0xffff_ff00, &[Output(9)])];
    let firewall = [on(Field::DestinationPort, 80, 0xffff, &[Drop])];
    assert_eq!(judge_flows(&ids, &firewall), ActionVerdict::Beside(PacketCopy::Nothing));
    assert_eq!(judge_flows(&firewall, &ids), ActionVerdict::Unreached);
    let elsewhere = [on(Field::Destination, 0x0a02_0000, 0xffff_ff00, &[Drop])];
    assert_eq!(judge_flows(&elsewhere, &ids), ActionVerdict::Beside(PacketCopy::Nothing));
    assert!(meeting_flows(&elsewhere, &ids).is_empty());
    // Who writes an address leads packets to flows that ask for it.
    let nat = [on(
        Field::Destination,
        0x0a02_0000,
        0xffff_ff00,
        &[SetField(Field::Destination, 0x0a01_0007)],
    )];
    assert_eq!(meeting_flows(&nat, &ids).len(), 1);
    assert!(matches!(judge_flows(&nat, &ids), ActionVerdict::Serial(_)));
}

fn any_flow() -> impl Strategy<Value = ListedFlow> {
    let field = prop::sample::select(vec![Field::Source, Field::Destination, Field::Dscp]);
    let matched = prop::collection::btree_map(field, (0_u128..4, 0_u128..4), 0..3);
    let action = prop::sample::select(FIRST.to_vec());
    let few = prop::collection::vec(action, 0..3);
    (0_u16..3, matched, few).prop_map(|(priority, matches, actions)| {
        let matches =
            matches.into_iter().map(|(field, (value, mask))| (field, (value & mask, mask)));
        ListedFlow { priority, matches: matches.collect(), actions }
    })
}

/// What a list of flows does: the first of the highest priority that takes the packet.
fn act(flows: &[ListedFlow], run: &mut Run, memory: &mut Memory) {
    let front = run.front().clone();
    let takes = |flow: &&ListedFlow| {
        flow.matches.iter().all(|(field, (value, mask))| {
            *mask == 0 || front.get(field).is_some_and(|own| own & mask == *value)
        })
    };
    let taking = flows.iter().filter(takes);
    let taking = taking.max_by_key(|flow| (flow.priority, std::cmp::Reverse(place(flows, flow))));
    for action in taking.into_iter().flat_map(|flow| &flow.actions) {
        run.carry_out(*action, memory);
    }
}

fn place(flows: &[ListedFlow], flow: &ListedFlow) -> usize {
    flows.iter().position(|other| std::ptr::eq(other, flow)).expect("one of them")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Functions that the corrected algorithm puts side by side do there what they do one after the other.
    #[test]
    fn functions_of_flows_do_side_by_side_what_they_do_in_order(
        first in prop::collection::vec(any_flow(), 1..4),
        second in prop::collection::vec(any_flow(), 1..4),
    ) {
        let one: Acts<'_> = &|run, memory| act(&first, run, memory);
        let two: Acts<'_> = &|run, memory| act(&second, run, memory);
        let in_order = outcomes(How::Serial, [one, two], &packets());
        if let ActionVerdict::Beside(copy) = judge_flows(&first, &second) {
            prop_assert_eq!(&outcomes(How::Copied, [one, two], &packets()), &in_order);
            if copy == PacketCopy::Nothing {
                prop_assert_eq!(&outcomes(How::InPlace, [one, two], &packets()), &in_order);
            }
        }
    }
}
