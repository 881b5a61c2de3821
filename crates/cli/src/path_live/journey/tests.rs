//! A chain that is moved, measured and brought back, without anything that runs.

use super::*;
use catena_model::NodeName;
use catena_model::account::ChainCounters;
use catena_model::check::CheckFinding;
use catena_model::id::{BlueprintNumber, ChainId};
use catena_model::setup::Setup;
use catena_model::status::{ChainAtNode, ChainStatus};

const ALL: [Encapsulation; 3] =
    [Encapsulation::Nsh, Encapsulation::Mpls, Encapsulation::SourceRouteNative];

/// A chain that carries as many packets each second as it was told, and takes time for nothing.
struct Field {
    now: Duration,
    carried_by: Encapsulation,
    moves: Vec<Encapsulation>,
    packets_per_second: u64,
    refuses: Option<Encapsulation>,
    /// From the move of this number on no move is made.
    dies_at: usize,
    stopped_at: Option<Duration>,
    /// Somebody else brings it there after each move.
    rival: Option<Encapsulation>,
    delays_ns: Vec<u64>,
    fault: Option<String>,
    receipts: u64,
}

impl Field {
    fn new() -> Self {
        Self {
            now: Duration::ZERO,
            carried_by: Encapsulation::Nsh,
            moves: Vec::new(),
            packets_per_second: 100,
            refuses: None,
            dies_at: usize::MAX,
            stopped_at: None,
            rival: None,
            delays_ns: (1..=16).collect(),
            fault: None,
            receipts: 0,
        }
    }

    fn through(&mut self) -> (Live, Result<(), Failure>) {
        let compared = ALL.map(|encapsulation| Comparison {
            encapsulation,
            trouble: None,
            legs: Vec::new(),
            entries: Vec::new(),
        });
        Journey::begin(self, Duration::from_secs(2)).unwrap().through(&compared)
    }

    fn told(&self) -> ChainReport {
        let chain = ChainId(uuid::Uuid::nil());
        let packets = self.now.as_millis() as u64 * self.packets_per_second / 1_000;
        let finished = Volume { packets, bytes: packets * 125 };
        let path = PathId(self.receipts as u32);
        let node: NodeName = "h4".parse().unwrap();
        let none = Volume::default();
        let counters = ChainCounters {
            chain,
            path,
            entered: finished,
            finished,
            tapped: none,
            pinned_flows: 0,
            tunnelled_out: none,
            tunnelled_in: none,
            dropped: BTreeMap::new(),
            hops: Vec::new(),
            is_partial: false,
        };
        let receipt = (self.receipts > 0).then(|| Receipt {
            chain,
            name: "web".into(),
            blueprint: BlueprintNumber(self.receipts),
            paths: vec![path],
            drained: Vec::new(),
            took_ms: 1,
        });
        ChainReport {
            status: ChainStatus {
                chain,
                state: ChainState::Active,
                reason: String::new(),
                path: Some(path),
            },
            name: "web".into(),
            functions: Vec::new(),
            encapsulation: self.carried_by,
            setup: Setup::default(),
            setups: None,
            telemetry: None,
            via: BTreeMap::new(),
            paths: Vec::new(),
            nodes: vec![ChainAtNode {
                node: Some(node),
                counting_ms: 0,
                counters,
                lost_on_return: Vec::new(),
                lost_in_kernel: BTreeMap::new(),
            }],
            silent: Vec::new(),
            health: Vec::new(),
            receipt,
        }
    }
}

impl Ground for Field {
    fn now(&self) -> Duration {
        self.now
    }

    fn rest(&mut self, rest: Duration) {
        self.now += rest;
    }

    fn is_stopped(&mut self) -> bool {
        self.stopped_at.is_some_and(|at| self.now >= at)
    }

    fn report(&mut self) -> Result<ChainReport, Failure> {
        Ok(self.told())
    }

    fn move_to(&mut self, encapsulation: Encapsulation) -> Result<ChainReport, Failure> {
        if self.refuses == Some(encapsulation) {
            return Err(Failure::failed("its functions speak nsh"));
        }
        if self.moves.len() >= self.dies_at {
            return Err(Failure::failed("nobody answers"));
        }
        self.moves.push(encapsulation);
        let carrier = self.rival.unwrap_or(encapsulation);
        (self.carried_by, self.receipts) = (carrier, self.receipts + 1);
        Ok(self.told())
    }

    fn probe(&mut self) -> Result<CheckReport, Failure> {
        let fault = self.fault.iter().map(|text| CheckFinding {
            is_ok: false,
            text: text.clone(),
            fix: None,
        });
        let (findings, delays_ns) = (fault.collect(), self.delays_ns.clone());
        Ok(CheckReport { chain: "web".into(), findings, delays_ns })
    }

    fn progress(&mut self, _: &str) {}
}

#[test]
fn percentiles_are_values_that_were_seen() {
    let hundred: Vec<u64> = (1..=100).collect();
    assert_eq!((percentile(&hundred, 50), percentile(&hundred, 99)), (Some(50), Some(99)));
    assert_eq!((percentile(&[7], 50), percentile(&[7], 99)), (Some(7), Some(7)));
    assert_eq!((percentile(&[3, 9], 50), percentile(&[3, 9], 99)), (Some(3), Some(9)));
    assert_eq!(percentile(&[], 50), None);
    assert_eq!(Delay::of(vec![5, 1, 9]), Some(Delay { probes: 3, p50_ns: 5, p99_ns: 9 }));
    assert_eq!(Delay::of(Vec::new()), None);
}

#[test]
fn a_chain_is_measured_with_each_and_ends_where_it_began() {
    let mut field = Field::new();
    let (live, outcome) = field.through();
    assert!(outcome.is_ok());
    // It was there already at first.
    assert_eq!(field.moves, [ALL[1], ALL[2], ALL[0]]);
    assert_eq!(live.measured.iter().map(|one| one.encapsulation).collect::<Vec<_>>(), ALL);
    for (place, one) in live.measured.iter().enumerate() {
        assert_eq!((&one.trouble, one.dropped), (&None, 0));
        let rate = one.packets_per_second.unwrap();
        assert!((rate - 100.0).abs() < 1.0, "{rate}");
        assert!((one.bits_per_second.unwrap() - 100_000.0).abs() < 1_000.0);
        assert_eq!(one.delay, Some(Delay { probes: 32, p50_ns: 8, p99_ns: 16 }));
        let blueprint = one.receipt.as_ref().map(|receipt| receipt.blueprint.0);
        assert_eq!(blueprint, (place > 0).then_some(place as u64));
    }
    assert_eq!(live.receipt.unwrap().blueprint, BlueprintNumber(3));
}

#[test]
fn packets_are_counted_when_no_probe_is_looked_for() {
    let mut field = Field::new();
    assert!(field.through().1.is_ok());
    // Three times two seconds of counting, one round of probes each, and the two rests behind probes.
    assert!(field.now >= 3 * Duration::from_secs(2) + 2 * PROBES_FORGOTTEN, "{:?}", field.now);
}

#[test]
fn what_is_refused_is_a_row_with_its_reason_and_the_others_are_measured() {
    let mut field = Field { refuses: Some(Encapsulation::Mpls), ..Field::new() };
    let (live, outcome) = field.through();
    assert!(outcome.is_ok());
    assert_eq!(live.measured[1].trouble.as_deref(), Some("its functions speak nsh"));
    assert!(live.measured[2].packets_per_second.is_some());
    assert_eq!(field.carried_by, Encapsulation::Nsh);
}

#[test]
fn what_nobody_sends_and_nobody_times_is_not_made_up() {
    let fault = Some("path 1: 16 of 16 probes dropped at h2: no_route".to_owned());
    let mut field = Field {
        packets_per_second: 0,
        delays_ns: Vec::new(),
        fault: fault.clone(),
        ..Field::new()
    };
    let (live, _) = field.through();
    for one in &live.measured {
        assert_eq!((one.packets_per_second, one.bits_per_second), (None, None));
        assert_eq!((&one.delay, &one.no_delay), (&None, &fault));
    }
    field.fault = None;
    let (live, _) = field.through();
    let why = live.measured[0].no_delay.as_deref().unwrap();
    assert!(why.contains("clocks of their own"), "{why}");
}

#[test]
fn probes_that_did_not_arrive_are_told_beside_the_figures_of_the_others() {
    let fault = Some("path 1: 12 of 16 probes dropped at h2: no_route".to_owned());
    let mut field = Field { fault: fault.clone(), ..Field::new() };
    let (live, _) = field.through();
    for one in &live.measured {
        assert_eq!((one.delay.is_some(), &one.no_delay), (true, &fault));
    }
}

#[test]
fn a_chain_that_somebody_else_moves_is_not_fought_over_for_ever() {
    let mut field = Field { rival: Some(Encapsulation::Mpls), ..Field::new() };
    let (_, outcome) = field.through();
    let said = outcome.unwrap_err().message;
    assert!(said.contains("nsh: somebody else moves it to mpls. Do it by hand"), "{said}");
}

#[test]
fn whoever_stops_it_finds_the_chain_where_it_was() {
    let whole = {
        let mut field = Field::new();
        assert!(field.through().1.is_ok());
        field.now
    };
    let mut stopped_away = 0;
    for at in (0..whole.as_millis() as u64).step_by(70) {
        let stopped_at = Some(Duration::from_millis(at));
        let mut field = Field { stopped_at, ..Field::new() };
        let (live, outcome) = field.through();
        assert_eq!(field.carried_by, Encapsulation::Nsh, "stopped after {at} ms");
        // What comes behind the last measurement stops nothing any more.
        if live.measured.len() < ALL.len() {
            let said = outcome.unwrap_err().message;
            assert_eq!(said, "stopped: chain 'web' is over nsh again, as before");
        }
        stopped_away += usize::from(!field.moves.is_empty());
    }
    assert!(stopped_away > 10);
}

#[test]
fn a_chain_that_cannot_be_brought_back_is_told_with_what_to_do() {
    let mut field = Field { dies_at: 1, ..Field::new() };
    let (live, outcome) = field.through();
    assert_eq!(live.measured[2].trouble.as_deref(), Some("nobody answers"));
    let said = outcome.unwrap_err().message;
    assert_eq!(
        said,
        "chain 'web' could not be brought back to nsh: nobody answers. Do it by hand: catena chain update web \
         --encapsulation nsh"
    );
}
