//! What the kernel passes on from link to link, by link, profile and port number: made with the tables, and made anew
//! when a link is good for something else. Knows links, their guards and gates; refuses to know frames, and of
//! chains there is nothing to know.
//!
//! A row whose link turns ends at once, by the guard of the link's place. It is made again when both links are sound,
//! behind a closed gate: frames go up until all those that were counted before have been sent on, so none overtakes
//! another.

use super::flows::{LOST_NS, UNDER_WAY_NS};
use super::offload_tables::OffloadTables;
use super::{KernelPath, KernelPort, OffloadContext};
use crate::engine::account::tx_batches::Ends;
use crate::engine::account::updates::CounterUpdate;
use crate::engine::state::link_board::{LinkBoard, Use};
use crate::engine::tables::exits::Exits;
use crate::engine::vector::owner::{Owner, Passage};
use catena_fastpath::{Guard, PASSES_MAX, Way};
use catena_model::account::Volume;
use catena_model::id::PortId;
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_wire::source_route::Profile;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

/// What a link is good for in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// None: the kernel's program does not stand before it.
    interface: Option<u32>,
    /// Frames that it brings are a neighbour's.
    is_known: bool,
    /// Frames may leave by it, and need no way round.
    is_sound: bool,
}

/// A link that has a place.
struct Link {
    number: PortNumber,
    state: State,
    /// None: what was made by it has ended.
    guard: Option<Guard>,
}

/// How far a row has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// All frames go up.
    Closed,
    /// The same, until those that were counted have been sent on, or are lost; since when.
    Draining(u64),
    /// Frames go up and are counted: since when, and beginning with this count.
    Waiting(u64, u64),
    /// They pass.
    Open,
}

struct Row {
    phase: Phase,
    /// Of those that were counted, how many have been sent on.
    forwarded: u64,
    /// What is in the counters already.
    settled: Volume,
}

/// All rows, and the links that they are between.
#[derive(Default)]
pub(super) struct Transits {
    /// By place.
    links: Vec<Option<Link>>,
    rows: BTreeMap<Way, Row>,
    /// Those that wait or drain.
    pending: BTreeSet<Way>,
    /// By pass.
    divisors: Vec<u32>,
    /// The board's, when it was looked at.
    turns: Option<u64>,
}

impl KernelPath {
    /// What the kernel's tables hold but for what is counted.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn dump(&self) -> io::Result<Option<String>> {
        self.kernel_tables.dump()
    }

    /// Lets frames pass from link to link where both are good for that now, and no others. Answers whether that is
    /// otherwise than before.
    pub(crate) fn look_at_links(&mut self, with: &mut OffloadContext<'_>) -> bool {
        self.transits.look(&self.ports, with, &mut *self.kernel_tables)
    }

    /// Have links turned since it looked?
    pub(crate) fn have_links_turned(&self, links: &LinkBoard) -> bool {
        self.transits.have_turned(links)
    }

    /// The numbers of the links whose frames come by the kernel's program.
    pub(crate) fn steered(&self) -> impl Iterator<Item = u8> + '_ {
        self.transits.steered()
    }

    pub(super) fn settle_transits(&mut self, with: &mut OffloadContext<'_>) {
        let carried = self.transits.settle(with, &mut *self.kernel_tables);
        self.counters.carried.merge(carried);
    }
}

impl Transits {
    fn have_turned(&self, links: &LinkBoard) -> bool {
        self.turns != Some(links.turns())
    }

    fn steered(&self) -> impl Iterator<Item = u8> + '_ {
        let steered = self.links.iter().flatten().filter(|link| link.state.interface.is_some());
        steered.map(|link| link.number.get())
    }

    /// Lines up with links as they are; answers whether anything was otherwise.
    fn look(
        &mut self,
        ports: &HashMap<PortId, KernelPort>,
        with: &OffloadContext<'_>,
        kernel_tables: &mut dyn OffloadTables,
    ) -> bool {
        if kernel_tables.places() == 0 {
            return false;
        }
        // Before the states are read: what turns meanwhile is looked at again.
        self.turns = Some(with.links.turns());
        self.end_others(&with.tables.exits, kernel_tables);
        self.place(&with.tables.exits, kernel_tables);
        let state = |number: PortNumber| State {
            interface: ports.get(&number.link_id()).map(|port| port.interface),
            is_known: with.links.is_known(number.get()),
            is_sound: with.links.use_of(number.get()) == Use::Sound,
        };
        let mut turned = BTreeSet::new();
        for (place, link) in (0..).zip(&mut self.links) {
            let Some(link) = link else { continue };
            let state = state(link.number);
            if state != link.state || link.guard.is_none() {
                (link.state, link.guard) = (state, Some(kernel_tables.end_place(place)));
                turned.insert(place);
            }
        }
        if turned.is_empty() {
            return false;
        }
        self.divide(&with.tables.exits, kernel_tables);
        for way in self.ways() {
            if turned.contains(&way.from) || turned.contains(&way.to) {
                self.begin(way, with.now_ns, kernel_tables);
            }
        }
        true
    }

    /// Ends what other tables have not, or would treat otherwise.
    pub(super) fn end_others(&mut self, exits: &Exits, kernel_tables: &mut dyn OffloadTables) {
        for place in 0..self.links.len() {
            let is_gone = |link: &mut Link| !exits.is_link(link.number);
            let gone = self.links.get_mut(place).and_then(|link| link.take_if(is_gone));
            if let (Some(link), Ok(place)) = (gone, u8::try_from(place)) {
                self.leave(place, &link, kernel_tables);
            }
        }
        if polynomials(exits) != self.divisors {
            self.end_all(kernel_tables);
        }
    }

    /// Ends all until links are looked at again.
    pub(super) fn end_all(&mut self, kernel_tables: &mut dyn OffloadTables) {
        for (place, link) in (0..).zip(&mut self.links) {
            if let Some(link) = link.as_mut().filter(|link| link.guard.is_some()) {
                kernel_tables.end_place(place);
                link.guard = None;
            }
        }
    }

    /// Gives links without a place one, as long as there are any.
    fn place(&mut self, exits: &Exits, kernel_tables: &mut dyn OffloadTables) {
        self.links.resize_with(kernel_tables.places().into(), || None);
        for (number, _) in exits.links() {
            if self.links.iter().flatten().any(|link| link.number == number) {
                continue;
            }
            let Some(place) = self.links.iter().position(Option::is_none) else { return };
            let link = Link { number, state: State::default(), guard: None };
            self.links[place] = Some(link);
            kernel_tables.set_place(number.get(), u8::try_from(place).ok());
        }
    }

    fn leave(&mut self, place: u8, link: &Link, kernel_tables: &mut dyn OffloadTables) {
        kernel_tables.end_place(place);
        kernel_tables.set_place(link.number.get(), None);
        let is_its = |way: &Way| way.from == place || way.to == place;
        self.pending.retain(|way| !is_its(way));
        self.rows.retain(|way, _| {
            if is_its(way) {
                kernel_tables.let_none_pass(*way);
            }
            !is_its(way)
        });
    }

    /// Nothing passes while this changes: all places have ended then.
    fn divide(&mut self, exits: &Exits, kernel_tables: &mut dyn OffloadTables) {
        let polynomials = polynomials(exits);
        if polynomials != self.divisors {
            for pass in 0..PASSES_MAX {
                let by = polynomials.get(usize::from(pass)).copied().unwrap_or(0);
                kernel_tables.divide_by(pass, by);
            }
            self.divisors = polynomials;
        }
    }

    /// From each link to each, in each profile.
    fn ways(&self) -> Vec<Way> {
        let places: Vec<u8> =
            (0..).zip(&self.links).filter(|(_, link)| link.is_some()).map(|(at, _)| at).collect();
        let to_each = |from: u8, profile: Profile| {
            places.iter().map(move |to| Way { from, profile, to: *to })
        };
        let by_each = |from: u8| Profile::ALL.into_iter().flat_map(move |one| to_each(from, one));
        places.iter().copied().flat_map(by_each).collect()
    }

    /// The interface by which frames of a way may leave, and what that depends on; none: they may not.
    fn may_pass(&self, way: Way) -> Option<(u32, [Guard; 2])> {
        let link = |place: u8| self.links.get(usize::from(place))?.as_ref();
        let (from, to) = (link(way.from)?, link(way.to)?);
        from.state.interface.filter(|_| from.state.is_known)?;
        let interface = to.state.interface.filter(|_| to.state.is_sound)?;
        Some((interface, [from.guard?, to.guard?]))
    }

    /// One of the links of a row has turned: the row has ended.
    fn begin(&mut self, way: Way, now_ns: u64, kernel_tables: &mut dyn OffloadTables) {
        let counted = kernel_tables.counted(way);
        let row = self.rows.entry(way).or_insert_with(|| Row {
            phase: Phase::Closed,
            forwarded: counted,
            // What somebody else counted is not ours.
            settled: kernel_tables.passed_on(way),
        });
        let is_clear = row.forwarded == counted;
        kernel_tables.let_none_pass(way);
        row.phase = Phase::Draining(now_ns);
        match self.may_pass(way) {
            Some(may) if is_clear => self.install(way, may, now_ns, kernel_tables),
            Some(_) => {
                self.pending.insert(way);
            }
            None => self.set_phase(way, Phase::Closed),
        }
    }

    fn install(
        &mut self,
        way: Way,
        (interface, guards): (u32, [Guard; 2]),
        now_ns: u64,
        kernel_tables: &mut dyn OffloadTables,
    ) {
        let counted = kernel_tables.counted(way);
        kernel_tables.let_pass(way, interface, guards);
        self.set_phase(way, Phase::Waiting(now_ns, counted));
        self.pending.insert(way);
    }

    fn set_phase(&mut self, way: Way, phase: Phase) {
        if let Some(row) = self.rows.get_mut(&way) {
            row.phase = phase;
        }
        if matches!(phase, Phase::Closed | Phase::Open) {
            self.pending.remove(&way);
        }
    }

    /// Frames that the kernel had counted have been sent on: where they were the last, the kernel goes on.
    pub(super) fn note_forwarded(
        &mut self,
        counted: impl Iterator<Item = (u8, Profile, u8)>,
        now_ns: u64,
        kernel_tables: &mut dyn OffloadTables,
    ) {
        let mut last = None;
        for (from, profile, to) in counted {
            let (Some(from), Some(to)) = (self.place_of(from), self.place_of(to)) else { continue };
            let way = Way { from, profile, to };
            let Some(row) = self.rows.get_mut(&way) else { continue };
            row.forwarded += 1;
            if let Some(before) = last.replace(way).filter(|before| *before != way) {
                self.advance(before, now_ns, kernel_tables);
            }
        }
        if let Some(way) = last {
            self.advance(way, now_ns, kernel_tables);
        }
    }

    fn place_of(&self, number: u8) -> Option<u8> {
        let is_its = |link: &Option<Link>| link.as_ref().is_some_and(|l| l.number.get() == number);
        u8::try_from(self.links.iter().position(is_its)?).ok()
    }

    /// Looks after all that waits.
    pub(super) fn hand_over(&mut self, now_ns: u64, kernel_tables: &mut dyn OffloadTables) {
        for way in self.pending.clone() {
            self.advance(way, now_ns, kernel_tables);
        }
    }

    fn advance(&mut self, way: Way, now_ns: u64, kernel_tables: &mut dyn OffloadTables) {
        let Some(row) = self.rows.get_mut(&way) else { return };
        let counted = kernel_tables.counted(way);
        let is_clear = row.forwarded == counted;
        match row.phase {
            Phase::Waiting(since_ns, first) => {
                let age_ns = now_ns.saturating_sub(since_ns);
                // What went up uncounted before the first that is counted may be on its way still.
                let is_early = counted == first && age_ns < UNDER_WAY_NS;
                if is_clear && !is_early && kernel_tables.open_way(way, row.forwarded) {
                    self.set_phase(way, Phase::Open);
                } else if !is_clear && age_ns > LOST_NS {
                    kernel_tables.let_none_pass(way);
                    row.phase = Phase::Draining(now_ns);
                }
            }
            Phase::Draining(since_ns) => {
                if is_clear || now_ns.saturating_sub(since_ns) > LOST_NS {
                    row.forwarded = counted;
                    match self.may_pass(way) {
                        Some(may) => self.install(way, may, now_ns, kernel_tables),
                        None => self.set_phase(way, Phase::Closed),
                    }
                }
            }
            Phase::Closed | Phase::Open => {}
        }
    }

    /// Counts what has passed since the last time; answers how much that was.
    fn settle(
        &mut self,
        with: &mut OffloadContext<'_>,
        kernel_tables: &mut dyn OffloadTables,
    ) -> Volume {
        let mut all = Volume::default();
        let Self { links, rows, .. } = self;
        for (way, row) in rows {
            let now = kernel_tables.passed_on(*way);
            let since = Volume {
                packets: now.packets.wrapping_sub(row.settled.packets),
                bytes: now.bytes.wrapping_sub(row.settled.bytes),
            };
            let link = |place: u8| links.get(usize::from(place))?.as_ref();
            let (Some(from), Some(to)) = (link(way.from), link(way.to)) else { continue };
            if since.packets == 0 {
                continue;
            }
            let owner = |link: &Link| -> Option<Owner> {
                Some(with.slots.owner(with.slots.of_port(link.number.link_id())?).0)
            };
            let (Some(owner), Some(to)) = (owner(from), owner(to)) else { continue };
            row.settled = now;
            with.links.brought(from.number.get());
            with.counters.apply(CounterUpdate::Received(owner), since);
            let ends = Ends { owner, to, passage: Passage::Ordinary };
            let left = as_it_leaves(since, way.profile);
            with.counters.apply(CounterUpdate::Sent(ends), left);
            all.merge(since);
        }
        all
    }
}

/// A step of labels takes one off.
fn as_it_leaves(came: Volume, profile: Profile) -> Volume {
    let by = Encapsulation::of_profile(profile);
    let shorter = by.map_or(0, |by| came.packets * by.route_bytes_per_port_taken() as u64);
    Volume { packets: came.packets, bytes: came.bytes.saturating_sub(shorter) }
}

/// What a node divides by, by pass.
fn polynomials(exits: &Exits) -> Vec<u32> {
    exits.reducers().iter().map(|reducer| reducer.by().bits()).collect()
}
