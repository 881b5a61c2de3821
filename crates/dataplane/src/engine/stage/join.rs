//! Tokens on their way through the members of a hop: who may be asked about which, when all of a stage have answered,
//! and who leaves next.
//!
//! Each member meets tokens in the order in which they have entered, whichever way they take through the hop, and they
//! leave in that order. Answers may come in any order, late, twice or never. Knows numbers; refuses to know packets,
//! functions, threads and clocks: time is an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The functions that a token meets, in the order of its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The number of each function.
    pub(crate) members: Vec<u32>,
    /// Places in `members`, one behind the other: those of one stage are asked side by side.
    pub(crate) stages: Vec<Range<usize>>,
}

/// A question that is to be put to a member.
#[derive(Debug)]
pub(crate) struct Question<B> {
    pub(crate) token: u64,
    /// Its place in the route.
    pub(crate) member: usize,
    /// The number of its function.
    pub(crate) function: u32,
    pub(crate) batch: Arc<B>,
}

/// A stage of which all members have answered.
#[derive(Debug)]
pub(crate) struct Merging<B, A> {
    pub(crate) token: u64,
    pub(crate) route: Arc<Route>,
    /// The members of the stage, as places in the route.
    pub(crate) members: Range<usize>,
    pub(crate) batch: B,
    /// One for each member, in their order.
    pub(crate) answers: Vec<A>,
}

#[derive(Debug)]
enum Content<B, A> {
    /// Lent to the members of its stage.
    Lent { batch: Arc<B>, answers: Vec<Option<A>>, asked_ns: Vec<Option<u64>> },
    /// With whoever merges.
    Merging,
    /// Through: it waits for those before it.
    Through(B),
    /// It will not come: somebody has not given it back.
    Lost,
}

#[derive(Debug)]
struct Slot<B, A> {
    route: Arc<Route>,
    stage: usize,
    content: Content<B, A>,
}

/// The tokens that a function is still to meet, the oldest first.
#[derive(Debug, Default)]
struct Queue {
    tokens: VecDeque<u64>,
    /// So many of the first have been asked about.
    asked: usize,
}

/// All tokens that are under way.
#[derive(Debug)]
pub(crate) struct Join<B, A> {
    /// The number of the oldest.
    first: u64,
    slots: VecDeque<Slot<B, A>>,
    queues: BTreeMap<u32, Queue>,
    /// Tokens and places of members that may be asked.
    askable: VecDeque<(u64, usize)>,
    /// Tokens of which all members of a stage have answered.
    answered: BTreeSet<u64>,
}

impl<B, A> Default for Join<B, A> {
    fn default() -> Self {
        Self {
            first: 0,
            slots: VecDeque::new(),
            queues: BTreeMap::new(),
            askable: VecDeque::new(),
            answered: BTreeSet::new(),
        }
    }
}

impl<B, A> Join<B, A> {
    /// Is nothing under way?
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// A token enters, behind all others. A route has a stage at least, and each stage a member.
    pub(crate) fn enter(&mut self, route: Arc<Route>, batch: B) -> u64 {
        let token = self.first + self.slots.len() as u64;
        for function in &route.members {
            self.queues.entry(*function).or_default().tokens.push_back(token);
        }
        let content = lend(&route, 0, batch);
        let functions = route.members.clone();
        self.slots.push_back(Slot { route, stage: 0, content });
        functions.into_iter().for_each(|function| self.look(function));
        token
    }

    /// The next question that may be put, at this time.
    pub(crate) fn ask(&mut self, now_ns: u64) -> Option<Question<B>> {
        loop {
            let (token, member) = self.askable.pop_front()?;
            let Some(Slot { route, stage, content: Content::Lent { batch, asked_ns, .. } }) =
                self.slot(token)
            else {
                continue;
            };
            let members = stage_of(route, *stage);
            let place = member.checked_sub(members.start);
            let place = place.and_then(|place| asked_ns.get_mut(place));
            let (Some(place), Some(function)) = (place, route.members.get(member)) else {
                continue;
            };
            *place = Some(now_ns);
            return Some(Question { token, member, function: *function, batch: Arc::clone(batch) });
        }
    }

    /// A member has answered. The answer is given back where nobody waits for it.
    ///
    /// # Errors
    /// It is of a token that is not there, of a member that was not asked, or has answered before.
    pub(crate) fn answer(&mut self, token: u64, member: usize, answer: A) -> Result<(), A> {
        let Some(Slot { route, stage, content: Content::Lent { answers, asked_ns, .. } }) =
            self.slot(token)
        else {
            return Err(answer);
        };
        let members = stage_of(route, *stage);
        let Some(at) = member.checked_sub(members.start) else { return Err(answer) };
        match (answers.get_mut(at), asked_ns.get(at)) {
            (Some(place @ None), Some(Some(_))) => *place = Some(answer),
            _ => return Err(answer),
        }
        if answers.iter().all(Option::is_some) {
            self.answered.insert(token);
        }
        Ok(())
    }

    /// The next stage that can be merged: all have answered, and each member's earlier tokens are merged. It ends with
    /// [`Self::go_on`].
    pub(crate) fn merge(&mut self) -> Option<Merging<B, A>> {
        let token = self.answered.iter().copied().find(|token| self.is_turn(*token))?;
        let Slot { route, stage, content } = self.slot(token)?;
        let members = stage_of(route, *stage);
        let route = Arc::clone(route);
        let Content::Lent { batch, answers, asked_ns } =
            std::mem::replace(content, Content::Merging)
        else {
            return None;
        };
        let batch = match Arc::try_unwrap(batch) {
            Ok(batch) => batch,
            Err(batch) => {
                // Somebody who has answered holds it still: the next look may find it free.
                *content = Content::Lent { batch, answers, asked_ns };
                return None;
            }
        };
        self.answered.remove(&token);
        let answers = answers.into_iter().flatten().collect();
        for function in route.members.get(members.clone()).unwrap_or_default() {
            if let Some(queue) = self.queues.get_mut(function) {
                queue.tokens.pop_front();
                queue.asked = queue.asked.saturating_sub(1);
            }
        }
        Some(Merging { token, route, members, batch, answers })
    }

    /// Is a token the oldest that the members of its stage have not met?
    fn is_turn(&self, token: u64) -> bool {
        let place = token.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let Some(Slot { route, stage, .. }) = place.and_then(|place| self.slots.get(place)) else {
            return false;
        };
        let members = route.members.get(stage_of(route, *stage)).unwrap_or_default();
        let oldest = |function| self.queues.get(function).and_then(|queue| queue.tokens.front());
        members.iter().all(|function| oldest(function) == Some(&token))
    }

    /// A stage of a token is merged. `has_rest`: something of it is left to be asked about; else it is through,
    /// whatever stages it had before it.
    pub(crate) fn go_on(&mut self, token: u64, batch: B, has_rest: bool) {
        let Some(slot) = self.slot(token) else { return };
        let met = stage_of(&slot.route, slot.stage);
        let functions = slot.route.members.get(met.start..).unwrap_or_default().to_vec();
        slot.stage += 1;
        slot.content = match has_rest && slot.stage < slot.route.stages.len() {
            true => lend(&slot.route, slot.stage, batch),
            false => Content::Through(batch),
        };
        functions.into_iter().for_each(|function| self.look(function));
    }

    /// The oldest token, if it is through.
    pub(crate) fn leave(&mut self) -> Option<(u64, B)> {
        loop {
            match &self.slots.front()?.content {
                Content::Through(_) | Content::Lost => {}
                Content::Lent { .. } | Content::Merging => return None,
            }
            let slot = self.slots.pop_front()?;
            let token = self.first;
            self.first += 1;
            if self.slots.is_empty() {
                self.queues.clear();
                self.askable.clear();
            }
            if let Content::Through(batch) = slot.content {
                return Some((token, batch));
            }
        }
    }

    /// A question to one of some functions that was put before this time and is not answered: its token, and the
    /// function.
    pub(crate) fn overdue(&self, before_ns: u64, of: impl Fn(u32) -> bool) -> Option<(u64, u32)> {
        (self.first..).zip(&self.slots).find_map(|(token, slot)| {
            let Content::Lent { answers, asked_ns, .. } = &slot.content else { return None };
            let members = stage_of(&slot.route, slot.stage);
            let functions = slot.route.members.get(members).unwrap_or_default();
            let mut late = functions.iter().zip(answers.iter().zip(asked_ns));
            let (function, _) = late.find(|(function, (answer, asked_ns))| {
                let is_late = asked_ns.is_some_and(|asked_ns| asked_ns < before_ns);
                answer.is_none() && is_late && of(**function)
            })?;
            Some((token, *function))
        })
    }

    /// Gives a token up that is lent: what is in it can be read as long as somebody holds it.
    pub(crate) fn lose(&mut self, token: u64) -> Option<Arc<B>> {
        let slot = self.slot(token)?;
        let Content::Lent { .. } = slot.content else { return None };
        let Content::Lent { batch, .. } = std::mem::replace(&mut slot.content, Content::Lost)
        else {
            return None;
        };
        let functions = slot.route.members.clone();
        self.answered.remove(&token);
        for function in functions {
            if let Some(queue) = self.queues.get_mut(&function)
                && let Some(place) = queue.tokens.iter().position(|one| *one == token)
            {
                queue.tokens.remove(place);
                queue.asked -= usize::from(place < queue.asked);
            }
            self.look(function);
        }
        Some(batch)
    }

    fn slot(&mut self, token: u64) -> Option<&mut Slot<B, A>> {
        let place = usize::try_from(token.checked_sub(self.first)?).ok()?;
        self.slots.get_mut(place)
    }

    /// Finds what a function may be asked about now: tokens in their order, as far as they have come to it.
    fn look(&mut self, function: u32) {
        let Self { first, slots, queues, askable, .. } = self;
        let Some(queue) = queues.get_mut(&function) else { return };
        while let Some(token) = queue.tokens.get(queue.asked).copied() {
            let place = token.checked_sub(*first).and_then(|place| usize::try_from(place).ok());
            let slot = place.and_then(|place| slots.get(place));
            let Some(Slot { route, stage, content: Content::Lent { .. } | Content::Merging }) =
                slot
            else {
                // It has ended before it came here.
                queue.tokens.remove(queue.asked);
                continue;
            };
            let members = stage_of(route, *stage);
            let here = route.members.iter().position(|one| *one == function);
            let Some(member) = here.filter(|member| members.contains(member)) else { return };
            askable.push_back((token, member));
            queue.asked += 1;
        }
    }
}

fn stage_of(route: &Route, stage: usize) -> Range<usize> {
    route.stages.get(stage).cloned().unwrap_or_default()
}

fn lend<B, A>(route: &Route, stage: usize, batch: B) -> Content<B, A> {
    let members = stage_of(route, stage).len();
    let answers = (0..members).map(|_| None).collect();
    Content::Lent { batch: Arc::new(batch), answers, asked_ns: vec![None; members] }
}
