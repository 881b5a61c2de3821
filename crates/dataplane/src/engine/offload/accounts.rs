//! What the kernel counts in: each account is of a list of lines that every packet of a flow moves, and all
//! flows with the same list share it. Knows lines and sums; refuses to know transforms.

use super::holdings::Holder;
use super::offload_tables::OffloadTables;
use crate::engine::account::counters::Counters;
use crate::engine::account::updates::CounterUpdate;
use crate::engine::collections::shares::{Shares, leaves_room, must_yield};
use catena_model::account::Volume;
use std::collections::{HashMap, HashSet};

/// Accounts that give way at once, at most.
const GIVING_WAY_MAX: u32 = 64;

struct Account {
    updates: Vec<CounterUpdate>,
    /// Whose flow has needed it first.
    holder: Holder,
    counted: Volume,
    /// Transforms that count here.
    flows: u32,
}

/// All accounts of the kernel: which lines each stands for.
pub(super) struct Accounts {
    shares: Shares<Holder>,
    accounts: Vec<Option<Account>>,
    by_updates: HashMap<Vec<CounterUpdate>, u32>,
    free: Vec<u32>,
    /// Accounts that no transform counts in any more; a processor may be about to, so they are
    /// read twice before another may have them.
    leaving: Vec<u32>,
    read_once: Vec<u32>,
}

impl Accounts {
    pub(super) fn new() -> Self {
        Self {
            shares: Shares::new(),
            accounts: Vec::new(),
            by_updates: HashMap::new(),
            free: Vec::new(),
            leaving: Vec::new(),
            read_once: Vec::new(),
        }
    }

    /// The account of these lines, for one more flow of this holder; none: it has as many as it may.
    pub(super) fn take(
        &mut self,
        updates: Vec<CounterUpdate>,
        holder: Holder,
        kernel_tables: &mut dyn OffloadTables,
    ) -> Option<u32> {
        if let Some(number) = self.by_updates.get(&updates) {
            let account = self.accounts.get_mut(*number as usize)?.as_mut()?;
            account.flows += 1;
            return Some(*number);
        }
        let taken = self.accounts.len() - self.free.len();
        let free = (kernel_tables.accounts() as usize).saturating_sub(taken);
        if !leaves_room(self.shares.held_by(&holder), free) {
            return None;
        }
        let number = self.free.pop().or_else(|| {
            self.accounts.push(None);
            u32::try_from(self.accounts.len() - 1).ok()
        })?;
        self.shares.take(holder);
        // What an earlier user of the account, or an earlier engine, counted is not ours.
        let counted = kernel_tables.account(number);
        let account = Account { updates: updates.clone(), holder, counted, flows: 1 };
        *self.accounts.get_mut(number as usize)? = Some(account);
        self.by_updates.insert(updates, number);
        Some(number)
    }

    /// The accounts of who has most that make room for some of this holder; none: nobody has more, or
    /// others are making room already.
    pub(super) fn which_give_way(&self, to: Holder) -> HashSet<u32> {
        if !(self.leaving.is_empty() && self.read_once.is_empty()) {
            return HashSet::new();
        }
        let own = self.shares.held_by(&to);
        let most = self.shares.most().filter(|(_, most)| must_yield(*most, own));
        let Some((from, most)) = most else { return HashSet::new() };
        let count = ((most - own) / 2).min(GIVING_WAY_MAX);
        let accounts = (0..).zip(&self.accounts);
        let his =
            accounts.filter(|(_, account)| account.as_ref().is_some_and(|a| a.holder == from));
        his.map(|(number, _)| number).take(count as usize).collect()
    }

    /// One flow counts here no more.
    pub(super) fn leave(&mut self, number: u32) {
        if let Some(Some(account)) = self.accounts.get_mut(number as usize) {
            account.flows = account.flows.saturating_sub(1);
            if account.flows == 0 {
                self.by_updates.remove(&account.updates);
                self.leaving.push(number);
            }
        }
    }

    /// Counts what the kernel has counted since the last time; answers how much that was.
    pub(super) fn settle(
        &mut self,
        kernel_tables: &mut dyn OffloadTables,
        counters: &mut Counters,
    ) -> Volume {
        let mut all = Volume::default();
        for (number, account) in (0..).zip(&mut self.accounts) {
            let Some(account) = account else { continue };
            let now = kernel_tables.account(number);
            let since = Volume {
                packets: now.packets.wrapping_sub(account.counted.packets),
                bytes: now.bytes.wrapping_sub(account.counted.bytes),
            };
            account.counted = now;
            if since.packets > 0 {
                all.merge(since);
                account.updates.iter().for_each(|line| counters.apply(*line, since));
            }
        }
        for number in self.read_once.drain(..) {
            if let Some(account) = self.accounts.get_mut(number as usize).and_then(Option::take) {
                self.shares.give_back_by(&account.holder);
                self.free.push(number);
            }
        }
        std::mem::swap(&mut self.leaving, &mut self.read_once);
        all
    }
}
