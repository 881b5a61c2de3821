//! How a change of a program travels and rests: edits of entries in parts of bounded size, between two
//! programs that are told by number and digest.

use crate::message;
use catena_model::BlueprintNumber;
use catena_model::NodeName;
use catena_model::capacity::{CORE_MILLI, Capacity, NumaNode};
use catena_model::entry::{Change, Digest, Entries, Program, ProgramVersion};
use catena_model::limits::{DELTA_BYTES_MAX, DELTA_ENTRIES_MAX, HOST_NUMA_NODES_MAX};
use catena_model::topology::NodeRole;

/// The parts that make a program of another, at least one. Costs what differs.
#[must_use]
pub fn deltas(node: &NodeName, base: &Program, to: &Program) -> Vec<message::Delta> {
    let part = |changes: Vec<u8>| message::Delta {
        node: node.to_string(),
        base: base.number.0,
        base_digest: base.digest.0,
        number: to.number.0,
        digest: to.digest.0,
        is_last: false,
        changes,
    };
    let mut parts = Vec::new();
    let (mut bytes, mut entries) = (Vec::new(), 0);
    for change in to.entries.changes_since(&base.entries) {
        let change = change.bytes();
        let is_full = entries == DELTA_ENTRIES_MAX || bytes.len() + change.len() > DELTA_BYTES_MAX;
        if is_full && entries > 0 {
            parts.push(part(std::mem::take(&mut bytes)));
            entries = 0;
        }
        bytes.extend(change);
        entries += 1;
    }
    parts.push(message::Delta { is_last: true, ..part(bytes) });
    parts
}

/// How what an agent must know of a program differs from another, as edits one behind the other: ports, what
/// the port numbers of source routes stand for, where nodes are in the IPv6 underlay, and the node itself.
#[must_use]
pub fn agent_edits(former: &Entries, now: &Entries) -> Vec<u8> {
    let known = |of: &Entries| Entries {
        node: of.node.clone(),
        ports: of.ports.clone(),
        exits: of.exits.clone(),
        locators: of.locators.clone(),
        ..Entries::default()
    };
    known(now).changes_since(&known(former)).flat_map(|change| change.bytes()).collect()
}

fn version(number: u64, digest: u64) -> ProgramVersion {
    ProgramVersion { number: BlueprintNumber(number), digest: Digest(digest) }
}

impl message::Hello {
    /// The program that runs.
    #[must_use]
    pub fn version(&self) -> ProgramVersion {
        version(self.program_number, self.program_digest)
    }
}

impl message::Hello {
    /// What the node is for.
    ///
    /// # Errors
    /// It is for something that only a later version knows.
    pub fn node_role(&self) -> Result<NodeRole, UnknownRole> {
        match message::Role::try_from(self.role) {
            Ok(message::Role::Host) => Ok(NodeRole::Host),
            Ok(message::Role::Switch) => Ok(NodeRole::Switch),
            Err(_) => Err(UnknownRole(self.role)),
        }
    }

    /// What the node has for instances; not told: it says nothing of it, or more than there can be.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        let numa = self.numa.iter().take(HOST_NUMA_NODES_MAX).map(|node| NumaNode {
            number: node.number,
            cpu_milli: u64::from(node.cores) * CORE_MILLI,
            memory_mib: node.memory_mib,
        });
        let link_mbit = (self.link_mbit > 0).then_some(self.link_mbit);
        Capacity { numa: numa.collect(), link_mbit }
    }
}

/// A role that nobody knows here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node says that it is of role {0}, which this controller does not know")]
pub struct UnknownRole(i32);

impl message::State {
    /// The program that runs.
    #[must_use]
    pub fn version(&self) -> ProgramVersion {
        version(self.program_number, self.program_digest)
    }
}

impl message::Delta {
    /// The program that it changes.
    #[must_use]
    pub fn from_version(&self) -> ProgramVersion {
        version(self.base, self.base_digest)
    }

    /// The program that it makes.
    #[must_use]
    pub fn to_version(&self) -> ProgramVersion {
        version(self.number, self.digest)
    }

    /// Is it a whole program, or a part of one?
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.from_version() == ProgramVersion::default()
    }
}

/// A program as its parts make it, one after the other.
#[derive(Clone, Debug)]
pub struct Draft {
    from: ProgramVersion,
    to: ProgramVersion,
    program: Program,
}

/// Why a part is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// It belongs to another change.
    #[error("it is no part of the change from program {} to program {}", .0.number, .1.number)]
    Foreign(ProgramVersion, ProgramVersion),
    /// It does not fit what is there.
    #[error(transparent)]
    Change(#[from] catena_model::entry::ChangeError),
    /// All parts have come and make something else.
    #[error("what it makes is not program {0} as its controller has it")]
    Digest(BlueprintNumber),
}

impl Draft {
    /// A change of a program begins.
    #[must_use]
    pub fn begin(part: &message::Delta, base: &Program) -> Self {
        Self { from: part.from_version(), to: part.to_version(), program: base.clone() }
    }

    /// Does a part belong to this change?
    #[must_use]
    pub fn is_of(&self, part: &message::Delta) -> bool {
        (self.from, self.to) == (part.from_version(), part.to_version())
    }

    /// Takes a part.
    ///
    /// # Errors
    /// When it does not fit; the draft is not to be used then.
    pub fn add(&mut self, part: &message::Delta) -> Result<(), DraftError> {
        if !self.is_of(part) {
            return Err(DraftError::Foreign(self.from, self.to));
        }
        let changes = Change::read_all(&part.changes, DELTA_ENTRIES_MAX)?;
        changes.into_iter().try_for_each(|change| self.program.entries.edit(change))?;
        Ok(())
    }

    /// The program that all parts have made of `base`.
    ///
    /// # Errors
    /// When it is another than was announced.
    pub fn finish(self, base: &Program) -> Result<Program, DraftError> {
        let Self { to, program, .. } = self;
        let made = base.following(to.number, program.entries);
        if made.version() == to { Ok(made) } else { Err(DraftError::Digest(to.number)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::from_agent;
    use crate::session::hello;
    use catena_model::entry::{ChangeError, Edit};
    use catena_model::id::ChainId;
    use catena_model::program::ChainEntry;
    use std::sync::Arc;
    use uuid::Uuid;

    fn chain(number: u128, name: &str) -> (ChainId, Arc<ChainEntry>) {
        let id = ChainId(Uuid::from_u128(number));
        (id, Arc::new(ChainEntry { id, name: name.into() }))
    }

    fn program(number: u64, chains: &[(u128, &str)]) -> Program {
        let chains = chains.iter().map(|(id, name)| chain(*id, name)).collect();
        Program::new(BlueprintNumber(number), Entries { chains, ..Entries::default() })
    }

    #[test]
    fn an_agent_says_what_its_node_has_and_one_of_before_says_nothing() {
        let node = |number| NumaNode { number, cpu_milli: 4_000, memory_mib: 512 };
        let said = |capacity: &Capacity| {
            let (place, told) = (("192.0.2.1".to_owned(), 1_500), (Vec::new(), capacity));
            let first = hello("host1", "", place, NodeRole::Host, told, ProgramVersion::default());
            let Some(from_agent::Message::Hello(hello)) = first.message else {
                panic!("{first:?}")
            };
            hello.capacity()
        };
        let told = Capacity { numa: vec![node(0), node(3)], link_mbit: Some(10_000) };
        assert_eq!(said(&told), told);
        assert!(!said(&Capacity::default()).is_told());
        assert_eq!(message::Hello::default().capacity(), Capacity::default());
        let many = Capacity { numa: (0..1_000).map(node).collect(), link_mbit: None };
        assert_eq!(said(&many).numa.len(), HOST_NUMA_NODES_MAX);
    }

    fn delta(base: &Program, to: &Program) -> message::Delta {
        deltas(&NodeName::new("host1").unwrap(), base, to).remove(0)
    }

    #[test]
    fn a_change_says_what_differs_and_nothing_else() {
        let base = program(1, &[(1, "a"), (2, "b"), (3, "c")]);
        let to = program(2, &[(1, "a"), (2, "z"), (4, "d")]);
        let part = delta(&base, &to);
        let (two, z) = chain(2, "z");
        let (four, d) = chain(4, "d");
        assert_eq!(
            Change::read_all(&part.changes, 3).unwrap(),
            [
                Change::Chain(two, Edit::Replace(z)),
                Change::Chain(chain(3, "").0, Edit::Remove),
                Change::Chain(four, Edit::Add(d)),
            ]
        );
        let mut draft = Draft::begin(&part, &base);
        draft.add(&part).unwrap();
        assert_eq!(draft.finish(&base).unwrap(), to);
    }

    #[test]
    fn a_change_of_something_else_is_refused_by_name() {
        let (base, to) = (program(1, &[(1, "a")]), program(2, &[(1, "b"), (2, "c")]));
        let part = delta(&base, &to);
        let refusal = |part: &message::Delta, base: &Program| -> DraftError {
            let mut draft = Draft::begin(part, base);
            let added = draft.add(part);
            added.and_then(|()| draft.finish(base)).unwrap_err()
        };
        let missing = refusal(&part, &program(1, &[]));
        assert!(missing.to_string().contains("changes an entry of chains"), "{missing}");
        let twice = refusal(&part, &program(1, &[(1, "a"), (2, "x")]));
        assert!(twice.to_string().contains("adds an entry of chains"), "{twice}");
        let other = refusal(&part, &program(1, &[(1, "a"), (9, "x")]));
        assert_eq!(other, DraftError::Digest(BlueprintNumber(2)));
        for length in 1..part.changes.len() {
            let mut cut = part.clone();
            cut.changes.truncate(length);
            let error = refusal(&cut, &base);
            let is_named = matches!(
                error,
                DraftError::Digest(_) | DraftError::Change(ChangeError::Unreadable { .. })
            );
            assert!(is_named, "{length}: {error}");
        }
        let mut unknown = part.clone();
        unknown.changes = vec![99, 0, 0];
        assert!(matches!(
            refusal(&unknown, &base),
            DraftError::Change(ChangeError::Unreadable { at: 0, length: 3, .. })
        ));
    }

    #[test]
    fn entries_that_exchange_a_part_have_another_digest() {
        let names = ["a", "b", "c", "d"];
        for (one, other) in names.iter().flat_map(|one| names.map(|other| (*one, other))) {
            let straight = program(1, &[(1, one), (2, other)]);
            let crossed = program(1, &[(1, other), (2, one)]);
            assert_eq!(straight.digest == crossed.digest, one == other);
        }
    }

    #[test]
    fn a_digest_is_the_same_however_a_program_came_about() {
        let whole = program(3, &[(1, "a"), (3, "c")]);
        let step =
            program(1, &[(1, "x"), (2, "b")]).following(BlueprintNumber(3), whole.entries.clone());
        assert_eq!(step, whole);
    }
}
