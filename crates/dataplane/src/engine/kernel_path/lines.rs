//! The bookings of a flow in the kernel: what each of its packets would have moved in the books, as
//! a list that all flows with the same lot share. Knows lines and sums; refuses to know transforms.

use super::super::counters::{Books, Owner, PathSeat};
use super::super::lots::{Booking, Ends};
use super::door::Door;
use catena_model::account::{Created, Volume};
use std::collections::HashMap;

/// One line of the books that a packet moves by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Line {
    Received(Owner),
    Created(Owner, Created),
    Entered(PathSeat),
    TunnelledIn(PathSeat),
    Finished(PathSeat),
    Tapped(PathSeat),
    /// Come back from the local instance with this number.
    Returned(PathSeat, u32),
    Sent(Ends),
}

impl Line {
    fn book(self, volume: Volume, books: &mut Books) {
        match self {
            Self::Received(owner) => books.received(owner, volume),
            Self::Created(owner, kind) => books.created(owner, kind, volume.packets),
            Self::Entered(seat) => books.entered(seat, volume),
            Self::TunnelledIn(seat) => books.tunnelled_in(seat, volume),
            Self::Finished(seat) => books.finished(seat, volume),
            Self::Tapped(seat) => books.tapped(seat, volume),
            Self::Returned(seat, local) => books.returned(seat, local, volume),
            Self::Sent(ends) => {
                books.held(ends.owner, volume.packets);
                books.sent(Booking { ends, volume });
            }
        }
    }
}

struct Account {
    lines: Vec<Line>,
    booked: Volume,
    /// Transforms that count here.
    flows: u32,
}

/// All accounts of the kernel: which lines each stands for.
#[derive(Default)]
pub(super) struct Accounts {
    accounts: Vec<Option<Account>>,
    by_lines: HashMap<Vec<Line>, u32>,
    free: Vec<u32>,
    /// Accounts that no transform counts in any more; a processor may be about to, so they are
    /// read twice before another may have them.
    leaving: Vec<u32>,
    read_once: Vec<u32>,
}

impl Accounts {
    /// The account of these lines, for one more flow; none: all are taken.
    pub(super) fn take(&mut self, lines: Vec<Line>, door: &mut dyn Door) -> Option<u32> {
        if let Some(number) = self.by_lines.get(&lines) {
            let account = self.accounts.get_mut(*number as usize)?.as_mut()?;
            account.flows += 1;
            return Some(*number);
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.accounts.len()).ok()?;
                if number >= door.accounts() {
                    return None;
                }
                self.accounts.push(None);
                number
            }
        };
        // What an earlier user of the account, or an earlier engine, counted is not ours.
        let booked = door.account(number);
        let account = Account { lines: lines.clone(), booked, flows: 1 };
        *self.accounts.get_mut(number as usize)? = Some(account);
        self.by_lines.insert(lines, number);
        Some(number)
    }

    /// One flow counts here no more.
    pub(super) fn leave(&mut self, number: u32) {
        if let Some(Some(account)) = self.accounts.get_mut(number as usize) {
            account.flows = account.flows.saturating_sub(1);
            if account.flows == 0 {
                self.by_lines.remove(&account.lines);
                self.leaving.push(number);
            }
        }
    }

    /// Books what the kernel has counted since the last time; answers how much that was.
    pub(super) fn settle(&mut self, door: &mut dyn Door, books: &mut Books) -> Volume {
        let mut all = Volume::default();
        for (number, account) in (0..).zip(&mut self.accounts) {
            let Some(account) = account else { continue };
            let now = door.account(number);
            let since = Volume {
                packets: now.packets.wrapping_sub(account.booked.packets),
                bytes: now.bytes.wrapping_sub(account.booked.bytes),
            };
            account.booked = now;
            if since.packets > 0 {
                all.merge(since);
                account.lines.iter().for_each(|line| line.book(since, books));
            }
        }
        for number in self.read_once.drain(..) {
            if let Some(place) = self.accounts.get_mut(number as usize) {
                *place = None;
                self.free.push(number);
            }
        }
        std::mem::swap(&mut self.leaving, &mut self.read_once);
        all
    }
}
