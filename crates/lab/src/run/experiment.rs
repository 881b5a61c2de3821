//! Carries out the sweep of a lab file on a lab that stands: deploys, makes traffic, captures,
//! counts, removes. Decides nothing about the outcome.

use super::accounting::{Snapshot, Standing, settle};
use super::capture::{Captured, Captures};
use super::cases::{Case, cases, rounds};
use super::ceilings::{self, Ceilings};
use super::delays;
use super::evidence::{DeploySample, Evidence, RunEvidence};
use super::faults::{self, Happened};
use super::footprint::Footprint;
use super::forged;
use super::functions::{self, Told};
use super::kills::{self, Death};
use super::neighbours;
use super::predicted::{self, PredictedDelay};
use super::programs::{self, ProgramResult};
use super::proof::{self, Question};
use super::routes;
use super::sameness;
use super::setups::SetupEvidence;
use super::southbound;
use super::stateless::Held;
use super::telemetry;
use super::tool::{Place, TrafficResult, make};
use super::updates::{Changing, Update};
use super::users;
use super::verdicts::Hits;
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::{Call, Claim, LabChain, Seconds, Statement, Traffic, Users};
use catena_client::deploy::Deployment;
use catena_model::resource::IpFamily;
use serde_json::{Value, json};
use std::fs;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Carries out everything the lab file asks for; each case is told with its duration.
pub(crate) fn carry_out(
    running: &RunningLab,
    folder: &Path,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    if let Some(lengths) = running.lab.sweep.lengths.clone() {
        deploy_lengths(running, lengths, &mut evidence, tell)?;
        return Ok(evidence);
    }
    if let Some(users) = running.lab.users.clone() {
        measure_users(running, &users, folder, &mut evidence, tell)?;
        return Ok(evidence);
    }
    let mut statements = running.lab.checks.iter().chain(&running.lab.goals);
    if statements.any(Statement::is_of_footprint) {
        evidence.footprint = Some(Footprint::at_rest(running)?);
    }
    let ceilings = ceilings::measure(running, folder, tell)?;
    for (repeat, case) in rounds(running.lab.sweep.repeat, &cases(&running.lab)) {
        let start = Instant::now();
        let held = match running.lab.asks_for(&Claim::Stateless) {
            true => Some(Held::at_rest(running)?),
            false => None,
        };
        let folder = folder.join(format!("{}-{repeat}", case.name()));
        fs::create_dir_all(&folder)
            .map_err(|error| LabError::io("create", folder.display().to_string(), error))?;
        // Functions may have something to tell them as soon as they are there.
        let programs = programs::Standing::start(running, &folder)?;
        let chains = deploy_case(running, case)?;
        let round = Round { repeat, case, folder: &folder, ceilings: &ceilings };
        let mut run = run_once(running, round, &chains, tell)?;
        if let Some(held) = held {
            run.stateless = Some(held.compare(running)?);
        }
        if let Some(footprint) = &mut evidence.footprint {
            footprint.weigh(running)?;
        }
        for chain in chains.iter().rev() {
            Deployment::undeploy(&running.client, &chain.id)?;
        }
        programs.end()?;
        let text = format!("{repeat}: {}", run_text(case, &run));
        tell(&text, start.elapsed().as_secs_f64());
        evidence.runs.push(run);
    }
    evidence.delays = delays::rows(&running.lab, &evidence);
    Ok(evidence)
}

/// The experiment with 5G users, with all chains of the file.
fn measure_users(
    running: &RunningLab,
    users: &Users,
    folder: &Path,
    evidence: &mut Evidence,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    let case =
        Case { encapsulation: running.lab.sweep.encapsulations.first().copied(), chain: None };
    let chains = deploy_case(running, &case)?;
    let before = Snapshot::take_at_rest(&running.client)?;
    let mut run = RunEvidence::new("users".to_owned(), case.encapsulation, None);
    evidence.users = Some(users::carry_out(running, users, folder, tell)?);
    run.account(settle(&running.client, &before, &running.lab, &chains)?.0);
    evidence.runs.push(run);
    Ok(())
}

/// Deploys the chains of a case.
pub(super) fn deploy_case(running: &RunningLab, case: &Case) -> Result<Vec<Standing>> {
    let is_of_case = |chain: &&LabChain| case.chain.as_ref().is_none_or(|name| *name == chain.name);
    let mut deployed = Vec::new();
    for chain in running.lab.chains.iter().filter(is_of_case) {
        if !chain.document.chain.is_empty() {
            let id = running.deploy(chain, case.carrier_of(&running.lab, chain))?.chain;
            deployed.push(Standing { name: chain.name.clone(), id });
        }
    }
    Ok(deployed)
}

/// One repeat of a case, and where it leaves what it says.
#[derive(Clone, Copy)]
struct Round<'r> {
    repeat: u32,
    case: &'r Case,
    folder: &'r Path,
    ceilings: &'r Ceilings,
}

fn run_once(
    running: &RunningLab,
    round: Round<'_>,
    chains: &[Standing],
    tell: &mut dyn FnMut(&str, f64),
) -> Result<RunEvidence> {
    let Round { case, folder, .. } = round;
    let changing = match &running.lab.updates {
        None => None,
        Some(updates) => {
            let chain = case.chain.as_deref().unwrap_or(&updates.chain);
            neighbours::learn(running, updates)?;
            let carrier = running.lab.chain(chain).and_then(|it| case.carrier_of(&running.lab, it));
            Some(Changing::new(running, chain, carrier)?)
        }
    };
    let told = Told::until_now(running, chains)?;
    let hits = Hits::at_rest(running, chains)?;
    let captures = if running.lab.capture.is_empty() {
        None
    } else {
        Some(Captures::start(running, &folder.join("captures"))?)
    };
    let before = Snapshot::take_at_rest(&running.client)?;
    let names = chains.iter().map(|chain| chain.name.clone());
    let work = || make_phases(running, changing, round);
    let (Made { traffic, programs, update, happened, deaths }, watched) =
        southbound::watch(running, names, work)?;
    let (account, after) = settle(&running.client, &before, &running.lab, chains)?;
    let mut evidence = RunEvidence::new(case.name(), case.encapsulation, case.chain.clone());
    evidence.programs = programs;
    evidence.denied = functions::denied(running, chains, &before, &after);
    evidence.functions = functions::gather(running, told, chains, (&before, &after))?;
    evidence.outcomes = sameness::outcomes(&running.lab, &evidence.programs, &evidence.functions);
    if let Some(captures) = captures {
        let captured = captures.end(running, &after.frames_since(&before))?;
        let hits = (hits, chains);
        judge_captures(
            running,
            case,
            (&captured, &traffic, update.as_ref()),
            hits,
            &mut evidence,
            tell,
        )?;
    }
    let arrivals = traffic.iter().flat_map(|traffic| traffic.arrivals.iter().copied());
    evidence.faults = faults::outcomes(&happened, &arrivals.collect::<Vec<_>>());
    if !happened.is_empty() || !deaths.is_empty() {
        evidence.named_losses = Some(after.losses_since(&before, &running.lab));
    }
    evidence.deaths = deaths;
    if running.lab.asks_for(&Claim::Forged) {
        let start = Instant::now();
        evidence.forged = Some(forged::carry_out(running, &folder.join("forged"))?);
        tell(&format!("{}: forged frames judged", case.name()), start.elapsed().as_secs_f64());
    }
    let setups = SetupEvidence::between(&before.setups(), &after.setups());
    evidence.setups = setups.map(|setups| setups.beside(watched));
    evidence.traffic = traffic;
    evidence.update = update;
    evidence.account(account);
    Ok(evidence)
}

/// Lets the independent proofs judge the captures of a run.
fn judge_captures(
    running: &RunningLab,
    case: &Case,
    (captured, traffic, update): (&Captured, &[TrafficResult], Option<&Update>),
    (hits, chains): (Hits, &[Standing]),
    evidence: &mut RunEvidence,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    let start = Instant::now();
    let question = Question::of(&running.lab);
    let verdict = match question {
        Question::Verdicts => {
            let now = Hits::at_rest(running, chains)?;
            let told = json!({"verdicts": now.told_since(&hits, &running.lab, chains)});
            let Value::Object(told) = told else { return Ok(()) };
            proof::ask(question, running, captured, told)?
        }
        _ => proof::judge(question, running, captured, traffic, update)?,
    };
    tell(&format!("{}: captures judged", case.name()), start.elapsed().as_secs_f64());
    match question {
        Question::Steering => evidence.proof = Some(verdict),
        Question::Update => evidence.update_proof = Some(verdict),
        Question::Paths => evidence.path_proof = Some(verdict),
        Question::Streams => evidence.stream_proof = Some(verdict),
        Question::Verdicts => evidence.verdict_proof = Some(verdict),
        // The experiment with users keeps its own.
        Question::Users | Question::Routes | Question::Telemetry | Question::Forged => {}
    }
    if running.lab.captures_links && !running.lab.cables.is_empty() {
        let walks = routes::walks(&running.lab, case.encapsulation, traffic, update);
        evidence.route_proof = Some(routes::ask(running, captured, walks)?);
    }
    if running.lab.asks_for(&Claim::Telemetry) {
        let start = Instant::now();
        evidence.telemetry_proof = Some(telemetry::ask(running, captured, traffic)?);
        tell(&format!("{}: records judged", case.name()), start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// All traffic of a run, with the changes of its chain between or during it.
fn make_phases(
    running: &RunningLab,
    changing: Option<Changing<'_>>,
    round: Round<'_>,
) -> Result<Made> {
    let stop = AtomicBool::new(false);
    let (Some(updates), Some(mut changing)) = (&running.lab.updates, changing) else {
        return make_among_faults(running, round);
    };
    if updates.is_between {
        let mut made = make_all(running, round, 0, &stop)?;
        for (index, version) in updates.versions.iter().enumerate() {
            changing.change_to(version)?;
            let Made { traffic, programs, .. } = make_all(running, round, index + 1, &stop)?;
            made.traffic.extend(traffic);
            made.programs.extend(programs);
        }
        return Ok(Made { update: Some(changing.into_update()), ..made });
    }
    std::thread::scope(|scope| {
        let made = scope.spawn(|| make_all(running, round, 0, &stop));
        let update = changing.go_through(updates, &stop);
        let made = made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Made { update: Some(update?), ..made? })
    })
}

/// What was made in a run, and what befell cables and functions meanwhile.
#[derive(Default)]
struct Made {
    traffic: Vec<TrafficResult>,
    programs: Vec<ProgramResult>,
    update: Option<Update>,
    happened: Vec<Happened>,
    deaths: Vec<Death>,
}

/// All traffic of a run, while cables fail and functions die.
fn make_among_faults(running: &RunningLab, round: Round<'_>) -> Result<Made> {
    let (stop, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let start = Instant::now();
    std::thread::scope(|scope| {
        let failing = || faults::happen(running, &running.lab.faults, start, &has_ended);
        let failing = scope.spawn(failing);
        let dying = scope.spawn(|| kills::happen(running, &running.lab.kills, start, &has_ended));
        let made = make_all(running, round, 0, &stop);
        has_ended.store(true, Ordering::Relaxed);
        let happened = failing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let deaths = dying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Made { happened, deaths, ..made? })
    })
}

/// Makes all traffic of a phase, each at its time, and waits for all.
fn make_all(
    running: &RunningLab,
    round: Round<'_>,
    phase: usize,
    stop: &AtomicBool,
) -> Result<Made> {
    let Round { repeat, case, folder, ceilings } = round;
    let start = Instant::now();
    let wait_until = |at: Seconds| {
        let at = Duration::from_secs_f64(at.0);
        std::thread::sleep(at.saturating_sub(start.elapsed()));
    };
    let one = |index: usize, traffic: &Traffic| -> Result<TrafficResult> {
        let place = Place {
            from: running.doorway(&traffic.from)?,
            to: running.doorway(&traffic.to)?,
            address: address_of(running, traffic)?,
            keeps_arrivals: !running.lab.faults.is_empty(),
            repeat,
            folder,
        };
        wait_until(traffic.at);
        let chain = traffic.chain.as_deref().or(case.chain.as_deref());
        let traffic = &ceilings.at_its_rate(traffic);
        let mut result = make(traffic, &place, chain, proof::run_of(phase, index), stop)?;
        // While its hosts do as they did for it.
        result.predicted = predict(running, &result)?;
        Ok(result)
    };
    let called = |call: &Call| {
        wait_until(call.at);
        programs::call(running, call, folder)
    };
    // Traffic for a chain that the case has not would prove nothing.
    let is_of_case = |chain: &Option<String>| {
        let of = [chain, &case.chain].map(Option::as_ref);
        of.iter().any(Option::is_none) || *chain == case.chain
    };
    let (one, called) = (&one, &called);
    std::thread::scope(|scope| {
        let all = running.lab.traffic.iter().enumerate();
        let all = all.filter(|(_, traffic)| is_of_case(&traffic.chain));
        let traffic: Vec<_> =
            all.map(|(index, traffic)| scope.spawn(move || one(index, traffic))).collect();
        let calls = running.lab.calls.iter().filter(|call| is_of_case(&call.chain));
        let programs: Vec<_> = calls.map(|call| scope.spawn(move || called(call))).collect();
        let (traffic, programs) = (joined(traffic), joined(programs));
        Ok(Made { traffic: traffic?, programs: programs?, ..Made::default() })
    })
}

/// What threads came to, when all have ended.
fn joined<T>(threads: Vec<ScopedJoinHandle<'_, Result<T>>>) -> Result<Vec<T>> {
    let join = |thread: ScopedJoinHandle<'_, Result<T>>| {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    let ended: Vec<Result<T>> = threads.into_iter().map(join).collect();
    ended.into_iter().collect()
}

/// What is expected of datagrams that were timed; none: they were not, or there is no function.
fn predict(running: &RunningLab, result: &TrafficResult) -> Result<Option<PredictedDelay>> {
    let (Some(delay), Some(chain)) = (result.delay, &result.chain) else { return Ok(None) };
    let has_functions =
        running.lab.chain(chain).is_some_and(|chain| !chain.document.chain.is_empty());
    let ask = || predicted::ask(running, chain, delay.packets_per_second);
    has_functions.then(ask).transpose()
}

/// The receiver's address on a network that it shares with the sender.
pub(super) fn address_of(running: &RunningLab, traffic: &Traffic) -> Result<IpAddr> {
    let ports = &running.plan.ports;
    let is_wanted = |address: &IpAddr| IpFamily::of(*address) == traffic.family;
    let routes = running.lab.endpoints.get(&traffic.from).map(|endpoint| &endpoint.routes);
    let is_reached = |network: &str| {
        let is_shared =
            ports.iter().any(|port| port.device == traffic.from && port.network == network);
        is_shared || routes.is_some_and(|routes| routes.contains(network))
    };
    ports
        .iter()
        .filter(|port| port.device == traffic.to && is_reached(&port.network))
        .find_map(|port| port.addresses.iter().copied().find(is_wanted))
        .ok_or_else(|| LabError::Tool {
            tool: format!("traffic '{}'", traffic.name),
            problem: format!(
                "'{}' and '{}' share no network of that family, and no route leads there",
                traffic.from, traffic.to
            ),
            advice: "attach both to one network that has a prefix of it, or add routes".into(),
        })
}

fn run_text(case: &Case, run: &RunEvidence) -> String {
    let rates = run.traffic.iter().filter(|traffic| traffic.chain == case.chain);
    let rate: f64 = rates.filter_map(|traffic| traffic.bits_per_second).sum();
    if rate > 0.0 && case.chain.is_some() {
        return format!("{}: {:.2} Gbit/s", case.name(), rate / 1e9);
    }
    let packets: u64 = run.traffic.iter().filter_map(|traffic| traffic.packets).sum();
    let changes = run.update.as_ref().map_or(0, |update| update.changes.len());
    if changes > 0 {
        return format!("{}: {changes} changes, {packets} datagrams", case.name());
    }
    let traffics = run.traffic.len() + run.programs.len();
    format!("{}: {traffics} traffics, {packets} datagrams", case.name())
}

/// Deploys and removes the first chain, cut to each length.
fn deploy_lengths(
    running: &RunningLab,
    lengths: RangeInclusive<usize>,
    evidence: &mut Evidence,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    let Some(chain) = running.lab.chains.first() else { return Ok(()) };
    let encapsulation = running.lab.sweep.encapsulations.first().copied();
    let before = Snapshot::take_at_rest(&running.client)?;
    let start = Instant::now();
    let lengths: Vec<usize> = lengths.collect();
    for (_, length) in rounds(running.lab.sweep.repeat, &lengths) {
        let (mut chain, length) = (chain.clone(), *length);
        chain.document.chain.truncate(length);
        let deployed = running.deploy(&chain, encapsulation)?;
        evidence.deployments.push(DeploySample { length, timings: deployed.timings });
        Deployment::undeploy(&running.client, &deployed.chain)?;
    }
    let mut run = RunEvidence::new("deploy".to_owned(), encapsulation, None);
    // Nothing is sent through these chains, and nothing is said of packets in them.
    run.account(settle(&running.client, &before, &running.lab, &[])?.0);
    evidence.runs.push(run);
    let text = format!("{} chains deployed and removed", evidence.deployments.len());
    tell(&text, start.elapsed().as_secs_f64());
    Ok(())
}

/// Copies the logs of a lab's processes to where they outlive it.
pub(crate) fn keep_logs(running: &RunningLab, folder: &Path) -> Option<PathBuf> {
    let target = folder.join("log");
    fs::create_dir_all(&target).ok()?;
    for entry in fs::read_dir(running.log_directory()).ok()?.flatten() {
        // A log that cannot be copied must not hide the failure it would explain.
        let _ = fs::copy(entry.path(), target.join(entry.file_name()));
    }
    Some(target)
}
