//! A segment of two functions in the real engine, in memory: from an endpoint through a firewall and a monitor to
//! another endpoint, all at one node.

use super::header::STATES;
use crate::engine::site::{FIRST_PATH, Hop, Seat, program};
use crate::engine::{EdgeWork, Kind, KnownFlows, delivered_flows};
use crate::error::BenchError;
use crate::results::{Better, Figure, Goal, Notes};
use catena_model::bundle::{Configuration, MemberInstance};
use catena_model::program::{ConfigurationEntry, InstanceEntry, MemberEntry};
use catena_model::resource::Attachment;
use catena_model::{NodeProgram, PathId};

/// Packets of a sample.
const PACKETS: usize = 1 << 16;
/// Goal, in nanoseconds.
const PASS_NS: f64 = 250.0;
/// Goal of what the clock may cost that times both functions, of the pass without it.
const METERED: f64 = 1.03;

/// Of a whole pass, of it beside a packet between two endpoints without a chain, and of it with a clock beside its
/// functions, as production has it, beside none.
pub(super) fn figures() -> [Figure; 3] {
    let figure = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    [
        figure("segment_pass_ns", "ns", Goal::Value(PASS_NS)),
        figure("segment_pass_vs_none", "ns", Goal::Quotient(None)),
        figure("segment_metered_vs_not", "ns", Goal::Quotient(Some(METERED))),
    ]
}

/// Engines that are warm.
pub(super) struct Segment {
    pass: KnownFlows,
    metered: KnownFlows,
    none: EdgeWork,
}

impl Segment {
    pub(super) fn new() -> Result<Self, BenchError> {
        let program = with_functions()?;
        let pass = |kind| delivered_flows(&program, kind);
        let (pass, metered) = (pass(Kind::ORDINARY)?, pass(Kind::METERED)?);
        Ok(Self { pass, metered, none: EdgeWork::switch()? })
    }

    pub(super) fn take(&mut self, notes: &mut Notes) -> Result<(), BenchError> {
        let (pass, none) = (self.pass.ns(PACKETS)?, self.none.ns(PACKETS)?);
        let metered = self.metered.ns(PACKETS)?;
        notes.take("segment_pass_ns", true, pass);
        notes.take("segment_pass_vs_none", true, pass);
        notes.take("segment_pass_vs_none", false, none);
        notes.take("segment_metered_vs_not", true, metered);
        notes.take("segment_metered_vs_not", false, pass);
        Ok(())
    }
}

fn with_functions() -> Result<NodeProgram, BenchError> {
    let mut program = program(&[Hop::Aware, Hop::Bare], 1)?;
    let inside = [Seat::AwareIn, Seat::AwareOut, Seat::BareIn, Seat::BareOut].map(Seat::port);
    for port in program.ports.iter_mut().filter(|port| inside.contains(&port.id)) {
        port.attachment = Attachment::Inside;
    }
    let mut members = Vec::new();
    for path in &mut program.paths {
        let instances = path.hops.iter_mut().flat_map(|hop| &mut hop.instances);
        members = instances.map(|one| member(one)).collect();
        // Both are one hop: in by the first, out by the last.
        path.hops.truncate(1);
        for one in path.hops.iter_mut().flat_map(|hop| &mut hop.instances) {
            one.speaks = None;
            one.egress = members.last().map_or(one.egress, |last: &MemberInstance| last.egress);
        }
    }
    let rules = serde_json::json!({"file": {"name": "bench", "text": STATES}}).to_string();
    let kinds = [(0, "firewall", rules), (1, "monitor", "{}".into())];
    for ((member, kind, config), instance) in kinds.into_iter().zip(members) {
        let configuration = Configuration::new(kind, config);
        program.members.push(MemberEntry {
            path: PathId(FIRST_PATH),
            hop: 0,
            member,
            function: kind.into(),
            is_backward: false,
            configuration: configuration.id(),
            instances: vec![instance],
        });
        program.configurations.push(ConfigurationEntry { configuration });
    }
    Ok(program)
}

fn member(entry: &InstanceEntry) -> MemberInstance {
    let InstanceEntry { id, name, ingress, egress, .. } = entry;
    MemberInstance { id: *id, name: name.clone(), ingress: *ingress, egress: *egress }
}
