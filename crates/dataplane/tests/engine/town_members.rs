//! The bundled functions of a town: at which hops of paths they stand, and what programs say of them.

use super::{Chain, Town};
use catena_model::PathId;
use catena_model::bundle::{Configuration, ConfigurationEntry, MemberEntry, MemberInstance};
use catena_model::program::NodeProgram;

impl Town {
    /// What the function at a hop of a chain is made of; none: it runs outside.
    fn made_of(&self, chain: &Chain, hop: usize) -> Option<&Configuration> {
        let of = |name: &str| self.bundled.get(&(chain.hops[hop][0].clone(), name.to_owned()));
        of(&chain.name).or_else(|| of(""))
    }

    /// The hops of a path: which functions of its chain, by their numbers, stand together.
    pub(super) fn segments(&self, chain: &Chain) -> Vec<Vec<usize>> {
        let mut segments: Vec<Vec<usize>> = Vec::new();
        let nodes = |hop: usize| {
            let at = |name: &String| self.ports[self.instance(name).1.ingress].node;
            chain.hops[hop].iter().map(at).collect::<Vec<usize>>()
        };
        for hop in 0..chain.hops.len() {
            let stands =
                |other: usize| !chain.taps.contains(&other) && self.made_of(chain, other).is_some();
            match segments.last_mut() {
                Some(last)
                    if self.has_segments
                        && stands(hop)
                        && stands(last[0])
                        && nodes(hop) == nodes(last[0]) =>
                {
                    last.push(hop);
                }
                _ => segments.push(vec![hop]),
            }
        }
        segments
    }

    /// The port is that of an instance that runs inside.
    pub(super) fn is_inside(&self, port: &str) -> bool {
        let (machine, _) = port.split_once('.').unwrap_or((port, ""));
        self.bundled.keys().any(|(name, _)| name == machine)
    }

    pub(super) fn add_members(&self, node: usize, chain: &Chain, program: &mut NodeProgram) {
        let segments = (0..).zip(self.segments(chain));
        let places = segments.flat_map(|(hop, all)| (0..).zip(all).map(move |at| (hop, at)));
        for (hop, (member, number)) in places {
            let instances = &chain.hops[number];
            let Some(configuration) = self.made_of(chain, number).cloned() else { continue };
            let at = |name: &String| self.ports[self.instance(name).1.ingress].node;
            let one = |name: &String| {
                let (_, instance) = self.instance(name);
                let (ingress, egress) = match chain.is_reverse {
                    false => (instance.ingress, instance.egress),
                    true => (instance.egress, instance.ingress),
                };
                MemberInstance {
                    id: self.instance_id(name),
                    name: name.clone(),
                    ingress: self.ports[ingress].id,
                    egress: self.ports[egress].id,
                }
            };
            if instances.iter().all(|name| at(name) != node) {
                continue;
            }
            program.members.push(MemberEntry {
                path: PathId(chain.path),
                hop,
                member,
                function: instances.join("|"),
                is_backward: chain.is_reverse,
                configuration: configuration.id(),
                instances: instances.iter().map(one).collect(),
            });
            let entry = ConfigurationEntry { configuration };
            if !program.configurations.contains(&entry) {
                program.configurations.push(entry);
            }
        }
    }
}
