//! Queues in numbers, without a controller: how long packets wait for functions and stay with them. Knows how to ask
//! and tell; refuses to calculate.

use crate::failure::Failure;
use crate::output::{Format, block, table, tell};
use catena_plan::queueing::{
    ForkJoin, Mmc, QueueError, Scv, Simulated, Simulation, Stage, Station, Tandem, mgc_wait,
    priority_waits, separate_wait,
};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

/// Packets of a simulation.
const PACKETS: usize = 1_000_000;
/// A packet takes some fifty bytes of memory.
const PACKETS_MAX: u64 = 10_000_000;

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// One function with several servers behind one queue (M/M/c; with coefficients of variation G/G/c).
    Queue(QueueArguments),
    /// Functions one behind the other.
    Tandem(RatesArguments),
    /// Functions side by side: a packet goes on when the last one is done with it.
    ForkJoin(RatesArguments),
}

#[derive(Args)]
pub(crate) struct QueueArguments {
    /// Packets that come, a second.
    #[arg(long, value_name = "RATE")]
    lambda: f64,
    /// Packets that one server serves, a second.
    #[arg(long, value_name = "RATE")]
    mu: f64,
    /// Servers.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 1)]
    servers: u32,
    /// How arrivals vary: their variance beside the square of their mean (1: Poisson).
    #[arg(long, value_name = "SCV", default_value_t = 1.0)]
    ca2: f64,
    /// How service times vary (0: not at all, 1: as exponential ones).
    #[arg(long, value_name = "SCV", default_value_t = 1.0)]
    cs2: f64,
    /// Of what comes, the rates of classes, the first of which goes first; their sum is --lambda.
    #[arg(long, value_name = "RATES", value_delimiter = ',', conflicts_with = "simulate")]
    priorities: Vec<f64>,
    #[command(flatten)]
    told: ToldArguments,
}

#[derive(Args)]
pub(crate) struct RatesArguments {
    /// Packets that come, a second.
    #[arg(long, value_name = "RATE")]
    lambda: f64,
    /// What each function serves, a second.
    #[arg(long, value_name = "RATES", value_delimiter = ',', required = true)]
    mus: Vec<f64>,
    #[command(flatten)]
    told: ToldArguments,
}

#[derive(Args)]
struct ToldArguments {
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Simulate it, too.
    #[arg(long)]
    simulate: bool,
    /// Packets of the simulation, ten million at most; the first tenth is not told.
    #[arg(long, value_name = "N", requires = "simulate", default_value_t = PACKETS as u64,
          value_parser = clap::value_parser!(u64).range(1..=PACKETS_MAX))]
    packets: u64,
    /// By which the simulation draws: the same number gives the same run.
    #[arg(long, value_name = "N", requires = "simulate", default_value_t = 1)]
    seed: u64,
}

impl ModelCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (told, output) = match self {
            Self::Queue(arguments) => (queue(arguments), arguments.told.output),
            Self::Tandem(arguments) => (tandem(arguments), arguments.told.output),
            Self::ForkJoin(arguments) => (fork_join(arguments), arguments.told.output),
        };
        show(&told?, output)
    }
}

/// One function.
fn queue(arguments: &QueueArguments) -> Result<Map<String, Value>, QueueError> {
    let QueueArguments { lambda, mu, servers, .. } = *arguments;
    let queue = Mmc::new(lambda, mu, servers)?;
    let (arrivals, services) = (Scv::new(arguments.ca2)?, Scv::new(arguments.cs2)?);
    let mut told = Map::new();
    let mut put = |key: &str, value: Value| told.insert(key.to_owned(), value);
    put("lam", json!(lambda));
    put("mu", json!(mu));
    put("c", json!(servers));
    put("a", json!(queue.offered_load()));
    put("rho", json!(queue.utilization()));
    let is_exponential = arguments.ca2 == 1.0 && arguments.cs2 == 1.0;
    if is_exponential {
        put("p_wait", json!(queue.waiting_probability()));
        put("Lq", json!(queue.mean_waiting()));
        put("L", json!(queue.mean_number()));
        put("Wq", json!(queue.mean_wait()));
        put("W", json!(queue.mean_sojourn()));
        put("p0", json!(queue.empty_probability()));
        for (key, part) in [("p95", 0.95), ("p99", 0.99)] {
            put(&format!("Wq_{key}"), json!(queue.wait_quantile(part)?));
            put(&format!("W_{key}"), json!(queue.sojourn_quantile(part)?));
        }
        put("Wq_separate_queues", json!(separate_wait(lambda, mu, servers)?));
    } else {
        let wait = mgc_wait(&queue, arrivals, services);
        put("ca2", json!(arguments.ca2));
        put("cs2", json!(arguments.cs2));
        put("Wq", json!(wait));
        put("W", json!(wait + 1.0 / mu));
    }
    if !arguments.priorities.is_empty() {
        let classes = &arguments.priorities;
        let sum: f64 = classes.iter().sum();
        if (sum - lambda).abs() > 1e-9 * lambda || !is_exponential {
            return Err(QueueError::NotANumber {
                what: "the sum of --priorities",
                value: sum,
                wanted: "--lambda, with neither --ca2 nor --cs2",
            });
        }
        put("Wq_by_priority", json!(priority_waits(classes, mu, servers)?));
    }
    if arguments.ca2 == 1.0 || !arguments.told.simulate {
        let members = vec![Station::new(1.0 / mu, services, servers)?];
        arguments.told.tell(lambda, vec![Stage { members }], &mut told)?;
        return Ok(told);
    }
    Err(QueueError::NotANumber {
        what: "--ca2",
        value: arguments.ca2,
        wanted: "1, as arrivals of simulations are a Poisson process",
    })
}

fn tandem(arguments: &RatesArguments) -> Result<Map<String, Value>, QueueError> {
    let RatesArguments { lambda, mus, told: how } = arguments;
    let stages: Vec<(f64, u32)> = mus.iter().map(|mu| (*mu, 1)).collect();
    let tandem = Tandem::new(*lambda, &stages)?;
    let mut told = Map::new();
    told.insert("lam".into(), json!(lambda));
    told.insert("mus".into(), json!(mus));
    told.insert("W".into(), json!(tandem.mean_sojourn()));
    for (key, part) in [("W_p95", 0.95), ("W_p99", 0.99)] {
        told.insert(key.into(), json!(tandem.sojourn_quantile(part)?));
    }
    let member = |mu: &f64| Station::new(1.0 / mu, Scv::EXPONENTIAL, 1);
    let stage = |mu: &f64| member(mu).map(|member| Stage { members: vec![member] });
    how.tell(*lambda, mus.iter().map(stage).collect::<Result<_, _>>()?, &mut told)?;
    Ok(told)
}

fn fork_join(arguments: &RatesArguments) -> Result<Map<String, Value>, QueueError> {
    let RatesArguments { lambda, mus, told: how } = arguments;
    let stage = ForkJoin::new(*lambda, mus)?;
    let mut told = Map::new();
    for (key, value) in [
        ("lam", json!(lambda)),
        ("mus", json!(mus)),
        ("K", json!(mus.len())),
        ("exact_if_K2", json!(stage.exact())),
        ("nelson_tantawi", json!(stage.nelson_tantawi())),
        ("varma_makowski", json!(stage.varma_makowski())),
        ("independent_upper", json!(stage.upper_bound())),
        ("service_only_lower", json!(stage.services())),
        ("lower", json!(stage.lower_bound())),
        ("serial_tandem_mean", json!(stage.serial())),
    ] {
        told.insert(key.into(), value);
    }
    let member = |mu: &f64| Station::new(1.0 / mu, Scv::EXPONENTIAL, 1);
    let members = mus.iter().map(member).collect::<Result<_, _>>()?;
    how.tell(*lambda, vec![Stage { members }], &mut told)?;
    Ok(told)
}

impl ToldArguments {
    /// Adds what a simulation has seen, if one was asked for.
    fn tell(
        &self,
        lambda: f64,
        stages: Vec<Stage>,
        told: &mut Map<String, Value>,
    ) -> Result<(), QueueError> {
        if !self.simulate {
            return Ok(());
        }
        let packets = usize::try_from(self.packets).unwrap_or(usize::MAX);
        let seen: Simulated = Simulation::new(lambda, stages)?.run(packets, self.seed);
        told.insert("simulated".into(), json!(seen.mean_sojourn()));
        told.insert("simulated_wait".into(), json!(seen.mean_wait()));
        for (key, part) in [("simulated_p95", 0.95), ("simulated_p99", 0.99)] {
            told.insert(key.into(), json!(seen.sojourn_quantile(part)?));
        }
        Ok(())
    }
}

/// What each figure is.
const MEANINGS: [(&str, &str); 32] = [
    ("lam", "packets that come, a second"),
    ("mu", "packets that one server serves, a second"),
    ("mus", "packets that each serves, a second"),
    ("c", "servers"),
    ("K", "functions side by side"),
    ("a", "servers that work, in the mean"),
    ("rho", "share of its time that a server works"),
    ("ca2", "squared coefficient of variation of arrivals"),
    ("cs2", "squared coefficient of variation of services"),
    ("p_wait", "share of packets that wait"),
    ("p0", "share of time without a packet"),
    ("Lq", "packets that wait, in the mean"),
    ("L", "packets there, in the mean"),
    ("Wq", "wait of a packet in seconds, in the mean"),
    ("Wq_p95", "wait that 95 of 100 packets do not exceed"),
    ("Wq_p99", "wait that 99 of 100 packets do not exceed"),
    ("W", "stay of a packet in seconds, in the mean"),
    ("W_p95", "stay that 95 of 100 packets do not exceed"),
    ("W_p99", "stay that 99 of 100 packets do not exceed"),
    ("Wq_separate_queues", "wait in the mean, with a queue for each server"),
    ("Wq_by_priority", "wait in the mean, of each class"),
    ("exact_if_K2", "stay in the mean; known of one or two equal ones"),
    ("nelson_tantawi", "stay in the mean, of equal ones, by Nelson and Tantawi"),
    ("varma_makowski", "stay in the mean, of equal ones, by Varma and Makowski"),
    ("independent_upper", "no mean stay is above"),
    ("service_only_lower", "no mean stay is below, for services alone"),
    ("lower", "no mean stay is below"),
    ("serial_tandem_mean", "stay in the mean, one behind the other"),
    ("simulated", "stay in the mean, simulated"),
    ("simulated_wait", "wait in the mean, simulated"),
    ("simulated_p95", "stay that 95 of 100 do not exceed, simulated"),
    ("simulated_p99", "stay that 99 of 100 do not exceed, simulated"),
];

fn show(told: &Map<String, Value>, output: Format) -> Result<(), Failure> {
    tell(output, told, |_| {
        let mut shown = table(["figure", "value", "meaning"]);
        for (key, value) in told {
            let meaning = MEANINGS.iter().find(|(name, _)| name == key);
            let meaning = meaning.map_or("", |(_, meaning)| meaning);
            shown.add_row([key.as_str(), &cell(value), meaning]);
        }
        block(shown);
    })
}

/// Six digits behind the point, or six in all of what is very small or large; nothing where nothing is known.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, digits)
        }
        other => other.to_string(),
    }
}

fn digits(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e9).contains(&value.abs()) {
        return format!("{value:.5e}");
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: ModelCommand,
    }

    fn told(words: &[String]) -> Result<Map<String, Value>, String> {
        let line = ["model".to_owned()].into_iter().chain(words.iter().cloned());
        let line = Line::try_parse_from(line).map_err(|error| error.to_string())?;
        match &line.command {
            ModelCommand::Queue(arguments) => queue(arguments),
            ModelCommand::Tandem(arguments) => tandem(arguments),
            ModelCommand::ForkJoin(arguments) => fork_join(arguments),
        }
        .map_err(|error| error.to_string())
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// All numbers of a case, but those of others' simulations and of the paper.
    fn holds(case: &Value, words: &[String]) {
        let told = told(words).unwrap();
        for (key, expected) in case.as_object().unwrap() {
            if key.starts_with("simulated") || key.starts_with("paper") || key == "mu" {
                continue;
            }
            let found = told.get(key).unwrap_or_else(|| panic!("no {key} of {words:?}"));
            match expected.as_f64() {
                Some(expected) => {
                    let found = found.as_f64().unwrap();
                    assert!(
                        (found - expected).abs() <= 1e-6 * expected.abs(),
                        "{key}: {found}, {case}"
                    );
                }
                None => {
                    assert_eq!(found.to_string(), expected.to_string().replace(".0", ""), "{key}");
                }
            }
        }
        for key in told.keys() {
            assert!(MEANINGS.iter().any(|(name, _)| name == key), "what is {key}?");
        }
    }

    #[test]
    fn what_is_told_has_the_names_and_numbers_of_the_vectors() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../conformance/plan/queueing.json")).unwrap();
        for case in vectors["mmc"].as_array().unwrap() {
            let line =
                format!("queue --lambda {} --mu {} -c {}", case["lam"], case["mu"], case["c"]);
            holds(case, &words(&line));
        }
        for case in vectors["fork_join"].as_array().unwrap() {
            let members = usize::try_from(case["K"].as_u64().unwrap()).unwrap();
            let mus = vec![case["mu"].to_string(); members].join(",");
            holds(case, &words(&format!("fork-join --lambda {} --mus {mus}", case["lam"])));
        }
        for case in vectors["tandem"].as_array().unwrap() {
            let mus = case["mus"].as_array().unwrap().iter().map(Value::to_string);
            let mus = mus.collect::<Vec<_>>().join(",");
            let told =
                told(&words(&format!("tandem --lambda {} --mus {mus}", case["lam"]))).unwrap();
            for key in ["W", "W_p95", "W_p99"] {
                let (found, expected) = (told[key].as_f64().unwrap(), case[key].as_f64().unwrap());
                assert!((found - expected).abs() <= 1e-6 * expected, "{key} of {case}");
            }
        }
    }

    #[test]
    fn what_varies_otherwise_has_a_mean_alone_and_classes_wait_by_turns() {
        let of = |line: &str| told(&words(line)).unwrap();
        let told = of("queue --lambda 3.6 --mu 1 -c 4 --cs2 0");
        assert!((told["Wq"].as_f64().unwrap() - 0.984_691_580_369_203_5).abs() < 1e-9);
        assert!(told.get("W_p99").is_none());
        let told = of("queue --lambda 3 --mu 1 -c 4 --priorities 1,2");
        let waits = told["Wq_by_priority"].as_array().unwrap();
        assert!(waits.len() == 2 && waits[0].as_f64() < waits[1].as_f64(), "{waits:?}");
        let line = "queue --lambda 0.5 --mu 1 --simulate --packets 200000 --seed 3";
        let seen = of(line);
        assert!((seen["simulated"].as_f64().unwrap() - 2.0).abs() < 0.1, "{seen:?}");
    }

    #[test]
    fn what_has_no_answer_is_refused() {
        for (line, part) in [
            ("queue --lambda 2 --mu 1 -c 2", "add servers"),
            ("queue --lambda 3 --mu 1 -c 4 --priorities 1,1", "the sum of --priorities is 2"),
            ("queue --lambda 3 --mu 1 -c 4 --ca2 2 --simulate", "--ca2 is 2"),
            ("queue --lambda 3 --mu 1 -c 4 --cs2=-1", "squared coefficient of variation is -1"),
            ("queue --lambda x --mu 1", "--lambda"),
            ("queue --lambda 3 --mu 1 -c 4 --priorities 1,2 --simulate", "--priorities"),
            ("queue --lambda 0.5 --mu 1 --cs2 1e20 --simulate", "from 0.001 to 1000"),
            ("tandem --lambda 1 --mus 2,0.5", "no steady state"),
            ("fork-join --lambda 1 --mus 2,,3", "--mus"),
            ("fork-join --lambda 1", "--mus"),
            ("tandem --lambda 1 --mus 2 --packets 5", "--simulate"),
        ] {
            let error = told(&words(line)).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
