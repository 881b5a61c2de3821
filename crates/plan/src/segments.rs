//! Bundled functions beside each other in a chain, as one hop of its paths. Knows which may stand together, and which
//! function of a path is where; refuses to know what a function does.

use crate::ledger::{Direction, PathRecord};
use catena_model::NodeName;
use catena_model::bundle::{Configuration, ConfigurationId, Member, MemberInstance};
use catena_model::id::{InstanceId, PortId};
use catena_model::limits::SEGMENT_MEMBERS_MAX;
use catena_model::program::{HopEntry, HopKind, InstanceEntry};
use std::sync::Arc;

/// What a function is made of, and by what that is known.
pub(crate) type MadeOf = (ConfigurationId, Arc<Configuration>);

/// A function of a chain as a hop of its own, and what it is made of, where data planes ask it.
pub(crate) type Single = (HopEntry, Option<MadeOf>);

/// Functions that are one hop, in the order of their chain.
struct Segment {
    first: Single,
    behind: Vec<Single>,
}

/// The hops of a way, and the bundled functions at them. `functions`: in the order of their chain; which of them stand
/// together is the same both ways.
pub(crate) fn join(functions: Vec<Single>, direction: Direction) -> (Vec<HopEntry>, Vec<Member>) {
    let mut segments: Vec<Segment> = Vec::new();
    for single in functions {
        let last = segments.last_mut();
        match last.and_then(|segment| Some((segment.partners(&single)?, segment))) {
            Some((instances, segment)) => {
                let (hop, made_of) = single;
                segment.behind.push((HopEntry { instances, ..hop }, made_of));
            }
            None => segments.push(Segment { first: single, behind: Vec::new() }),
        }
    }
    if direction == Direction::Reverse {
        segments.reverse();
    }
    let hops = (0..).zip(&segments).map(|(number, segment)| segment.hop(number, direction));
    let (hops, members): (Vec<HopEntry>, Vec<Vec<Member>>) = hops.unzip();
    (hops, members.concat())
}

impl Segment {
    /// The instances of a function that may stand behind the last one, in the order of those of the first: each on the
    /// node of another, with the same share of the flows. None: it may not.
    fn partners(&self, (next, made_of): &Single) -> Option<Vec<InstanceEntry>> {
        let (first, asked) = &self.first;
        let are_asked = asked.is_some() && made_of.is_some();
        let is_alike = [first, next].iter().all(|hop| hop.kind == HopKind::Through)
            && first.on_failure == next.on_failure
            && first.instances.len() == next.instances.len();
        if !are_asked
            || !is_alike
            || !next.via.is_empty()
            || 1 + self.behind.len() >= SEGMENT_MEMBERS_MAX
        {
            return None;
        }
        let all = [&self.first].into_iter().chain(&self.behind).map(|(hop, _)| hop).chain([next]);
        let rewriting = all.filter(|hop| hop.rewrites.is_some()).count();
        // Who is chosen among several must be so by what packets look like at either end.
        let is_chosen_alike = match first.instances.len() {
            1 => rewriting <= 1,
            _ => rewriting == 0 && first.balance == next.balance,
        };
        let mut left: Vec<&InstanceEntry> = next.instances.iter().collect();
        let partner = |one: &InstanceEntry| {
            let is_partner =
                |other: &&InstanceEntry| (&other.node, other.weight) == (&one.node, one.weight);
            let at = left.iter().position(is_partner)?;
            Some(left.remove(at).clone())
        };
        first.instances.iter().map(partner).collect::<Option<_>>().filter(|_| is_chosen_alike)
    }

    /// The hop, and its members as packets come by.
    fn hop(&self, number: u16, direction: Direction) -> (HopEntry, Vec<Member>) {
        let mut way: Vec<&Single> = [&self.first].into_iter().chain(&self.behind).collect();
        if direction == Direction::Reverse {
            way.reverse();
        }
        let members = (0..).zip(&way).filter_map(|(member, (hop, made_of))| {
            let (id, configuration) = made_of.clone()?;
            Some(Member {
                hop: number,
                member,
                function: hop.name.clone(),
                id,
                configuration,
                instances: hop.instances.iter().map(instance).collect(),
            })
        });
        let members = members.collect();
        let mut joined = HopEntry {
            name: all_of(way.iter().map(|(hop, _)| hop.name.as_str())),
            rewrites: way.iter().find_map(|(hop, _)| hop.rewrites.clone()),
            keeps_mac: way.iter().all(|(hop, _)| hop.keeps_mac),
            ..self.first.0.clone()
        };
        for (place, instance) in joined.instances.iter_mut().enumerate() {
            let partners = || way.iter().filter_map(|(hop, _)| hop.instances.get(place));
            instance.name = all_of(partners().map(|one| one.name.as_str()));
            if let Some((entered, left)) = partners().next().zip(partners().next_back()) {
                (instance.ingress, instance.ingress_mac) = (entered.ingress, entered.ingress_mac);
                instance.egress = left.egress;
            }
        }
        (joined, members)
    }
}

fn all_of<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn instance(entry: &InstanceEntry) -> MemberInstance {
    let InstanceEntry { id, name, ingress, egress, .. } = entry;
    MemberInstance { id: *id, name: name.clone(), ingress: *ingress, egress: *egress }
}

/// A function on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionAt<'r> {
    /// Its hop, counted from 0.
    pub hop: u16,
    /// Its place among the functions of that hop, counted from 0.
    pub member: u8,
    /// Its name.
    pub name: &'r str,
    /// What it does to the path.
    pub kind: HopKind,
    /// Its instances.
    pub instances: Vec<InstanceAt<'r>>,
}

/// An instance on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceAt<'r> {
    /// The instance.
    pub id: InstanceId,
    /// Its name.
    pub name: &'r str,
    /// Its node.
    pub node: &'r NodeName,
    /// Its share of the flows; 0: none.
    pub weight: u32,
    /// By which the hop chooses it: of those that are chosen together, one.
    pub(crate) chosen_as: InstanceId,
}

/// The functions of a path as packets come by.
pub(crate) fn functions<'r>(
    hops: &'r [HopEntry],
    members: &'r [Member],
) -> impl Iterator<Item = FunctionAt<'r>> {
    (0..).zip(hops).flat_map(move |(number, hop)| {
        let own = members.iter().filter(move |member| member.hop == number);
        let bundled = own.map(move |member| FunctionAt {
            hop: number,
            member: member.member,
            name: &member.function,
            kind: hop.kind,
            instances: together(hop, member).collect(),
        });
        let is_bundled = members.iter().any(|member| member.hop == number);
        let alone = (!is_bundled).then(|| FunctionAt {
            hop: number,
            member: 0,
            name: &hop.name,
            kind: hop.kind,
            instances: hop.instances.iter().map(|one| at(one, one.id, &one.name)).collect(),
        });
        bundled.chain(alone)
    })
}

/// The ports of all instances, with their nodes; one may be there several times.
pub(crate) fn ports_used<'r>(
    hops: &'r [HopEntry],
    members: &'r [Member],
) -> impl Iterator<Item = (&'r NodeName, PortId)> {
    let of_hops = hops.iter().flat_map(|hop| &hop.instances);
    let of_hops = of_hops.flat_map(|one| [(&one.node, one.ingress), (&one.node, one.egress)]);
    let of_members = members.iter().flat_map(move |member| {
        let hop = hops.get(usize::from(member.hop));
        let pairs = hop.into_iter().flat_map(|hop| hop.instances.iter().zip(&member.instances));
        pairs.flat_map(|(entry, one)| [(&entry.node, one.ingress), (&entry.node, one.egress)])
    });
    of_hops.chain(of_members)
}

/// The instances of a member, each with what its hop says of it.
pub(crate) fn together<'r>(
    hop: &'r HopEntry,
    member: &'r Member,
) -> impl Iterator<Item = InstanceAt<'r>> {
    let pairs = hop.instances.iter().zip(&member.instances);
    pairs.map(|(entry, one)| at(entry, one.id, &one.name))
}

fn at<'r>(entry: &'r InstanceEntry, id: InstanceId, name: &'r str) -> InstanceAt<'r> {
    InstanceAt { id, name, node: &entry.node, weight: entry.weight, chosen_as: entry.id }
}

impl PathRecord {
    /// Its functions as packets come by.
    pub fn functions(&self) -> impl Iterator<Item = FunctionAt<'_>> {
        functions(&self.hops, &self.members)
    }

    /// As it is written down today: in records of before, hops had one bundled function, and that no instances.
    #[must_use]
    pub fn renewed(mut self) -> Self {
        for member in self.members.iter_mut().filter(|member| member.instances.is_empty()) {
            if let Some(hop) = self.hops.get(usize::from(member.hop)) {
                member.function.clone_from(&hop.name);
                member.instances = hop.instances.iter().map(instance).collect();
            }
        }
        self
    }
}
