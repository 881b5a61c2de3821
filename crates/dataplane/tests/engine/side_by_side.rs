//! Functions of a hop that threads are asked for, in pipelines and side by side: whoever answers first, what comes out,
//! in which order, what is counted, told and remembered is what it is when the engine asks one after the other.

use crate::frames::Spec;
use crate::functions::{STATEFUL, SYN_ACK, both_ways, firewall, from_port, tcp};
use crate::inside_nat::{sent as to_other_network, two_networks};
use crate::node::Node;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6};
use crate::super_frames::{stream, super_frame};
use crate::town::{Town, node_name};
use catena_dataplane::engine::{
    Call, Engine, EngineConfig, Form, FunctionMessage, Lanes, Output, Reply, StateChange,
};
use catena_dataplane::shell::FunctionThreads;
use catena_io::Offload;
use catena_model::CounterScope;
use catena_model::bundle::Configuration;
use catena_model::parallelism::{StageMember, Stages, Verdict};
use catena_model::resource::Encapsulation;
use catena_nf::random::Random;
use catena_nf::registry::{self, Surroundings};
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// The node of the functions, and the network of its ports.
pub(crate) const AT: usize = 1;
const INNER: usize = 0;
/// Chains of the differential test, and groups of packets for each: more where `./test --full` asks for it.
const CHAINS: u64 = 200;
const CHAINS_FULL: u64 = 1_000;
const GROUPS: usize = 24;
const GROUPS_FULL: usize = 480;

/// How the threads of a test are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Nature {
    /// Each answers when it pleases.
    Slow,
    /// They are threads, indeed.
    Real,
    /// The one with this number has stopped for good.
    Stopped(usize),
    /// So many in a thousand questions are some function's death.
    Deadly(usize),
}

/// Threads that are none: what is asked waits until somebody wants an answer, and whose comes is drawn.
pub(crate) struct Drawn {
    waiting: Vec<VecDeque<Box<Call>>>,
    random: Random,
    nature: Nature,
    pub(crate) asked: Arc<Mutex<usize>>,
    deaths: Arc<Mutex<u64>>,
    answered: u64,
}

impl Drawn {
    pub(crate) fn new(lanes: usize, seed: u64, nature: Nature) -> Self {
        let waiting = (0..lanes).map(|_| VecDeque::new()).collect();
        let (asked, deaths) = Default::default();
        Self { waiting, random: Random::new(seed), nature, asked, deaths, answered: 0 }
    }

    fn next(&mut self) -> Option<Reply> {
        let stopped = |lane: usize| self.nature == Nature::Stopped(lane);
        let busy = (0..self.waiting.len()).filter(|lane| !self.waiting[*lane].is_empty());
        let busy: Vec<usize> = busy.filter(|lane| !stopped(*lane)).collect();
        let lane = self.random.pick(&busy)?;
        let call = self.waiting[lane].pop_front()?;
        match self.nature {
            Nature::Deadly(of_thousand) if self.random.below(1_000) < of_thousand => {
                *self.deaths.lock().unwrap() += 1;
                Some(call.died("it was killed".into()))
            }
            _ => Some(call.put()),
        }
    }
}

impl Lanes for Drawn {
    fn count(&self) -> usize {
        self.waiting.len()
    }

    fn handoff_ns(&self) -> u64 {
        0
    }

    fn put(&self, _lane: usize) -> u64 {
        self.answered
    }

    fn hand(&mut self, lane: usize, call: Box<Call>) -> Result<(), Box<Call>> {
        *self.asked.lock().unwrap() += 1;
        self.waiting[lane].push_back(call);
        Ok(())
    }

    fn answer(&mut self) -> Option<Reply> {
        if self.random.below(3) == 0 { None } else { self.next() }
    }

    fn wait(&mut self, _most_ns: u64) -> Option<Reply> {
        self.next()
    }
}

fn file(kind: &str, name: &str, text: &str) -> Configuration {
    let config = json!({"file": {"name": name, "text": text}});
    Configuration::new(kind, config.to_string())
}

/// One that looks for patterns, with little memory.
pub(crate) fn patterns(kind: &str, text: &str) -> Configuration {
    let config = json!({"file": {"name": "web.rules", "text": text}, "reassembly_mib": 1});
    Configuration::new(kind, config.to_string())
}

/// May two of these, one behind the other, be asked side by side, on one way or the other?
fn forks(functions: &[Configuration]) -> bool {
    let member = |one: &Configuration| StageMember {
        name: String::new(),
        profile: *registry::make(one, &Surroundings::default()).unwrap().function.profile(),
    };
    let forth: Vec<StageMember> = functions.iter().map(member).collect();
    let back: Vec<StageMember> = forth.iter().rev().cloned().collect();
    [forth, back].iter().any(|way| {
        let pairs = Stages::of(way).pairs.into_iter();
        let mut beside = pairs.filter(|(first, second, _)| first + 1 == *second);
        beside.any(|(_, _, verdict)| matches!(verdict, Verdict::Parallel(one) if !one.is_held))
    })
}

/// One of a kind that remembers nothing: any worker may ask it about any packet.
pub(crate) fn forgetful(random: &mut Random) -> Configuration {
    let port = 40 + random.below(6);
    match random.below(3) {
        0 => firewall(&format!("-A FORWARD -p udp -m udp --sport {port} -j DROP")),
        1 => firewall(&format!("-A FORWARD -p tcp -m tcp --sport {port} -j REJECT")),
        _ => file("marker", "classes.yaml", "classes: [{name: all, mark: ef}]"),
    }
}

/// A function of a kind that is drawn.
pub(crate) fn function(random: &mut Random) -> Configuration {
    let port = 40 + random.below(6);
    let rules = format!(
        "alert udp any {port} -> any any (msg:\"one\"; sid:1; rev:1;)\n\
         alert tcp any any -> any any (msg:\"two\"; content:\"abc\"; sid:2; rev:1;)\n"
    );
    match random.below(8) {
        0 => firewall(STATEFUL),
        1 => firewall(&format!("-A FORWARD -p udp -m udp --sport {port} -j DROP")),
        2 => firewall(&format!("-A FORWARD -p tcp -m tcp --sport {port} -j REJECT")),
        3 => patterns("ids", &rules),
        4 => patterns("ips", &rules.replace("alert tcp", "drop tcp")),
        5 => file(
            "marker",
            "classes.yaml",
            "classes: [{name: udp, match: {protocol: udp}, mark: ef}, {name: rest, mark: af11}]",
        ),
        6 => file(
            "policer",
            "classes.yaml",
            "classes: [{name: all, police: {srtcm: {cir: 400kbit, cbs: 3000, ebs: 2000}, yellow: 12, red: drop}}]",
        ),
        _ => Configuration::new("monitor", r#"{"ipfix": "c:4739"}"#),
    }
}

/// So many functions beside each other, which packets meet both ways.
pub(crate) fn town_of(functions: Vec<Configuration>) -> Town {
    let mut town = both_ways(STATEFUL);
    let names: Vec<String> = (0..functions.len()).map(|number| format!("f{number}")).collect();
    for (name, configuration) in names.iter().zip(functions) {
        town.function(name, AT, (INNER, INNER));
        town.bundled.insert((name.clone(), String::new()), configuration);
    }
    let hops: Vec<Vec<String>> = names.into_iter().map(|name| vec![name]).collect();
    town.chains[0].hops.clone_from(&hops);
    town.chains[1].hops = hops.into_iter().rev().collect();
    town.has_segments = true;
    town
}

/// A frame, and the port that sends it.
pub(crate) type Sent = (&'static str, Vec<u8>, Offload);

/// Packets of a few flows, both ways: connections, datagrams, super-frames, fragments, and damaged ones.
pub(crate) fn group(town: &Town, random: &mut Random) -> Vec<Sent> {
    let mut sent = Vec::new();
    for _ in 0..10 + random.below(24) {
        let make = if random.below(3) == 0 { packet_v6 } else { packet };
        let one = from_port(&make(town, CHAINED_PORT), 40 + random.below(6) as u16);
        let one = Spec { payload: payload(random), ..one };
        let (port, spec) = match random.below(8) {
            0 => ("S", tcp(&one, TcpFlags::SYN, 1)),
            1 => ("D", tcp(&one.answer(), SYN_ACK, 7)),
            2 => ("S", tcp(&one, TcpFlags::ACK, 2)),
            3 => ("D", tcp(&one.answer(), TcpFlags::ACK, 8)),
            4 => ("D", Spec { protocol: IpProtocol::UDP, ..one.answer() }),
            5 => ("S", Spec { fragment: (0, true), protocol: IpProtocol::UDP, ..one }),
            6 => ("S", stream(&tcp(&one, TcpFlags::ACK, 2), 3_000 + random.below(9_000))),
            _ => ("S", Spec { protocol: IpProtocol::UDP, ..one }),
        };
        let is_large = spec.payload.len() > 2_000;
        let (mut frame, offload) =
            if is_large { super_frame(&spec) } else { (spec.frame(), Offload::default()) };
        if random.below(6) == 0 && !is_large {
            // Behind the ports: it is still of the chain, and passes nobody who waits for others of it.
            let ports_end = frame.len() - spec.payload.len() - 4;
            let at = ports_end + random.below(frame.len() - ports_end);
            frame[at] ^= 1 << random.below(8);
        }
        sent.push((port, frame, offload));
    }
    sent
}

fn payload(random: &mut Random) -> Vec<u8> {
    let words: [&[u8]; 3] = [b"abc", b"nothing of interest", b"xabcx and more of it"];
    random.pick(&words).unwrap_or_default().to_vec()
}

/// What a group has led to: frames in their order by port, what was counted, and what was told.
pub(crate) type Outcome = (Vec<Vec<u8>>, Vec<Vec<u8>>, BTreeMap<String, u64>, Vec<FunctionMessage>);

/// What becomes of groups of packets; `form`: that in which threads are asked, of which there are so many.
fn outcomes(
    town: &Town,
    groups: &[Vec<Sent>],
    form: Option<(Form, Nature)>,
    seed: u64,
) -> (Vec<Outcome>, Vec<StateChange>, usize) {
    outcomes_in(town, groups, form, seed, 1, |_| {})
}

/// The same in a rig with so many workers at each node, which share the threads, that is changed before.
pub(crate) fn outcomes_in(
    town: &Town,
    groups: &[Vec<Sent>],
    form: Option<(Form, Nature)>,
    seed: u64,
    workers: usize,
    change: impl FnOnce(&mut Rig),
) -> (Vec<Outcome>, Vec<StateChange>, usize) {
    let keep = |config: &mut EngineConfig| {
        config.functions_keep = (config.node == node_name(AT)).then(Default::default);
        // What is merged hangs on what comes out together, and is the same on the wire.
        config.is_coalescing = false;
        // Room for more flows than there are takes most of the time of a test.
        (config.flows_max, config.inside_max, config.classified_max) = (1_024, 1_024, 4_096);
    };
    let mut rig = Rig::of_engines(workers, town.clone(), keep, 2_048);
    change(&mut rig);
    let mut asked: Vec<Arc<Mutex<usize>>> = Vec::new();
    let mut random = Random::new(seed);
    let threads = FunctionThreads::start(4, false).unwrap();
    if let Some((form, nature)) = form {
        for (worker, engine) in (0..).zip(&mut rig.nodes[AT].engines) {
            let drawn = Drawn::new(6, seed + worker, nature);
            asked.push(Arc::clone(&drawn.asked));
            let lanes = match nature {
                Nature::Real => threads.lanes(|| {}).unwrap(),
                _ => Box::new(drawn),
            };
            engine.lend_to(lanes, Some(form));
        }
    }
    let mut outcomes = Vec::new();
    for group in groups {
        rig.nodes[AT].at_once = 1 + random.below(6);
        for (port, frame, offload) in group {
            rig.queue(port, frame, *offload);
        }
        rig.run();
        let engines = rig.nodes[AT].engines.iter_mut();
        let told = engines.flat_map(Engine::take_function_messages).collect();
        outcomes.push((rig.take("D"), rig.take("S"), rig.moved(), told));
        // A second and more at times, so that records and connections end.
        rig.sleep(if random.below(4) == 0 { 20_000 } else { 30 });
    }
    let engines = rig.nodes[AT].engines.iter_mut();
    let state = engines.flat_map(|engine| engine.take_function_state(true)).collect();
    assert_eq!(workers > 1, rig.nodes[AT].received_by_others() > 0, "others have packets");
    let asked: Vec<usize> = asked.iter().map(|asked| *asked.lock().unwrap()).collect();
    if form.is_some_and(|(_, nature)| nature != Nature::Real) {
        assert!(asked.iter().all(|asked| *asked > 0), "each worker asks: {asked:?}");
    }
    (outcomes, state, asked.into_iter().sum())
}

/// Frames of each flow in their order: what is of one length leaves together, whichever flow it is of.
pub(crate) fn by_flow(frames: &[Vec<u8>]) -> BTreeMap<String, Vec<&[u8]>> {
    let mut flows: BTreeMap<String, Vec<&[u8]>> = BTreeMap::new();
    for frame in frames {
        let flow = FrameView::parse(frame).map(|view| view.flow);
        flows.entry(format!("{flow:?}")).or_default().push(frame);
    }
    flows
}

#[test]
fn whoever_answers_first_it_is_as_if_one_were_asked_after_the_other() {
    let (mut packets, mut asked, mut denied, mut told, mut remembered) = (0, 0, 0, 0, 0);
    let is_full = std::env::var("CATENA_FULL").is_ok_and(|full| full == "1");
    let (chains, in_groups) = if is_full { (CHAINS_FULL, GROUPS_FULL) } else { (CHAINS, GROUPS) };
    // With all assertions it runs once more, and is shorter.
    let chains = if cfg!(debug_assertions) { chains / 5 } else { chains };
    let mut forked = 0;
    for seed in 0..chains {
        let mut random = Random::new(seed);
        let functions: Vec<Configuration> =
            (0..2 + random.below(5)).map(|_| function(&mut random)).collect();
        let kinds: Vec<String> = functions.iter().map(|one| one.kind.clone()).collect();
        forked += u64::from(forks(&functions));
        let town = town_of(functions);
        let groups: Vec<Vec<Sent>> = (0..in_groups).map(|_| group(&town, &mut random)).collect();
        let (serial, state, _) = outcomes(&town, &groups, None, seed);
        for form in [Form::Fork, Form::Pipeline] {
            let lent = outcomes(&town, &groups, Some((form, Nature::Slow)), seed);
            for (number, (lent, serial)) in lent.0.iter().zip(&serial).enumerate() {
                let place = format!("{form:?} of {kinds:?}, seed {seed}, group {number}");
                assert_eq!(lent.2, serial.2, "{place}: what is counted");
                for (lent, serial) in [(&lent.0, &serial.0), (&lent.1, &serial.1)] {
                    let [lent, serial] = [lent, serial].map(|frames| by_flow(frames));
                    assert!(lent.keys().eq(serial.keys()), "{place}: other flows");
                    for (flow, frames) in lent {
                        assert!(frames == serial[&flow], "{place}: packets of {flow}");
                    }
                }
                assert!(lent.3 == serial.3, "{place}: what is told");
            }
            assert!(lent.1 == state, "{form:?} of {kinds:?}, seed {seed}: what is remembered");
            asked += lent.2;
        }
        packets += groups.iter().map(Vec::len).sum::<usize>();
        for (_, _, moved, messages) in &serial {
            denied += moved.iter().filter(|(what, _)| what.contains("function_denied")).count();
            told += messages.len();
        }
        remembered += state.iter().map(|change| change.entries.len()).sum::<usize>();
    }
    eprintln!("{packets} packets over {chains} chains, of which {forked} fork: {asked} questions");
    let wanted = chains as usize * in_groups * 20;
    assert!(packets > wanted && asked > 2 * packets, "{packets} packets, {asked} questions");
    assert!(2 * forked > chains, "{forked} of {chains} fork");
    assert!(denied > 300 && told > 300 && remembered > 300, "{denied}, {told}, {remembered}");
}

#[test]
fn by_threads_that_workers_share_it_is_the_same() {
    let mut random = Random::new(77);
    for seed in 0..9 {
        let workers = 1 + seed as usize % 3;
        let draw = if workers == 1 { function } else { forgetful };
        let functions: Vec<Configuration> = (0..4).map(|_| draw(&mut random)).collect();
        let town = town_of(functions);
        let groups: Vec<Vec<Sent>> = (0..GROUPS).map(|_| group(&town, &mut random)).collect();
        let nature = if seed < 6 { Nature::Real } else { Nature::Slow };
        let (serial, state, _) = outcomes_in(&town, &groups, None, seed, workers, |_| {});
        let form = Some((Form::Fork, nature));
        let lent = outcomes_in(&town, &groups, form, seed, workers, |_| {});
        for (lent, serial) in lent.0.iter().zip(&serial) {
            assert_eq!(lent.2, serial.2, "{seed}: what is counted");
            assert!(by_flow(&lent.0) == by_flow(&serial.0) && lent.3 == serial.3, "{seed}");
        }
        assert!(lent.1 == state, "{seed}");
    }
}

#[test]
fn beside_a_nat_it_is_the_same() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut town = two_networks(Encapsulation::Nsh, &[&["w1"], &["w2"], &["nat"]]);
        for name in ["w1", "w2"] {
            town.function(name, AT, (INNER, INNER));
        }
        let monitor = Configuration::new("monitor", "{}");
        let ids = patterns("ids", "alert udp any any -> any any (msg:\"one\"; sid:1; rev:1;)");
        for (name, configuration) in [("w1", ids), ("w2", monitor)] {
            town.bundled.insert((name.to_owned(), String::new()), configuration);
        }
        town.has_segments = true;
        assert_eq!(town.program(AT).paths[0].hops.len(), 1);
        let question = to_other_network(&town, CHAINED_PORT);
        let groups: Vec<Vec<Sent>> = (0..GROUPS)
            .map(|_| {
                let sent = (0..12).map(|_| {
                    let one = from_port(&question, 40 + random.below(9) as u16);
                    let one = match random.below(3) {
                        0 => tcp(&one, TcpFlags::SYN, 1),
                        // More than one fragment: its rest is translated by what the first one said.
                        1 => Spec { fragment: (0, true), ..one },
                        _ => one,
                    };
                    ("S", one.frame(), Offload::default())
                });
                sent.collect()
            })
            .collect();
        let (serial, state, _) = outcomes(&town, &groups, None, seed);
        let lent = outcomes(&town, &groups, Some((Form::Fork, Nature::Slow)), seed);
        let came: usize = serial.iter().map(|(to_d, ..)| to_d.len()).sum();
        assert!(came > 150 && lent.2 > 150, "{came} packets, {} questions", lent.2);
        for (lent, serial) in lent.0.iter().zip(&serial) {
            assert_eq!(lent.2, serial.2, "{seed}: what is counted");
            assert!(by_flow(&lent.0) == by_flow(&serial.0) && lent.3 == serial.3, "{seed}");
        }
        assert!(lent.1 == state, "{seed}");
    }
}

#[test]
fn a_thread_that_has_stopped_costs_what_it_has_and_nothing_else() {
    let monitor = || Configuration::new("monitor", "{}");
    let town = town_of(vec![
        monitor(),
        file("marker", "classes.yaml", "classes: [{name: all, mark: ef}]"),
    ]);
    let sent = packet(&town, CHAINED_PORT);
    let drawn = Drawn::new(2, 1, Nature::Stopped(1));
    let mut rig = Rig::of_engines(1, town, |_| {}, 512);
    rig.nodes[AT].engines[0].lend_to(Box::new(drawn), Some(Form::Fork));
    for port in 40..44 {
        rig.queue("S", &from_port(&sent, port).frame(), Offload::default());
    }
    // They are held until a second is over.
    let before = rig.nodes[AT].pool.free();
    let (node, engine) = (AT, 0);
    rig.step_once(0);
    rig.step_once(node);
    assert_eq!(rig.nodes[node].engines[engine].lent_packets(), 4);
    // A moment that the whole process has missed is one look at whoever owes an answer.
    rig.now_ns += 2_000_000_000;
    rig.take_answers((node, engine));
    assert_eq!(rig.nodes[node].engines[engine].lent_packets(), 4);
    for _ in 0..100 {
        rig.now_ns += 10_000_000;
        rig.take_answers((node, engine));
    }
    assert_eq!(rig.nodes[node].engines[engine].lent_packets(), 0);
    let moved = rig.moved();
    assert_eq!(moved.get("host2 path 100 dropped function_failed"), Some(&4), "{moved:?}");
    assert!(rig.take("D").is_empty());
    // What it has it keeps, and others go on by the thread that is left.
    assert_eq!(rig.nodes[AT].pool.free(), before, "others may be made in the place of those");
    for port in 40..44 {
        rig.queue("S", &from_port(&sent, port).frame(), Offload::default());
    }
    for round in 0..40 {
        rig.step_once(round % 3);
        rig.take_answers((node, engine));
    }
    assert_eq!(rig.take("D").len(), 4);
    let counters = rig.counters();
    assert_eq!(counters[AT].total().unaccounted(), 0);
}

#[test]
fn who_waited_behind_what_a_stopped_thread_has_goes_on() {
    let monitor = || Configuration::new("monitor", "{}");
    for form in [Form::Pipeline, Form::Fork] {
        for stopped in 0..3 {
            let town = town_of(vec![monitor(), firewall(STATEFUL), monitor()]);
            let sent = tcp(&packet(&town, CHAINED_PORT), TcpFlags::SYN, 1);
            let mut rig = Rig::of_engines(1, town, |_| {}, 512);
            let drawn = Drawn::new(3, 1, Nature::Stopped(stopped));
            rig.nodes[AT].engines[0].lend_to(Box::new(drawn), Some(form));
            rig.nodes[AT].at_once = 1;
            for (port, spec) in [("S", sent.clone()), ("D", sent.answer()), ("S", sent)] {
                rig.queue(port, &spec.frame(), Offload::default());
            }
            for round in 0..12 {
                rig.step_once(round % 3);
            }
            assert!(rig.nodes[AT].engines[0].lent_packets() > 0, "{form:?} {stopped}");
            let mut out = Output::default();
            let Node { engines, pool, .. } = &mut rig.nodes[AT];
            engines[0].settle_lent(rig.now_ns, pool, &mut out);
            assert_eq!(engines[0].lent_packets(), 0, "{form:?} {stopped}");
            rig.deliver((AT, 0), out);
            assert_eq!(rig.counters()[AT].total().unaccounted(), 0);
        }
    }
}

/// Sends packets through functions of which some die; answers deaths, packets sent, those that came out, and those that
/// ended because of a death.
fn under_deaths(functions: Vec<Configuration>, kills: u64, seed: u64) -> (u64, u64, u64, u64) {
    let members = functions.len();
    let town = town_of(functions);
    let mut random = Random::new(seed);
    let drawn = Drawn::new(3, seed, Nature::Deadly(30));
    let deaths = Arc::clone(&drawn.deaths);
    let mut rig = Rig::of_engines(1, town, |config| config.is_coalescing = false, 2_048);
    rig.nodes[AT].engines[0].lend_to(Box::new(drawn), Some(Form::Fork));
    let (mut sent, mut came, mut failed) = (0, 0, 0);
    while *deaths.lock().unwrap() < kills {
        rig.nodes[AT].at_once = 1 + random.below(6);
        for _ in 0..8 {
            let one = from_port(&packet(&rig.town, CHAINED_PORT), 40 + random.below(6) as u16);
            rig.queue("S", &one.frame(), Offload::default());
            sent += 1;
        }
        // Accounts are looked at when nothing moves any more.
        rig.run();
        came += rig.take("D").len() as u64;
        failed += rig.moved().get("host2 path 100 dropped function_failed").copied().unwrap_or(0);
        // Who dies again soon begins a second later at most.
        rig.sleep(1_500);
    }
    let deaths = *deaths.lock().unwrap();
    let names = ["f0", "f1", "f2"].into_iter().take(members);
    let functions = names.map(|name| rig.town.instance_id(name)).collect();
    let of = CounterScope { functions, ..CounterScope::default() };
    let told = rig.nodes[AT].counters_of(Some(&of)).functions.iter().map(|one| one.deaths).sum();
    // Of several questions to one that is dead, the first is its death.
    assert!((1..=deaths).contains(&told), "{told} of {deaths} are told");
    (deaths, sent, came, failed)
}

#[test]
fn who_dies_loses_what_it_had_if_it_protects_and_nothing_if_it_looks_on() {
    let is_full = std::env::var("CATENA_FULL").is_ok_and(|full| full == "1");
    let kills = if is_full { 200 } else { 20 };
    let monitor = || Configuration::new("monitor", "{}");
    let ids = || patterns("ids", "alert udp any any -> any any (msg:\"one\"; sid:1; rev:1;)");
    let (_, sent, came, failed) = under_deaths(vec![ids(), monitor()], kills, 1);
    assert_eq!((came, failed), (sent, 0), "they only look on");
    let edge = || firewall("-A FORWARD -p udp -m udp --sport 99 -j DROP");
    let (deaths, sent, came, failed) = under_deaths(vec![ids(), edge(), monitor()], kills, 2);
    assert_eq!(came + failed, sent, "what has not come has ended by name");
    assert!(failed >= 1 && came > sent / 2, "{deaths} deaths: {came} of {sent} came");
}

/// After one death, two and three; after the fourth of a row it may be what it remembers that it dies of.
#[test]
fn what_it_had_told_is_remembered_after_a_death_within() {
    let town = town_of(vec![firewall(STATEFUL), Configuration::new("monitor", "{}")]);
    let keep = |config: &mut EngineConfig| config.functions_keep = Some(Default::default());
    let mut rig = Rig::of_engines(1, town, keep, 512);
    let lend = |rig: &mut Rig, nature: Nature| {
        let lanes = Box::new(Drawn::new(2, 1, nature));
        rig.nodes[AT].engines[0].lend_to(lanes, Some(Form::Fork));
    };
    lend(&mut rig, Nature::Slow);
    let sent = packet(&rig.town, CHAINED_PORT);
    let (known, new) = (from_port(&sent, 41), from_port(&sent, 42));
    rig.send("S", &tcp(&known, TcpFlags::SYN, 1).frame());
    rig.send("D", &tcp(&known.answer(), SYN_ACK, 7).frame());
    assert_eq!((rig.take("D").len(), rig.take("S").len()), (1, 1));
    let is_told = |rig: &mut Rig| {
        let told = rig.nodes[AT].engines[0].take_function_state(true);
        let is_anything = told.iter().any(|change| !change.entries.is_empty());
        (is_anything, told.iter().any(|change| change.is_whole))
    };
    assert!(is_told(&mut rig).0);
    for deaths in 1..=4 {
        lend(&mut rig, Nature::Deadly(1_000));
        rig.send("S", &tcp(&new, TcpFlags::SYN, 1).frame());
        assert_eq!(rig.take("D").len(), 0, "who protects has died of it");
        rig.sleep(2_000);
        lend(&mut rig, Nature::Slow);
        let is_whole = is_told(&mut rig).1;
        rig.send("D", &tcp(&known.answer(), TcpFlags::ACK, 7 + deaths).frame());
        let is_known = rig.take("S").len() == 1;
        // Whoever keeps it forgets what was told before, which may be more.
        assert_eq!((is_known, is_whole), (deaths < 4, true), "after {deaths} deaths");
    }
    let of = CounterScope::default();
    let deaths = rig.nodes[AT].counters_of(Some(&of)).deaths;
    assert_eq!(deaths.into_values().collect::<Vec<_>>(), [4], "whoever is asked about");
}
