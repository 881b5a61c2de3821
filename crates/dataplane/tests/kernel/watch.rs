//! Functions that both engines watch: time passes in small steps, probes go out and come back.

use crate::packets::Sent;
use crate::side::{Left, Side, names};
use crate::twin::{Done, Twin};
use catena_io::Offload;
use catena_model::NodeCounters;
use catena_model::account::PortCounters;
use catena_model::status::Health;
use catena_wire::ethernet::ethertype_is;
use catena_wire::scalar::EtherType;

/// Longer than it takes to find a death, in steps shorter than the gap after which silence says
/// nothing.
const STEPS: usize = 40;
const STEP_NS: u64 = 10_000_000;

impl Twin {
    /// Lets both watch until who is dead is known to be. Answers how many are.
    pub(crate) fn watch(&mut self) -> usize {
        for _ in 0..STEPS {
            self.now_ns += STEP_NS;
            self.probe(false);
            self.probe(true);
        }
        let dead = [&self.alone, &self.beside].map(|side| {
            let mut dead = side.engine.counters().health;
            dead.retain(|instance| instance.health == Health::Dead);
            dead
        });
        assert_eq!(dead[1], dead[0]);
        dead[0].len()
    }

    /// One step at one of them. Their probes are not the same: where the kernel carries a flow, its
    /// engine learns later which packet a function lets through.
    fn probe(&mut self, is_beside: bool) {
        let (now_ns, town) = (self.now_ns, self.town.clone());
        let side = self.side(is_beside);
        let probes = side.tick(now_ns, &town);
        let asked = names(&probes);
        side.book(probes, |_| None);
        let answers: Vec<Sent> = asked.into_iter().filter_map(|probe| self.answer(probe)).collect();
        for sent in answers {
            let port = town.port_named(&sent.port);
            let mut cause = None;
            if is_beside {
                // The program knows no probe: what no flow of its own is like comes up.
                let (done, _) = self.before_the_engine(port, &sent);
                let Done::Up(event) = done else { panic!("the kernel has carried a probe") };
                cause = event;
            }
            let side = self.side(is_beside);
            let packet = side.packet(port, &sent, cause);
            assert_eq!(side.forward(now_ns, vec![packet], false, &town), [], "a probe went on");
        }
    }

    fn side(&mut self, is_beside: bool) -> &mut Side {
        if is_beside { &mut self.beside } else { &mut self.alone }
    }

    /// What a function makes of a probe.
    fn answer(&self, probe: Left) -> Option<Sent> {
        match probe {
            Left::Frame { port, bytes, .. } if ethertype_is(&bytes, EtherType::ARP) => {
                let is_dead = self.dead.as_ref().is_some_and(|dead| port.starts_with(dead));
                // The question itself shows that somebody is there.
                (!is_dead).then(|| Sent { port, bytes, offload: Offload::default() })
            }
            other => self.function(other, &Offload::default()),
        }
    }
}

/// Probes repeat packets of another size at the one than at the other.
pub(crate) fn forget_sizes(counters: &mut NodeCounters) {
    let of_functions =
        |line: &&mut PortCounters| line.name.ends_with(".in") || line.name.ends_with(".out");
    for line in counters.ports.iter_mut().filter(of_functions) {
        let account = &mut line.account;
        for volume in [&mut account.received, &mut account.forwarded, &mut line.transmitted] {
            volume.bytes = 0;
        }
    }
}
