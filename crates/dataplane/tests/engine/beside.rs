//! Functions in processes of their own: what comes out is what comes out of the same functions within, and whoever ends
//! its process, stops it or lets it say anything costs what that process had, by name.

use crate::functions::{STATEFUL, SYN_ACK, firewall, from_port, tcp};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet};
use crate::side_by_side::{
    AT, Nature, Sent, by_flow, forgetful, function, group, outcomes_in, patterns, town_of,
};
use catena_dataplane::engine::{EngineConfig, Form};
use catena_dataplane::shell::{FunctionMakers, StarterProgram};
use catena_io::{Mailbox, Offload};
use catena_model::CounterScope;
use catena_model::bundle::Configuration;
use catena_nf::exchange::{Question, Said, read_question, write_said};
use catena_nf::function::Waiting;
use catena_nf::outcome::{Outcomes, Patch};
use catena_nf::random::Random;
use catena_wire::field::Field;
use catena_wire::tcp::TcpFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io::stdin;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const GROUPS: usize = 24;
/// How long whatever has to happen may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Who starts processes is told from who did before: one at a time.
static TURN: Mutex<()> = Mutex::new(());

fn itself() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// The arguments by which this program is one of its own parts.
fn part(name: &str) -> [String; 4] {
    ["--exact", &format!("beside::{name}"), "--ignored", "--nocapture"].map(str::to_owned)
}

#[test]
#[ignore = "not a test: the process that starts others"]
fn the_starter_within() {
    start("the_function_within");
}

#[test]
#[ignore = "not a test: the process that starts liars"]
fn the_starter_of_liars_within() {
    start("the_liar_within");
}

#[test]
#[ignore = "not a test: the process that starts those who never end"]
fn the_starter_of_the_endless_within() {
    start("the_endless_within");
}

/// Starts processes that are this part of this program.
fn start(name: &str) {
    let arguments = part(name);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let socket = stdin().as_fd().try_clone_to_owned().unwrap();
    catena_runner::start_processes(&socket, OsStr::new(&itself()), &arguments).unwrap();
}

#[test]
#[ignore = "not a test: the process of a function"]
fn the_function_within() {
    catena_runner::serve_beside(stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
}

/// It says that it is made, and answers any bytes, with any numbers of messages, from then on.
#[test]
#[ignore = "not a test: the process of somebody hostile"]
fn the_liar_within() {
    let mut mailbox = Mailbox::answerer(stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
    let (mut heard, mut said) = (Vec::new(), Vec::new());
    mailbox.hear(None, &mut heard).unwrap();
    write_said(&Said::Made, &mut said);
    assert!(mailbox.say(&said));
    let mut random = Random::new(u64::from(std::process::id()));
    while mailbox.hear(None, &mut heard).is_ok() {
        let packets = read_question(&heard).map_or(0, |(_, packets)| packets.len());
        let said: Vec<u8> = match random.below(4) {
            // Sound in itself, and nothing that its profile says.
            3 => {
                let mut outcomes = Outcomes::default();
                outcomes.begin(packets.max(1));
                outcomes.patch(0, Patch::of(Field::Ttl, 7));
                write_said(&Said::Outcomes(outcomes, Waiting::default()), &mut said);
                said.clone()
            }
            0 => (0..random.below(100)).map(|_| random.below(256) as u8).collect(),
            // A verdict for each of more packets than there are, or the wrong kind of answer.
            1 => [&[2, 200, 1][..], &[0; 400]].concat(),
            _ => vec![5, 1],
        };
        assert!(mailbox.say(&said));
    }
}

/// It lets everything pass, and when it is asked what it remembers, there is always more.
#[test]
#[ignore = "not a test: the process of somebody who never ends"]
fn the_endless_within() {
    let mut mailbox = Mailbox::answerer(stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
    let (mut heard, mut said) = (Vec::new(), Vec::new());
    while mailbox.hear(None, &mut heard).is_ok() {
        let (question, packets) = read_question(&heard).unwrap();
        let answer = match question {
            Question::Make(..) => Said::Made,
            Question::Export(_) => Said::Exported(Vec::new(), true),
            Question::Import(_) => Said::Imported(0),
            Question::Report => Said::Counts(Vec::new()),
            Question::Rule(_) => Said::Words(None),
            _ => {
                let mut outcomes = Outcomes::default();
                outcomes.begin(packets.len());
                Said::Outcomes(outcomes, Waiting::default())
            }
        };
        write_said(&answer, &mut said);
        assert!(mailbox.say(&said));
    }
}

/// Those who make functions, with the process that starts them.
struct Nursery {
    makers: Arc<FunctionMakers>,
    starter: i32,
}

impl Nursery {
    fn new(starter: &str) -> Self {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = children(std::process::id() as i32);
        let arguments = part(starter).map(Into::into).into();
        let program = StarterProgram { program: itself(), arguments };
        let makers = Arc::new(FunctionMakers::embedded(&program).unwrap());
        let mut fresh = children(std::process::id() as i32);
        fresh.retain(|child| !before.contains(child));
        Self { makers, starter: fresh[0] }
    }

    /// The functions of a rig move to processes of their own.
    fn move_out(&self, rig: &mut Rig) {
        let tables = rig.tables(AT).clone().made_by(self.makers.clone());
        rig.replace_tables(AT, tables);
        for configuration in rig.town.bundled.values_mut() {
            *configuration = configuration.clone().beside();
        }
        rig.apply();
    }

    fn functions(&self) -> Vec<i32> {
        children(self.starter)
    }

    /// Lets time pass until there are so many again.
    fn wait_for(&self, rig: &mut Rig, functions: usize) {
        let began = Instant::now();
        while self.functions().into_iter().filter(|it| is_walled_in(*it)).count() < functions {
            assert!(began.elapsed() < PATIENCE, "functions do not come back");
            rig.sleep(200);
            std::thread::sleep(Duration::from_millis(2));
        }
        // It is about to be made, and is taken up with the next moment that passes for functions.
        std::thread::sleep(Duration::from_millis(60));
        rig.sleep(2_000);
    }

    fn signal(process: i32, signal: Signal) {
        kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
    }
}

/// Has it put up its walls? What comes next is what it is made of.
fn is_walled_in(process: i32) -> bool {
    let threads =
        std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut told = threads.map(|thread| std::fs::read_to_string(thread.path().join("status")));
    told.any(|told| told.is_ok_and(|told| told.contains("\nSeccomp:\t2")))
}

/// The processes that this one has started, and that have not ended.
fn children(of: i32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |number: &i32| {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{number}/stat")) else {
            return false;
        };
        let behind =
            stat.rsplit_once(") ").map(|(_, behind)| behind.to_owned()).unwrap_or_default();
        let words: Vec<&str> = behind.split(' ').collect();
        words[0] != "Z" && words[1].parse() == Ok(of)
    };
    numbers.filter(is_child).collect()
}

#[test]
fn in_a_process_of_its_own_a_function_does_the_same() {
    let nursery = Nursery::new("the_starter_within");
    let mut random = Random::new(5);
    let chains = if cfg!(debug_assertions) { 2 } else { 6 };
    let mut asked = 0;
    for seed in 0..chains {
        let workers = 1 + seed as usize % 2;
        let draw = if workers == 1 { function } else { forgetful };
        let functions: Vec<Configuration> = (0..3).map(|_| draw(&mut random)).collect();
        let kinds: Vec<String> = functions.iter().map(|one| one.kind.clone()).collect();
        let town = town_of(functions);
        let groups: Vec<Vec<Sent>> = (0..GROUPS).map(|_| group(&town, &mut random)).collect();
        let (serial, state, _) = outcomes_in(&town, &groups, None, seed, workers, |_| {});
        for form in [None, Some((Form::Fork, Nature::Slow)), Some((Form::Fork, Nature::Real))] {
            let beside = outcomes_in(&town, &groups, form, seed, workers, |rig| {
                nursery.move_out(rig);
                let processes = nursery.functions().len();
                assert_eq!(processes, 3 * workers, "of each worker each has a process");
            });
            for (beside, serial) in beside.0.iter().zip(&serial) {
                assert_eq!(beside.2, serial.2, "{form:?} of {kinds:?}, {seed}: what is counted");
                assert!(by_flow(&beside.0) == by_flow(&serial.0), "{form:?} of {kinds:?}, {seed}");
                assert!(by_flow(&beside.1) == by_flow(&serial.1), "{form:?} of {kinds:?}, {seed}");
                assert!(beside.3 == serial.3, "{form:?} of {kinds:?}, {seed}: what is told");
            }
            assert!(beside.1 == state, "{form:?} of {kinds:?}, {seed}: what is remembered");
            asked += beside.2;
        }
    }
    assert!(asked > 100, "{asked} questions");
}

/// What is told of the functions of a rig: how often they have died, and the bytes copied for them.
fn told_of(rig: &Rig, names: &[&str]) -> (u64, u64) {
    let functions = names.iter().map(|name| rig.town.instance_id(name)).collect();
    let of = CounterScope { functions, ..CounterScope::default() };
    let counters = rig.nodes[AT].counters_of(Some(&of)).functions;
    let sum =
        |of: fn(&catena_model::account::FunctionCounters) -> u64| counters.iter().map(of).sum();
    (sum(|one| one.deaths), sum(|one| one.copied_bytes))
}

/// Processes are killed, or stopped for good, while packets pass.
#[test]
fn whose_process_ends_costs_what_it_had_and_begins_anew() {
    let is_full = std::env::var("CATENA_FULL").is_ok_and(|full| full == "1");
    let kills = if is_full { 200 } else { 20 };
    let nursery = Nursery::new("the_starter_within");
    let ids = patterns("ids", "alert udp any any -> any any (msg:\"one\"; sid:1; rev:1;)");
    let edge = firewall("-A FORWARD -p udp -m udp --sport 99 -j DROP");
    let town = town_of(vec![ids, edge, Configuration::new("monitor", "{}")]);
    let mut rig = Rig::of_engines(1, town, |config| config.is_coalescing = false, 2_048);
    nursery.move_out(&mut rig);
    nursery.wait_for(&mut rig, 3);
    let mut random = Random::new(9);
    let (mut sent, mut came, mut failed) = (0, 0, 0);
    for number in 0..kills {
        let victim = random.pick(&nursery.functions()).unwrap();
        let is_stopped = number % 10 == 9;
        Nursery::signal(victim, if is_stopped { Signal::STOP } else { Signal::KILL });
        let (mut rounds, began) = (0, Instant::now());
        // Whoever is stopped is noticed when it is asked; while it was being made, after 20 s.
        while rounds < 3 || nursery.functions().contains(&victim) {
            assert!(began.elapsed() < PATIENCE, "{victim} is of no use, {number}: {failed}");
            if rounds > 3 {
                nursery.wait_for(&mut rig, 3);
            }
            rounds += 1;
            for _ in 0..8 {
                let one = from_port(&packet(&rig.town, CHAINED_PORT), 40 + random.below(6) as u16);
                rig.queue("S", &one.frame(), Offload::default());
                sent += 1;
            }
            // Accounts are looked at when nothing moves any more.
            rig.run();
            came += rig.take("D").len() as u64;
            let moved = rig.moved();
            failed += moved.get("host2 path 100 dropped function_failed").copied().unwrap_or(0);
        }
        nursery.wait_for(&mut rig, 3);
    }
    assert_eq!(came + failed, sent, "what has not come has ended by name");
    assert!(failed >= 8 && came > sent / 4, "{came} of {sent} came, {failed} ended");
    let (deaths, copied) = told_of(&rig, &["f0", "f1", "f2"]);
    // Who is killed before it was asked anything is nobody's death.
    assert!(deaths <= kills && 4 * deaths >= 3 * kills, "{deaths} of {kills} are told");
    assert!(copied > came * 60, "{copied} bytes are copied for three, of {came} packets");
    // With whoever asks them they end.
    let (starter, functions) = (nursery.starter, nursery.functions());
    drop((rig, nursery));
    let began = Instant::now();
    while functions
        .iter()
        .chain([&starter])
        .any(|it| std::fs::exists(format!("/proc/{it}/fd/0")).unwrap())
    {
        assert!(began.elapsed() < PATIENCE, "processes are left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_it_had_told_is_remembered_after_its_process_was_killed() {
    let nursery = Nursery::new("the_starter_within");
    let town = town_of(vec![firewall(STATEFUL), Configuration::new("monitor", "{}")]);
    let keep = |config: &mut EngineConfig| config.functions_keep = Some(Default::default());
    let mut rig = Rig::of_engines(1, town, keep, 512);
    nursery.move_out(&mut rig);
    nursery.wait_for(&mut rig, 2);
    let sent = packet(&rig.town, CHAINED_PORT);
    let (known, new) = (from_port(&sent, 41), from_port(&sent, 42));
    rig.send("S", &tcp(&known, TcpFlags::SYN, 1).frame());
    rig.send("D", &tcp(&known.answer(), SYN_ACK, 7).frame());
    assert_eq!((rig.take("D").len(), rig.take("S").len()), (1, 1));
    let told = rig.nodes[AT].engines[0].take_function_state(true);
    assert!(told.iter().any(|change| !change.entries.is_empty()));
    for process in nursery.functions() {
        Nursery::signal(process, Signal::KILL);
    }
    rig.sleep(200);
    nursery.wait_for(&mut rig, 2);
    assert_eq!(told_of(&rig, &["f0", "f1"]).0, 2);
    // Of a connection that began before; and one that never did.
    rig.moved();
    rig.send("D", &tcp(&known.answer(), TcpFlags::ACK, 8).frame());
    assert_eq!(rig.take("S").len(), 1, "{:?}", rig.moved());
    rig.send("D", &tcp(&new.answer(), TcpFlags::ACK, 8).frame());
    assert_eq!(rig.take("S").len(), 0);
}

#[test]
fn whatever_a_process_says_nothing_passes_by_it_and_nothing_breaks() {
    let nursery = Nursery::new("the_starter_of_liars_within");
    let edge = firewall("-A FORWARD -p udp -m udp --sport 99 -j DROP");
    let mut rig = Rig::of_engines(1, town_of(vec![edge]), |_| {}, 512);
    nursery.move_out(&mut rig);
    let one = packet(&rig.town, CHAINED_PORT);
    let (began, mut sent, mut failed) = (Instant::now(), 0, 0);
    while told_of(&rig, &["f0"]).0 < 12 {
        assert!(began.elapsed() < PATIENCE, "no liar comes back");
        std::thread::sleep(Duration::from_millis(10));
        rig.sleep(1_500);
        for _ in 0..4 {
            rig.queue("S", &one.frame(), Offload::default());
            sent += 1;
        }
        rig.run();
        let moved = rig.moved();
        failed += moved.get("host2 path 100 dropped function_failed").copied().unwrap_or(0);
        assert!(rig.take("D").is_empty(), "it says nothing that can be believed");
    }
    assert_eq!(failed, sent);
}

/// Whoever always has more to tell of what it remembers is dead, and is no reason that anything else waits.
#[test]
fn what_a_process_remembers_has_an_end() {
    let nursery = Nursery::new("the_starter_of_the_endless_within");
    let edge = firewall("-A FORWARD -p udp -m udp --sport 99 -j DROP");
    let keep = |config: &mut EngineConfig| config.functions_keep = Some(Default::default());
    let mut rig = Rig::of_engines(1, town_of(vec![edge]), keep, 512);
    nursery.move_out(&mut rig);
    let one = packet(&rig.town, CHAINED_PORT);
    let began = Instant::now();
    while told_of(&rig, &["f0"]).0 < 4 {
        assert!(began.elapsed() < PATIENCE, "somebody waits for it");
        std::thread::sleep(Duration::from_millis(10));
        rig.sleep(1_500);
        rig.send("S", &one.frame());
        rig.nodes[AT].engines[0].take_function_state(true);
    }
}
