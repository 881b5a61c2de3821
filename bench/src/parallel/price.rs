//! What threads that ask functions cost: a fork and a join of functions that do next to nothing, chains for which the
//! node may choose beside the same without threads, and which kinds may stand side by side at all.

use super::serving::Measured;
use super::site::Site;
use crate::engine::wrong;
use crate::results::{Better, Figure, Goal, Notes, median};
use catena_dataplane::engine::{Form, Lanes, Makers};
use catena_dataplane::shell::{FunctionMakers, FunctionThreads, StarterProgram};
use catena_model::bundle::Configuration;
use catena_model::parallelism::{PacketCopy, Verdict, judge};
use catena_nf::random::Random;
use catena_nf::registry::{self, KINDS, Surroundings};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

const FRAME_BYTES: usize = 64;
/// Packets that come together where their cost is measured.
const TOGETHER: usize = 32;
const CHAINS: u64 = 20;
/// Goal: percent that choosing may cost.
const PENALTY: f64 = 2.0;
/// Time between what comes together, in nanoseconds: as if ten million packets came in a second.
const GAP_NS: u64 = 3_200;

pub(super) fn figures() -> Vec<Figure> {
    let lower = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    let higher = |name| Figure::new(name, "%", Better::Higher, Goal::None);
    vec![
        lower("serial_penalty_pct", "%", Goal::Value(PENALTY)),
        lower("serial_penalty_worst_pct", "%", Goal::None),
        lower("fork_join_ns", "ns", Goal::None),
        lower("apart_hop_us", "us", Goal::None),
        lower("patch_bytes_copied", "bytes", Goal::Value(0.0)),
        higher("pairs_parallel_pct"),
        higher("pairs_without_copy_pct"),
    ]
}

pub(super) fn configuration(kind: &str, config: &serde_json::Value) -> Configuration {
    Configuration::new(kind, config.to_string())
}

pub(super) fn file(kind: &str, name: &str, text: &str) -> Configuration {
    configuration(kind, &json!({"file": {"name": name, "text": text}}))
}

/// A function of a kind that is drawn.
fn function(draws: &mut Random) -> Configuration {
    let rules: String =
        (1..=20).map(|port| format!("-A FORWARD -p udp -m udp --sport {port} -j DROP\n")).collect();
    let edge = format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n");
    match draws.below(5) {
        0 => file("firewall", "edge.iptables", &edge),
        1 => file("marker", "classes.yaml", "classes: [{name: all, mark: ef}]"),
        2 => file(
            "policer",
            "classes.yaml",
            "classes: [{name: all, police: {srtcm: {cir: 100gbit, cbs: 1000000000, ebs: 0}}}]",
        ),
        3 => configuration(
            "ids",
            &json!({
                "file": {"name": "web.rules", "text": "alert tcp any any -> any 80 (content:\"abc\"; sid:1;)"},
                "reassembly_mib": 1
            }),
        ),
        _ => configuration("monitor", &json!({})),
    }
}

/// What choosing costs over chains that are cheap, in rounds that take turns.
pub(super) fn penalty(rounds: usize, packets: usize, notes: &mut Notes) -> Measured<()> {
    let threads = FunctionThreads::start(2, false).map_err(|error| wrong("threads", &error))?;
    let mut draws = Random::new(5);
    let mut chains = Vec::new();
    for _ in 0..CHAINS {
        let functions: Vec<Configuration> =
            (0..2 + draws.below(5)).map(|_| function(&mut draws)).collect();
        let lanes = threads.lanes(|| {}).map(|lanes| (lanes, None));
        chains.push([
            Site::new(&functions, FRAME_BYTES, lanes)?,
            Site::new(&functions, FRAME_BYTES, None)?,
        ]);
    }
    let mut clocks = vec![[0_u64; 2]; chains.len()];
    let mut worst: Vec<Vec<f64>> = vec![Vec::new(); chains.len()];
    for round in 0..=rounds {
        eprintln!("bench: serial_penalty_pct, round {round} of {rounds}");
        let mut sums = [0.0; 2];
        for (number, (pair, clocks)) in chains.iter_mut().zip(&mut clocks).enumerate() {
            let mut took = [0.0; 2];
            for turn in 0..2 {
                let which = (turn + round) % 2;
                took[which] = cost_ns(&mut pair[which], &mut clocks[which], packets)?;
            }
            (sums[0], sums[1]) = (sums[0] + took[0], sums[1] + took[1]);
            worst[number].push(100.0 * (took[0] / took[1] - 1.0));
        }
        // The first one warms.
        if round > 0 {
            notes.take("serial_penalty_pct", true, 100.0 * (sums[0] / sums[1] - 1.0));
        }
    }
    let medians = worst.iter().filter_map(|one| median(one.get(1..).unwrap_or_default()));
    if let Some(most) = medians.reduce(f64::max) {
        notes.take("serial_penalty_worst_pct", true, most);
    }
    Ok(())
}

/// Nanoseconds of a packet through a chain.
fn cost_ns(site: &mut Site, clock_ns: &mut u64, packets: usize) -> Measured<f64> {
    let mut out = 0;
    let began = Instant::now();
    for _ in 0..packets / TOGETHER {
        *clock_ns += GAP_NS;
        for number in 0..TOGETHER {
            site.queue(number as u64)?;
        }
        site.forward(*clock_ns);
        site.tick(*clock_ns);
        while site.engine.is_lending() {
            site.take_answers(*clock_ns);
        }
        site.take_out(|_| out += 1);
    }
    let took = began.elapsed().as_nanos() as f64;
    let wanted = packets / TOGETHER * TOGETHER;
    if out != wanted {
        return Err(wrong("the engine", &format!("{out} of {wanted} packets have come out")));
    }
    Ok(took / wanted as f64)
}

/// How much longer a packet takes through two functions that do next to nothing where threads ask them.
pub(super) fn fork_join(samples: usize, notes: &mut Notes) -> Measured<()> {
    const PACKETS: u64 = 2_000;
    let threads = FunctionThreads::start(2, false).map_err(|error| wrong("threads", &error))?;
    let monitor = || configuration("monitor", &json!({}));
    let lanes = |threads: &FunctionThreads| -> Option<(Box<dyn Lanes>, Option<Form>)> {
        threads.lanes(|| {}).map(|lanes| (lanes, Some(Form::Fork)))
    };
    let mut forked = Site::new(&[monitor(), monitor()], FRAME_BYTES, lanes(&threads))?;
    let mut fused = Site::new(&[monitor(), monitor()], FRAME_BYTES, None)?;
    let mut clock_ns = 0;
    let mut one_by_one = |site: &mut Site| -> Measured<f64> {
        let began = Instant::now();
        for number in 0..PACKETS {
            clock_ns += GAP_NS;
            site.queue(number)?;
            site.forward(clock_ns);
            while site.engine.is_lending() {
                site.take_answers(clock_ns);
            }
            site.take_out(|_| {});
        }
        Ok(began.elapsed().as_nanos() as f64 / PACKETS as f64)
    };
    for sample in 0..=samples {
        let took = [one_by_one(&mut forked)?, one_by_one(&mut fused)?];
        if sample > 0 {
            notes.take("fork_join_ns", true, took[0] - took[1]);
        }
    }
    // Memory that a copy would have needed: nobody has taken a buffer beside those in which packets came.
    notes.take("patch_bytes_copied", true, copied(&mut forked)?);
    Ok(())
}

/// How much longer a packet takes through a function that does next to nothing where that has a process of its own.
pub(super) fn apart_hop(samples: usize, notes: &mut Notes) -> Measured<()> {
    const PACKETS: u64 = 2_000;
    let me = std::env::current_exe().map_err(|error| wrong("this program", &error))?;
    // It is built beside this one.
    let program = me.with_file_name("catena");
    let arguments = ["nf", "starter"].map(Into::into).into();
    let starter = StarterProgram { program, arguments };
    let makers = FunctionMakers::embedded(&starter).map_err(|error| wrong("processes", &error))?;
    let monitor = || configuration("monitor", &json!({}));
    let makers: Option<Arc<dyn Makers>> = Some(Arc::new(makers));
    let mut beside = Site::made_by(makers, &[monitor().beside()], FRAME_BYTES, None)?;
    let mut inside = Site::new(&[monitor()], FRAME_BYTES, None)?;
    let mut clock_ns = 0;
    let mut one_by_one = |site: &mut Site| -> Measured<f64> {
        let (began, mut out) = (Instant::now(), 0);
        for number in 0..PACKETS {
            clock_ns += GAP_NS;
            site.queue(number)?;
            site.forward(clock_ns);
            site.take_out(|_| out += 1);
        }
        if out != PACKETS {
            return Err(wrong("the engine", &format!("{out} of {PACKETS} packets came out")));
        }
        Ok(began.elapsed().as_nanos() as f64 / PACKETS as f64)
    };
    for sample in 0..=samples {
        let took = [one_by_one(&mut beside)?, one_by_one(&mut inside)?];
        if sample > 0 {
            notes.take("apart_hop_us", true, (took[0] - took[1]) / 1e3);
        }
    }
    Ok(())
}

/// Bytes of packets that were copied while threads had them: of frames that lie elsewhere than before.
fn copied(site: &mut Site) -> Measured<f64> {
    let mut bytes = 0.0;
    for number in 0..100 {
        let before = site.queue(number)?;
        site.forward(0);
        while site.engine.is_lending() {
            site.take_answers(0);
        }
        let after = site.addresses_out();
        bytes +=
            after.iter().filter(|(at, _)| *at != before).map(|(_, len)| *len as f64).sum::<f64>();
        site.take_out(|_| {});
    }
    Ok(bytes)
}

/// Which of the bundled kinds may stand side by side, by their profiles with plain configurations.
pub(super) fn census(notes: &mut Notes) -> Measured<()> {
    let plain = |kind: &str| match kind {
        "firewall" => file(
            kind,
            "edge.iptables",
            "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n",
        ),
        "ids" | "ips" => {
            file(kind, "web.rules", "alert tcp any any -> any 80 (content:\"abc\"; sid:1;)")
        }
        "marker" => file(kind, "classes.yaml", "classes: [{name: all, mark: ef}]"),
        "policer" => file(
            kind,
            "classes.yaml",
            "classes: [{name: all, police: {srtcm: {cir: 1mbit, cbs: 9000, ebs: 0}}}]",
        ),
        "nat" => configuration(kind, &json!({"masquerade": ["10.0.0.0/8"], "pool": ["192.0.2.1"]})),
        "balancer" => configuration(
            kind,
            &json!({"services": [{
                "name": "web", "address": "192.0.2.9", "protocol": "tcp", "port": 80,
                "backends": [{"address": "10.0.0.1", "port": 80}],
            }]}),
        ),
        _ => configuration(kind, &json!({})),
    };
    let mut profiles = Vec::new();
    let mut left_out = Vec::new();
    for kind in KINDS {
        match registry::make(&plain(kind.name), &Surroundings::default()) {
            Ok(made) => profiles.push(*made.function.profile()),
            Err(error) => left_out.push(format!("{}: {error}", kind.name)),
        }
    }
    if !left_out.is_empty() {
        return Err(wrong("a kind", &left_out.join("; ")));
    }
    let (mut pairs, mut parallel, mut without_copy) = (0.0, 0.0, 0.0);
    for (at, first) in profiles.iter().enumerate() {
        for second in profiles.iter().enumerate().filter(|(other, _)| *other != at).map(|one| one.1)
        {
            pairs += 1.0;
            if let Verdict::Parallel(one) = judge(first, second) {
                parallel += 1.0;
                without_copy += f64::from(u8::from(one.copy == PacketCopy::Nothing));
            }
        }
    }
    notes.take("pairs_parallel_pct", true, 100.0 * parallel / pairs);
    notes.take("pairs_without_copy_pct", true, 100.0 * without_copy / pairs);
    Ok(())
}
