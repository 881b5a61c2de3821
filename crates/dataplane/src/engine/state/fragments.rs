//! Fragments: only the first of a packet has its ports and what else rules look at, so all others wait for
//! it. Learned from the first is what all of them are judged by, so that all take one path and meet the
//! same instances. Knows the fields that tell packets apart (RFC 791 section 3.2, RFC 8200 section 4.5);
//! refuses to reassemble.
//!
//! A later fragment that comes before its first is set aside (`held`) wherever anything depends on ports.
//! Of a packet with two first fragments that differ, and of fragments that overlap the first, no
//! two receivers make the same: those end by name. Once all of a packet has passed it is forgotten
//! (`coverage`), so that nothing of a later packet with its name is taken for a part of it. Which
//! way it went is kept (`passed`): a receiver that refused the first one may put the others together
//! with another first, so that must go the same way.
//!
//! Bounded and forgetful: a packet has eight places, given by its hash. Where they are taken, a newer
//! one gets that of a packet that is over, or of the scope that most packets are remembered of
//! (`shares`), the oldest. What is forgotten has no first, so its later fragments wait and end by name.

mod coverage;
mod held;
mod passed;

pub(crate) use held::{Held, Standing};

use super::network_mac;
use crate::engine::collections::shares::{Holder, Shares, must_yield};
use crate::engine::packet::index::UNTOLD_NETWORK;
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::tables::port::PortTable;
use crate::engine::vector::Work;
use catena_model::DropReason;
use catena_wire::flow::{FlowKey, mix};
use catena_wire::fragment::FragmentPlace;
use catena_wire::frame::{Fragment, FrameView};
use catena_wire::scalar::{MacAddr, VlanId};
use catena_wire::varying::VaryingFields;
use coverage::Coverage;
use held::Waitlist;
pub(crate) use passed::FragmentWay;
use passed::Passed;
use std::cmp::Reverse;
use std::ops::Range;

/// Packets remembered.
const FRAGMENTED_PACKETS_MAX: usize = 1_024;
/// Places that a packet can have.
const WAYS: usize = 8;
/// How long, in nanoseconds: as long as receivers wait for the rest (RFC 8200 section 4.5).
const FRAGMENT_LIFETIME_NS: u64 = 60_000_000_000;

/// What separates equal packets of different tenants, and the times that one packet passes here: the
/// port it came by, or where on which path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FragmentScope {
    /// The port with this serial, bare.
    Port(u32),
    /// The same, of the network that its MAC says.
    Told(u32, u32),
    /// The port with this serial, at this hop of the path with this serial.
    Headed(u32, u64, u16),
    /// A tunnel, at this hop of the path with this serial.
    Path(u64, u16),
}

impl FragmentScope {
    /// That of a packet that came by the port with this serial, from this MAC.
    pub(crate) fn by_port(serial: u32, port: &PortTable, source: MacAddr) -> Self {
        match network_mac::told_by(port, source) {
            Some(UNTOLD_NETWORK) | None => Self::Port(serial),
            Some(network) => Self::Told(serial, network),
        }
    }

    /// A number to spread equal packets of different scopes by.
    fn number(self) -> u64 {
        match self {
            Self::Port(serial) => u64::from(serial) << 2,
            Self::Headed(port, serial, hop) => {
                (serial << 8 ^ u64::from(hop) ^ u64::from(port) << 40) << 2 | 1
            }
            Self::Path(serial, hop) => (serial << 8 ^ u64::from(hop)) << 2 | 2,
            Self::Told(port, network) => (u64::from(port) ^ u64::from(network) << 32) << 2 | 3,
        }
    }
}

/// What the fragments of one packet have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FragmentName {
    scope: FragmentScope,
    vlan: Option<VlanId>,
    /// The flow without ports.
    flow: FlowKey,
    identification: u32,
    /// Under a seed that nobody outside knows, so that no sender can aim at another's places.
    hash: u64,
}

impl FragmentName {
    fn new(seed: u64, scope: FragmentScope, view: &FrameView, identification: u32) -> Option<Self> {
        let flow = FragmentPlace::common(&view.flow?);
        Some(Self { scope, vlan: view.vlan, flow, identification, hash: 0 }.hashed(seed))
    }

    /// The same packet in another scope, or another memory with its own seed.
    fn hashed(self, seed: u64) -> Self {
        let of_scope = self.flow.seeded_hash(mix(seed ^ self.scope.number()));
        Self { hash: mix(of_scope ^ u64::from(self.identification)), ..self }
    }

    /// The places that the packet can have.
    fn places(&self) -> Range<usize> {
        let sets = FRAGMENTED_PACKETS_MAX / WAYS;
        let set = usize::try_from(self.hash % sets as u64).unwrap_or(0);
        set * WAYS..(set + 1) * WAYS
    }
}

/// What a first fragment says.
#[derive(Debug, Clone, Copy)]
struct Head {
    name: FragmentName,
    flow: FlowKey,
    varying: VaryingFields,
    /// Whose packet it is.
    user: Subscriber,
    /// How the first fragment begins, and how far others must keep away from.
    head: u64,
    first_end: u32,
    /// None: there is but one way here.
    way: Option<FragmentWay>,
    seen: Coverage,
    seen_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    first: Head,
    holder: Holder,
    /// Counts the first fragments: of a vector, all are seen at one time.
    turn: u64,
}

/// What is known of a packet, as far as fragments go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FragmentVerdict {
    /// It is whole, or a later fragment that has the ports of its first now.
    GoesOn,
    /// It is a first fragment: those that wait for it may follow.
    First(FragmentName),
    /// It is a later fragment, and its first has not come.
    Orphan(FragmentName),
}

/// The memory of first fragments, and those that wait for theirs.
#[derive(Debug)]
pub(crate) struct Fragments {
    entries: Vec<Option<Entry>>,
    shares: Shares<FragmentScope>,
    turn: u64,
    passed: Passed,
    waitlist: Waitlist,
    seed: u64,
}

impl Fragments {
    pub(crate) fn new(seed: u64) -> Self {
        let entries = vec![None; FRAGMENTED_PACKETS_MAX];
        let (passed, waitlist) = (Passed::new(), Waitlist::new());
        Self { entries, shares: Shares::new(), turn: 0, passed, waitlist, seed }
    }

    /// Learns from a first fragment, and completes the flow and user of a later one. `is_once`: a
    /// packet passes this place once, and what has passed whole can be forgotten. `way`: where a
    /// first fragment goes from here, if there are several ways.
    ///
    /// # Errors
    /// What is wrong with the fragment beside others of its packet.
    pub(crate) fn resolve(
        &mut self,
        now_ns: u64,
        scope: FragmentScope,
        (is_once, way): (bool, Option<FragmentWay>),
        (bytes, view, user): (&[u8], &mut FrameView, &mut Subscriber),
    ) -> Result<FragmentVerdict, DropReason> {
        if view.fragment == Fragment::Whole {
            return Ok(FragmentVerdict::GoesOn);
        }
        let place = FragmentPlace::read(bytes, view).ok_or(DropReason::MalformedIp)?;
        let name = FragmentName::new(self.seed, scope, view, place.identification);
        let name = name.ok_or(DropReason::MalformedIp)?;
        if view.fragment == Fragment::First {
            self.learn(now_ns, &place, (name, way), (view, user))?;
            return Ok(FragmentVerdict::First(name));
        }
        let Some(at) = self.find(now_ns, &name) else { return Ok(FragmentVerdict::Orphan(name)) };
        let Some(Entry { first: entry, .. }) = &mut self.entries[at] else {
            return Ok(FragmentVerdict::Orphan(name));
        };
        if place.start < entry.first_end {
            return Err(DropReason::FragmentOverlap);
        }
        if !self.passed.pass(now_ns, &name, entry.way) {
            return Err(DropReason::FragmentWithoutFirst);
        }
        (view.flow, view.varying) = (Some(entry.flow), entry.varying);
        view.protocol = Some(entry.flow.protocol);
        *user = entry.user;
        entry.seen.add(place.start, place.end, place.is_last);
        if is_once && entry.seen.is_complete() {
            self.forget(at);
        }
        Ok(FragmentVerdict::GoesOn)
    }

    /// Completes the flow and user of a later fragment, for whoever asks.
    pub(crate) fn complete(
        &self,
        now_ns: u64,
        scope: FragmentScope,
        bytes: &[u8],
        view: &mut FrameView,
        user: &mut Subscriber,
    ) {
        let place = FragmentPlace::read(bytes, view).filter(|_| view.fragment == Fragment::Later);
        let name =
            place.and_then(|place| FragmentName::new(self.seed, scope, view, place.identification));
        let entry = name.and_then(|name| self.entries[self.find(now_ns, &name)?]);
        if let Some(Entry { first, .. }) = entry {
            (view.flow, view.varying) = (Some(first.flow), first.varying);
            *user = first.user;
        }
    }

    /// Where a packet is remembered.
    fn find(&self, now_ns: u64, name: &FragmentName) -> Option<usize> {
        name.places().find(|place| {
            let found = self.entries[*place].as_ref().map(|entry| &entry.first);
            found.is_some_and(|found| found.name == *name && !is_overdue(found, now_ns))
        })
    }

    fn forget(&mut self, at: usize) {
        if let Some(Entry { holder, .. }) = self.entries[at].take() {
            self.shares.give_back(holder);
        }
    }

    fn learn(
        &mut self,
        now_ns: u64,
        place: &FragmentPlace,
        (name, way): (FragmentName, Option<FragmentWay>),
        (view, user): (&FrameView, &Subscriber),
    ) -> Result<(), DropReason> {
        let flow = view.flow.ok_or(DropReason::MalformedIp)?;
        let known = self.find(now_ns, &name).and_then(|at| self.entries[at].as_ref());
        let known = known.map(|entry| &entry.first);
        let known = known.filter(|known| !known.seen.is_complete());
        let is_same = known.is_none_or(|known| {
            (known.flow, known.varying) == (flow, view.varying)
                && known.head == place.head
                && known.first_end == place.end.max(place.header_end)
                && known.user.identity() == user.identity()
        });
        let is_known = known.is_some();
        if !is_same || !self.passed.pass(now_ns, &name, way) {
            return Err(DropReason::SecondFirstFragment);
        }
        if is_known {
            return Ok(());
        }
        let mut seen = Coverage::default();
        seen.add(place.start, place.end, place.is_last);
        let first_end = place.end.max(place.header_end);
        let (head, varying, user) = (place.head, view.varying, *user);
        let seen_ns = now_ns;
        self.put(now_ns, Head { name, flow, varying, user, head, first_end, way, seen, seen_ns });
        Ok(())
    }

    /// Remembers a first fragment, if it finds a place.
    fn put(&mut self, now_ns: u64, first: Head) {
        let is_it = |at: &usize| {
            self.entries[*at].as_ref().is_some_and(|entry| entry.first.name == first.name)
        };
        let known = first.name.places().find(is_it);
        let Some(at) = known.or_else(|| self.place_for_new(now_ns, &first.name)) else { return };
        self.forget(at);
        self.turn += 1;
        let holder = self.shares.take(first.name.scope);
        self.entries[at] = Some(Entry { first, holder, turn: self.turn });
    }

    /// Which of its places a new packet gets; none: all others have fewer.
    fn place_for_new(&self, now_ns: u64, name: &FragmentName) -> Option<usize> {
        let own = self.shares.held_by(&name.scope);
        let candidates = name.places().filter_map(|at| {
            let Some(Entry { first, holder, turn }) = &self.entries[at] else {
                return Some(((true, 0, Reverse(0)), at));
            };
            let is_over = first.seen.is_complete() || is_overdue(first, now_ns);
            let held = self.shares.held(*holder);
            let may_go = is_over || first.name.scope == name.scope || must_yield(held, own);
            may_go.then_some(((is_over, held, Reverse(*turn)), at))
        });
        candidates.max_by_key(|(rank, _)| *rank).map(|(_, at)| at)
    }

    /// Lets a fragment wait for its first, or answers which one finds no room, this or another.
    pub(crate) fn hold(
        &mut self,
        now_ns: u64,
        name: FragmentName,
        work: Work,
        standing: Option<Standing>,
    ) -> Option<(Work, DropReason)> {
        self.waitlist.hold(now_ns, name, work, standing)
    }

    /// The next of those that wait for this packet's first.
    pub(crate) fn next_of(&mut self, name: &FragmentName) -> Option<Held> {
        self.waitlist.next_of(name)
    }

    /// The next that has waited for too long.
    pub(crate) fn next_ended(&mut self, now_ns: u64) -> Option<Work> {
        self.waitlist.next_ended(now_ns)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waitlist.len()
    }

    /// When the next will have waited for too long; none: none waits.
    pub(crate) fn next_end_ns(&self) -> Option<u64> {
        self.waitlist.next_end_ns()
    }

    /// Learns which way a packet's fragments went by another memory; `scopes`: what its port is
    /// called there and here.
    pub(crate) fn borrow_way(
        &mut self,
        other: &Self,
        now_ns: u64,
        [there, here]: [FragmentScope; 2],
        (bytes, view): (&[u8], &FrameView),
    ) {
        let Some(place) = FragmentPlace::read(bytes, view) else { return };
        let there = FragmentName::new(other.seed, there, view, place.identification);
        let here = FragmentName::new(self.seed, here, view, place.identification);
        let (Some(there), Some(here)) = (there, here) else { return };
        self.passed.pass(now_ns, &here, other.passed.way_of(now_ns, &there));
    }

    /// Learns what another memory knows; `scope` says what a scope of it is called here.
    pub(crate) fn borrow_from(
        &mut self,
        other: &Self,
        scope: impl Fn(FragmentScope) -> Option<FragmentScope>,
    ) {
        for Entry { first, .. } in other.entries.iter().flatten() {
            if let Some(scope) = scope(first.name.scope) {
                let name = FragmentName { scope, ..first.name }.hashed(self.seed);
                self.put(first.seen_ns, Head { name, ..*first });
            }
        }
    }
}

/// Does nobody wait for the rest of the packet any more?
fn is_overdue(first: &Head, now_ns: u64) -> bool {
    now_ns.saturating_sub(first.seen_ns) > FRAGMENT_LIFETIME_NS
}
