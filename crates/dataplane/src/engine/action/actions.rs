//! The actions at the hops of all paths: compiled once for each tables, by what the slow path knows, for
//! both paths to carry out. Those of one path stand in a row. Knows numbers; refuses to know packets.

use super::Action;
use super::compile;
use crate::engine::account::slots::Slots;
use crate::engine::tables::Tables;
use crate::engine::tables::descent::Changed;
use crate::engine::tables::slices::Scope;
use catena_model::DropReason;
use std::collections::HashMap;

/// What is done at a hop.
#[derive(Clone)]
pub(crate) enum AtHop {
    Act(Action),
    /// That of one of the instances, which have these numbers. `by_flow`: by the hash of the flow.
    Choose {
        first: u32,
        count: u32,
        by_flow: bool,
    },
    /// The path ends here; where slices take packets then. `is_last`: no rule
    /// leads on, and nothing declared is carried here.
    End {
        end: Option<Scope>,
        is_last: bool,
    },
    /// A function that runs inside is asked.
    Inside,
    Refuse(DropReason),
}

/// All of them.
#[derive(Default)]
pub(crate) struct Actions {
    all: Vec<AtHop>,
    of_path: Vec<Row>,
    /// Rows that no path has any more, by how many there are in them.
    free: HashMap<u32, Vec<u32>>,
}

/// Those of one path.
#[derive(Clone, Copy, Default)]
struct Row {
    first: u32,
    /// Those of its hops and of its end, which come first.
    hops: u32,
    len: u32,
}

impl Actions {
    /// Lines up with new tables. `changed`: what differs from those before; none: nobody knows.
    pub(crate) fn align(&mut self, tables: &Tables, changed: Option<&Changed>, slots: &Slots) {
        match changed {
            Some(changed) => changed.paths.iter().for_each(|path| self.make(*path, tables, slots)),
            None => {
                *self = Self::default();
                tables.paths.iter().for_each(|(path, _)| self.make(path, tables, slots));
            }
        }
    }

    /// Makes those of the path with this index anew; of a path that has gone, or is a slice's, there are
    /// none.
    fn make(&mut self, own: u32, tables: &Tables, slots: &Slots) {
        let place = own as usize;
        let former = self.of_path.get_mut(place).map(std::mem::take).filter(|row| row.len > 0);
        if let Some(Row { first, len, .. }) = former {
            self.free.entry(len).or_default().push(first);
        }
        let Some((made, hops)) = compile::path(own, tables, slots) else { return };
        if self.of_path.len() <= place {
            self.of_path.resize(place + 1, Row::default());
        }
        self.of_path[place] = self.put(made, number_of(hops));
    }

    fn put(&mut self, made: Vec<AtHop>, hops: u32) -> Row {
        let len = number_of(made.len());
        let first = self.free.get_mut(&len).and_then(Vec::pop).unwrap_or_else(|| {
            let first = number_of(self.all.len());
            self.all.resize(self.all.len() + made.len(), AtHop::Refuse(DropReason::NoPath));
            first
        });
        let room = self.all.iter_mut().skip(first as usize);
        for (place, at_hop) in room.zip(made) {
            *place = match at_hop {
                // Numbers were counted from the first of the row.
                AtHop::Choose { first: among, count, by_flow } => {
                    AtHop::Choose { first: first + among, count, by_flow }
                }
                other => other,
            };
        }
        Row { first, hops, len }
    }

    /// The number of what is done at a hop of the path with this index; behind the last hop: at the
    /// end.
    #[inline]
    pub(crate) fn at(&self, shape: u32, hop: u16) -> Option<u32> {
        let row = self.of_path.get(shape as usize)?;
        (u32::from(hop) < row.hops).then(|| row.first + u32::from(hop))
    }

    /// What has this number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&AtHop> {
        self.all.get(number as usize)
    }

    /// The action with this number.
    pub(crate) fn action(&self, number: u32) -> Option<&Action> {
        match self.get(number)? {
            AtHop::Act(action) => Some(action),
            _ => None,
        }
    }

    /// What is done at a hop to reach the only one of its instances that is such; none: none is, or several are.
    #[inline(always)]
    pub(crate) fn towards_instance(
        &self,
        (shape, hop): (u32, u16),
        is_it: impl Fn(&Action) -> bool,
    ) -> Option<&Action> {
        match self.get(self.at(shape, hop)?)? {
            AtHop::Act(action) => Some(action).filter(|action| is_it(action)),
            AtHop::Choose { first, count, .. } => {
                let all = (*first..first + count).filter_map(|number| self.action(number));
                let mut found = all.filter(|action| is_it(action));
                found.next().filter(|_| found.next().is_none())
            }
            AtHop::End { .. } | AtHop::Inside | AtHop::Refuse(_) => None,
        }
    }

    /// What is done to reach one of a hop's instances, by its index among them, and its number.
    ///
    /// # Errors
    /// The name by which packets for it end.
    pub(crate) fn to_instance(
        &self,
        (shape, hop): (u32, u16),
        instance: usize,
    ) -> Result<(u32, &Action), DropReason> {
        let number = self.at(shape, hop).ok_or(DropReason::NoPath)?;
        let number = match self.get(number) {
            Some(AtHop::Choose { first, .. }) => first + number_of(instance),
            _ => number,
        };
        match self.get(number) {
            Some(AtHop::Act(action)) => Ok((number, action)),
            Some(AtHop::Refuse(reason)) => Err(*reason),
            _ => Err(DropReason::NoInstance),
        }
    }
}

fn number_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
