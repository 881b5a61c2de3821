//! Which packets some rule could take whatever their ports are: of a fragment that comes before the
//! first of its packet, no more is seen. Knows rules without their ports, each kind once; refuses to
//! know which rule it is.

use catena_model::resource::IpFamily;
use catena_search::{Hashed, Prefix, Rule, SharedMap, number};
use catena_wire::flow::{FlowKey, mix};
use catena_wire::scalar::VlanId;

/// Which bits of which fields a rule gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    family: IpFamily,
    source_bits: u8,
    destination_bits: u8,
    has_protocol: bool,
}

/// What a rule gives, but for ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Want {
    shape: Shape,
    scope: u32,
    vlan: Option<VlanId>,
    protocol: u8,
    source: u128,
    destination: u128,
}

impl Hashed for Want {
    fn hash(&self) -> u64 {
        let Shape { family, source_bits, destination_bits, has_protocol } = self.shape;
        let vlan = self.vlan.map_or(0, |vlan| u64::from(vlan.get()) + 1);
        let shape = [u8::from(family == IpFamily::Ipv4), source_bits, destination_bits];
        let shape =
            shape.iter().fold(u64::from(has_protocol), |all, one| all << 8 | u64::from(*one));
        let words = [
            u64::from(self.scope) << 32 | vlan << 8 | u64::from(self.protocol),
            (self.source >> 64) as u64,
            self.source as u64,
            (self.destination >> 64) as u64,
            self.destination as u64,
        ];
        words.into_iter().fold(mix(shape), |hash, word| mix(hash ^ word))
    }
}

/// All that rules give.
#[derive(Clone, Debug, Default)]
pub(super) struct Wants {
    /// How many rules have each shape.
    shapes: Vec<(Shape, u32)>,
    wants: SharedMap<Want, u32, 256>,
}

impl Wants {
    /// The shape of a rule and what it gives. Of IPv6 only the first fragment shows the protocol.
    fn of(scope: u32, rule: &Rule) -> Want {
        let protocol = rule.protocol.filter(|_| rule.family == IpFamily::Ipv4);
        let shape = Shape {
            family: rule.family,
            source_bits: rule.source.bits(),
            destination_bits: rule.destination.bits(),
            has_protocol: protocol.is_some(),
        };
        let (source, destination) = (rule.source.base(), rule.destination.base());
        let protocol = protocol.map_or(0, |protocol| protocol.0);
        Want { shape, scope, vlan: rule.vlan, protocol, source, destination }
    }

    pub(super) fn insert(&mut self, scope: u32, rule: &Rule) {
        let want = Self::of(scope, rule);
        match self.shapes.iter_mut().find(|(shape, _)| *shape == want.shape) {
            Some((_, count)) => *count += 1,
            None => self.shapes.push((want.shape, 1)),
        }
        let count = self.wants.get(&want).copied().unwrap_or(0);
        self.wants.insert(want, count + 1);
    }

    pub(super) fn remove(&mut self, scope: u32, rule: &Rule) {
        let want = Self::of(scope, rule);
        if let Some((_, count)) = self.shapes.iter_mut().find(|(shape, _)| *shape == want.shape) {
            *count -= 1;
        }
        self.shapes.retain(|(_, count)| *count > 0);
        match self.wants.get(&want).copied() {
            Some(count) if count > 1 => drop(self.wants.insert(want, count - 1)),
            _ => drop(self.wants.remove(&want)),
        }
    }

    /// Could a rule of this scope take packets of such a flow?
    pub(super) fn could_take(&self, scope: u32, vlan: Option<VlanId>, flow: &FlowKey) -> bool {
        let family = IpFamily::of(flow.source);
        let (source, destination) = (number(flow.source), number(flow.destination));
        let shapes = self.shapes.iter().map(|(shape, _)| *shape);
        shapes.filter(|shape| shape.family == family).any(|shape| {
            let want = Want {
                shape,
                scope,
                vlan,
                protocol: if shape.has_protocol { flow.protocol.0 } else { 0 },
                source: Prefix::masked(source, family, shape.source_bits),
                destination: Prefix::masked(destination, family, shape.destination_bits),
            };
            self.wants.get(&want).is_some()
        })
    }
}
