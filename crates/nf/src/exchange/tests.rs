//! Questions and answers by their bytes: what is said is what is heard, and whatever else comes is nothing.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::harness::{Input, traffic};
use crate::outcome::Verdict;
use crate::random::Random;
use crate::registry;
use serde_json::json;

/// A function of each kind of answer: verdicts and events, alerts, other packets, patches, messages.
fn configurations() -> Vec<Configuration> {
    let firewall = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp --dport 80 -j LOG\n\
                    -A FORWARD -p tcp --dport 23 -j REJECT --reject-with tcp-reset\n\
                    -A FORWARD -m state --state INVALID -j DROP\nCOMMIT\n";
    let alerts = "alert ip any any -> any any (content:\"a\"; sid:1;)\n";
    let classes = "classes: [{name: all, mark: ef}]";
    let file = |name: &str, text: &str| json!({"file": {"name": name, "text": text}}).to_string();
    [
        ("firewall", file("edge.iptables", firewall)),
        ("nat", json!({"masquerade": ["10.0.0.0/16"], "pool": ["192.0.2.1"]}).to_string()),
        ("ids", file("web.rules", alerts)),
        ("marker", file("classes.yaml", classes)),
        ("monitor", json!({"domain": 7}).to_string()),
    ]
    .map(|(kind, config)| Configuration::new(kind, config).beside())
    .into()
}

fn made(configuration: &Configuration) -> Box<dyn Function> {
    let surroundings = Surroundings { seed: 7, epoch_seconds: 1_800_000_000 };
    registry::make(configuration, &surroundings).unwrap().function
}

fn packet(input: &Input) -> Packet<'_> {
    Packet { metadata: input.metadata, ..Packet::read(&input.frame).unwrap() }
}

/// Says it by its bytes, both ways.
fn say(function: &mut dyn Function, question: &Question, packets: &[Packet<'_>]) -> Said {
    let (mut asked, mut said) = (Vec::new(), Vec::new());
    write_question(question, packets, &mut asked);
    let (heard, packets) = read_question(&asked).unwrap();
    assert_eq!(&heard, question);
    write_said(&answer(function, heard, &packets), &mut said);
    read_said(&said, packets.len()).unwrap()
}

#[test]
fn what_is_said_by_letters_is_what_is_said_face_to_face() {
    let mut told = [0; 5];
    for configuration in configurations() {
        let (mut here, mut there) = (made(&configuration), made(&configuration));
        let inputs = traffic::draw(11, 4_000);
        for batch in inputs.chunk_by(|one, next| one.direction == next.direction) {
            let (now, direction) = (batch[0].at, batch[0].direction);
            let packets: Vec<Packet<'_>> = batch.iter().map(packet).collect();
            let mut outcomes = Outcomes::default();
            let asked = say(&mut *there, &Question::Ask(now, direction), &packets[..1]);
            let Said::Asked(asked) = asked else { panic!("{asked:?}") };
            assert_eq!(asked, here.ask(now, direction, &packets[0]));
            here.process(now, direction, &packets, &mut outcomes);
            let said = say(&mut *there, &Question::Process(now, direction), &packets);
            let Said::Outcomes(heard, waiting) = said else { panic!("{said:?}") };
            assert_eq!(format!("{heard:?}"), format!("{outcomes:?}"));
            assert_eq!(waiting, here.waiting());
            here.elapse(now, &mut outcomes);
            let said = say(&mut *there, &Question::Elapse(now), &[]);
            let Said::Outcomes(later, _) = said else { panic!("{said:?}") };
            assert_eq!(format!("{later:?}"), format!("{outcomes:?}"));
            let parts = [
                heard.verdicts().iter().filter(|one| **one != Verdict::Pass).count(),
                heard.patches().len(),
                heard.events().len(),
                heard.generated().len() + heard.replaced().len(),
                later.handed_out().len() + heard.handed_out().len(),
            ];
            told.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        let (mut counts, mut entries) = (Vec::new(), Vec::new());
        here.report(&mut counts);
        let said = say(&mut *there, &Question::Report, &[]);
        assert!(matches!(said, Said::Counts(heard) if heard == counts));
        let portion = Portion { all: true, is_first: true, budget: usize::MAX };
        let has_more = here.export_portion(portion, &mut entries);
        let said = say(&mut *there, &Question::Export(portion), &[]);
        let Said::Exported(heard, more) = said else { panic!("{said:?}") };
        assert_eq!((&heard, more), (&entries, has_more));
        let taken = made(&configuration).import(&entries) as u64;
        let said = say(&mut *made(&configuration), &Question::Import(heard), &[]);
        assert!(matches!(said, Said::Imported(count) if count == taken));
        let said = say(&mut *there, &Question::Rule(0), &[]);
        assert!(matches!(said, Said::Words(words) if words == here.rule_in_words(0)));
    }
    assert!(told.iter().all(|sum| *sum > 0), "{told:?}");
}

/// Parts of one batch, one behind the other, are the batch.
#[test]
fn what_is_asked_in_parts_is_what_is_asked_at_once() {
    for configuration in configurations() {
        let (mut here, mut there) = (made(&configuration), made(&configuration));
        let inputs = traffic::draw(12, 600);
        for batch in inputs.chunk_by(|one, next| one.direction == next.direction) {
            let (now, direction) = (batch[0].at, batch[0].direction);
            let packets: Vec<Packet<'_>> = batch.iter().map(packet).collect();
            let (mut whole, mut all, mut part) = Default::default();
            here.process(now, direction, &packets, &mut whole);
            Outcomes::begin(&mut all, 0);
            for packets in packets.chunks(2) {
                there.process(now, direction, packets, &mut part);
                all.append(&part);
            }
            assert_eq!(format!("{all:?}"), format!("{whole:?}"));
        }
    }
}

/// A hundred thousand answers of somebody who says anything: each is sound, or none.
#[test]
fn whatever_is_answered_is_sound_or_no_answer() {
    let mut random = Random::new(3);
    let mut answers = Vec::new();
    for configuration in configurations() {
        let mut function = made(&configuration);
        for batch in traffic::draw(13, 400).chunks(8) {
            let packets: Vec<Packet<'_>> = batch.iter().map(packet).collect();
            let mut said = Vec::new();
            let question = Question::Process(batch[7].at, Direction::Forward);
            write_said(&answer(&mut *function, question, &packets), &mut said);
            answers.push(said);
        }
    }
    let (mut sound, mut none) = (0, 0);
    for turn in 0..100_000 {
        let mut bytes = match turn % 4 {
            0 => (0..random.below(300)).map(|_| random.below(256) as u8).collect(),
            _ => answers[random.below(answers.len())].clone(),
        };
        for _ in 0..random.below(4) {
            let place = random.below(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(place) {
                *byte = random.below(256) as u8;
            }
        }
        if random.below(8) == 0 {
            bytes.truncate(random.below(bytes.len() + 1));
        }
        match read_said(&bytes, 8) {
            Some(Said::Outcomes(outcomes, _)) => {
                assert_eq!(outcomes.verdicts().len(), 8);
                let frames = outcomes.generated().iter().map(|(_, made)| made.frame.clone());
                let frames: Vec<_> = frames.collect();
                assert!(frames.iter().all(|frame| !outcomes.bytes(frame.clone()).is_empty()));
                sound += 1;
            }
            Some(_) => sound += 1,
            None => none += 1,
        }
        let question = read_question(&bytes);
        assert!(question.is_none_or(|(_, packets)| packets.len() <= bytes.len()));
    }
    assert!(sound > 10_000 && none > 10_000, "{sound} and {none}");
}

#[test]
fn outcomes_that_speak_of_what_is_not_there_are_none() {
    use crate::outcome::{Event, EventKind, GeneratedKind, Patch};
    use catena_wire::field::Field;
    type Spoil = fn(&mut Outcomes);
    let spoils: [(&str, Spoil); 5] = [
        ("a packet more", |it| it.begin(9)),
        ("a patch of a packet that is none", |it| it.patch(8, Patch::of(Field::Ttl, 1))),
        ("bits that its field has not", |it| it.patch(0, Patch::of(Field::Ttl, 1 << 8))),
        ("an event of a packet that is none", |it| {
            it.tell(99, Event { at: Time(0), kind: EventKind::Logged, rule: 0 });
        }),
        ("a packet because of one that is none", |it| {
            let cause = (8, GeneratedKind::TcpReset, Direction::Forward);
            assert!(it.generate(cause, 60, |bytes| Some(bytes.len())));
        }),
    ];
    for (what, spoil) in spoils {
        let mut outcomes = Outcomes::default();
        outcomes.begin(8);
        assert!(outcomes.are_sound(8));
        spoil(&mut outcomes);
        assert!(!outcomes.are_sound(8), "{what}");
    }
}
