//! Ends packets whose TTL is below a bound. Knows TTLs; refuses to know anything else of a packet.

use catena_model::profile::{FieldSet, Profile};
use catena_nf::function::{Answer, Function};
use catena_nf::outcome::{DropCause, Outcomes, Verdict};
use catena_nf::packet::{Direction, Packet, Time};
use catena_wire::field::Field;
use std::process::ExitCode;

struct Filter {
    profile: Profile,
    bound: u8,
}

impl Filter {
    fn new(config: &str) -> Result<Self, String> {
        let bound = config.trim().parse::<u8>().map_err(|error| format!("no TTL: {error}"))?;
        let reads = FieldSet::EMPTY.with(Field::Ttl);
        Ok(Self { profile: Profile { reads, drops: true, ..Profile::IDENTITY }, bound })
    }

    fn verdict(&self, packet: &Packet<'_>) -> Verdict {
        let ttl = Field::Ttl.read(packet.frame, &packet.view);
        let ends = ttl.is_some_and(|ttl| ttl < self.bound.into());
        if ends { Verdict::Drop(DropCause::Rule(0)) } else { Verdict::Pass }
    }
}

impl Function for Filter {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn process(&mut self, _: Time, _: Direction, batch: &[Packet<'_>], outcomes: &mut Outcomes) {
        outcomes.begin(batch.len());
        for (at, packet) in batch.iter().enumerate() {
            outcomes.decide(at, self.verdict(packet));
        }
    }

    fn ask(&self, _: Time, _: Direction, packet: &Packet<'_>) -> Answer {
        Answer { verdict: self.verdict(packet), patches: Vec::new(), rules: vec![0] }
    }

    fn rule_in_words(&self, _: u32) -> Option<String> {
        Some(format!("TTL below {}", self.bound))
    }
}

fn main() -> ExitCode {
    catena_runner::main(env!("CARGO_PKG_NAME"), |config, _| Filter::new(config))
}

#[test]
fn the_profile_is_true() {
    let inputs = catena_nf::harness::traffic::draw(1, 10_000);
    let proof = catena_nf::harness::verify(|| Filter::new("5").unwrap(), &inputs, 2).unwrap();
    assert!((1..10_000).contains(&proof.dropped), "{proof:?}");
}
