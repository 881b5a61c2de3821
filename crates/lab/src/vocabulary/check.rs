//! The one vocabulary of checks and goals. Knows their grammar; refuses to know how a value is
//! measured.

use super::units::{BitRate, Seconds};
use std::fmt;

/// A statement about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// As written in the file.
    pub text: String,
    /// What it says.
    pub claim: Claim,
}

/// What a statement says.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// `order`: the independent proof found each packet at exactly its functions, in order, once.
    Order,
    /// `interfaces`: each function's own interface counted what its chains counted for it.
    Interfaces,
    /// `hops`: each function got, and gave back, every packet that entered its chain.
    Hops,
    /// `paths`: the independent proof found each packet of our own generator at exactly one
    /// instance of each function, in order, once; copies once at each tap; answers of a symmetric
    /// chain at the same instances in reverse order.
    Paths,
    /// `shares within 2`: of the flows of each function with several instances, each instance has
    /// what its weight says, within so many percentage points.
    Shares {
        /// Percentage points.
        within: f64,
    },
    /// `moves`: a change of the instances moved only the flows that it must.
    Moves,
    /// `streams`: the independent proof found each sampled packet of a TCP stream at the functions of
    /// its chain, in order, and at no other.
    Streams,
    /// `both_versions`: in each update packets were seen on the old version and on the new one.
    BothVersions,
    /// `users`: each frame of a 5G user, and each beside it, came once, whole and in order; and the
    /// independent proof found a frame of each slice at the functions of its tenant's chain, in order.
    Users,
    /// `route`: the independent proof found each source-routed frame at exactly the switches that its
    /// ports lead to, in order, with a counter one less at each and the same bytes behind it.
    Route,
    /// `forged`: the independent proof saw no frame with a header of source routes travel that an endpoint or a
    /// function sent, or that came by a link at whose other end no node is; and each was counted under its
    /// name.
    Forged,
    /// `telemetry`: the independent proof found each field of each record that packets took along true, by captures of
    /// what came in from other nodes and at functions and endpoints, and nothing of it at these.
    Telemetry,
    /// `stateless`: each switch that is no edge holds what it held before there were chains, but for what it counts.
    Stateless,
    /// `sum v4 = v1 + v2`: in packets, at the functions' egress.
    Sum {
        /// The function that carries the sum.
        whole: String,
        /// The functions whose packets it carries.
        parts: Vec<String>,
    },
    /// `expected`: each program of traffic ended as it should.
    Expected,
    /// `alerts ids == 12`, `alerts ids 1000001 == 3`, `denied edge == 5`: in each run.
    Function {
        /// What is counted.
        what: FunctionCount,
        /// The bundled function.
        function: String,
        /// How it must compare.
        relation: Relation,
        /// With what.
        value: f64,
    },
    /// `verdicts edge`: an independent evaluator of its rules let the same packets pass as this firewall, and met each
    /// rule as often.
    Verdicts {
        /// The firewall.
        function: String,
    },
    /// `same_as apart inside`: the programs for the one chain ended as those for the other, and as many alerts of each
    /// rule were told, and as many packets ended, where both are counted.
    SameAs {
        /// The one chain.
        one: String,
        /// The other.
        other: String,
    },
    /// `recovered`: each function that was killed ran again.
    Recovered,
    /// `predicted`: of each chain whose datagrams were timed, `catena chain show` tells, from measured times of all
    /// its functions, how long they take in the mean. `predicted within 10 above bare`: and it is so, to so many
    /// percent, beyond what they take through the chain of this name.
    Predicted {
        /// Percent, and that chain; none: any.
        within: Option<(f64, String)>,
    },
    /// `METRIC [NAME] RELATION VALUE`.
    Compare {
        /// What is measured.
        metric: Metric,
        /// The traffic or chain it is measured on; none: all.
        subject: Option<String>,
        /// How it must compare.
        relation: Relation,
        /// With what, in the metric's unit.
        value: f64,
    },
}

/// What is counted of a bundled function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionCount {
    /// The alerts that it told: of one rule by its sid, or all.
    Alerts(Option<u32>),
    /// The packets that its rules ended.
    Denied,
}

/// What can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Packets lost by a traffic.
    Loss,
    /// Bit/s at the receiver of a traffic or chain.
    Throughput,
    /// What the accounting identity leaves over, summed over all nodes as absolute values.
    Unaccounted,
    /// Frames that rings or sockets lost before they were received.
    RingFull,
    /// Seconds that each added function adds to a deployment.
    DeployPerFunction,
    /// Round trips without an answer.
    Unanswered,
    /// Updates made.
    Changes,
    /// Updates whose old path was found empty by counting.
    Receipts,
    /// Packets sent during updates and never seen at the destination, from captures.
    Lost,
    /// Packets seen twice anywhere during updates, from captures.
    Duplicated,
    /// Packets that took no version in force whole, from captures.
    Mixed,
    /// Packets that a later one on the same version has passed somewhere, from captures.
    Overtaken,
    /// Seconds in which a stream of ours did not move.
    Stalled,
    /// Streams of ours that were reset, or whose bytes arrived wrong.
    Broken,
    /// A slice's p99 delay beside one that floods over its value alone, upper end of the interval.
    Isolation,
    /// How often source-routed frames passed a switch, from captures.
    Passages,
    /// Source routes that went round a dead cable by what their frames brought with them, from captures.
    Detours,
    /// The longest outage after a cable was cut or fell silent, in milliseconds.
    Detour,
    /// Datagrams that a later one of their flow has passed, more than a second after a fault.
    OvertakenLate,
    /// Datagrams lost beyond what was dropped by name and what cables did not bring.
    Unnamed,
    /// How often a node held a neighbour for silent whose cable was whole.
    FalseAlarms,
    /// What 99 of a hundred set-ups of flows did not exceed, in microseconds; of several runs the worst.
    Setup,
    /// The same of making the header alone.
    SetupHeader,
    /// The same of what the data plane did.
    SetupEdge,
    /// Flows that the controller was asked for and did not answer for.
    Unset,
    /// Bytes from edges to the controller for each flow that it answered for, as the kernel counts them on their
    /// connections; of several runs the worst.
    SouthboundUp,
    /// The same from the controller to edges.
    SouthboundDown,
    /// Seconds until the lab stood without chains.
    Start,
    /// Processor time of all processes of the lab while it stood so, in hundredths of one processor.
    Idle,
    /// Memory of all of them at the end, in MiB.
    Memory,
    /// That of the data plane of a switch, of several the greatest, in MiB.
    SwitchMemory,
}

impl Metric {
    const ALL: [(&'static str, Metric); 31] = [
        ("loss", Metric::Loss),
        ("throughput", Metric::Throughput),
        ("unaccounted", Metric::Unaccounted),
        ("ring_full", Metric::RingFull),
        ("deploy_per_function", Metric::DeployPerFunction),
        ("unanswered", Metric::Unanswered),
        ("changes", Metric::Changes),
        ("receipts", Metric::Receipts),
        ("lost", Metric::Lost),
        ("duplicated", Metric::Duplicated),
        ("mixed", Metric::Mixed),
        ("overtaken", Metric::Overtaken),
        ("stalled", Metric::Stalled),
        ("broken", Metric::Broken),
        ("isolation", Metric::Isolation),
        ("passages", Metric::Passages),
        ("detours", Metric::Detours),
        ("detour_ms", Metric::Detour),
        ("overtaken_late", Metric::OvertakenLate),
        ("unnamed", Metric::Unnamed),
        ("false_alarms", Metric::FalseAlarms),
        ("setup_us", Metric::Setup),
        ("setup_header_us", Metric::SetupHeader),
        ("setup_edge_us", Metric::SetupEdge),
        ("unset", Metric::Unset),
        ("southbound_up_bytes", Metric::SouthboundUp),
        ("southbound_down_bytes", Metric::SouthboundDown),
        ("start_seconds", Metric::Start),
        ("idle_percent", Metric::Idle),
        ("memory_mib", Metric::Memory),
        ("switch_mib", Metric::SwitchMemory),
    ];

    /// A value with the metric's unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Throughput if value >= 1e9 => format!("{:.2} Gbit/s", value / 1e9),
            Self::Throughput => format!("{:.2} Mbit/s", value / 1e6),
            Self::DeployPerFunction => format!("{:.2} ms", value * 1e3),
            Self::Loss
            | Self::Unaccounted
            | Self::RingFull
            | Self::Lost
            | Self::Duplicated
            | Self::Mixed
            | Self::Overtaken
            | Self::OvertakenLate
            | Self::Unnamed => format!("{value:.0} packets"),
            Self::Isolation => format!("{value:.3} ×"),
            Self::Stalled => format!("{value:.0} s"),
            Self::Detour => format!("{value:.0} ms"),
            Self::Setup | Self::SetupHeader | Self::SetupEdge => format!("{value:.1} µs"),
            Self::Unset => format!("{value:.0} flows"),
            Self::SouthboundUp | Self::SouthboundDown => format!("{value:.0} bytes"),
            Self::Start => format!("{value:.1} s"),
            Self::Idle => format!("{value:.1} % of one processor"),
            Self::Memory | Self::SwitchMemory => format!("{value:.0} MiB"),
            Self::Unanswered
            | Self::Changes
            | Self::Receipts
            | Self::Broken
            | Self::FalseAlarms
            | Self::Passages
            | Self::Detours => format!("{value:.0}"),
        }
    }
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `==`
    Equal,
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
}

impl Relation {
    fn parse(text: &str) -> Result<Self, (String, &'static str)> {
        match text {
            "==" => Ok(Self::Equal),
            ">=" => Ok(Self::AtLeast),
            "<=" => Ok(Self::AtMost),
            other => Err((format!("'{other}' is not a comparison"), FORMS)),
        }
    }

    /// Does it hold?
    #[must_use]
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => (left - right).abs() < f64::EPSILON,
            Self::AtLeast => left >= right,
            Self::AtMost => left <= right,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "==",
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
        })
    }
}

const FORMS: &str = "write 'order', 'interfaces', 'hops', 'paths', 'shares within 2', 'moves', \
    'both_versions', 'streams', 'users', 'route', 'forged', 'telemetry', 'stateless', 'expected', 'sum v4 = v1 + v2', \
    'alerts ids [SID] == 12', 'denied edge == 5', 'verdicts edge', 'same_as apart inside', 'recovered', \
    'predicted', 'predicted within 10 above bare', or METRIC [NAME] ==|>=|<= VALUE with a metric of loss, \
    throughput, unaccounted, ring_full, deploy_per_function, unanswered, changes, receipts, lost, \
    duplicated, mixed, overtaken, stalled, broken, isolation, passages, detours, detour_ms, overtaken_late, \
    unnamed, false_alarms, setup_us, setup_header_us, setup_edge_us, unset, southbound_up_bytes, \
    southbound_down_bytes, start_seconds, idle_percent, memory_mib, switch_mib";

impl Statement {
    /// Is it about what the lab takes of its machine?
    #[must_use]
    pub fn is_of_footprint(&self) -> bool {
        let own = [Metric::Start, Metric::Idle, Metric::Memory, Metric::SwitchMemory];
        matches!(&self.claim, Claim::Compare { metric, .. } if own.contains(metric))
    }

    /// Reads one statement.
    ///
    /// # Errors
    /// What is wrong and the legal forms.
    pub fn parse(text: &str) -> Result<Self, (String, &'static str)> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let claim = match words.as_slice() {
            ["order"] => Claim::Order,
            ["paths"] => Claim::Paths,
            ["moves"] => Claim::Moves,
            ["both_versions"] => Claim::BothVersions,
            ["streams"] => Claim::Streams,
            ["users"] => Claim::Users,
            ["route"] => Claim::Route,
            ["forged"] => Claim::Forged,
            ["telemetry"] => Claim::Telemetry,
            ["stateless"] => Claim::Stateless,
            ["shares", "within", points] => Claim::Shares {
                within: points
                    .parse()
                    .map_err(|_| (format!("'{points}' is not a number of points"), FORMS))?,
            },
            ["interfaces"] => Claim::Interfaces,
            ["expected"] => Claim::Expected,
            ["alerts", function, relation, value] => {
                counted(FunctionCount::Alerts(None), function, relation, value)?
            }
            ["alerts", function, sid, relation, value] => {
                let sid = sid.parse().map_err(|_| (format!("'{sid}' is not a sid"), FORMS))?;
                counted(FunctionCount::Alerts(Some(sid)), function, relation, value)?
            }
            ["denied", function, relation, value] => {
                counted(FunctionCount::Denied, function, relation, value)?
            }
            ["verdicts", function] => Claim::Verdicts { function: (*function).to_owned() },
            ["same_as", one, other] => {
                Claim::SameAs { one: (*one).to_owned(), other: (*other).to_owned() }
            }
            ["recovered"] => Claim::Recovered,
            ["predicted"] => Claim::Predicted { within: None },
            ["predicted", "within", percent, "above", chain] => {
                Claim::Predicted { within: Some((number(percent)?, (*chain).to_owned())) }
            }
            ["hops"] => Claim::Hops,
            ["sum", whole, "=", parts @ ..] => parse_sum(text, whole, parts)?,
            [metric, relation, value] => compare(metric, None, relation, value)?,
            [metric, subject, relation, value] => compare(metric, Some(subject), relation, value)?,
            _ => return Err((format!("'{text}' is not a statement"), FORMS)),
        };
        Ok(Self { text: text.to_owned(), claim })
    }
}

fn parse_sum(text: &str, whole: &str, parts: &[&str]) -> Result<Claim, (String, &'static str)> {
    let is_alternating = parts.len() % 2 == 1
        && parts.iter().enumerate().all(|(at, word)| (at % 2 == 1) == (*word == "+"));
    if !is_alternating {
        return Err((format!("'{text}' is not a sum"), FORMS));
    }
    let parts = parts.iter().step_by(2).map(|&part| part.to_owned()).collect();
    Ok(Claim::Sum { whole: whole.to_owned(), parts })
}

fn number(text: &str) -> Result<f64, (String, &'static str)> {
    text.parse().map_err(|_| (format!("'{text}' is not a number"), FORMS))
}

fn counted(
    what: FunctionCount,
    function: &str,
    relation: &str,
    value: &str,
) -> Result<Claim, (String, &'static str)> {
    let (relation, value) = (Relation::parse(relation)?, number(value)?);
    Ok(Claim::Function { what, function: function.to_owned(), relation, value })
}

fn compare(
    metric: &str,
    subject: Option<&str>,
    relation: &str,
    value: &str,
) -> Result<Claim, (String, &'static str)> {
    let metric = Metric::ALL
        .into_iter()
        .find(|(name, _)| *name == metric)
        .map(|(_, metric)| metric)
        .ok_or_else(|| (format!("'{metric}' is not a metric"), FORMS))?;
    let relation = Relation::parse(relation)?;
    let value = match metric {
        Metric::Throughput => {
            BitRate::parse(value).map(|rate| rate.0).map_err(|problem| (problem, FORMS))?
        }
        Metric::DeployPerFunction => {
            Seconds::parse(value).map(|time| time.0).map_err(|problem| (problem, FORMS))?
        }
        _ => number(value)?,
    };
    Ok(Claim::Compare { metric, subject: subject.map(str::to_owned), relation, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read_and_others_are_refused_with_the_legal_forms() {
        let claim = |text: &str| Statement::parse(text).map(|statement| statement.claim);
        assert_eq!(claim("order"), Ok(Claim::Order));
        assert_eq!(claim("forged"), Ok(Claim::Forged));
        assert_eq!(claim("predicted"), Ok(Claim::Predicted { within: None }));
        let within = Some((10.0, "bare".to_owned()));
        assert_eq!(claim("predicted within 10 above bare"), Ok(Claim::Predicted { within }));
        assert_eq!(claim("stateless"), Ok(Claim::Stateless));
        assert_eq!(claim("telemetry"), Ok(Claim::Telemetry));
        assert_eq!(
            claim("sum v4 = v1 + v2"),
            Ok(Claim::Sum { whole: "v4".into(), parts: vec!["v1".into(), "v2".into()] })
        );
        assert_eq!(
            claim("throughput C1 >= 1G"),
            Ok(Claim::Compare {
                metric: Metric::Throughput,
                subject: Some("C1".into()),
                relation: Relation::AtLeast,
                value: 1e9
            })
        );
        assert_eq!(
            claim("deploy_per_function <= 10ms"),
            Ok(Claim::Compare {
                metric: Metric::DeployPerFunction,
                subject: None,
                relation: Relation::AtMost,
                value: 0.01
            })
        );
        let counted = |what, function: &str, relation, value| {
            Ok(Claim::Function { what, function: function.into(), relation, value })
        };
        let alerts = FunctionCount::Alerts;
        assert_eq!(claim("alerts ids == 12"), counted(alerts(None), "ids", Relation::Equal, 12.0));
        assert_eq!(
            claim("alerts ids 1000001 >= 3"),
            counted(alerts(Some(1_000_001)), "ids", Relation::AtLeast, 3.0)
        );
        assert_eq!(
            claim("denied edge == 5"),
            counted(FunctionCount::Denied, "edge", Relation::Equal, 5.0)
        );
        assert_eq!(claim("verdicts edge"), Ok(Claim::Verdicts { function: "edge".into() }));
        let same = Claim::SameAs { one: "apart".into(), other: "inside".into() };
        assert_eq!(claim("same_as apart inside"), Ok(same));
        for bad in [
            "predicted within 10",
            "predicted 10",
            "verdicts",
            "verdicts edge == 3",
            "same_as apart",
            "recovered == 1",
        ] {
            assert!(claim(bad).is_err(), "{bad}");
        }
        for bad in ["alerts == 3", "alerts ids seen == 3", "denied edge 5", "expected == 1"] {
            assert!(claim(bad).is_err(), "{bad}");
        }
        for bad in ["", "orders", "loss == many", "loss ~ 3", "sum v4 = v1 +", "sum v4 = + v1"] {
            assert!(claim(bad).is_err(), "{bad}");
        }
    }
}
