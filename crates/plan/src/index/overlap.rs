//! Which rules share packets, found without looking at every rule.
//!
//! Rules are sorted by what they look at; among those that look at the same fields, the field with
//! the fewest rules around the wanted one decides, whichever that is: the rows of all fields are
//! walked in step, and the shortest ends the search.

use super::intervals::{Interval, Intervals};
use super::relation::Member;
use crate::counts::Edit;
use catena_model::ProjectId;
use catena_model::resource::{ClassificationRule, IpFamily, PortBounds, Transport};
use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;
use std::net::IpAddr;

/// Fields that a rule may look at besides family and transport.
const FIELDS: usize = 6;
/// The fields that say where packets enter and leave the network, first among all.
const LOGICAL_FIELDS: usize = 2;

/// Can one packet match both?
#[must_use]
pub fn overlap(a: &ClassificationRule, b: &ClassificationRule) -> bool {
    meets(a.source_port, b.source_port)
        && meets(a.destination_port, b.destination_port)
        && tuples_overlap(a, b)
}

/// The same, whatever port the packet enters and leaves by.
#[must_use]
pub fn tuples_overlap(a: &ClassificationRule, b: &ClassificationRule) -> bool {
    a.flow().meets(&b.flow())
}

/// Equal, or one does not care.
fn meets<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

/// What a rule looks at, as numbers; none: it does not look.
type Fields = [Option<Interval>; FIELDS];

fn fields(rule: &ClassificationRule) -> Fields {
    let one = |number: u128| (number, number);
    let prefix = |net: IpNet| (number(net.network()), number(net.broadcast()));
    let ports = |bounds: PortBounds| {
        let (min, max) = bounds.closed();
        // An empty range matches nothing; it must not be taken for one that wraps around.
        (!bounds.is_any()).then(|| (u128::from(min), u128::from(max.max(min))))
    };
    [
        rule.source_port.map(|port| one(port.0.as_u128())),
        rule.destination_port.map(|port| one(port.0.as_u128())),
        rule.source_prefix.map(prefix),
        rule.destination_prefix.map(prefix),
        ports(rule.source_ports),
        ports(rule.destination_ports),
    ]
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Which rules a group of them holds: those of one project that look at the same fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    project: ProjectId,
    family: IpFamily,
    transport: Option<Transport>,
    looks: [bool; FIELDS],
}

#[derive(Clone, Debug, PartialEq)]
struct Alike<M: Ord + Clone> {
    all: OrdSet<M>,
    fields: [Intervals<M>; FIELDS],
}

/// Rules, so that those around one are found quickly; logical ports may be left out of account.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Overlaps<M: Ord + Clone, const IS_BLIND_TO_PORTS: bool> {
    shapes: OrdMap<Shape, Alike<M>>,
}

impl<M: Member, const IS_BLIND: bool> Default for Overlaps<M, IS_BLIND> {
    fn default() -> Self {
        Self { shapes: OrdMap::new() }
    }
}

impl<M: Member, const IS_BLIND: bool> Overlaps<M, IS_BLIND> {
    pub(crate) fn edit(
        &mut self,
        edit: Edit,
        project: &ProjectId,
        rule: &ClassificationRule,
        member: M,
    ) {
        let fields = Self::fields(rule);
        let shape = Shape {
            project: project.clone(),
            family: rule.family,
            transport: rule.transport,
            looks: fields.map(|field| field.is_some()),
        };
        let empty =
            || Alike { all: OrdSet::new(), fields: std::array::from_fn(|_| Intervals::default()) };
        let alike = self.shapes.entry(shape.clone()).or_insert_with(empty);
        edit.apply(&mut alike.all, member);
        for (intervals, wanted) in alike.fields.iter_mut().zip(fields) {
            if let Some(interval) = wanted {
                intervals.edit(edit, interval, member);
            }
        }
        if alike.all.is_empty() {
            self.shapes.remove(&shape);
        }
    }

    /// The first member of a project (none: of all) that passes the exact test, of those that may.
    pub(crate) fn find(
        &self,
        project: Option<&ProjectId>,
        rule: &ClassificationRule,
        mut is_it: impl FnMut(M) -> bool,
    ) -> Option<M> {
        let wanted = Self::fields(rule);
        let from = Shape {
            project: project.cloned().unwrap_or_else(|| ProjectId(String::new())),
            family: IpFamily::Ipv4,
            transport: None,
            looks: [false; FIELDS],
        };
        let shapes = self.shapes.range(from..);
        shapes
            .take_while(|(shape, _)| project.is_none_or(|project| shape.project == *project))
            .filter(|(shape, _)| {
                shape.family == rule.family && meets(shape.transport, rule.transport)
            })
            .find_map(|(_, alike)| alike.find(&wanted, &mut is_it))
    }

    fn fields(rule: &ClassificationRule) -> Fields {
        let mut fields = fields(rule);
        if IS_BLIND {
            fields.iter_mut().take(LOGICAL_FIELDS).for_each(|field| *field = None);
        }
        fields
    }
}

impl<M: Member> Alike<M> {
    fn find(&self, wanted: &Fields, is_it: &mut impl FnMut(M) -> bool) -> Option<M> {
        let looked_at = self.fields.iter().zip(wanted).filter_map(|(intervals, wanted)| {
            let interval = (*wanted)?;
            (!intervals.is_empty()).then(|| intervals.meeting(interval))
        });
        let mut rows: Vec<_> = looked_at.collect();
        if rows.is_empty() {
            return self.all.iter().copied().find(|member| is_it(*member));
        }
        loop {
            for row in &mut rows {
                // The shortest row names all that may be meant.
                let member = row.next()?;
                if is_it(member) {
                    return Some(member);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::classifier::FieldMatch;
    use catena_model::id::{PortId, RuleId};
    use catena_model::resource::Label;
    use uuid::Uuid;

    /// Rules of each kind; there are 10,000 that differ in one thing alone.
    const RULES: u32 = 10_000;

    fn rule(number: u32) -> ClassificationRule {
        ClassificationRule {
            id: RuleId(Uuid::from_u128(number.into())),
            label: Label {
                name: String::new(),
                description: String::new(),
                project: ProjectId("p".into()),
            },
            family: IpFamily::Ipv4,
            transport: Some(Transport::Tcp),
            source_ports: PortBounds { min: Some(1_000), max: Some(2_000) },
            destination_ports: PortBounds { min: Some(80), max: Some(80) },
            source_prefix: "10.0.0.0/8".parse().ok(),
            destination_prefix: "192.0.2.1/32".parse().ok(),
            source_port: Some(PortId(Uuid::from_u128(1))),
            destination_port: Some(PortId(Uuid::from_u128(2))),
            fields: FieldMatch::default(),
        }
    }

    fn differing(field: usize, number: u32) -> ClassificationRule {
        let mut rule = rule(number);
        let bounds = || PortBounds { min: Some(number as u16), max: Some(number as u16) };
        let net = || IpNet::from(IpAddr::V4((0x0a00_0000 + number).into()));
        let port = || PortId(Uuid::from_u128(u128::from(number) << 70));
        match field {
            0 => rule.source_port = Some(port()),
            1 => rule.destination_port = Some(port()),
            2 => rule.source_prefix = Some(net()),
            3 => rule.destination_prefix = Some(net()),
            4 => rule.source_ports = bounds(),
            _ => rule.destination_ports = bounds(),
        }
        rule
    }

    /// How many rules are looked at to learn that none of these overlaps the wanted one.
    fn looked_at(
        rules: impl Iterator<Item = ClassificationRule>,
        wanted: &ClassificationRule,
    ) -> usize {
        let mut overlaps = Overlaps::<_, false>::default();
        for rule in rules {
            overlaps.edit(Edit::Add, &rule.label.project, &rule, rule.id);
        }
        let mut count = 0;
        let found = overlaps.find(None, wanted, |_| {
            count += 1;
            false
        });
        assert_eq!(found, None);
        count
    }

    #[test]
    fn rules_that_differ_in_one_field_are_told_apart_by_it_whichever_it_is() {
        for field in 0..FIELDS {
            let wanted = differing(field, RULES + 7);
            let count = looked_at((0..RULES).map(|n| differing(field, n)), &wanted);
            assert!(count <= FIELDS, "field {field}: {count} rules were looked at");
        }
    }

    #[test]
    fn rules_of_other_shapes_are_told_apart_though_they_leave_fields_open() {
        // Half name their source and not their destination, half the other way round.
        let open = |n: u32| {
            let mut rule = differing(2 + n as usize % 2, n);
            if n.is_multiple_of(2) {
                rule.destination_prefix = None;
            } else {
                rule.source_prefix = None;
            }
            rule
        };
        let mut wanted = differing(2, RULES + 7);
        wanted.destination_prefix = differing(3, RULES + 8).destination_prefix;
        let count = looked_at((0..RULES).map(open), &wanted);
        assert!(count <= 2 * FIELDS, "{count} rules were looked at");
    }

    #[test]
    fn in_a_grid_of_two_fields_one_row_is_looked_at() {
        let cell = |row: u32, column: u32| {
            let mut rule = differing(2, row);
            rule.id = RuleId(Uuid::from_u128((u128::from(row) << 32) | u128::from(column)));
            rule.destination_prefix = differing(3, column).destination_prefix;
            rule
        };
        let grid = (0..100).flat_map(|row| (0..100).map(move |column| cell(row, column)));
        let count = looked_at(grid, &cell(50, 101));
        assert!(count <= FIELDS, "{count} rules were looked at");
    }
}
