//! What is on the screen after which keys, over two readings of known counters.

use super::draw;
use crate::top::sample::Sample;
use crate::top::screen::{Next, Screen};
use catena_model::account::{Account, Volume};
use catena_model::delays::ChainDelays;
use catena_model::id::{BlueprintNumber, ChainId, InstanceId, PathId};
use catena_model::service_time::ServiceTime;
use catena_model::sojourn_time::SojournTime;
use catena_model::status::{ChainState, ChainStatus, ChainSummary, NodeReport, NodeStatus};
use catena_model::{ChainCounters, DropReason, HopCounters, NodeCounters, NodeName};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::{Duration, Instant};

const WEB: ChainId = ChainId(uuid::Uuid::from_u128(1));

fn chain(id: ChainId, name: &str, state: ChainState) -> ChainSummary {
    let reason = if state == ChainState::Active { "" } else { "node 'host9' has never connected" };
    let path = (state == ChainState::Active).then_some(PathId(42));
    ChainSummary {
        name: name.into(),
        status: ChainStatus { chain: id, state, reason: reason.into(), path },
    }
}

fn volume(packets: u64) -> Volume {
    Volume { packets, bytes: packets * 125 }
}

/// A node on which a chain has entered so many packets, of which one in ten was dropped.
fn node(name: &str, is_connected: bool, entered: u64) -> NodeReport {
    let node = NodeName::new(name).unwrap();
    let dropped = [(DropReason::TtlExpired, entered / 10)];
    let tunnels = Account {
        received: volume(entered),
        forwarded: volume(entered - entered / 10),
        dropped: dropped.into(),
        ..Account::default()
    };
    let hop = HopCounters {
        member: 0,
        hop: 0,
        instance: InstanceId(uuid::Uuid::from_u128(7)),
        name: "firewall-1".into(),
        delivered: volume(entered),
        returned: volume(entered - 3),
        rewritten: 0,
        ambiguous: 0,
        bypassed: Volume::default(),
        denied: 0,
        generated: 0,
        service_time: ServiceTime::default(),
        sojourn_time: SojournTime::default(),
    };
    let counters = ChainCounters {
        chain: WEB,
        path: PathId(42),
        entered: volume(entered),
        finished: volume(entered - entered / 10),
        tapped: Volume::default(),
        pinned_flows: 0,
        tunnelled_out: Volume::default(),
        tunnelled_in: Volume::default(),
        dropped: dropped.into(),
        hops: vec![hop],
        is_partial: false,
    };
    NodeReport {
        status: NodeStatus {
            node: node.clone(),
            is_connected,
            role: catena_model::topology::NodeRole::Host,
            is_edge: false,
            is_contested: false,
            wanted: BlueprintNumber(12),
            acknowledged: BlueprintNumber(if is_connected { 12 } else { 11 }),
            bound: Vec::new(),
            unbound: Vec::new(),
            identities: Vec::new(),
            capacity: None,
            taken: Default::default(),
        },
        counters: is_connected.then(|| NodeCounters {
            tunnels,
            tunnels_ring_full: 2,
            chains: vec![counters],
            ..NodeCounters::none(node, BlueprintNumber(12))
        }),
    }
}

/// Two readings two seconds apart, with 2,000 packets in between.
fn screen() -> Screen {
    screen_with("web")
}

/// The same, with another name of the first chain.
fn screen_with(name: &str) -> Screen {
    let chains = vec![
        chain(WEB, name, ChainState::Active),
        chain(ChainId(uuid::Uuid::from_u128(2)), "mail", ChainState::Building),
    ];
    let began = Instant::now();
    let reading = |after, entered| {
        let nodes = vec![node("host1", true, entered), node("host2", false, 10)];
        Sample::of(began + Duration::from_secs(after), chains.clone(), nodes)
    };
    let mut screen = Screen::new("http://127.0.0.1:9696".into(), reading(0, 1_000));
    screen.take(Ok(reading(2, 3_000)));
    screen
}

/// What the engine of host1 measured of the one instance.
fn delays() -> ChainDelays {
    serde_json::from_value(serde_json::json!({
        "name": "web", "paths": [], "instances": [{
            "node": "host1", "path": 42, "hop": 0, "member": 0, "instance": "firewall-1",
            "measured": "sojourn", "p50_ns": 1_023, "p95_ns": 250_000, "p99_ns": null,
            "samples": 12, "mean_ns": 900, "sampled": 30, "timed": 20, "represented": 640,
            "delivered": 1_000
        }]
    }))
    .unwrap()
}

fn press(screen: &mut Screen, keys: &[KeyCode]) -> Next {
    let press = |key: &KeyCode| screen.press(KeyEvent::new(*key, KeyModifiers::NONE));
    keys.iter().map(press).last().unwrap_or(Next::Stay)
}

fn shown(screen: &Screen) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(130, 12)).unwrap();
    terminal.draw(|frame| draw(frame, screen)).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
}

/// The line that holds a word.
fn line<'l>(lines: &'l [String], word: &str) -> &'l str {
    lines.iter().find(|line| line.contains(word)).unwrap_or_else(|| panic!("no {word}: {lines:#?}"))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn a_hostile_name_does_nothing_to_the_screen() {
    let lines = shown(&screen_with("we\u{1b}[2Jb\u{202e}\u{9b}1m\u{2028}\u{7}x\nforged"));
    let hostile = line(&lines, "[2J");
    assert!(!hostile.contains(catena_model::text::is_unseen), "{hostile:?}");
    assert!(!lines.iter().any(|line| line.trim_start().starts_with("forged")), "{lines:#?}");
}

#[test]
fn the_first_page_has_the_health_and_every_chain_with_its_rates() {
    let lines = shown(&screen());
    assert!(line(&lines, "catena").contains("nodes 1/2   chains 1 of 2 active"), "{lines:#?}");
    let account = line(&lines, "received");
    assert!(account.contains("received 1.0k/s  1.0Mbit/s   dropped 100/s"), "{account}");
    assert!(account.contains("unaccounted 0   ring full 2"), "{account}");
    let web = words(line(&lines, "web"));
    assert_eq!(web, ["▸", "web", "active", "42", "1.0k", "1.0M", "100", "300"]);
    assert!(line(&lines, "mail").contains("building"), "{lines:#?}");
    assert!(line(&lines, "mail").contains("node 'host9' has never connected"), "{lines:#?}");
}

#[test]
fn enter_descends_into_the_hops_of_the_selected_chain_and_escape_comes_back_to_it() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Enter]);
    let lines = shown(&screen);
    assert!(
        line(&lines, "web").contains("entered 3000   finished 2700   dropped 300"),
        "{lines:#?}"
    );
    let hop = words(line(&lines, "firewall-1"));
    let counted = ["▸", "42", "0", "firewall-1", "host1", "1.0k", "1.0M", "3000", "2997", "3"];
    assert_eq!(hop, [&counted[..], &["-"; 3]].concat());
    screen.last.delays = Some(delays());
    let hop = words(line(&shown(&screen), "firewall-1")).join(" ");
    assert_eq!(hop, format!("{} 1.023 µs 250 µs -", counted.join(" ")));
    press(&mut screen, &[KeyCode::Esc, KeyCode::Down]);
    assert!(line(&shown(&screen), "▸").contains("mail"));
    press(&mut screen, &[KeyCode::Enter, KeyCode::Esc]);
    assert!(line(&shown(&screen), "▸").contains("mail"));
}

#[test]
fn the_other_pages_show_nodes_and_drops() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Tab]);
    let lines = shown(&screen);
    let host = words(line(&lines, "host1"));
    assert_eq!(host, ["▸", "host1", "ok", "12", "1.0k", "900", "100", "300", "0", "2"]);
    assert!(line(&lines, "host2").contains("away"), "{lines:#?}");
    assert!(line(&lines, "host2").contains("11 of 12"), "{lines:#?}");
    press(&mut screen, &[KeyCode::Char('3')]);
    let lines = shown(&screen);
    assert!(line(&lines, "ttl_expired").contains(DropReason::TtlExpired.sentence()), "{lines:#?}");
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut screen = screen();
    press(
        &mut screen,
        &[KeyCode::Char('/'), KeyCode::Char('M'), KeyCode::Char('q'), KeyCode::Backspace],
    );
    assert!(line(&shown(&screen), "filter:").contains("filter: M"));
    press(&mut screen, &[KeyCode::Enter]);
    let lines = shown(&screen);
    assert!(!lines.iter().any(|line| line.contains("web")), "{lines:#?}");
    assert!(line(&lines, "mail").contains('▸'), "{lines:#?}");
    press(&mut screen, &[KeyCode::Esc]);
    line(&shown(&screen), "web");
}

#[test]
fn a_pause_keeps_the_numbers_and_a_failed_reading_says_why() {
    let mut screen = screen();
    screen.take(Err("the controller does not answer".into()));
    let lines = shown(&screen);
    assert!(line(&lines, "catena").contains("the controller does not answer"), "{lines:#?}");
    line(&lines, "web");
    let mut screen = self::screen();
    press(&mut screen, &[KeyCode::Char('p')]);
    let kept = shown(&screen);
    assert!(line(&kept, "catena").contains("paused"), "{kept:#?}");
    let empty = Sample::of(Instant::now(), Vec::new(), Vec::new());
    screen.take(Ok(empty));
    assert_eq!(shown(&screen), kept);
}

#[test]
fn q_and_control_c_leave_but_not_from_within_the_filter() {
    let mut screen = screen();
    assert_eq!(press(&mut screen, &[KeyCode::Char('/'), KeyCode::Char('q')]), Next::Stay);
    assert_eq!(press(&mut screen, &[KeyCode::Esc, KeyCode::Char('q')]), Next::Leave);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.press(interrupt), Next::Leave);
}
