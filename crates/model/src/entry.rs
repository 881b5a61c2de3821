//! What a node is told, as keyed entries of a fixed list of kinds. Each kind is declared here, once: its
//! table, its key, its entry, and what of the entry must fit the key. A change of a program is a list of
//! edits of such entries.
//!
//! Tables are persistent: a copy costs nothing, and what two of them differ in is found without
//! looking at what both share.

use crate::bundle::{ConfigurationEntry, ConfigurationId, MemberEntry, MemberKey};
use crate::id::{ChainId, NetworkId, NodeName, PathId, PortId, RuleId, SliceId};
use crate::program::{
    BorderEntry, ChainEntry, ExitEntry, IdentityEntry, LocatorEntry, MacEntry, NeighbourEntry,
    NetworkEntry, NodeEntry, OnwardEntry, PathEntry, PinEntry, PortEntry, RouteEntry, RuleEntry,
    SetupEntry, SliceEntry, SlicePathEntry, StitchEntry, TunnelEntry,
};
use crate::resource::Encapsulation;
use crate::stitch::StitchKey;
use crate::topology::PortNumber;
use crate::{BlueprintNumber, NodeProgram};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::Debug;
use std::sync::Arc;
use uuid::Uuid;

/// Where a rule stands: the first that matches has the packet, in the order of these fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleKey {
    /// Of the rule; the highest goes first.
    pub priority: Reverse<u32>,
    /// Its place among rules of the same priority, part by part.
    pub order: Vec<u16>,
    /// The path that it sends into.
    pub path: PathId,
    /// The rule that was declared.
    pub rule: RuleId,
    /// The path whose record has it: of a rule at the end of a path, that path.
    pub source: PathId,
    /// Its place in that record: one rule that was declared may be several here.
    pub part: u32,
}

/// Entries that came and went in one table; one that changed did both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableDiff {
    /// New entries.
    pub added: usize,
    /// Entries that are gone.
    pub removed: usize,
}

impl TableDiff {
    /// What differs in one of two tables. Costs what differs.
    #[must_use]
    pub fn between<K: Ord + Clone, E: Clone + PartialEq>(
        former: &OrdMap<K, E>,
        now: &OrdMap<K, E>,
    ) -> Self {
        let mut found = Self::default();
        for item in former.diff(now) {
            found.added += usize::from(!matches!(item, DiffItem::Remove(..)));
            found.removed += usize::from(!matches!(item, DiffItem::Add(..)));
        }
        found
    }
}

/// One state of a node's program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// That of the blueprint that changed it last.
    pub number: BlueprintNumber,
    /// Of its entries.
    pub digest: Digest,
    /// All that it says.
    pub entries: Entries,
}

impl Program {
    /// The program of these entries. Costs all of them.
    #[must_use]
    pub fn new(number: BlueprintNumber, entries: Entries) -> Self {
        Self::default().following(number, entries)
    }

    /// The program that follows. Costs what differs.
    #[must_use]
    pub fn following(&self, number: BlueprintNumber, entries: Entries) -> Self {
        let digest = entries.digest_since(&self.entries, self.digest);
        Self { number, digest, entries }
    }

    /// By what it is known from others.
    #[must_use]
    pub fn version(&self) -> ProgramVersion {
        ProgramVersion { number: self.number, digest: self.digest }
    }
}

/// What a program is known by. A number alone stands for another program once a controller goes on
/// from an older copy of its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramVersion {
    /// 0: there is none.
    pub number: BlueprintNumber,
    /// Of its entries.
    pub digest: Digest,
}

/// What becomes of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edit<E> {
    /// It comes.
    Add(Arc<E>),
    /// It takes the place of the one that is there.
    Replace(Arc<E>),
    /// It goes.
    Remove,
}

impl<E> Edit<E> {
    /// The entry that is there afterwards.
    #[must_use]
    pub fn entry(&self) -> Option<&Arc<E>> {
        match self {
            Self::Add(entry) | Self::Replace(entry) => Some(entry),
            Self::Remove => None,
        }
    }
}

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The entry that comes is there already.
    #[error("it adds {0} twice")]
    Twice(String),
    /// The entry that goes, or is replaced, is not there.
    #[error("it changes {0}, which is not there")]
    Missing(String),
    /// The key is that of another entry.
    #[error("it gives {0} another's key")]
    Foreign(String),
    /// More edits than may come together.
    #[error("it has more than {0} entries")]
    TooMany(usize),
    /// The bytes are no edits of entries: cut, altered, or of a kind that is not known here.
    #[error("its entries cannot be read, from byte {at} of {length} on: {reason}")]
    Unreadable {
        /// Where the first begins that cannot be read.
        at: usize,
        /// How many bytes there are.
        length: usize,
        /// What the reader says.
        reason: String,
    },
}

/// A sum over entries, whatever their order, that changes with each of them: tells apart programs that
/// came about in different ways. Against mixing up and torn files, not against forgery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub u64);

impl Digest {
    /// Mixed, so that entries which exchange a part do not sum up to the same.
    fn of(bytes: &[u8]) -> u64 {
        let mut sum = checksum(bytes);
        for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
            sum = (sum ^ sum >> 30).wrapping_mul(factor);
        }
        sum ^ sum >> 31
    }

    fn put(&mut self, change: &Change) {
        self.0 = self.0.wrapping_add(Self::of(&change.bytes()));
    }

    fn take(&mut self, change: &Change) {
        self.0 = self.0.wrapping_sub(Self::of(&change.bytes()));
    }
}

/// FNV-1a, 64 bits: the same in all builds.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(PRIME))
}

fn edit_table<K: Ord + Clone + Debug, E: Clone>(
    kind: &str,
    table: &mut OrdMap<K, Arc<E>>,
    (key, edit): (K, Edit<E>),
    fits: impl Fn(&K, &E) -> bool,
) -> Result<(), ChangeError> {
    let name = |key: &K| format!("an entry of {kind} ({key:?})");
    if edit.entry().is_some_and(|entry| !fits(&key, entry)) {
        return Err(ChangeError::Foreign(name(&key)));
    }
    match (edit, table.contains_key(&key)) {
        (Edit::Add(_), true) => Err(ChangeError::Twice(name(&key))),
        (Edit::Replace(_) | Edit::Remove, false) => Err(ChangeError::Missing(name(&key))),
        (Edit::Add(entry) | Edit::Replace(entry), _) => {
            table.insert(key, entry);
            Ok(())
        }
        (Edit::Remove, true) => {
            table.remove(&key);
            Ok(())
        }
    }
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident $table:ident: $key:ty => $entry:ty, if $fits:expr;)+) => {
        /// The entries of one node.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Entries {
            $($(#[doc = $doc])+ pub $table: OrdMap<$key, Arc<$entry>>,)+
        }

        /// An edit of one entry.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Change {
            $($(#[doc = $doc])+ $kind($key, Edit<$entry>),)+
        }

        impl Entries {
            /// What differs from others, by table; tables without a difference are left out. Costs
            /// what differs.
            pub fn since(
                &self,
                former: &Self,
            ) -> impl Iterator<Item = (&'static str, TableDiff)> + use<> {
                let tables = [$((stringify!($table), TableDiff::between(&former.$table, &self.$table))),+];
                tables.into_iter().filter(|(_, found)| *found != TableDiff::default())
            }

            /// The edits that make this of others. Costs what differs.
            pub fn changes_since<'e>(&'e self, former: &'e Self) -> impl Iterator<Item = Change> + 'e {
                std::iter::empty()$(.chain(former.$table.diff(&self.$table).map(|item| match item {
                    DiffItem::Add(key, entry) => Change::$kind(key.clone(), Edit::Add(Arc::clone(entry))),
                    DiffItem::Update { new: (key, entry), .. } => {
                        Change::$kind(key.clone(), Edit::Replace(Arc::clone(entry)))
                    }
                    DiffItem::Remove(key, _) => Change::$kind(key.clone(), Edit::Remove),
                })))+
            }

            /// The digest of these, given others and theirs. Costs what differs.
            #[must_use]
            pub fn digest_since(&self, former: &Self, digest: Digest) -> Digest {
                let mut digest = digest;
                $(for item in former.$table.diff(&self.$table) {
                    let (old, new) = match item {
                        DiffItem::Add(key, new) => (None, Some((key, new))),
                        DiffItem::Update { old, new } => (Some(old), Some(new)),
                        DiffItem::Remove(key, old) => (Some((key, old)), None),
                    };
                    let added = |(key, entry): (&$key, &Arc<$entry>)| {
                        Change::$kind(key.clone(), Edit::Add(Arc::clone(entry)))
                    };
                    old.map(added).iter().for_each(|change| digest.take(change));
                    new.map(added).iter().for_each(|change| digest.put(change));
                })+
                digest
            }

            /// Makes one edit.
            ///
            /// # Errors
            /// When it does not fit what is there; nothing is changed then.
            pub fn edit(&mut self, change: Change) -> Result<(), ChangeError> {
                match change {
                    $(Change::$kind(key, edit) => {
                        edit_table(stringify!($table), &mut self.$table, (key, edit), $fits)
                    })+
                }
            }

            /// Each table by its name, to be told as text.
            pub fn tables(&self) -> Vec<(&'static str, &dyn Debug)> {
                vec![$((stringify!($table), &self.$table as &dyn Debug)),+]
            }

            /// How many there are, by table.
            #[must_use]
            pub fn lengths(&self) -> Vec<(&'static str, usize)> {
                vec![$((stringify!($table), self.$table.len())),+]
            }
        }

        impl Change {
            /// The table of its entry.
            #[must_use]
            pub const fn table(&self) -> &'static str {
                match self {
                    $(Self::$kind(..) => stringify!($table),)+
                }
            }
        }
    };
}

kinds! {
    /// The node itself.
    Node node: () => NodeEntry, if |(), _| true;
    /// The other nodes.
    Tunnel tunnels: NodeName => TunnelEntry, if |key, entry| *key == entry.node;
    /// Tenant networks present on the node, or reached by its paths.
    Network networks: NetworkId => NetworkEntry, if |key, entry| *key == entry.id;
    /// Ports that the node carries.
    Port ports: PortId => PortEntry, if |key, entry| *key == entry.id;
    /// Where the MAC of each port of those networks is.
    Mac macs: PortId => MacEntry, if |_, _| true;
    /// The addresses of each of those ports, by their place.
    Neighbour neighbours: (PortId, u16) => NeighbourEntry, if |_, _| true;
    /// Which packets enter which path.
    Rule rules: RuleKey => RuleEntry,
        if |key, entry| (key.priority.0, key.path, key.rule)
            == (entry.priority, entry.path, entry.id);
    /// The paths that touch the node.
    Path paths: PathId => PathEntry, if |key, entry| *key == entry.id;
    /// Names of the chains that own those paths.
    Chain chains: ChainId => ChainEntry, if |key, entry| *key == entry.id;
    /// Which flows stay on a path that was replaced, by the path that replaces it.
    Pin pins: (PathId, u16) => PinEntry, if |key, entry| key.0 == entry.new;
    /// Which traffic of 5G users enters which path of a slice.
    Slice slices: SliceId => SliceEntry, if |key, entry| *key == entry.id;
    /// The paths of slices.
    SlicePath slice_paths: PathId => SlicePathEntry, if |key, entry| *key == entry.id;
    /// What the port numbers of source routes stand for at the node.
    Exit exits: PortNumber => ExitEntry, if |key, entry| *key == entry.number;
    /// The ways to ports of other nodes.
    Route routes: (NodeName, PortId) => RouteEntry, if |key, entry| key.0 == entry.node && key.1 == entry.to;
    /// What the node divides numbers of ways by, by pass.
    Identity identities: u8 => IdentityEntry, if |key, entry| *key == entry.pass;
    /// Ways between other nodes, for headers over several functions.
    Onward onward: (NodeName, NodeName, PortId) => OnwardEntry,
        if |key, entry| (&key.0, &key.1, key.2) == (&entry.from, &entry.node, entry.to);
    /// The paths whose flows the controller is asked for.
    Setup setups: PathId => SetupEntry, if |key, entry| *key == entry.path;
    /// Where headers end that have no room for a whole route.
    Border borders: (NodeName, PortId, Encapsulation) => BorderEntry,
        if |key, entry| (&key.0, key.1, key.2) == (&entry.node, entry.to, entry.encapsulation);
    /// Where headers over several functions end between two of them.
    Stitch stitches: StitchKey => StitchEntry, if |key, entry| *key == entry.key();
    /// What bundled functions of the node are made of.
    Configuration configurations: ConfigurationId => ConfigurationEntry,
        if |key, entry| *key == entry.configuration.id();
    /// At which hops of paths they stand.
    Member members: MemberKey => MemberEntry, if |key, entry| *key == entry.key();
    /// The nodes that segments may name, itself among them.
    Locator locators: NodeName => LocatorEntry, if |key, entry| *key == entry.node;
}

impl Entries {
    /// The node itself.
    #[must_use]
    pub fn own(&self) -> Option<&NodeEntry> {
        self.node.get(&()).map(AsRef::as_ref)
    }

    /// What headers of an encapsulation hold of the way to a port of another node: the whole route, or, borrowed from
    /// nothing, its part up to an edge that writes the next header. None: there is no way.
    #[must_use]
    pub fn headed(
        &self,
        (node, port): (&NodeName, PortId),
        encapsulation: Encapsulation,
    ) -> Option<Cow<'_, RouteEntry>> {
        let route = self.routes.get(&(node.clone(), port))?;
        let border = self.borders.get(&(node.clone(), port, encapsulation));
        Some(border.map_or(Cow::Borrowed(&**route), |border| Cow::Owned(route.up_to(border))))
    }

    /// The whole program of a node, in lists. The order of each is that of its keys.
    #[must_use]
    pub fn program(&self, node: NodeName, number: BlueprintNumber) -> NodeProgram {
        fn list<K: Ord + Clone, E: Clone>(table: &OrdMap<K, Arc<E>>) -> Vec<E> {
            table.values().map(|entry| E::clone(entry)).collect()
        }
        let own = self.own().copied().unwrap_or_default();
        NodeProgram {
            node,
            number,
            underlay: own.underlay,
            choice_seed: own.choice_seed,
            discovery_key: own.discovery_key,
            tunnels: list(&self.tunnels),
            networks: list(&self.networks),
            ports: list(&self.ports),
            macs: list(&self.macs),
            neighbours: list(&self.neighbours),
            rules: list(&self.rules),
            paths: list(&self.paths),
            chains: list(&self.chains),
            pins: list(&self.pins),
            slices: list(&self.slices),
            slice_paths: list(&self.slice_paths),
            exits: list(&self.exits),
            routes: list(&self.routes),
            identities: list(&self.identities),
            onward: list(&self.onward),
            setups: list(&self.setups),
            borders: list(&self.borders),
            stitches: list(&self.stitches),
            configurations: list(&self.configurations),
            members: list(&self.members),
            locators: list(&self.locators),
        }
    }
}

impl Change {
    /// As it travels and rests.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        // Plain data, of known length: it always has this form.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Edits, one behind the other.
    ///
    /// # Errors
    /// When the bytes are something else, or more of them than `max`.
    pub fn read_all(bytes: &[u8], max: usize) -> Result<Vec<Self>, ChangeError> {
        let (length, mut rest) = (bytes.len(), bytes);
        let mut changes = Vec::new();
        while !rest.is_empty() {
            let at = length - rest.len();
            let (change, behind) = postcard::take_from_bytes(rest).map_err(|error| {
                ChangeError::Unreadable { at, length, reason: error.to_string() }
            })?;
            if changes.len() == max {
                return Err(ChangeError::TooMany(max));
            }
            changes.push(change);
            rest = behind;
        }
        Ok(changes)
    }
}

impl NodeProgram {
    /// The same as entries. What the lists do not say, which port has a MAC and an address, is made up.
    #[must_use]
    pub fn entries(&self) -> Entries {
        fn table<K: Ord + Clone, E: Clone>(
            list: &[E],
            key: impl Fn(u32, &E) -> K,
        ) -> OrdMap<K, Arc<E>> {
            let entries = (0..).zip(list);
            entries.map(|(place, entry)| (key(place, entry), Arc::new(entry.clone()))).collect()
        }
        let made_up = |place: u32| PortId(Uuid::from_u128(place.into()));
        let rule = |place: u32, rule: &RuleEntry| RuleKey {
            priority: Reverse(rule.priority),
            order: vec![(place >> 16) as u16, (place & 0xffff) as u16],
            path: rule.path,
            rule: rule.id,
            source: rule.path,
            part: 0,
        };
        let own = NodeEntry {
            underlay: self.underlay,
            choice_seed: self.choice_seed,
            discovery_key: self.discovery_key,
        };
        Entries {
            node: OrdMap::unit((), Arc::new(own)),
            tunnels: table(&self.tunnels, |_, entry| entry.node.clone()),
            networks: table(&self.networks, |_, entry| entry.id),
            ports: table(&self.ports, |_, entry| entry.id),
            macs: table(&self.macs, |place, _| made_up(place)),
            neighbours: table(&self.neighbours, |place, _| (made_up(place), 0)),
            rules: table(&self.rules, rule),
            paths: table(&self.paths, |_, entry| entry.id),
            chains: table(&self.chains, |_, entry| entry.id),
            pins: table(&self.pins, |place, entry| (entry.new, (place & 0xffff) as u16)),
            slices: table(&self.slices, |_, entry| entry.id),
            slice_paths: table(&self.slice_paths, |_, entry| entry.id),
            exits: table(&self.exits, |_, entry| entry.number),
            routes: table(&self.routes, |_, entry| (entry.node.clone(), entry.to)),
            identities: table(&self.identities, |_, entry| entry.pass),
            onward: table(&self.onward, |_, entry| {
                (entry.from.clone(), entry.node.clone(), entry.to)
            }),
            setups: table(&self.setups, |_, entry| entry.path),
            borders: table(&self.borders, |_, entry| {
                (entry.node.clone(), entry.to, entry.encapsulation)
            }),
            stitches: table(&self.stitches, |_, entry| entry.key()),
            configurations: table(&self.configurations, |_, entry| entry.configuration.id()),
            members: table(&self.members, |_, entry| entry.key()),
            locators: table(&self.locators, |_, entry| entry.node.clone()),
        }
    }
}
