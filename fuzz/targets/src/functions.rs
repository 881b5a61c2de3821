//! Functions: rules as people write them, packets of strangers, and what another function has exported.

use crate::seeds;
use catena_nf::Function;
use catena_nf::firewall::Firewall;
use catena_nf::function::StateEntry;
use catena_nf::monitor::{Monitor, MonitorConfig};
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Direction, Packet, Time};
use catena_nf::tracking::TrackingConfig;
use catena_nf::{carry_out, check};
use catena_rules::rule_set::Families;
use catena_rules::{ReadOptions, RuleError, Unsupported};
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::FrameView;

const RULES: &str = "*filter\n:FORWARD DROP [0:0]\n:web - [0:0]\n\
    -A FORWARD -m conntrack --ctstate INVALID -j DROP\n\
    -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
    -A FORWARD -p tcp -m multiport --dports 80,443 -j web\n\
    -A FORWARD -p udp -m limit --limit 5/second -j ACCEPT\n\
    -A FORWARD -j REJECT\n\
    -A web -p tcp -m tcp --tcp-option 2 -j ACCEPT\n\
    -A web -j REJECT --reject-with tcp-reset\nCOMMIT\n";

fn options(unsupported: Unsupported) -> ReadOptions {
    ReadOptions { file: "fuzzed".into(), unsupported, ..ReadOptions::default() }
}

/// Room for few connections, as each input makes its own functions.
fn small() -> TrackingConfig {
    TrackingConfig { connections_max: 8, ..TrackingConfig::default() }
}

/// Rules: what is wrong is told with what to do, and what is read makes a firewall.
pub(crate) fn rules(bytes: &[u8]) {
    let (half, other) = bytes.split_at(bytes.len() / 2);
    let text = String::from_utf8_lossy(bytes).into_owned();
    let edited = seeds::edited(seeds::nft(), bytes).to_string();
    let spliced =
        format!("{}{}", &RULES[..half.len().min(RULES.len())], String::from_utf8_lossy(other));
    for text in [text, edited, spliced] {
        for unsupported in [Unsupported::Refuse, Unsupported::Skip] {
            match catena_rules::read(&text, Families::V4, &options(unsupported)) {
                Ok(set) => drop(Firewall::with_tracking(&[set], &small()).unwrap()),
                Err(RuleError { what, advice, .. }) => {
                    assert!(!what.is_empty() && !advice.is_empty(), "{what:?} {advice:?}");
                }
            }
        }
    }
}

/// Packets: whatever they are, outcomes keep to the profile and can be carried out.
pub(crate) fn packets(bytes: &[u8]) {
    let set = catena_rules::read(RULES, Families::V4, &options(Unsupported::Refuse)).unwrap();
    let tracking = small();
    let mut functions: [Box<dyn Function>; 2] = [
        Box::new(Firewall::with_tracking(&[set], &tracking).unwrap()),
        Box::new(Monitor::new(MonitorConfig { flows_max: 8, ..MonitorConfig::default() }).unwrap()),
    ];
    let mut outcomes = Outcomes::default();
    for (at, frame) in (0..).zip(bytes.chunks(200)) {
        let Ok(packet) = Packet::read(frame) else { continue };
        let way = if at % 2 == 0 { Direction::Forward } else { Direction::Backward };
        for function in &mut functions {
            let answer = function.ask(Time::seconds(at), way, &packet);
            function.process(Time::seconds(at), way, &[packet], &mut outcomes);
            assert_eq!(outcomes.verdicts(), [answer.verdict]);
            check::outcomes(function.profile(), 1, &outcomes).unwrap();
            let (mut changed, mut metadata) = (frame.to_vec(), packet.metadata);
            let place = (changed.as_mut_slice(), &packet.view);
            carry_out::apply(outcomes.patches_of(0), place, packet.upper, &mut metadata).unwrap();
        }
    }
    let entry = |bytes: &[u8]| {
        let (key, value) = bytes.split_at(bytes.len().min(16));
        StateEntry { key: key.to_vec(), value: Some(value.to_vec()) }
    };
    let entries: Vec<StateEntry> = bytes.chunks(64).map(entry).collect();
    for function in &mut functions {
        function.import(&entries);
        let mut exported = Vec::new();
        function.export(true, &mut exported);
        function.elapse(Time(u64::MAX), &mut outcomes);
    }
}

/// Fields: whatever a frame is, none is read or written beyond it.
pub(crate) fn fields(bytes: &[u8]) {
    let Ok(view) = FrameView::parse(bytes) else { return };
    for field in Field::ALL.iter().copied() {
        let Some(value) = field.read(bytes, &view) else { continue };
        let mut frame = bytes.to_vec();
        let same = (value, u128::MAX);
        // What only the view knows cannot be written.
        if let Ok(changed) = field.write(&mut frame, &view, same, UpperChecksum::Closed) {
            assert!(!changed && frame == bytes, "{field:?}");
            let _ = field.write(&mut frame, &view, (!value, u128::MAX), UpperChecksum::Open);
            assert_eq!(frame.len(), bytes.len());
        }
    }
}
